"""Work in the background: waited for so long, done once, and bounded."""

from __future__ import annotations

import threading

import pytest

from sparsetoken.explorer.background import Background, Idle
from sparsetoken.explorer.points import Superseded


def alive() -> None:
    pass


def test_work_is_waited_for_and_goes_on_when_the_wait_is_over():
    held, calls = threading.Event(), []

    def work():
        calls.append(None)
        held.wait(30)

    background = Background()
    assert not background.waited("slow", work, 0.05, alive)
    assert not background.waited("slow", work, 0.05, alive)  # the same work, not begun again
    assert len(calls) == 1
    held.set()
    assert background.waited("slow", work, 30, alive)
    assert background.waited("quick", lambda: None, 30, alive)


def test_slow_work_does_not_pile_up():
    held = threading.Event()
    background = Background(at_once=2)
    before = threading.active_count()
    for name in range(5):
        assert not background.waited(name, lambda: held.wait(30), 0.01, alive)
    assert threading.active_count() - before <= 2
    held.set()


def test_a_page_that_has_moved_on_waits_no_longer():
    held = threading.Event()

    def gone():
        raise Superseded

    with pytest.raises(Superseded):
        Background().waited("slow", lambda: held.wait(30), 30, gone)
    held.set()


def test_it_is_quiet_when_nobody_asks():
    idle = Idle()
    assert idle.quiet() and not idle.quiet(60)
    with idle.busy():
        with idle.busy():
            assert not idle.quiet()
        assert not idle.quiet()
    assert idle.quiet()
    idle.wait(0.01)
    assert idle.quiet(0.01)
