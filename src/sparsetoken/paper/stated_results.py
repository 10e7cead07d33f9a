"""The paper, result by result: what it states, the claims that judge it, one number and one picture.

A claim belongs to every result that its reference names, and to the open question that its study answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..study.claims import SOURCES, Judgement, LedgerRow, Source, verdict_counts
from .catalogue import GROUPS, get_studies


@dataclass(frozen=True)
class PaperResult:
    """A result or an open question of the paper."""

    name: str
    statement: str
    number: str  # the claim whose measurement is shown
    unit: str  # what that number is
    picture: tuple[str, int]  # study, and place of the panel in its figure
    group: str = ""  # of studies, all of whose claims answer an open question

    def claims(self, rows: Iterable[LedgerRow]) -> list[LedgerRow]:
        """The claims that judge it."""
        if self.group:
            return [row for row in rows if row.study in GROUPS[self.group]]
        return [row for row in rows if self.name in row.claim.reference.split("; ")]

    def measured(self, rows: Iterable[LedgerRow]) -> tuple[str, str]:
        """Its number, as measured and as predicted; nothing where that claim was not judged."""
        judged = next((row.judgement for row in rows if row.claim.id == self.number), None)
        return (f"{self.unit} {judged.measured}".strip(), judged.predicted) if judged and judged.measured else ("", "")


# What claims refer to: the results' names; a claim may refer to several, with "; " between them.
LINEAR = Source(source="paper", reference="Propositions 1 to 4: linear")
ATTENTION = Source(source="paper", reference="Propositions 1 to 4: attention")
ELEMENTWISE = Source(source="paper", reference="Propositions 1 to 4: elementwise")
ALIGNMENT = Source(source="paper", reference="Theorem 1")
MANY_SAMPLES = Source(source="paper", reference="Corollary 1")
SIGN = Source(source="paper", reference="Eq. 15")
TEST_ERROR = Source(source="paper", reference="Theorems 2 and 3")
RATES = Source(source="paper", reference="Theorems 2 and 3: rates")
CAPACITY = Source(source="paper", reference="Conjecture 1")
MISALIGNED = Source(source="paper", reference="Figure 5")


def checked(source: Source, check: str) -> Source:
    """The same source, for a claim that is one of the paper's three checks by simulation as well."""
    return Source(source=source["source"], reference=f"{source['reference']}; {check}")


def stated_of(source: Source) -> Source:
    """Commonly stated about that result of the paper, though not by it."""
    return Source(source="commonly stated", reference=source["reference"])


