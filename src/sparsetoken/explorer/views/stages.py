"""The stages in which an answer comes.

quick    few points on few draws, about 1 % off
models   the library's own forecasts
exact    with the Bayes limit, which can take longer than all the rest
"""

from __future__ import annotations

MODELS = ("attention", "pooled", "vectorized")
STAGES = ("quick", "models", "exact")


def models_at(stage: str) -> tuple[str, ...]:
    """What a stage computes."""
    return (*MODELS, "bayes") if stage == "exact" else MODELS
