"""The explorer without a browser: its state, its figures, its background jobs, its server."""

from __future__ import annotations

import contextlib
import io
import math
import threading
import time

import pytest

pytest.importorskip("dash", reason="the explorer's extra is not installed")

from sparsetoken import Task, Training, forecast, simulate, theory
from sparsetoken.explorer import create_app, views
from sparsetoken.explorer.points import Superseded
from sparsetoken.explorer.simulation import Simulations
from sparsetoken.explorer.state import DEFAULTS, check, from_query
from sparsetoken.plotting.style import SIGNAL_TOKEN
from sparsetoken.simulation.repeats import trial_seeds

pytestmark = pytest.mark.xdist_group("browser")  # with the browser's tests: points computed once serve both


def state_of(**changes):
    state, messages = check({**DEFAULTS, **changes})
    assert state is not None, messages
    return state


def trace(figure, meta):
    return next(t for t in figure["data"] if t["meta"] == meta)


def test_defaults_are_the_library_s():
    state = state_of()
    assert state.task == Task() and state.training == Training()


def test_query_holds_the_state():
    values, remarks = from_query("?length=30&strength=4.5&loss=square&view=phase&x=ridge&y=length&d=77")
    assert not remarks
    assert (values["length"], values["strength"], values["loss"], values["x"]) == (30, 4.5, "square", "ridge")
    assert values["alpha0"] == 2
    state, _ = check(values)
    assert state is not None and state.task.length == 30 and state.training.loss == "square" and state.d == 77


@pytest.mark.parametrize("query", ["length=ten", "view=weather", "nonsense=1", "length=", "loss=%3Cscript%3E"])
def test_bad_queries_are_remarked_on(query):
    values, remarks = from_query("?" + query)
    assert values == DEFAULTS and len(remarks) == 1


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"length": 0}, "length"),
        ({"length": 10.5}, "length"),
        ({"length": None}, "length"),
        ({"length": 10**9}, "length"),
        ({"sparsity": 11}, "sparsity"),
        ({"strength": -1}, "strength"),
        ({"prevalence": 1}, "prevalence"),
        ({"alpha0": 0}, "alpha0"),
        ({"alpha1": 1e9}, "alpha1"),
        ({"ridge": 0}, "ridge"),
        ({"eta_q": -3}, "eta_q"),
        ({"d": 10**7}, "d"),
        ({"trials": 1}, "trials"),
        ({"view": "phase", "x": "length", "y": "length"}, "y"),
        ({"loss": "hinge"}, "loss"),
    ],
)
def test_bad_fields_get_a_message_of_their_own(changes, name):
    state, messages = check({**DEFAULTS, **changes})
    assert state is None
    assert list(messages) == [name]
    assert messages[name].count(".") < 5 and messages[name].strip()


def test_several_bad_fields_are_all_named():
    _, messages = check({**DEFAULTS, "length": -1, "beta": "x", "trials": None})
    assert set(messages) == {"length", "beta", "trials"}


def test_curves_are_the_library_s_forecasts():
    state = state_of(strength=4.0, alpha1=1.0)
    figure = views.figure_of(state, "exact")
    total = state.training.alpha0 + state.training.alpha1
    for model in ("attention", "pooled", "vectorized", "bayes"):
        line = trace(figure, model)
        here = line["y"][line["x"].index(total)]
        found = forecast(state.task, state.training, model, equal_samples=True, accuracy=1e-3, with_capacity=False)
        assert here == pytest.approx(found.test_error, abs=1e-9)
    rough = trace(views.figure_of(state_of(strength=4.0, alpha1=1.01), "quick"), "attention")
    assert rough["y"][2] == pytest.approx(trace(figure, "attention")["y"][4], rel=0.1)
    assert all(a > b for a, b in zip(rough["y"], rough["y"][1:]))


def test_alignment_view_is_the_closed_form():
    state = state_of(view="alignment", prevalence=0.1, eta_b=3.0)
    line = trace(views.figure_of(state, "exact"), "cosine_q")
    at = line["x"].index(2.0)
    assert line["y"][at] == theory.alignment(state.task, state.training).cosine["q"]


def test_capacity_view_is_the_library_s():
    state = state_of(view="capacity")
    figure = views.figure_of(state, "quick")
    line = trace(figure, "pooled")
    expected = theory.capacity(theory.pooled_law(state.task)).alpha
    assert line["y"][line["x"].index(5.0)] == pytest.approx(expected, rel=1e-6)


