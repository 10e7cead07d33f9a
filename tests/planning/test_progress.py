"""What is being done, and how long it will take."""

from __future__ import annotations

from sparsetoken.planning.progress import Stages


def test_stages_learn_the_machine_s_speed(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("sparsetoken.planning.progress.time.monotonic", lambda: clock[0])
    said: list[str] = []
    say = Stages(said.append, {"first": 100.0, "second": 50.0})
    say("first")
    assert said[-1] == "first; about 2 min left"
    clock[0] = 10.0  # ten times as fast as typical
    say("second")
    assert said[-1] == "second; about 5 s left"
    say("second, half done", 2.0)
    assert said[-1] == "second, half done; a few seconds left"
    assert all(words.count(";") == 1 for words in said)