RESULTS = (
    PaperResult(
        "Propositions 1 to 4: linear",
        "With a known signal, linear classifiers need a strength θ ~ √L.",
        *("linear-known", "exponent of L", ("scaling", 0)),
    ),
    PaperResult(
        "Propositions 1 to 4: attention",
        "Attention needs θ ~ log L at fixed sharpness and √(2 log L) when its sharpness grows; then its error vanishes.",
        *("attention-growing", "slope on √(2 log L)", ("scaling", 1)),
    ),
    PaperResult(
        "Propositions 1 to 4: elementwise",
        "Weights that do not compete within the bag lose that advantage.",
        *("elementwise-bounded", "exponent of L, sigmoid", ("scaling", 0)),
    ),
    PaperResult(
        "Theorem 1",
        "Two gradient steps align the query with the signal; the cosine has an exact limit.",
        *("alignment-exact", "", ("alignment", 0)),
    ),
    PaperResult(
        "Corollary 1",
        "The query's distance from perfect alignment falls like 1/α₀.",
        *("alignment-rate", "exponent of α₀", ("alignment", 1)),
    ),
    PaperResult(
        "Eq. 15",
        "The query points away from the signal exactly where π E[h₊] θ² R(1 − R/L) + (L − 1) E[h] > 0.",
        *("anti-alignment-boundary", "", ("anti-alignment", 0)),
    ),
    PaperResult(
        "Theorems 2 and 3",
        "Test error and training loss of the trained classifiers have exact limits.",
        *("test-error-attention", "test error, point furthest from theory:", ("fig1", 0)),
    ),
    PaperResult(
        "Theorems 2 and 3: rates",
        "The test error approaches its limit like 1/α₁.",
        *("rate-attention", "exponent of α₁", ("rates", 0)),
    ),
    PaperResult(
        "Conjecture 1",
        "The training data are separable up to a capacity α* that the theory gives; it grows with the query's alignment.",
        *("capacity-attention", "α* of attention", ("query-capacity", 0)),
    ),
    PaperResult(
        "Figure 5",
        "Error against the query's cosine: a misaligned query loses to pooling.",
        *("misaligned-loses", "", ("misalignment", 0)),
    ),
    PaperResult(
        "Check 1: alignment",
        "Simulated cosines after the two steps lie on the theory.",
        *("alignment-exact", "point furthest from theory:", ("attention-map", 2)),
    ),
    PaperResult(
        "Check 2: error and loss",
        "Simulated test errors and training losses lie on the theory, for all three classifiers.",
        *("train-loss-attention", "point furthest from theory:", ("fig1", 1)),
    ),
    PaperResult(
        "Check 3: capacity",
        "Simulated data stop being separable at the predicted number of samples.",
        *("capacity-pooled", "α* of pooling", ("capacity", 1)),
    ),
    PaperResult(
        "Open question: joint training",
        "What if query and readout are trained together, on the same samples, for many steps?",
        *("joint-nearer-bayes", "excess over the Bayes limit, as a share of staged training's:", ("joint", 0)),
        "Joint training",
    ),
    PaperResult(
        "Open question: depth",
        "Do several heads or layers change how strong the signal must be?",
        *("depth-does-not-compound", "errors of two layers:", ("heads", 0)),
        "Depth",
    ),
    PaperResult(
        "Open question: long bags",
        "What if the bags are as long as the dimension?",
        *("long-bags-limit", "cosine ± spread, plain steps, L = 2d:", ("long-bags", 0)),
        "Long bags",
    ),
)


def recorded_rows() -> list[LedgerRow]:
    """All claims of the paper's studies with their recorded verdicts, for listings that run nothing."""
    return [LedgerRow(s.name, c, Judgement(c.expected, "", "")) for s in get_studies() for c in s.claims]


def counted(rows: Iterable[LedgerRow]) -> str:
    """How many claims have which verdict."""
    return ", ".join(f"{n} {verdict}" for verdict, n in verdict_counts(rows).items())


def counted_apart(rows: Iterable[LedgerRow]) -> str:
    """The same for the paper's claims, then for the others under their source."""
    of = {source: counted(row for row in rows if row.claim.source == source) for source in SOURCES}
    return "; ".join(text if source == "paper" else f"{source}: {text}" for source, text in of.items() if text)


def paper_lines(rows: Sequence[LedgerRow]) -> list[tuple[str, str]]:
    """For the terminal, of every result that some claim judges: its name, and its verdicts with its number or its statement."""
    lines = []
    for result in RESULTS:
        if mine := result.claims(rows):
            verdicts = counted_apart(mine)
            (number, _), statement = result.measured(mine), result.statement.removesuffix(".")
            lines.append((result.name, f"{verdicts}; {number}" if number else f"{statement} ({verdicts})"))
    return lines


def paper_markdown() -> str:
    """The table for the documentation, with recorded verdicts."""
    lines = ["| result | what it states | claims |", "|---|---|---|"]
    rows = recorded_rows()
    for result in RESULTS:
        claims = ", ".join(
            f"`{row.claim.id}`" + ("" if row.judgement.verdict == "confirmed" else f" ({row.judgement.verdict})")
            for row in result.claims(rows)
        )
        lines.append(f"| {result.name} | {result.statement} | {claims} |")
    return "\n".join(lines)


def studies_markdown() -> str:
    """The studies for the documentation."""
    titles = {study.name: study.title for study in get_studies()}
    rows = [f"| {group} | `{name}` | {titles[name]} |" for group, names in GROUPS.items() for name in names]
    return "\n".join(["| part | study | what it shows |", "|---|---|---|", *rows])
