"""Results that show themselves: a short line, a table in a notebook, a picture."""

import pickle

import numpy as np
import pytest

from sparsetoken import (
    AttentionDisplay,
    LearningCurveDisplay,
    Stage,
    Task,
    Training,
    forecast,
    get_bag_model,
    simulate,
    simulate_trajectory,
    theory,
)
from sparsetoken.planning import BagsPlan, Criterion, Expected, Extrapolation, MeasuredCurve, Plan
from sparsetoken.plotting.show import MOST_ROWS
from sparsetoken.theory.sweep import ForecastGrid

OPTIONS = {"accuracy": 2e-2, "with_capacity": False}


def measured_curve(criterion="error"):
    correlation = tuple(tuple(1.0 if i == j else 0.3 for j in range(3)) for i in range(3))
    losses = (0.3, 0.2, 0.12)
    found = MeasuredCurve(Criterion.of(criterion), (20, 40, 90), losses, correlation, 100.0, 0.5, 100, 9, 1.0)
    return Extrapolation(found)


@pytest.fixture(scope="module")
def shown():
    found = forecast(Task(), Training(), **OPTIONS)
    curve = measured_curve()
    lines = tuple({"n": n, "learner": "pooled", "value": 20 / n} for n in (50, 100, 200))
    planned = Plan(
        Task(), 100, 50, Criterion.of("error"), 0.05, None,
        (Expected("attention", 0.1, 0.01, ridge=0.1), Expected("optimal", 0.02, 0.0, "limit")), False, curve=lines,
    )  # fmt: skip
    run = simulate_trajectory(Task(), "pooled", Stage(3, 2.0, {"w": 1.0, "bias": 1.0}), 30, 0)
    designed = theory.Design((), get_bag_model("pooled"), 0.3, 1e-3, 3, 0.02, 0.28, run)
    over = {"strength": [3.0, 5.0], "alpha1": [1.0, 2.0, 4.0]}
    return {
        "forecast": found,
        "erm": found.result,
        "simulation": simulate(Task(), Training(), 30, 0),
        "steps": found.steps,
        "grid": theory.forecast_grid(Task(), Training(), ["pooled", "vectorized"], over=over, **OPTIONS),
        "limit": theory.bayes_limit(Task(), 2.0),
        "capacity": theory.capacity(theory.pooled_law(Task())),
        "trajectory": run,
        "plan": planned,
        "plan for bags": BagsPlan("BagClassifier", 300, curve, curve.needed(0.05)),
        "learning curve": LearningCurveDisplay("BagClassifier", curve, forecasts=planned),
        "gradient": theory.Gradient(
            {"ridge": -1.4, "beta": 0.1}, {"ridge": 0.1, "beta": 0.0}, 0.03, {"ridge": 1e-3, "beta": 1.0}
        ),
        "mass": theory.attention_mass(Task(), 0.9, 2.0, points=64),
        "oracle": theory.oracle(Task(), points=64),
        "design": designed,
        "slopes": theory.TrajectoryGradient(2, 0.4, {"w": np.ones(2)}, {"w": np.ones(2)}, np.zeros(2), 0.0),
        "ridge": theory.best_ridge(theory.pooled_law(Task()), 2.0, accuracy=2e-2),
        "attention": AttentionDisplay([0.1, 0.7, 0.2], [-1.0, 2.0, 0.5], "<b>", "yes", 0.9, [False, True, False]),
    }


ROWS = {
    **{
        "forecast": 1,
        "erm": 1,
        "simulation": 1,
        "steps": 1,
        "limit": 1,
        "capacity": 1,
        "grid": 12,
        "trajectory": 4,
    },
    **{"plan": 2, "plan for bags": 7, "learning curve": 6, "attention": 3},
    **{"gradient": 2, "mass": 1, "oracle": 6, "design": 4, "slopes": 2, "ridge": 1},
}


@pytest.mark.parametrize("name", ROWS)
def test_every_result_shows_itself(shown, name):
    result = shown[name]
    assert repr(result).startswith(f"{type(result).__name__}(") and len(repr(result)) < 200 and "\n" not in repr(result)
    assert len(result.frame()) == ROWS[name]
    page = result._repr_html_()
    assert "<table" in page and "<b>" not in page
    ax = result.plot()
    assert ax.lines or ax.containers
    legend = ax.get_legend()
    ax.figure.canvas.draw()
    if legend is not None:  # above the axes, not over the data
        assert legend.get_window_extent().y0 >= ax.get_window_extent().y1 - 1
    assert result.plot(ax) is ax
    ax.figure.canvas.draw()


