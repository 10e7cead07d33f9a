"""The words that --help has for the fields of a task and of its training, in all commands that have them as options."""

from __future__ import annotations

import typer

# For bags that differ, or are not as they should be.
DISTURBANCES = {
    "label_noise": "Probability that a label seen in training is the other one; tests are about true labels.",
    "contamination": "Probability that a negative bag carries signal too.",
    "correlation": "ρ, correlation of two tokens of a bag in every coordinate.",
}
WORDS = {
    "length": "L, tokens per bag; 10:0.5,20:0.5 (value:probability) where bags differ.",
    "sparsity": "R, signal tokens in a positive bag; may differ likewise.",
    "strength": "θ, the signal's size; may differ likewise.",
    "prevalence": "π = P(y = +1).",
    **DISTURBANCES,
    "alpha0": "n0/d, samples of the two gradient steps.",
    "alpha1": "n1/d, samples of the readout.",
    "eta_w": "Rate of the readout's step.",
    "eta_b": "Rate of the bias's step.",
    "eta_q": "Rate of the query's step (default: as in the library).",
    "beta": "Inverse temperature of the softmax.",
    "ridge": "λ of (1/n1) Σ l + (λ/2)‖w‖².",
}
ACTIVATION = typer.Option("sigmoid", help="Of the elementwise model: sigmoid, relu, tanh, threshold:2, ...")
EQUAL_SAMPLES = typer.Option(False, "--equal-samples", help="Give pooled and vectorized n0 + n1 samples.")
