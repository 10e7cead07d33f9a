"""What the studies share: sources of claims, symbols on axes, the same task in several figures."""

from __future__ import annotations

from typing import Any

from ...study.kinds.dynamics import REPLICATES

PAPER = "Barnfield, Cui, Lu 2025 (arXiv 2509.25153)"
HERE = "docs/theory.md"
OPEN = "open question of the paper"
FOLKLORE = "commonly stated"

AXES = {
    "alpha0": "samples of the two steps per dimension, α₀ = n₀/d",
    "alpha1": "samples of the readout per dimension, α₁ = n₁/d",
    "alpha": "samples per dimension, α = n/d",
    "test_error": "test error",
    "train_loss": "training loss",
    "cosine_q": "cos(q₂, ξ)",
    "cosine_w": "cos(w₁, ξ)",
    "length": "tokens per bag, L",
    "strength": "signal strength θ",
    "prevalence": "prevalence π",
    "cosine": "cosine of query and signal, γ",
    "sharpness": "inverse temperature k = β‖q‖",
    "beta": "inverse temperature of the softmax, β",
    "ridge": "ridge λ",
    "eta_w": "learning rate η_w",
    "eta_b": "learning rate η_b",
    "eta_q": "learning rate η_q",
}

# The task of most figures: one signal token in ten, balanced classes.
TEN_TOKENS: dict[str, Any] = {"length": 10, "sparsity": 1, "strength": 5.0, "prevalence": 0.5}
MODELS = ("attention", "pooled", "vectorized")

# Bags per replicate of the trajectory theory: enough for differences of a hundredth in the quick form, the default in the full.
QUICK_BAGS, FULL_BAGS = 512, 1024
# Replicates behind the exact dynamics unless a study asks for more (study/kinds/dynamics.py), and the degrees of freedom that
# they leave to its standard errors; those of other theory have no fewer.
THEORY_DEGREES = REPLICATES - 1
# For quick forms whose claims compare errors that are many standard errors of half as many bags apart.
FEW_BAGS = 256
