"""What a long computation is doing, and about how long the rest of it will take."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

Progress = Callable[[str], None]
_OPINION = 3.0  # seconds of finished work that weigh as much as the first guess of the machine's speed


class Stages:
    """Stages with typical times; saying that one begins reports it with an estimate of the time left.

    Parameters
    ----------
    report : callable, optional
        Called with a few words at the beginning of every stage.
    typical : mapping of str to float
        Seconds that each stage takes on an ordinary machine, in order. How much quicker or slower this one is shows in
        the stages that are done.
    """

    def __init__(self, report: Progress | None, typical: Mapping[str, float]):
        self._report = report
        self._left = dict(typical)
        self._done = 0.0  # typical seconds of what is finished
        self._running = 0.0
        self._begin = self._stage_begin = time.monotonic()

    def add(self, typical: Mapping[str, float]) -> None:
        """Add stages that come at the end."""
        self._left |= typical

    def __call__(self, words: str, seconds_left: float | None = None) -> None:
        """Say what is being done.

        Parameters
        ----------
        words : str
            The stage; or, with `seconds_left`, anything about the one that is running.
        seconds_left : float, optional
            What the running stage itself knows about its end.
        """
        now = time.monotonic()
        if seconds_left is None:
            self._done += self._running
            self._running = self._left.pop(words, 0.0)
            self._stage_begin = now
            seconds_left = self._running * self._speed(now)
        if self._report is None:
            return
        rest = seconds_left + self._speed(now) * sum(self._left.values())
        self._report(f"{words}; {in_words(rest)} left")

    def _speed(self, now: float) -> float:
        """Seconds here per typical second, by what is finished."""
        passed = self._stage_begin - self._begin
        return (passed + _OPINION) / (self._done + _OPINION)


def in_words(seconds: float) -> str:
    """A time to come, as precisely as it is known."""
    if seconds < 5:
        return "a few seconds"
    if seconds < 90:
        return f"about {5 * round(seconds / 5)} s"
    return f"about {round(seconds / 60)} min"
