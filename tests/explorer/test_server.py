"""The explorer's server: stages one after the other, two settings, odd requests, this machine only."""

from __future__ import annotations

import socket
import threading
import time
from urllib.request import urlopen

import pytest

pytest.importorskip("dash", reason="the explorer's extra is not installed")

from sparsetoken import theory
from sparsetoken.explorer import create_app, points, server, views
from sparsetoken.explorer.background import Background
from sparsetoken.explorer.state import DEFAULTS, other_of
from tests.explorer.asking import ask, ask_again, follow, simulation, state_of, trace


def test_server_answers_local_names_only():
    client = create_app().server.test_client()
    assert client.get("/", base_url="http://127.0.0.1:8050").status_code == 200
    assert client.get("/", base_url="http://localhost:8050").status_code == 200
    assert client.get("/", base_url="http://attacker.example:8050").status_code == 403


def test_a_key_of_the_pages_making_gets_no_answer_to_another_state():
    client = create_app().server.test_client()
    near, far = ({**DEFAULTS, "view": "alignment", "strength": strength} for strength in (2, 6))
    shown = ask(client, near, key="same")
    while shown["stage"] != "exact":
        shown = follow(client, shown, near, key="same")
    assert ask(client, near, key="other")["stage"] == "exact"  # computed before, whatever the page calls it
    assert ask(client, near, key="other")["key"] == "other"
    other = ask(client, far, key="same")
    assert other["stage"] == "quick"
    assert trace(other, "cosine_q")["y"] != trace(shown, "cosine_q")["y"]


@pytest.mark.parametrize(
    ("changes", "stage"),
    [
        ({"view": "phase", "x": "beta", "beta": 0}, "quick"),
        ({"view": "phase", "x": "eta_q", "eta_q": 1e201}, "invalid"),
        ({"strength": 1e300}, "invalid"),
        ({"length": 10**400}, "invalid"),
        ({"length": {"a": 1}}, "invalid"),
        ({"alpha1": "many"}, "invalid"),
        ({"view": ["phase"]}, "invalid"),
    ],
)
def test_no_values_break_the_server(changes, stage):
    assert ask(create_app().server.test_client(), {**DEFAULTS, **changes})["stage"] == stage


def test_a_failure_inside_is_told_on_the_page(monkeypatch, capsys):
    monkeypatch.setattr(views, "figure_of", lambda *_: 1 / 0)
    found = ask(create_app().server.test_client(), {**DEFAULTS})
    assert found["stage"] == "failed" and "division by zero" in found["message"]
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_few_answers_are_made_at_a_time_however_many_pages_ask(monkeypatch):
    free, at_work, most, lock = threading.Event(), [], [], threading.Lock()

    def answer(state, other, key, stage, alive):
        with lock:
            at_work.append(key)
            most.append(len(at_work))
        assert free.wait(60)
        with lock:
            at_work.remove(key)
        return {"key": key, "stage": stage}

    monkeypatch.setattr(server, "answer_for", answer)
    client = create_app().server.test_client
    asking = [threading.Thread(target=ask, args=(client(), DEFAULTS, f"key {i}", f"page {i}")) for i in range(9)]
    for thread in asking:
        thread.start()
    while len(most) < server.ANSWERS_AT_ONCE:
        time.sleep(0.01)
    free.set()
    for thread in asking:
        thread.join(60)
    assert len(most) == 9 and max(most) == server.ANSWERS_AT_ONCE


def test_page_loads_nothing_from_elsewhere():
    client = create_app().server.test_client()
    page = client.get("/", base_url="http://127.0.0.1:8050").get_data(as_text=True)
    assert "//cdn" not in page and "https://" not in page


def test_command_says_when_the_port_is_taken(command):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, _, err = command("explore", "--no-browser", "--port", taken.getsockname()[1])
    assert code == 2 and "is taken" in err


def test_server_serves_on_this_machine_only():
    from sparsetoken.explorer import make_server

    server = make_server(0)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        with urlopen(f"http://127.0.0.1:{server.server_port}/") as page:
            assert b"sparsetoken explorer" in page.read()
        with pytest.raises(OSError, match="refused"):  # another address of this same machine
            socket.create_connection(("127.0.0.2", server.server_port), timeout=5)
    finally:
        server.shutdown()
        server.server_close()


