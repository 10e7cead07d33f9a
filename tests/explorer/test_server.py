"""The explorer's server: quick and exact answers, two settings, odd requests, this machine only."""

from __future__ import annotations

import socket
import threading
import time
from urllib.request import urlopen

import pytest

pytest.importorskip("dash", reason="the explorer's extra is not installed")

from sparsetoken import theory
from sparsetoken.explorer import answers, create_app, make_server, server
from sparsetoken.explorer.fields import DEFAULTS, other_of
from sparsetoken.explorer.layout import first_answer
from tests.explorer.asking import ask, follow, simulation, state_of, trace


def test_server_answers_local_names_only():
    client = create_app().server.test_client()
    assert client.get("/", base_url="http://127.0.0.1:8050").status_code == 200
    assert client.get("/", base_url="http://localhost:8050").status_code == 200
    assert client.get("/", base_url="http://attacker.example:8050").status_code == 403


def test_a_key_of_the_pages_making_gets_no_answer_to_another_state():
    client = create_app().server.test_client()
    near, far = ({**DEFAULTS, "view": "alignment", "strength": strength} for strength in (2, 6))
    shown = ask(client, near, key="same")
    assert shown["stage"] == "quick"
    shown = follow(client, shown, near, key="same")
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
    monkeypatch.setattr(answers, "figure_of", lambda *_: 1 / 0)
    found = ask(create_app().server.test_client(), {**DEFAULTS, "strength": 4.9})
    assert found["stage"] == "failed" and "division by zero" in found["message"]
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_few_answers_are_made_at_a_time_however_many_pages_ask(monkeypatch):
    free, at_work, most, lock = threading.Event(), [], [], threading.Lock()

    def answer(state, other, quick):
        with lock:
            at_work.append(None)
            most.append(len(at_work))
        assert free.wait(60)
        with lock:
            at_work.pop()
        return {"stage": "quick"}

    monkeypatch.setattr(answers, "answer_for", answer)
    client = create_app().server.test_client
    values = {**DEFAULTS, "strength": 4.9}
    asking = [threading.Thread(target=ask, args=(client(), values, f"key {i}", f"page {i}")) for i in range(9)]
    for thread in asking:
        thread.start()
    while len(most) < answers.AT_WORK:
        time.sleep(0.01)
    free.set()
    for thread in asking:
        thread.join(60)
    assert len(most) == 9 and max(most) == answers.AT_WORK


def test_page_loads_nothing_from_elsewhere():
    client = create_app().server.test_client()
    page = client.get("/", base_url="http://127.0.0.1:8050").get_data(as_text=True)
    assert "//cdn" not in page and "https://" not in page


def test_command_says_when_the_port_is_taken(command):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, _, err = command("explore", "--no-browser", "--port", taken.getsockname()[1])
    assert code == 2 and "is taken" in err and len(err.splitlines()) == 1


def test_server_serves_on_this_machine_only():
    server = make_server(0)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        with urlopen(f"http://127.0.0.1:{server.port}/") as page:
            assert b"sparsetoken explorer" in page.read()
        with pytest.raises(OSError, match="refused"):  # another address of this same machine
            socket.create_connection(("127.0.0.2", server.port), timeout=5)
    finally:
        server.shutdown()
        server.server_close()


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
    ],
)
def test_a_setting_that_cannot_be_compared_with_is_told(text, words_of_it):
    values = {**DEFAULTS, "view": "alignment", "compare": text}
    shown = ask(create_app().server.test_client(), values)
    assert shown["stage"] == "quick" and "other" not in shown and words_of_it in shown["no_other"]


def test_a_click_that_comes_with_a_tick_is_heard():
    """Dash may send both as one request, the tick first."""
    client, values = create_app().server.test_client(), {**DEFAULTS, "d": 100, "trials": 200}
    assert not simulation(client, values, "poll.n_intervals", "simulate.n_clicks")["cancelled"]
    assert simulation(client, values, "poll.n_intervals", "cancel.n_clicks")["cancelled"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'"text"',
        b"{}",
        b'{"output": "nothing.data", "inputs": []}',
        b'{"output": "exact.data", "outputs": {"id": "exact", "property": "data"}, "changedPropIds": ["asked.data"],'
        b' "inputs": [{"id": "asked", "property": "data", "value": {"stage": "quick"}}],'
        b' "state": [{"id": "raw", "property": "data", "value": [1]}, {"id": "page", "property": "data", "value": {}}]}',
        b'{"output": "exact.data", "outputs": {"id": "exact", "property": "data"}, "changedPropIds": ["asked.data"],'
        b' "inputs": [{"id": "asked", "property": "data", "value": 1}],'
        b' "state": [{"id": "raw", "property": "data", "value": {"key": 1, "values": 3}},'
        b' {"id": "page", "property": "data", "value": "a"}]}',
    ],
)
def test_a_request_that_is_not_the_page_s_is_refused_in_one_line(body, capfd):
    client = create_app().server.test_client()
    where = {"base_url": "http://127.0.0.1:8050", "content_type": "application/json"}
    found = client.post("/_dash-update-component", data=body, **where)
    out, err = capfd.readouterr()
    assert found.status_code in (400, 415)
    assert out == "" and len(err.splitlines()) <= 1 and "Traceback" not in err


def test_a_request_without_an_end_is_refused():
    client = create_app().server.test_client()
    body = b" " * (server.LARGEST_REQUEST + 1)
    where = {"base_url": "http://127.0.0.1:8050", "content_type": "application/json"}
    assert client.post("/_dash-update-component", data=body, **where).status_code == 413


def test_a_request_that_names_no_host_is_refused():
    served = make_server(0)
    threading.Thread(target=served.serve_forever, daemon=True).start()
    try:
        with socket.create_connection(("127.0.0.1", served.port), timeout=30) as connection:
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert b" 400 " in connection.recv(1000).splitlines()[0]
    finally:
        served.shutdown()
        served.server_close()


@pytest.mark.slow
def test_the_stored_first_answer_is_that_of_the_library():
    """`python docs/tools/pictures.py` renews it."""
    stored, found = first_answer(), answers.answer_for(state_of(), None, quick=False)
    assert {name for name in stored if stored[name] != found[name]} <= {"data", "rows", "layout"}
    for one, other in zip(stored["data"], found["data"], strict=True):
        assert one["x"] == pytest.approx(other["x"]) and one["y"] == pytest.approx(other["y"], rel=1e-4)


def test_a_first_page_has_its_figure_at_once(monkeypatch):
    monkeypatch.setattr(answers, "figure_of", lambda *_: 1 / 0)  # nothing is computed for it
    shown = ask(create_app().server.test_client(), DEFAULTS)
    assert shown["stage"] == "exact" and trace(shown, "attention")["y"]
