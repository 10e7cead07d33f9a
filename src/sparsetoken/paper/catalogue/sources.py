"""The results of the paper that claims refer to."""

from __future__ import annotations

from ...study.claims import Source

# The names of `paper.results`; a claim may refer to several, with "; " between them.
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
