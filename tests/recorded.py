"""A fixed set of calls whose outputs are recorded: theory, simulation and estimators at fixed seeds.

`python -m tests.recorded` prints them as JSON; `tests/test_recorded.py` holds the package to the recorded ones. A change of
behaviour that is meant is recorded anew, and says so in its commit.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

from sparsetoken import (
    AttentionClassifier,
    BagClassifier,
    ElementwiseAttentionClassifier,
    MessagePassingClassifier,
    PooledClassifier,
    Task,
    Training,
    VectorizedClassifier,
    simulate,
    theory,
)
from sparsetoken.simulation.samplers import sample_bags

TASKS = {
    "default": Task(),
    "rare": Task(length=20, sparsity=2, strength=4.0, prevalence=0.2),
    "long": Task(length=500, sparsity=3, strength=6.0, prevalence=0.5),
    "single": Task(length=1, sparsity=1, strength=2.0, prevalence=0.4),
}
MEASURED = ("test_error", "auc", "sensitivity", "specificity", "train_loss", "train_error", "norm_w", "bias")


def theory_calls() -> Iterator[tuple[str, list[float]]]:
    """Alignment, fixed points of all laws and losses, capacities, limits, forecasts and derivatives."""
    for name, task in TASKS.items():
        training = Training(alpha0=1.5, alpha1=3.0, ridge=1e-2)
        for loss in ("logistic", "square", "smoothed_hinge"):
            steps = theory.alignment(task, training.but(loss=loss))
            yield (
                f"alignment {name} {loss}",
                [steps.cos_w, steps.cos_q, steps.norm_w, steps.norm_q, steps.bias],
            )
        for model in ("attention", "pooled", "vectorized", "elementwise"):
            found = theory.forecast(task, training, model)
            values = [getattr(found, field) for field in MEASURED]
            yield f"forecast {name} {model}", [*values, found.cosine["w"], found.capacity]
    law = theory.attention_law(TASKS["default"], 0.9, 1.5)
    for loss in ("logistic", "square", "smoothed_hinge"):
        for alpha, ridge in ((2.0, 1e-5), (0.5, 1e-3), (8.0, 1.0)):
            found = theory.erm(law, alpha, ridge, loss)
            yield (
                f"erm {loss} {alpha} {ridge}",
                [*(getattr(found, f) for f in MEASURED), found.m_q, found.m_u, found.nu, found.V],
            )
    for alpha in (0.6, 3.0):
        found = theory.erm(law, alpha, 0.0, "square")
        yield f"ridgeless {alpha}", [found.test_error, found.m_q, found.m_u, found.nu]
    for name in ("default", "rare"):
        limit = theory.bayes_limit(TASKS[name], 2.0)
        yield f"bayes {name}", [limit.overlap, limit.test_error, limit.reachable_test_error]
        known = theory.oracle(TASKS[name])
        yield f"known signal {name}", [known.pooled, known.hardmax, known.bayes]
    slopes = theory.gradient(TASKS["default"], Training(ridge=1e-2))
    yield "gradient", [slopes[name] for name in sorted(slopes)]


def simulation_calls() -> Iterator[tuple[str, list[float]]]:
    """One trial per model, sampler and schedule."""
    for name in ("default", "rare", "single"):
        for model in ("attention", "pooled", "vectorized", "elementwise"):
            for sampler in ("reduced", "tensor"):
                found = simulate(TASKS[name], Training(ridge=1e-2), 100, 7, model, sampler=sampler)
                yield f"simulate {name} {model} {sampler}", [*(getattr(found, f) for f in MEASURED), found.cosine["w"]]
    found = simulate(TASKS["default"], Training(schedule="reuse"), 100, 7, sampler="tensor")
    yield "simulate reuse", [getattr(found, field) for field in MEASURED]


def estimator_calls() -> Iterator[tuple[str, list[float]]]:
    """Decision values of every estimator on fresh bags."""
    task = Task(length=8, sparsity=1, strength=5.0)
    tokens, labels, _ = sample_bags(task, 260, 12, 3)
    learners = {
        "bag": BagClassifier(),
        "attention": AttentionClassifier(),
        "elementwise": ElementwiseAttentionClassifier(),
        "pooled": PooledClassifier(),
        "vectorized": VectorizedClassifier(),
        "message passing": MessagePassingClassifier(),
    }
    for name, learner in learners.items():
        yield (
            f"estimator {name}",
            list(map(float, learner.fit(tokens[:200], labels[:200]).decision_function(tokens[200:]))),
        )


def recorded_calls() -> Iterator[tuple[str, list[float]]]:
    """All of them, one after the other."""
    yield from theory_calls()
    yield from simulation_calls()
    yield from estimator_calls()


if __name__ == "__main__":
    json.dump({name: [float(v) for v in values] for name, values in recorded_calls()}, sys.stdout, indent=0)
