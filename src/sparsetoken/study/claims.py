"""Claims and their verdicts. A criterion is fixed in code before the run and sees nothing but the study's tables.

Three verdicts: confirmed, refuted, undecided. Undecided means that the run was too small to tell: the margin of error is wider
than the difference that would matter (`resolution`), or an inequality lies within its margin. How differences become verdicts:
`verdicts`.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import pandas as pd

from .._core.validation import rejection
from ..plotting.style import plain_number


class Source(TypedDict):
    """The source of a claim, as keyword arguments of `Claim`."""

    source: str
    reference: str


VERDICTS = ("confirmed", "refuted", "undecided")
# Source of a claim -> what its claims are called. Statements often made about the paper are not the paper's.
SOURCES = {
    "paper": "claims of the paper",
    "commonly stated": "claims commonly stated",
    "ours": "claims of our own",
    "yours": "claims of your studies",
}
Tables = Mapping[str, Any]  # name -> pandas.DataFrame; its stubs cannot follow arithmetic on columns


class NotJudgeable(Exception):
    """The tables lack rows that a criterion needs (trials failed or were not run): the claim is undecided."""


class TableError(ValueError):
    """A criterion or a panel names a table or a column that does not exist: the study is wrong, whatever was measured."""


@dataclass(frozen=True)
class Judgement:
    """The result of a criterion.

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
            raise rejection("verdict", self.verdict, f"one of {', '.join(VERDICTS)}")


@dataclass(frozen=True)
class Claim:
    """A statement, its source, how it is judged, and the verdict recorded for it.

    Attributes
    ----------
    id : str
        Its short name.
    statement : str
        In words.
    rule : str
        The criterion in words.
    criterion : callable
        Tables -> Judgement.
    source : str
        "paper", "commonly stated" (often said about the paper, but not in it), "ours" or "yours".
    reference : str
        Where it is stated, such as "Theorem 2".
    expected : str
        The recorded verdict; a run whose verdict differs ends with a non-zero exit code.
    """

    id: str
    statement: str
    rule: str
    criterion: Callable[[Tables], Judgement]
    source: str = "yours"
    reference: str = ""
    expected: str = "confirmed"

    def __post_init__(self):
        if self.source not in SOURCES:
            raise rejection(f"source of claim {self.id}", self.source, f"one of {', '.join(SOURCES)}")
        if self.expected not in VERDICTS:
            raise rejection(f"expected verdict of {self.id}", self.expected, f"one of {', '.join(VERDICTS)}")

    @property
    def cited(self) -> str:
        """The source with its reference, such as "paper, Theorem 2"."""
        return ", ".join(filter(None, (self.source, self.reference)))

    def judge(self, tables: Tables) -> Judgement:
        """Apply the criterion; where rows are missing the claim is undecided."""
        try:
            return self.criterion(tables)
        except NotJudgeable as reason:
            return Judgement("undecided", "-", "-", f"could not be judged: {reason}")

    __call__ = judge


def claim(id: str, source: Source, expected: str = "confirmed") -> Callable[[Callable[[Tables], Judgement]], Claim]:
    """Make a claim from a criterion: its docstring states the claim in the first paragraph and the rule in the others."""

    def made(criterion: Callable[[Tables], Judgement]) -> Claim:
        statement, _, rule = inspect.cleandoc(criterion.__doc__ or "").partition("\n\n")
        statement, rule = (" ".join(text.split()).removesuffix(".") for text in (statement, rule))
        return Claim(id, statement, rule, criterion, expected=expected, **source)

    return made


@dataclass(frozen=True)
class LedgerRow:
    """A judged claim of a study."""

    study: str
    claim: Claim
    judgement: Judgement
    problem: str = ""
    tested: str = ""

    @property
    def as_recorded(self) -> bool:
        """Whether the verdict is the recorded one."""
        return self.judgement.verdict == self.claim.expected and not self.problem


def verdict_counts(rows: Iterable[LedgerRow]) -> dict[str, int]:
    """Verdict -> number of claims, for the verdicts that occur."""
    verdicts = [row.judgement.verdict for row in rows]
    return {verdict: verdicts.count(verdict) for verdict in VERDICTS if verdict in verdicts}


