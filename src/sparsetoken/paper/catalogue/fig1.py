"""Test error and training loss of the three classifiers against the number of samples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..._core.averages import summarise
from ...plotting.panels import Layer, Panel, curves, measured
from ...study.claims import Claim, Judgement, Tables, need
from ...study.criteria import judge_agreement, select
from ...study.specification import Grid, Study
from .common import AXES, MODELS, PAPER, TEN_TOKENS

# The rates are chosen so that the trained softmax is neither pooling nor a hard maximum: k = beta ||q2|| = 1.96.
FIXED = {
    **TEN_TOKENS,
    "loss": "logistic",
    "ridge": 1e-5,
    "alpha0": 2.0,
    "eta_w": 1.0,
    "eta_b": 1.0,
    "eta_q": 28.0,
    "beta": 1.0,
}
SPOTS = [0.5, 1.0, 2.0, 4.0, 6.0, 8.0]
LINE = [0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 7.0, 8.0]


def grids(sizes: list[int], repeats: dict[str, int]) -> list[Grid]:
    curve = {**FIXED, "over": "alpha1", "values": LINE}
    return [
        *(
            Grid(
                "simulated",
                "simulate",
                {**FIXED, "model": model},
                {"d": sizes, "alpha1": SPOTS},
                repeats=repeats[model],
            )
            for model in MODELS
        ),
        Grid("predicted", "forecast_curve", curve, {"model": list(MODELS)}),
    ]


def error_exact(model: str):
    def criterion(tables: Tables) -> Judgement:
        simulated = select(need(tables, "simulated", ["test_error"]), {"model": model})
        predicted = select(need(tables, "predicted", ["test_error"]), {"model": model})
        return judge_agreement(simulated, predicted, "test_error", ["alpha1"], 0.03, predicted_error="standard_error")

    return criterion


def loss_exact(model: str):
    """On logarithms: below capacity the training loss is tiny, and an absolute margin would pass anything."""

    def criterion(tables: Tables) -> Judgement:
        simulated = select(need(tables, "simulated", ["train_loss"]), {"model": model})
        predicted = select(need(tables, "predicted", ["train_loss"]), {"model": model})
        simulated, predicted = (t.assign(log_loss=np.log(t["train_loss"])) for t in (simulated, predicted))
        judged = judge_agreement(simulated, predicted, "log_loss", ["alpha1"], 0.5)
        return replace(judged, predicted=f"log loss {judged.predicted}", measured=f"log loss {judged.measured}")

    return criterion


def draw(tables: Tables) -> list[Panel]:
    simulated = tables["simulated"]
    largest = simulated[simulated["d"] == simulated["d"].max()]
    title = f"(d = {int(simulated['d'].max())})"
    panels = []
    for value, name in (("test_error", "Test error"), ("train_loss", "Training loss")):
        layers: list[Layer] = [
            *curves(tables["predicted"], "alpha1", value, "model", suffix=": theory"),
            *measured(largest, "alpha1", value, "model", suffix=": simulated"),
        ]
        panels.append(Panel(f"{name} {title}", AXES["alpha1"], AXES[value], layers, logy=value == "train_loss"))
    return panels


def findings(tables: Tables) -> str:
    simulated = tables["simulated"]
    last = simulated[(simulated["d"] == simulated["d"].max()) & (simulated["alpha1"] == max(SPOTS))]
    error = summarise(last, "model", "test_error").set_index("model")["mean"]
    query = select(tables["predicted"], {"model": "attention"}).iloc[0]
    return (
        f"The trained query has cosine {query['cosine_q']:.3f} with the signal and inverse temperature k = "
        f"{query['k']:.2f}. "
        f"At α₁ = {max(SPOTS):g} the errors are {error['attention']:.3f} (attention), {error['pooled']:.3f} (pooled) "
        f"and "
        f"{error['vectorized']:.3f} (vectorized): the vectorized classifier fits all its data and generalises worst, "
        f"because "
        "its ten times more weights have to learn the same direction ten times over."
    )


study = Study(
    name="fig1",
    title="Attention, pooling and the vectorized classifier",
    question="How do test error and training loss fall with the number of samples, and does the asymptotic theory "
    "give them exactly? "
    "(L = 10, R = 1, π = 0.5, θ = 5, λ = 10⁻⁵, logistic, α₀ = 2.)",
    notes="Learning rates: η_w = η_b = 1, η_q = 28, β = 1, so that the inverse temperature of the trained softmax is "
    "about 2; with "
    "η_q = 1 it would be 0.07, which is pooling.",
    grids={
        "quick": grids([150, 300], {"attention": 22, "pooled": 34, "vectorized": 10}),
        "full": grids([500, 1000], {"attention": 16, "pooled": 32, "vectorized": 8}),
    },
    draw=draw,
    findings=findings,
    claims=(
        *(
            Claim(
                f"test-error-{model}",
                f"The asymptotic theory gives the test error of the {model} classifier",
                PAPER,
                "every α₁, extrapolated to d → ∞, within the margin at level 0.1 %; resolution 0.03",
                error_exact(model),
            )
            for model in MODELS
        ),
        *(
            Claim(
                f"train-loss-{model}",
                f"The asymptotic theory gives the training loss of the {model} classifier",
                PAPER,
                "log of the loss at every α₁, extrapolated to d → ∞, within the margin at level 0.1 %; resolution 0.5",
                loss_exact(model),
            )
            for model in MODELS
        ),
    ),
)
