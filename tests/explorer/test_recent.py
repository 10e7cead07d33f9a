"""What is kept for a while: so many values, the least recently used forgotten first."""

from __future__ import annotations

from sparsetoken.explorer.recent import Recent


def test_the_least_recently_used_goes_first():
    kept = Recent[int](2)
    kept.put("a", 1)
    kept.put("b", 2)
    assert kept.get("a") == 1  # used: now "b" is the oldest
    kept.put("c", 3)
    assert (kept.get("a"), kept.get("b"), kept.get("c")) == (1, None, 3)
    kept.put("a", 4)  # putting counts as use, and replaces
    kept.put("d", 5)
    assert (kept.get("a"), kept.get("c"), kept.get("d")) == (4, None, 5)
