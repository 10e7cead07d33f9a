"""Arrays that users give as files."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


def read_array(name: str, path: str) -> np.ndarray:
    """The numbers of a .npy file, or of a .csv file without a header.

    Parameters
    ----------
    name : str
        What they are, for messages.
    path : str
        The file.

    Returns
    -------
    ndarray

    Raises
    ------
    ValueError
        If the file cannot be read.
    """
    import numpy as np

    try:
        array = np.load(path, allow_pickle=False) if path.endswith(".npy") else np.loadtxt(path, delimiter=",")
    except (OSError, ValueError) as error:
        raise ValueError(f"the {name} in {path} cannot be read: {error}") from None
    return np.asarray(array)
