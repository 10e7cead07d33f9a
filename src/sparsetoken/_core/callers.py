"""Where a warning should point: at the user's own line, not into this package or the tools that call it."""

from __future__ import annotations

import sys

# Packages whose frames lie between the user and us when they call our estimators for the user.
BETWEEN = ("sparsetoken", "sklearn", "joblib")


def caller_level() -> int:
    """The `stacklevel` for `warnings.warn`, called where this function is called, that names the first outside line."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in BETWEEN:
        level, frame = level + 1, frame.f_back
    return level
