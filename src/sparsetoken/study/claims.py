"""Claims and their verdicts. A criterion is fixed in code before the run and sees nothing but the study's tables.

Three verdicts: confirmed, refuted, undecided. Undecided means that the run was too small to tell: the margin that the
noise asks for is wider than the difference that would matter (`resolution`), or an inequality lies within its margin.
Every claim is judged at level LEVEL: where it holds exactly, the chance of `refuted` is at most LEVEL, however many
points it rests on (Bonferroni, Student's t for errors estimated from few trials).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from .._core.validation import rejection
from .._core.words import with_error
from ..plotting.show import Shown, axes_for
from ..plotting.style import COLOURS, REFERENCE
from .specification import ORIGINS

VERDICTS = ("confirmed", "refuted", "undecided")
_VERDICT_COLOURS = {"confirmed": COLOURS["vectorized"], "refuted": COLOURS["attention"], "undecided": REFERENCE}
LEVEL = 1e-3
Tables = Mapping[str, Any]  # name -> pandas.DataFrame; its stubs cannot follow arithmetic on columns


class NotJudgeable(Exception):
    """The tables lack rows that a criterion needs (trials failed or were not run): the claim is undecided."""


class TableError(ValueError):
    """A criterion or a panel names a table or a column that does not exist: the study is wrong, whatever was measured."""


@dataclass(frozen=True)
class Judgement:
    """What a criterion found.

    Attributes
    ----------
    verdict : str
        One of `VERDICTS`.
    predicted, measured : str
        The two sides in words, with numbers and errors.
    note : str
        Why.
    """

    verdict: str
    predicted: str
    measured: str
    note: str = ""

    def __post_init__(self):
        if self.verdict not in VERDICTS:
            raise ValueError(f"verdict must be one of {', '.join(VERDICTS)}, got {self.verdict!r}")


@dataclass(frozen=True)
class Claim:
    """A statement, where it comes from, how it is judged, and the verdict recorded for it.

    Attributes
    ----------
    id : str
        Its short name.
    statement : str
        In words.
    source : str
        Where it is stated.
    rule : str
        The criterion in words.
    criterion : callable
        Tables -> Judgement.
    expected : str
        The recorded verdict; a run whose verdict differs ends with a non-zero exit code.
    origin : str
        Whose claim it is: "paper", "beyond" (it goes beyond the paper) or "own".
    """

    id: str
    statement: str
    source: str
    rule: str
    criterion: Callable[[Tables], Judgement]
    expected: str = "confirmed"
    origin: str = "own"

    def __post_init__(self):
        if self.origin not in ORIGINS:
            raise rejection(f"origin of claim {self.id}", self.origin, f"one of {', '.join(ORIGINS)}")
        if self.expected not in VERDICTS:
            raise ValueError(
                f"expected verdict of {self.id} must be one of {', '.join(VERDICTS)}, got {self.expected!r}"
            )

    def judge(self, tables: Tables) -> Judgement:
        """Apply the criterion; where rows are missing the claim is undecided."""
        try:
            return self.criterion(tables)
        except NotJudgeable as reason:
            return Judgement("undecided", "-", "-", f"could not be judged: {reason}")


@dataclass(frozen=True)
class LedgerRow:
    """A judged claim of a study.

    Attributes
    ----------
    study : str
        The study's name.
    claim : Claim
        What was judged.
    judgement : Judgement
        What was found.
    problem : str
        Why the criterion could not be applied at all, where it is itself at fault.
    """

    study: str
    claim: Claim
    judgement: Judgement
    problem: str = ""

    @property
    def as_recorded(self) -> bool:
        """Whether the verdict is the recorded one."""
        return self.judgement.verdict == self.claim.expected and not self.problem


class Ledger(Shown, list[LedgerRow]):
    """Judged claims: a list of rows that shows itself."""

    def __repr__(self) -> str:
        counts = {verdict: sum(row.judgement.verdict == verdict for row in self) for verdict in VERDICTS}
        words = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
        deviating = sum(not row.as_recorded for row in self)
        return f"Ledger({len(self)} claims: {words or 'none'}{f'; {deviating} not as recorded' if deviating else ''})"

    def frame(self) -> pd.DataFrame:
        """A pandas table, one row per claim."""
        return ledger_table(self)

    def _shown_frame(self) -> pd.DataFrame:
        table = self.frame()
        return table[["study", "claim", "statement", "measured", "verdict"]] if len(table) else table

    def plot(self, ax: Any = None) -> Any:
        """How many claims of each study have which verdict.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; new axes by default.

        Returns
        -------
        matplotlib Axes
        """
        studies = list(dict.fromkeys(row.study for row in self))
        ax = axes_for(ax, (6.0, 1.4 + 0.3 * len(studies)))
        left = np.zeros(len(studies))
        for verdict in VERDICTS:
            mine = [row.study for row in self if row.judgement.verdict == verdict]
            counts = np.array([mine.count(name) for name in studies], dtype=float)
            ax.barh(studies, counts, left=left, color=_VERDICT_COLOURS[verdict], label=verdict)
            left += counts
        ax.invert_yaxis()
        ax.set_xlabel("claims")
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.legend(frameon=False, ncols=len(VERDICTS), loc="lower left", bbox_to_anchor=(0, 1))
        return ax


def ledger(study: str, claims: Iterable[Claim], tables: Tables) -> Ledger:
    """Judge claims in order; a criterion that fails is a problem of its own row and keeps no other from being judged."""
    rows = Ledger()
    for claim in claims:
        judged, problem = attempt(f"claim {claim.id!r} of study {study!r}", claim.judge, tables)
        rows.append(LedgerRow(study, claim, judged or Judgement("undecided", "-", "-", problem), problem))
    return rows


def attempt(what: str, make: Callable[..., Any], *arguments: Any) -> tuple[Any, str]:
    """The result of a part of a study and no problem; or None and, in a line, what is wrong with that part.

    Criteria, drawings and findings may be a user's code: their failures are told at the end of the run, which keeps
    everything else. Set SPARSETOKEN_DEBUG=1 to see where they come from.
    """
    try:
        return make(*arguments), ""
    except Exception as error:
        if os.environ.get("SPARSETOKEN_DEBUG"):
            raise
        words = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        return None, f"{what}: {' '.join(words.split())}"


def ledger_table(rows: Iterable[LedgerRow]) -> pd.DataFrame:
    """The ledger as a tidy table."""
    return pd.DataFrame(
        {
            "study": row.study,
            "claim": row.claim.id,
            "statement": row.claim.statement,
            "source": row.claim.source,
            "origin": row.claim.origin,
            "predicted": row.judgement.predicted,
            "measured": row.judgement.measured,
            "criterion": row.claim.rule,
            "verdict": row.judgement.verdict,
            "recorded": row.claim.expected,
            "note": row.judgement.note,
        }
        for row in rows
    )


def need(tables: Tables, name: str, columns: Sequence[str] = ()) -> Any:
    """A table with the given columns.

    Parameters
    ----------
    tables : mapping
        The study's tables.
    name : str
        Which one.
    columns : sequence of str
        What it must have.

    Returns
    -------
    pandas.DataFrame
        The table.

    Raises
    ------
    NotJudgeable
        If it has no rows.
    TableError
        If there is no such table or column.
    """
    if name not in tables:
        raise TableError(f"there is no table {name!r}; there are {', '.join(tables)}")
    table = tables[name]
    if len(table) == 0:
        raise NotJudgeable(f"table {name!r} is empty")
    for column in columns:
        if column not in table:
            raise TableError(f"table {name!r} has no column {column!r}; it has {', '.join(map(str, table))}")
    return table


def made_from(maker: Callable[[Tables], Any] | None, tables: Tables) -> Any:
    """What a drawing or summarising function makes of the tables; None where trials that it needs are missing."""
    if maker is None or not all(len(table) for table in tables.values()):
        return None
    try:
        return maker(tables)
    except NotJudgeable:
        return None


def quantile(points: int = 1, degrees: float | np.ndarray = np.inf) -> Any:
    """Two-sided multiple of the standard error at LEVEL, shared by `points` comparisons (Student's t)."""
    return stats.t.isf(LEVEL / (2 * points), degrees)


def equal_verdict(difference: float, margin: float, resolution: float) -> str:
    """refuted: off by more than the margin; undecided: the margin is too wide to tell; else confirmed."""
    if not np.isfinite(difference) or not np.isfinite(margin):
        return "undecided"
    if abs(difference) > margin:
        return "refuted"
    return "undecided" if margin > resolution else "confirmed"


def within_verdict(difference: float, margin: float, tolerance: float) -> str:
    """Is the difference, known to within the margin, smaller than the tolerance? Undecided where both are possible."""
    if not np.isfinite(difference) or not np.isfinite(margin):
        return "undecided"
    if abs(difference) + margin <= tolerance:
        return "confirmed"
    return "refuted" if abs(difference) - margin > tolerance else "undecided"


def greater_verdict(difference: float, margin: float) -> str:
    """Is the difference positive? Within the margin of zero, nobody knows."""
    if not np.isfinite(difference) or not np.isfinite(margin) or abs(difference) <= margin:
        return "undecided"
    return "confirmed" if difference > 0 else "refuted"


def worst(verdicts: Iterable[str]) -> str:
    """A claim of several parts: refuted if one part is, else undecided if one is."""
    found = set(verdicts)
    if not found:
        return "undecided"
    return next((v for v in ("refuted", "undecided") if v in found), "confirmed")


def format_value(value: float, error: float | None = None) -> str:
    """A number with its error to two digits, such as 0.0413 ± 0.0012."""
    return with_error(value, math.nan if error is None else error)