def test_a_bayes_limit_that_takes_long_is_left_out_with_a_remark_and_comes_later(monkeypatch):
    held, slow = threading.Event(), theory.bayes_limit

    def waiting(task, alpha):
        assert held.wait(60)
        return slow(task, alpha)

    monkeypatch.setattr(points, "bayes_limit", waiting)
    monkeypatch.setattr(points, "BAYES_SECONDS", 0.1)
    monkeypatch.setattr(points, "_background", Background())
    values = {**DEFAULTS, "strength": 4.32, "loss": "square"}
    client = create_app().server.test_client()
    first = ask(client, values)
    refined = follow(client, first, values)
    shown = follow(client, refined, values)
    assert shown["stage"] == "exact" and shown["late"]
    assert trace(shown, "bayes")["y"] == [None] * 7 and len(trace(shown, "attention")["y"]) == 9
    assert shown["remark"] == "7 of the Bayes limit's 7 points are still being computed"
    row = next(row for row in shown["rows"] if row["model"] == "bayes")
    assert row["test_error"] is None and "still being computed" in row["failure"]
    assert ask(client, values)["stage"] == "quick"  # an unfinished answer is not kept
    held.set()
    monkeypatch.setattr(points, "BAYES_SECONDS", 60.0)
    again = ask_again(client, values)  # as the page does by itself
    assert not again["late"] and all(trace(again, "bayes")["y"])
    assert ask(client, values)["stage"] == "exact"


def test_another_setting_is_shown_in_the_same_view():
    values = {**DEFAULTS, "view": "alignment", "strength": 4, "compare": "strength=6&prevalence=0.3"}
    state, why = other_of(values)
    assert why == "" and state == state_of(view="alignment", strength=6, prevalence=0.3)
    shown = ask(create_app().server.test_client(), values)
    other = shown["other"]
    expected = [theory.alignment(s.task, s.training).cosine["q"] for s in (state_of(strength=4), state)]
    for answer, cosine in zip((shown, other), expected):
        line = trace(answer, "cosine_q")
        assert line["y"][line["x"].index(2)] == cosine
    assert "θ = 6" in other["setting"] and "θ = 4" in shown["setting"]
    assert (shown["differs"], other["differs"]) == ("θ = 4, π = 0.5", "θ = 6, π = 0.3")
    assert "other" not in ask(create_app().server.test_client(), {**values, "compare": ""})


@pytest.mark.parametrize(
    ("text", "words_of_it"),
    [
        ("sparsity=50", "at most length"),
        ("strength=-1", "strength must be"),
        (5, "cannot be read"),
        ("x" * 9999, "cannot be read"),
    ],
)
def test_a_setting_that_cannot_be_compared_with_is_told(text, words_of_it):
    values = {**DEFAULTS, "view": "alignment", "compare": text}
    shown = ask(create_app().server.test_client(), values)
    assert shown["stage"] == "quick" and "other" not in shown and words_of_it in shown["no_other"]


def test_views_are_computed_ahead_while_nobody_asks(monkeypatch):
    """One after the other, again where a page came between or something was late."""
    made, idle = [], server._pages

    def figure(state, stage, alive):
        alive()
        made.append((state.view, stage))
        if made.count(("phase", "models")) == 1 and made[-1] == ("phase", "models"):
            with idle.busy():  # a page asks
                alive()
        return {"late": made.count(("heads", "exact")) == 1}

    monkeypatch.setattr(views, "figure_of", figure)
    monkeypatch.setattr(server, "_QUIET_SECONDS", 0.01)
    server.warm_up()
    expected = {view: list(views.STAGES) for view in ("curves", "capacity", "phase", "lengths", "training", "heads")}
    expected["phase"] = ["quick", "models", *views.STAGES]
    expected["heads"] = [*views.STAGES, *views.STAGES]
    assert made == [(view, stage) for view, stages in expected.items() for stage in stages]


def test_a_click_that_comes_with_a_tick_is_heard():
    """Dash may send both as one request, the tick first."""
    client, values = create_app().server.test_client(), {**DEFAULTS, "d": 100, "trials": 200}
    assert not simulation(client, values, "poll.n_intervals", "simulate.n_clicks")["cancelled"]
    assert simulation(client, values, "poll.n_intervals", "cancel.n_clicks")["cancelled"]
