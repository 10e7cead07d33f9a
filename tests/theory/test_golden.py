"""Reference values of an independent implementation, where they are at hand."""

import json
from pathlib import Path

import pytest

from sparsetoken import Task, Training, theory

GOLDEN = Path(__file__).resolve().parents[3] / "shared" / "golden.json"
# Names of the reference file -> columns of `to_row`.
NAMES = {"cos_w": "cosine_w", "cos_q": "cosine_q"}
CASES = json.loads(GOLDEN.read_text())["cases"] if GOLDEN.exists() else []


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


@pytest.mark.skipif(not CASES, reason="no reference file ../shared/golden.json beside the checkout")
@pytest.mark.parametrize("case", CASES, ids=[f"{i}-{c['function']}" for i, c in enumerate(CASES)])
def test_reference_value(case):
    found = _compute(case)
    row = found.to_row() if hasattr(found, "to_row") else found.to_dict()
    for name, expected in case["expect"].items():
        if "relative_tolerance" in case:
            tolerance = case["relative_tolerance"] * abs(expected)
        elif isinstance(case["absolute_tolerance"], dict):
            tolerance = case["absolute_tolerance"][name]
        else:
            tolerance = case["absolute_tolerance"]
        value = row[NAMES.get(name, name)]
        assert abs(value - expected) <= tolerance, (name, value, expected)