def ledger(study: str, claims: Iterable[Claim], tables: Tables) -> list[LedgerRow]:
    """Judge claims in order; a criterion that fails is a problem of its own row and keeps no other from being judged."""
    rows = []
    for claim in claims:
        seen = _Watched(tables)
        judged, problem = attempt(f"claim {claim.id!r} of study {study!r}", claim.judge, seen)
        judged = judged or Judgement("undecided", "-", "-", problem)
        rows.append(LedgerRow(study, claim, judged, problem, range_tested(tables[name] for name in seen.read)))
    return rows


class _Watched(dict[str, Any]):
    """Tables that note which of them a criterion reads."""

    def __init__(self, tables: Tables):
        super().__init__(tables)
        self.read: dict[str, None] = {}

    def __getitem__(self, name: str) -> Any:
        self.read[name] = None
        return super().__getitem__(name)


# Columns and arguments -> their symbols on the page.
SYMBOLS = {
    **{"length": "L", "test_length": "test L", "sparsity": "R", "strength": "θ", "prevalence": "π", "ridge": "λ"},
    **{"alpha0": "α₀", "alpha1": "α₁", "alpha": "α", "cosine": "γ", "sharpness": "k", "beta": "β"},
    **{"eta_w": "η_w", "eta_b": "η_b", "eta_q": "η_q", "first_seed": "first seed"},
}


def in_words(name: str, value: Any) -> str:
    """A column's name and value as text: "α₁ = 2"; what is JSON in a table without its quotes and brackets."""
    if isinstance(value, float):
        text = f"{value:.4g}"
    elif isinstance(value, Mapping):
        parts = {key: f"{part:g}" if isinstance(part, float) else part for key, part in value.items()}
        text = ", ".join(f"{key} {part}" for key, part in parts.items())
    else:
        text = str(value).translate(str.maketrans("", "", "{}[]\"'"))
    return f"{SYMBOLS.get(name, name.replace('_', ' '))} = {text}"


def range_tested(tables: Iterable[Any]) -> str:
    """The bags, samples and dimensions in tables, of those simulated if any was: "L = 10; α from 0.5 to 8; d = 150, 300"."""
    read = [table for table in tables if len(table)]
    read = [table for table in read if "d" in table] or read
    ranges = []
    for column in ("length", "test_length", "alpha0", "alpha1", "alpha", "d"):
        used = [table for table in read if column in table]
        if column == "alpha1":  # the two steps alone do not depend on it
            used = [table for table in used if "test_error" in table or "strength_needed" in table]
        parts = [pd.to_numeric(table[column], errors="coerce").dropna() for table in used]
        values = sorted({float(value) for part in parts for value in part})
        if values:
            shown = [plain_number(v).replace(",", "") for v in values]
            listed = f" = {', '.join(shown)}" if len(shown) < 4 else f" from {shown[0]} to {shown[-1]}"
            ranges.append(SYMBOLS.get(column, column) + listed)
    return "; ".join(ranges) + ("" if any("d" in table for table in read) or not ranges else "; theory")


def attempt(what: str, make: Callable[..., Any], *arguments: Any) -> tuple[Any, str]:
    """The result of a part of a study and ""; or None and one line on what is wrong with that part.

    Criteria, drawings and findings may be a user's code: their failures are reported at the end of the run, which keeps
    everything else. Set SPARSETOKEN_DEBUG=1 to see where they come from.
    """
    try:
        return make(*arguments), ""
    except Exception as error:
        if os.environ.get("SPARSETOKEN_DEBUG"):
            raise
        reason = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        return None, f"{what}: {' '.join(reason.split())}"


def ledger_table(rows: Iterable[LedgerRow]) -> pd.DataFrame:
    """The ledger as a tidy table."""
    return pd.DataFrame(
        {
            "study": row.study,
            "claim": row.claim.id,
            "statement": row.claim.statement,
            "source": row.claim.source,
            "reference": row.claim.reference,
            "tested": row.tested,
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
    """A table with the given columns."""
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
    """A drawing or summarising function applied to the tables; None where trials that it needs are missing."""
    if maker is None or not all(len(table) for table in tables.values()):
        return None
    try:
        return maker(tables)
    except NotJudgeable:
        return None
