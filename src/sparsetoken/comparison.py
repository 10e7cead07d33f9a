"""Theory and simulation side by side in one call: `compare`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ._core.averages import with_error
from .classifiers import classifier
from .deployment import Deployment
from .plotting.show import Shown, axes_for, legend_above
from .plotting.style import colour, label
from .simulation import SimulationResult, mean_and_error, simulate, trial_seeds
from .task import Task, Tokens
from .theory import Forecast, forecast
from .training import Training


@dataclass(frozen=True, repr=False)
class Comparison(Shown):
    """Forecasts and simulations of the same classifiers, by model; prints as a table of test errors.

    The Bayes limit, which nothing attains at finite d, has no trials.
    """

    forecasts: Mapping[str, Forecast]
    trials: Mapping[str, list[SimulationResult]]

    def frame(self) -> Any:
        """A pandas table, one row per model: test errors of theory and simulation with their standard errors."""
        import pandas as pd

        rows = []
        for model, limit in self.forecasts.items():
            results = self.trials[model]
            mean, error = mean_and_error(t.test_error for t in results) if results else (math.nan, math.nan)
            rows.append((model, limit.test_error, limit.standard_error, mean, error))
        return pd.DataFrame(rows, columns=["model", "theory", "theory_se", "measured", "measured_se"])

    def __repr__(self) -> str:
        trials = max(map(len, self.trials.values()))
        return f"Comparison({', '.join(self.forecasts)}: theory and {trials} trials each)"

    def __str__(self) -> str:
        width = max(map(len, self.forecasts))
        lines = []
        for model, theory, _, mean, error in self.frame().itertuples(index=False):
            measured = "" if math.isnan(mean) else f"   measured {with_error(mean, error)}"
            lines.append(f"{model:<{width}}   theory {theory:.4f}{measured}")
        return "\n".join(lines)

    def plot(self, ax: Any = None) -> Any:
        """Test errors on the axes given or on new ones: theory as bars, simulations as points with two standard errors."""
        ax, table = axes_for(ax), self.frame()
        places = range(len(table))
        ax.bar(places, table["theory"], width=0.5, alpha=0.5, color=[colour(m) for m in table["model"]], label="theory")
        bars = 2.0 * table["measured_se"].fillna(0.0)
        ax.errorbar(places, table["measured"], bars, fmt="o", color="black", capsize=3, label="simulation")
        ax.set_xticks(list(places), [label(model) for model in table["model"]])
        ax.set_ylabel("test error")
        ax.grid(axis="y", alpha=0.3)
        legend_above(ax)
        return ax


def compare(
    task: Task,
    training: Training,
    models: Sequence[str] = ("attention", "pooled", "vectorized"),
    d: int | None = 1000,
    trials: int = 8,
    seed: int = 0,
    *,
    tokens: Tokens | None = None,
    deployment: Deployment | None = None,
) -> Comparison:
    """Forecast and simulate the same classifiers.

    Parameters
    ----------
    task, training : Task, Training
        What the data is, and how it is learned.
    models : sequence of str
        Classifiers, as in `forecast`; "bayes" has a theory only.
    d : int or None
        Dimension of the simulations; None takes that of the covariance.
    trials : int
        Simulated data sets of each classifier.
    seed : int
        All randomness of the simulations comes from it.
    tokens, deployment : Tokens, Deployment, optional
        As in `forecast` and `simulate`.

    Returns
    -------
    Comparison
        It prints as a table of test errors with standard errors; `frame()` and `plot()` show the same, `forecasts` and
        `trials` hold all results by model.
    """
    models = (models,) if isinstance(models, str) else tuple(models)
    seeds = trial_seeds(seed, trials)
    elsewhere: dict[str, Any] = {"tokens": tokens, "deployment": deployment}
    simulated = {
        model: [simulate(task, training, d, s, model, **elsewhere) for s in seeds if classifier(model).trainable]
        for model in models
    }
    limits = {model: forecast(task, training, model, with_capacity=False, **elsewhere) for model in models}
    return Comparison(limits, simulated)
