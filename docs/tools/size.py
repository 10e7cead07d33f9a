"""`make size`: how large the package is, part by part, and where its longest functions and argument lists are."""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "sparsetoken"
MOST_PARAMETERS = 8  # what a public function should not exceed
LONGEST = 10  # functions listed by length
COLUMNS = ("files", "source lines", "docstring lines", "constants", f"> {MOST_PARAMETERS} parameters")
_NOT_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)


class Function(NamedTuple):
    """A function, where it stands and how long it is."""

    name: str
    path: str
    lines: int
    parameters: int


def docstring_lines(tree: ast.Module) -> set[int]:
    """The lines that docstrings stand on."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            text = node.body[0]
            lines |= set(range(text.lineno, (text.end_lineno or text.lineno) + 1))
    return lines


def code_lines(source: str) -> set[int]:
    """The lines that hold anything but comments and white space."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {line for t in tokens if t.type not in _NOT_CODE for line in range(t.start[0], t.end[0] + 1)}


def numeric_constants(tree: ast.Module) -> int:
    """Assignments at the top of a module whose value holds a number."""
    assigned = (n for n in tree.body if isinstance(n, ast.Assign | ast.AnnAssign) and n.value is not None)
    return sum(any(type(getattr(leaf, "value", None)) in (int, float) for leaf in ast.walk(n.value)) for n in assigned)


def functions(tree: ast.Module, path: str) -> Iterator[Function]:
    """All functions and methods of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            text = node.body[0] if ast.get_docstring(node) is not None else None
            documented = 0 if text is None else (text.end_lineno or 0) - text.lineno + 1
            lines = (node.end_lineno or node.lineno) - node.lineno + 1 - documented
            passed = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            parameters = sum(argument.arg not in ("self", "cls") for argument in passed)
            yield Function(node.name, path, lines, parameters)


def measure() -> tuple[dict[str, Counter[str]], list[Function]]:
    """The counts of every package, and all functions."""
    counts: dict[str, Counter[str]] = {}
    found: list[Function] = []
    for file in sorted(PACKAGE.rglob("*.py")):
        path = file.relative_to(PACKAGE)
        source = file.read_text(encoding="utf-8")
        tree = ast.parse(source)
        documented = docstring_lines(tree)
        own = list(functions(tree, str(path)))
        wide = [f for f in own if f.parameters > MOST_PARAMETERS and not f.name.startswith("_")]
        row = (1, len(code_lines(source) - documented), len(documented), numeric_constants(tree), len(wide))
        package = path.parts[0] + "/" if len(path.parts) > 1 else "vocabulary"
        counts.setdefault(package, Counter()).update(dict(zip(COLUMNS, row)))
        found += own
    return counts, found


def table() -> str:
    """What `make size` prints, as a Markdown table and a list."""
    counts, found = measure()
    total: Counter[str] = sum(counts.values(), Counter())
    lines = ["| package | " + " | ".join(COLUMNS) + " |", "|---|" + "---:|" * len(COLUMNS)]
    for name, row in [*sorted(counts.items()), ("all", total)]:
        lines.append(f"| `{name}` | " + " | ".join(f"{row[column]:,}" for column in COLUMNS) + " |")
    lines += ["", "The longest functions, without their docstrings:", ""]
    for function in sorted(found, key=lambda f: -f.lines)[:LONGEST]:
        lines.append(f"- `{function.name}` in `{function.path}`: {function.lines} lines")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
