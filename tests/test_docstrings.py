"""Docstrings: a `Parameters` section names the parameters of the signature, in order; public names have a docstring, and
those that the public packages export and that take several parameters have such a section.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import griffe

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "sparsetoken"
MOST_LINES = 14  # of an internal docstring: room for an objective and how it is minimised
Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(tree: ast.Module) -> Iterator[tuple[str, Function | ast.ClassDef, list[str]]]:
    """(name, node, parameters): functions and methods with theirs, classes with those of their constructor, or that of a base
    in the same module."""
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    for node in tree.body:
        if isinstance(node, Function):
            yield node.name, node, parameters(node)
        elif isinstance(node, ast.ClassDef):
            methods = [m for m in node.body if isinstance(m, Function)]
            bases = [classes[b.id] for b in node.bases if isinstance(b, ast.Name) and b.id in classes]
            made = next((m for c in (node, *bases) for m in c.body if getattr(m, "name", "") == "__init__"), None)
            yield node.name, node, parameters(made)[1:] if made else fields(node)
            for method in methods:
                static = any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in method.decorator_list)
                yield f"{node.name}.{method.name}", method, parameters(method)[0 if static else 1 :]


def parameters(node: Function) -> list[str]:
    """The names of a signature, in order."""
    a = node.args
    names = [*a.posonlyargs, *a.args, *([a.vararg] if a.vararg else []), *a.kwonlyargs, *([a.kwarg] if a.kwarg else [])]
    return [name.arg for name in names]


def fields(node: ast.ClassDef) -> list[str]:
    """The annotated fields of a dataclass or named tuple, in order."""
    return [n.target.id for n in node.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)]


def named(docstring: str, kind: griffe.DocstringSectionKind) -> list[str] | None:
    """The names in a docstring's section of a kind; None without one."""
    logging.getLogger("griffe").setLevel(logging.CRITICAL)
    for section in griffe.Docstring(docstring).parse("numpy"):
        if section.kind is kind:
            return [name.strip().lstrip("*") for item in section.value for name in item.name.split(",")]
    return None


def documented(docstring: str) -> list[str] | None:
    """The names in a docstring's `Parameters` section; None without one."""
    return named(docstring, griffe.DocstringSectionKind.parameters)


def public(name: str) -> bool:
    return not any(part.startswith("_") for part in name.split("."))


def trees() -> Iterator[tuple[str, ast.Module]]:
    """Every module of the package with its syntax tree."""
    for path in sorted(PACKAGE.rglob("*.py")):
        yield str(path.relative_to(PACKAGE)), ast.parse(path.read_text())


def test_parameters_are_those_of_the_signature():
    wrong = {}
    for module, tree in trees():
        for name, node, expected in functions(tree):
            listed = documented(ast.get_docstring(node) or "")
            if listed is not None and listed != expected:
                wrong[f"{module}: {name}"] = {"documented": listed, "signature": expected}
    assert not wrong


def test_public_names_have_a_docstring():
    silent = []
    for module, tree in trees():
        if tree.body and not ast.get_docstring(tree):
            silent.append(module)
        if module.startswith("paper/catalogue/"):  # functions of a study, described by the claim or field they serve
            continue
        top = [(name, node) for name, node, _ in functions(tree) if public(name) and "." not in name]
        silent += [f"{module}: {name}" for name, node in top if not ast.get_docstring(node)]
    assert not silent


PUBLIC_PACKAGES = ("", ".theory", ".simulation", ".estimators", ".bags", ".planning", ".study")


def exported(package: str) -> dict[str, type | Callable]:
    """The functions and classes that a package exports; exceptions aside, which take a message."""
    module = importlib.import_module(f"sparsetoken{package}")
    values = {name: getattr(module, name) for name in module.__all__}
    return {
        name: value
        for name, value in values.items()
        if inspect.isfunction(value) or (inspect.isclass(value) and not issubclass(value, Exception))
    }


def test_exported_names_say_what_their_parameters_are():
    """Two parameters or more: a section `Parameters`, or `Attributes` for a class, that leaves none of them out."""
    wrong = {}
    for package in PUBLIC_PACKAGES:
        exports = exported(package)
        assert exports
        for name, value in exports.items():
            expected = [p for p in inspect.signature(value).parameters if not p.startswith("_")]
            docstring = value.__doc__ or ""
            listed = documented(docstring)
            if listed is None and inspect.isclass(value):
                listed = named(docstring, griffe.DocstringSectionKind.attributes)
            if len(expected) >= 2 and not set(expected) <= set(listed or ()):
                wrong[f"{package}: {name}"] = [parameter for parameter in expected if parameter not in (listed or ())]
    assert not wrong


def exported_classes() -> set[tuple[str, str]]:
    """(module, name) of what the public packages export, with the classes it inherits from."""
    names = set()
    for package in PUBLIC_PACKAGES:
        for value in exported(package).values():
            classes = value.__mro__ if inspect.isclass(value) else [value]
            names |= {(c.__module__.removeprefix("sparsetoken."), c.__qualname__) for c in classes}
    return names


def test_internal_names_are_described_in_a_few_lines():
    """Sections are for exported names; what only we read says what it does, and the objective it optimises."""
    public_names, long = exported_classes(), []
    for path, tree in trees():
        module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for name, node, _ in functions(tree):
            owner, _, method = name.partition(".")
            if (module, owner) in public_names and not method.startswith("_"):
                continue
            text = ast.get_docstring(node) or ""
            if re.search(r"^-{4,}$", text, re.M) or len(text.splitlines()) > MOST_LINES:
                long.append(f"{path}: {name}")
    assert not long


def test_per_is_the_word_for_each():
    """`tokens per bag`, not the distributive `tokens a bag`."""
    texts = {str(path.relative_to(PACKAGE)): path.read_text() for path in PACKAGE.rglob("*.py")}
    assert not {module: DISTRIBUTIVE.findall(text) for module, text in texts.items() if DISTRIBUTIVE.search(text)}


DISTRIBUTIVE = re.compile(
    r"\b(one|two|three|\d+|numbers?|rows?|columns?|points?|draws?|tokens?|samples?|bags?|entry|entries|threads?|steps?|line|seconds?|"
    r"minutes?|weights?|scores?|values?|iterations?|evaluations?|features?|labels?|times?|job|bar|file|folder|vector) "
    r"an? (bag|token|class|process|replicate|row|trial|step|study|point|page|fit|column|node|call|label|line|feature|loss|"
    r"draw|iteration|dimension|decade|worker|file|sample|task|law|group|entry|side|second|minute)\b"
)
