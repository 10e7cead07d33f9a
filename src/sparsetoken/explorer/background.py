"""Work that may take longer than a page waits: done in the background, waited for so long, kept when it comes.

And work that nobody waits for yet: done while no page asks for anything.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any

AT_ONCE = 2  # pieces of work at a time; others are turned away, so that a page's slow ones cannot pile up
_LOOK = 0.05  # seconds between two looks at whether the page still waits


class Background:
    """Pieces of work by name, each done once at a time in a thread of its own.

    The work itself has to keep its result where it is found again; a piece that outlasts the wait goes on to its end.
    """

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._lock, self._at_once = threading.Lock(), at_once
        self._running: dict[Hashable, threading.Thread] = {}

    def waited(self, name: Hashable, work: Callable[[], Any], seconds: float, alive: Callable[[], None]) -> bool:
        """Begin the work, unless it is under way already, and wait for it.

        Parameters
        ----------
        name : hashable
            What the work is known by.
        work : callable
            The work; it must not raise.
        seconds : float
            How long to wait.
        alive : callable
            Called while waiting; may raise to wait no longer.

        Returns
        -------
        bool
            Whether it is done. False also where too much is under way to begin.
        """
        ends = time.monotonic() + seconds
        thread = self._begin(name, work)
        while thread is None and time.monotonic() < ends:
            alive()
            time.sleep(_LOOK)
            thread = self._begin(name, work)
        if thread is None:
            return False
        while thread.is_alive() and time.monotonic() < ends:
            thread.join(min(_LOOK, max(ends - time.monotonic(), 0.0)))
            alive()
        return not thread.is_alive()

    def _begin(self, name: Hashable, work: Callable[[], Any]) -> threading.Thread | None:
        with self._lock:
            self._running = {key: thread for key, thread in self._running.items() if thread.is_alive()}
            if name in self._running:
                return self._running[name]
            if len(self._running) >= self._at_once:
                return None
            thread = threading.Thread(target=work, daemon=True, name="background")
            self._running[name] = thread
            thread.start()
            return thread


class Idle:
    """Whether any page waits for an answer."""

    def __init__(self) -> None:
        self._lock, self._asking, self._since = threading.Lock(), 0, time.monotonic()

    @contextmanager
    def busy(self) -> Iterator[None]:
        """While an answer is being made."""
        with self._lock:
            self._asking += 1
        try:
            yield
        finally:
            with self._lock:
                self._asking -= 1
                self._since = time.monotonic()

    def quiet(self, seconds: float = 0.0) -> bool:
        """Whether nobody has asked for so long."""
        with self._lock:
            return self._asking == 0 and time.monotonic() - self._since >= seconds

    def wait(self, seconds: float) -> None:
        """Return when nobody has asked for so long."""
        while not self.quiet(seconds):
            time.sleep(_LOOK)
