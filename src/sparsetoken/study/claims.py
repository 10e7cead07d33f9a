"""Claims and their verdicts. A criterion is fixed in code before the run and sees nothing but the study's tables.

Three verdicts: confirmed, refuted, undecided. Undecided means that the run was too small to tell: the margin that the
noise asks for is wider than the difference that would matter (`resolution`), or an inequality lies within its margin.
Every claim is judged at level LEVEL: where it holds exactly, the chance of `refuted` is at most LEVEL, however many
points it rests on (Bonferroni, Student's t for errors estimated from few trials).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

VERDICTS = ("confirmed", "refuted", "undecided")
LEVEL = 1e-3
Tables = Mapping[str, Any]  # name -> pandas.DataFrame; its stubs cannot follow arithmetic on columns


class NotJudgeable(Exception):
    """The tables lack what a criterion needs (trials failed or were not run)."""


@dataclass(frozen=True)
class Judgement:
    """What a criterion found: a verdict, the two sides in words with numbers and errors, and why."""

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

    statement  in words
    source     where it is stated
    rule       the criterion in words
    criterion  tables -> Judgement
    expected   the recorded verdict; a run whose verdict differs ends with a non-zero exit code
    """

    id: str
    statement: str
    source: str
    rule: str
    criterion: Callable[[Tables], Judgement]
    expected: str = "confirmed"

    def __post_init__(self):
        if self.expected not in VERDICTS:
            raise ValueError(
                f"expected verdict of {self.id} must be one of {', '.join(VERDICTS)}, got {self.expected!r}"
            )

    def judge(self, tables: Tables) -> Judgement:
        try:
            return self.criterion(tables)
        except NotJudgeable as reason:
            return Judgement("undecided", "-", "-", f"could not be judged: {reason}")


@dataclass(frozen=True)
class LedgerRow:
    """A judged claim of a study."""

    study: str
    claim: Claim
    judgement: Judgement

    @property
    def as_recorded(self) -> bool:
        return self.judgement.verdict == self.claim.expected


def ledger(study: str, claims: Iterable[Claim], tables: Tables) -> list[LedgerRow]:
    """Judge claims in order."""
    return [LedgerRow(study, claim, claim.judge(tables)) for claim in claims]


def ledger_table(rows: Iterable[LedgerRow]) -> pd.DataFrame:
    """The ledger as a tidy table."""
    return pd.DataFrame(
        {
            "study": row.study,
            "claim": row.claim.id,
            "statement": row.claim.statement,
            "source": row.claim.source,
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
    """A table with the given columns, or NotJudgeable."""
    if name not in tables or len(tables[name]) == 0:
        raise NotJudgeable(f"table {name!r} is empty")
    missing = [column for column in columns if column not in tables[name]]
    if missing:
        raise NotJudgeable(f"table {name!r} has no column {missing[0]!r}")
    return tables[name]


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
    if error is None or not np.isfinite(error) or error <= 0:
        return f"{value:.4g}"
    decimals = max(0, 1 - int(np.floor(np.log10(error))))
    return f"{value:.{decimals}f} ± {error:.{decimals}f}"
