"""The stages in which an answer comes, each painted when it is there.

quick    few points on few draws, about 1 % off
models   the library's own forecasts
exact    the rest: the Bayes limit, the finest phase diagram, more replicates of training, four heads
"""

from __future__ import annotations

MODELS = ("attention", "pooled", "vectorized")
STAGES = ("quick", "models", "exact")