def test_a_gradient_says_what_ten_per_cent_change(shown):
    table = shown["gradient"].frame().set_index("parameter")
    assert table.loc["ridge", "change_per_ten_percent"] == pytest.approx(0.1 * 1e-3 * -1.4)
    bars = shown["gradient"].plot().patches
    assert [bar.get_width() for bar in bars] == pytest.approx(list(table["change_per_ten_percent"]))


@pytest.mark.parametrize(
    "made",
    [Task(), Task(4, 2, 1.5, 0.3, "block", 0.1), Training(), Training("square", 1.0, 3.0, eta_q=2.0, schedule="reuse")],
)
def test_descriptions_show_what_makes_them(made):
    """What is said gives the same object again; defaults are left unsaid."""
    from sparsetoken import Positions

    assert eval(repr(made), {"Task": Task, "Training": Training, "Positions": Positions}) == made
    assert "beta" not in repr(made) and "kind='uniform'" not in repr(made)


def test_a_grid_is_still_a_list_of_rows(shown):
    grid = shown["grid"]
    assert (
        isinstance(grid, list)
        and grid == list(grid)
        and grid[0]["model"] == "pooled"
        and grid.over == ("strength", "alpha1")
    )
    again = pickle.loads(pickle.dumps(grid))
    assert [row["test_error"] for row in again] == [row["test_error"] for row in grid] and again.over == grid.over
    assert repr(grid).startswith(
        "ForecastGrid(pooled, vectorized over strength (2 values), alpha1 (3 values), test error 0."
    )
    lines = grid.plot().lines
    assert len(lines) == 4 and [len(line.get_xdata()) for line in lines] == [3] * 4
    assert lines[0].get_ydata()[0] == grid[0]["test_error"]


def test_a_grid_with_failures_and_none_at_all():
    grid = theory.forecast_grid(Task(), Training(), "pooled", over={"alpha1": [1.0, -1.0]}, **OPTIONS)
    assert "1 failed" in repr(grid) and "alpha1" in grid._repr_html_()
    assert len(grid.plot().lines[0].get_xdata()) == 1
    empty = theory.forecast_grid(Task(), Training(), [], over={"alpha1": [1.0]}, **OPTIONS)
    assert "<table" in empty._repr_html_() and repr(empty)
    with pytest.raises(ValueError, match="needs rows"):
        empty.plot()


def test_long_tables_are_cut():
    row = {"model": "pooled", "test_error": 0.1, "failure": ""}
    rows = ForecastGrid([{**row, "alpha1": float(k)} for k in range(MOST_ROWS + 3)], ["alpha1"])
    assert "3 more rows in frame()" in rows._repr_html_() and len(rows.frame()) == MOST_ROWS + 3


def test_the_plan_for_bags_in_words_and_numbers(shown):
    plan = shown["plan for bags"]
    words = repr(plan)
    assert words.startswith("BagsPlan(BagClassifier with 300 bags: test error 0.0") and "target 0.05: " in words
    table = plan.frame()
    assert table["n"].tolist() == [20, 40, 90, 100, 200, 300, 400] and table["measured"].sum() == 3
    ahead = table[~table["measured"]]
    assert (ahead["low"] < ahead["value"]).all() and ahead["value"].is_monotonic_decreasing
    assert table["value"][0] == 0.3 and plan.figure().axes


def test_the_theory_lies_over_a_learning_curve(shown):
    labels = shown["learning curve"].plot().get_legend_handles_labels()[1]
    assert "BagClassifier, measured" in labels and any(words.endswith(", theory") for words in labels)
    own = LearningCurveDisplay("x", measured_curve(), forecasts={"pooled": ([50, 100, 900], [0.3, 0.2, 0.1])}).plot()
    (line,) = (line for line in own.lines if line.get_label() == "pooled, theory")
    assert list(line.get_xdata()) == [50, 100] and list(line.get_ydata()) == [0.3, 0.2]  # not beyond what is shown
    alone = LearningCurveDisplay("x", measured_curve("auc")).plot()
    assert alone.get_ylabel() == "AUC" and not any("theory" in w for w in alone.get_legend_handles_labels()[1])


def test_a_bag_of_a_hundred_thousand_tokens_is_drawn_as_lines():
    weights = np.linspace(0.0, 1.0, 100_000)
    ax = AttentionDisplay(weights, weights - 0.5, "large", "yes", 0.9).plot()
    assert 8 <= len(ax.collections[0].get_segments()) <= 24
    assert any("other tokens" in text.get_text() for text in ax.texts)


def test_a_limit_says_whether_it_can_be_reached():
    easy = theory.BayesLimit(0.9, 0.02, 0.9, 0.02, False)
    hard = theory.BayesLimit(0.9, 0.02, 0.01, 0.4, True)
    assert "reaches it" in repr(easy) and "hard: message passing reaches 0.4" in repr(hard)
