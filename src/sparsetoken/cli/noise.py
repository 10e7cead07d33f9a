"""The options of `simulate` that say what tokens are made of: `--noise` and what belongs to it, `--covariance`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from .arrays import ARRAY_FILES, read_array

NOISE = typer.Option(
    None,
    "--noise",
    help="Noise of the tokens: gaussian, rademacher, uniform, laplace, sparse:0.1, student:5, real tokens that come with the "
    "package (digits, photographs, text), or a file of your own bags (.csv, .csv.gz, .parquet, .npz) without the signal.",
)
COVARIANCE = typer.Option(
    None,
    "--covariance",
    help="Gaussian noise of this covariance: power:0.5 (eigenvalues like j^-0.5, mean 1), or a .npy or .csv file with a "
    "matrix or its eigenvalues.",
)
STANDARDISE = typer.Option(
    "features", help="With a file of noise: features (mean 0, variance 1 each), whiten, scale (one factor) or none."
)
MIXED = typer.Option(False, "--mixed", help="With a file of noise: shuffle tokens across bags.")
REPLACE = typer.Option(False, "--replace", help="With a file of noise: use bags several times where there are too few.")
BAG = typer.Option("bag_id", "--bag", help="With a file of noise: column with the bag ids.")
IGNORE = typer.Option([], "--ignore", help="With a file of noise: column that is not a feature; repeatable.")
LABEL = typer.Option(
    "label", "--label", help="With a file of noise: column with the labels, if any; bags of the first class are taken."
)


def read_noise(
    text: str | None, standardise: str, mixed: bool, replace: bool, bag: str, label: str, ignore: list[str]
) -> Any:
    """The noise that the options describe: a name as it is, or the bags of a file."""
    if text is None or not text.lower().endswith((".csv", ".csv.gz", ".parquet", ".npz")):
        if standardise != "features" or mixed or replace or ignore:
            raise ValueError("--standardise, --mixed, --replace and --ignore belong to a file of noise")
        return text
    from ..bags.files import read_bags
    from ..simulation.noise import RealNoise

    read = read_bags(text, bag, label, ignore=ignore, need_labels=False)
    bags = read.bags
    if read.labels is not None:
        first = sorted(set(read.labels.tolist()))[0]
        bags = bags[read.labels == first]
    return RealNoise(bags, standardise, "mixed" if mixed else "own", replace, name=Path(text).name)


def read_covariance(text: str | None) -> Any:
    """The covariance that the option describes: a name as it is, or the array of a file."""
    if text is None or not text.lower().endswith(ARRAY_FILES):
        return text
    return read_array("covariance", text)
