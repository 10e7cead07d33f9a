"""`cite`: BibTeX of the paper and of this software."""

from __future__ import annotations

from . import STUDIES, app
from .console import echo

PAPER = """@inproceedings{barnfield2026attention,
  title     = {High-Dimensional Analysis of Single-Layer Attention for Sparse-Token Classification},
  author    = {Barnfield, Nicholas and Cui, Hugo and Lu, Yue M.},
  booktitle = {International Conference on Learning Representations},
  year      = {2026},
  eprint    = {2509.25153},
  archivePrefix = {arXiv},
}"""
SOFTWARE = """@software{{sparsetoken,
  title   = {{sparsetoken: exact theory, simulation and learners for sparse-token classification}},
  author  = {{{{The sparsetoken developers}}}},
  version = {{{version}}},
  license = {{MIT}},
}}"""


@app.command(rich_help_panel=STUDIES)
def cite() -> None:
    """Print BibTeX entries of the paper and of this software."""
    from .. import __version__

    echo(PAPER)
    echo(SOFTWARE.format(version=__version__))
