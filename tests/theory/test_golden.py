"""Reference values of an independent implementation."""

import json
from pathlib import Path

import pytest

from sparsetoken import Task, Training, theory

CASES = json.loads((Path(__file__).resolve().parents[1] / "data" / "golden.json").read_text())["cases"]


def _compute(case):
    task = Task(**case["task"])
    if case["function"] == "theory.alignment":
        return theory.alignment(task, Training(**case["training"]))
    if case["function"] == "theory.oracle":
        return theory.oracle(task)
    if case["function"] == "theory.bayes_limit":
        return theory.bayes_limit(task, case["alpha"])
    kind = case["law"]["kind"]
    options = {k: v for k, v in case["law"].items() if k != "kind"}
    law = getattr(theory, f"{kind}_law")(task, **options)
    if case["function"] == "theory.capacity":
        return theory.capacity(law)
    return theory.erm(law, case["alpha"], case["ridge"], case["loss"])


@pytest.mark.parametrize("case", CASES, ids=[f"{i}-{c['function']}" for i, c in enumerate(CASES)])
def test_reference_value(case):
    found = _compute(case)
    for name, expected in case["expect"].items():
        if "relative_tolerance" in case:
            tolerance = case["relative_tolerance"] * abs(expected)
        elif isinstance(case["absolute_tolerance"], dict):
            tolerance = case["absolute_tolerance"][name]
        else:
            tolerance = case["absolute_tolerance"]
        assert abs(getattr(found, name) - expected) <= tolerance, (name, getattr(found, name), expected)
