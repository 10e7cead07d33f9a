"""Arrays that users give as files."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

ARRAY_FILES = (".npy", ".csv")


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
        if not path.lower().endswith(".npy"):
            with warnings.catch_warnings():
                warnings.simplefilter("error", UserWarning)  # NumPy warns of a file without any numbers
                return np.loadtxt(path, delimiter=",", encoding="utf-8-sig")
        with open(path, "rb") as file:
            return np.lib.format.read_array(file, allow_pickle=False)
    except (OSError, EOFError, ValueError, UserWarning) as error:
        raise ValueError(f"the {name} in {path} cannot be read: {error}") from None
