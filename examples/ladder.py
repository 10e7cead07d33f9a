"""The ladder: the strength that each method needs as bags get longer, for a direction and for a test error.

One signal token, half of the bags positive, four bags per dimension, d to infinity. Prints two tables in Markdown; takes about
a minute.
"""

from sparsetoken import Task, theory

LENGTHS = (100, 10_000, 1_000_000)
DIRECTIONS = {
    "labelled mean": "products:0",
    "two steps": "products:1",
    "2 products": "products:2",
    "3 products": "products:3",
    "top eigenvector": "eigenvector",
    "positive bags' eigenvector": "positive_eigenvector",
    "message passing": "message_passing",
    "information": "bayes",
}
ERRORS = {
    "labelled mean as a query": "products:0",
    "two steps": "products:1",
    "top eigenvector": "eigenvector",
    "trained attention": "trained:attention",
    "trained pooling": "trained:pooled",
    "information": "bayes",
}


def table(title: str, methods: dict[str, str], **goal: float) -> None:
    """A row per length, a column per method."""
    found = theory.ladder(Task(), 4.0, [*methods.values()], over={"length": LENGTHS}, **goal).needed
    print(f"**{title}**\n\n| L | {' | '.join(methods)} |\n|---|{'---|' * len(methods)}")
    for place, length in enumerate(LENGTHS):
        print(f"| {length:,} | {' | '.join(_written(found[method][place]) for method in methods.values())} |")
    print()


def _written(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def main() -> None:
    """Both tables."""
    table("Strength for a direction at cosine 1/2", DIRECTIONS, cosine=0.5)
    table("Strength for 10 % test error", ERRORS, test_error=0.1)


if __name__ == "__main__":
    main()
