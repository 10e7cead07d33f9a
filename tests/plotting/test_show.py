"""Results that show themselves: a short line, a table in a notebook, a picture."""

import pickle

import pytest

from sparsetoken import Task, Training, forecast, simulate, theory
from sparsetoken.plotting.show import MOST_ROWS
from sparsetoken.study.claims import Claim, Judgement, ledger

OPTIONS = {"accuracy": 2e-2, "with_capacity": False}


def claims(*verdicts):
    return [
        Claim(f"c{i}", "<b>", "here", "by eye", lambda tables, v=v: Judgement(v, "1", "2"))
        for i, v in enumerate(verdicts)
    ]


@pytest.fixture(scope="module")
def shown():
    found = forecast(Task(), Training(), **OPTIONS)
    over = {"strength": [3.0, 5.0], "alpha1": [1.0, 2.0, 4.0]}
    return {
        "forecast": found,
        "erm": found.result,
        "simulation": simulate(Task(), Training(), 30, 0),
        "steps": found.steps,
        "grid": theory.forecast_grid(Task(), Training(), ["pooled", "vectorized"], over=over, **OPTIONS),
        "sweep": theory.erm_sweep(theory.pooled_law(Task()), [1.0, 2.0], 1e-2, accuracy=2e-2),
        "ledger": ledger("s", claims("confirmed", "refuted"), {}),
    }


ROWS = {"forecast": 1, "erm": 1, "simulation": 1, "steps": 1, "grid": 12, "sweep": 2, "ledger": 2}


@pytest.mark.parametrize("name", ROWS)
def test_every_result_shows_itself(shown, name):
    result = shown[name]
    assert repr(result).startswith(f"{type(result).__name__}(") and len(repr(result)) < 200 and "\n" not in repr(result)
    assert len(result.frame()) == ROWS[name]
    page = result._repr_html_()
    assert "<table" in page and "<b>" not in page
    ax = result.plot()
    assert ax.lines or ax.containers
    assert result.plot(ax) is ax
    ax.figure.canvas.draw()


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
    rows = ledger("s", claims(*["confirmed"] * (MOST_ROWS + 3)), {})
    assert "3 more rows in frame()" in rows._repr_html_() and len(rows.frame()) == MOST_ROWS + 3
    assert repr(rows) == f"Ledger({MOST_ROWS + 3} claims: {MOST_ROWS + 3} confirmed)"