def test_phase_view_leaves_gaps_where_there_is_no_task():
    state = state_of(view="phase", x="sparsity", y="length", length=4, sparsity=1, colour="gain")
    heat = trace(views.figure_of(state, "quick"), "phase")
    for y, row in zip(heat["y"], heat["z"]):
        for x, value in zip(heat["x"], row):
            assert (value is None) == (x > y)


def test_bag_view_shows_weights_that_sum_to_one():
    figure = views.figure_of(state_of(view="bag", length=30, sparsity=2, seed=3), "exact")
    after = trace(figure, "after")
    assert sum(after["x"]) == pytest.approx(1.0)
    assert after["marker"]["color"].count(SIGNAL_TOKEN) == 2
    assert len(trace(figure, "tokens")["z"]) == 30


def test_work_stops_when_nobody_waits():
    def gone():
        raise Superseded

    with pytest.raises(Superseded):
        views.figure_of(state_of(strength=3.33), "quick", gone)


@pytest.mark.parametrize("view", ["curves", "phase", "alignment"])
def test_exported_code_runs(view):
    state = state_of(view=view, x="strength", y="alpha1")
    code = views.code_of(state)
    if view == "phase":
        compile(code, "export", "exec")
        assert "forecast_grid(task, training" in code
        return
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(code, {})
    assert ("attention" if view == "curves" else "of q2") in out.getvalue()


# -- simulations in the background ------------------------------------------------------------------------------------


def finished(jobs: Simulations, page: str):
    for _ in range(600):
        job = jobs.get(page)
        assert job is not None
        if job.finished:
            return job
        time.sleep(0.05)
    raise AssertionError("the simulation did not end")


def test_simulated_points_are_the_library_s():
    jobs, state = Simulations(), state_of(d=40, trials=2, seed=5)
    jobs.start("page", state, "key")
    job = finished(jobs, "page")
    assert job.done == job.total == 18 and not job.notes and job.key == "key"
    row = next(r for r in job.rows if r["model"] == "attention" and r["x"] == 4.0)
    errors = [simulate(state.task, state.training, 40, seed).test_error for seed in trial_seeds(5, 2)]
    assert row["y"] == pytest.approx(sum(errors) / 2)
    assert row["error"] == pytest.approx(abs(errors[0] - errors[1]) / 2)


def test_simulations_can_be_cancelled_and_replaced():
    jobs, state = Simulations(), state_of(d=60, trials=200)
    jobs.start("one", state, "a")
    jobs.cancel("one")
    job = finished(jobs, "one")
    assert job.cancelled and job.done < job.total
    first = jobs.start("one", state, "a")
    second = jobs.start("one", state_of(d=40, trials=2), "b")
    assert first.cancelled and finished(jobs, "one") is second and not second.cancelled
    assert jobs.get("other") is None


def test_simulations_too_large_are_refused_in_words():
    jobs = Simulations()
    jobs.start("page", state_of(d=5000, trials=2, alpha0=4.0, alpha1=4.0), "key")
    jobs.cancel("page")
    assert any("smaller d" in note for note in finished(jobs, "page").notes)


def test_simulations_that_fail_say_why():
    jobs = Simulations()
    jobs.start("page", state_of(d=4, trials=2, prevalence=0.02), "key")
    job = finished(jobs, "page")
    assert job.notes and job.done == job.total


# -- the server --------------------------------------------------------------------------------------------------------


def test_server_answers_local_names_only():
    client = create_app().server.test_client()
    assert client.get("/", base_url="http://127.0.0.1:8050").status_code == 200
    assert client.get("/", base_url="http://localhost:8050").status_code == 200
    assert client.get("/", base_url="http://attacker.example:8050").status_code == 403


def test_page_loads_nothing_from_elsewhere():
    client = create_app().server.test_client()
    page = client.get("/", base_url="http://127.0.0.1:8050").get_data(as_text=True)
    assert "//cdn" not in page and "https://" not in page


def test_command_says_when_the_port_is_taken(capsys):
    import socket

    from sparsetoken.cli import main

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(SystemExit) as ended:
            main(["explore", "--no-browser", "--port", str(taken.getsockname()[1])])
    assert ended.value.code == 2
    assert "is taken" in capsys.readouterr().err


def test_server_serves_on_this_machine_only():
    from sparsetoken.explorer import make_server

    server = make_server(0)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        assert server.server_address[0] == "127.0.0.1"
        assert math.isfinite(server.server_port)
    finally:
        server.shutdown()
        server.server_close()
