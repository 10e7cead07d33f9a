"""Settings that several tests of the estimators share."""

from __future__ import annotations

# The training of the theory; the rate of the bias stays "auto" unless a test gives it.
STAGED = {"split": 0.5, "sharpness": 1.5, "ridge": 1e-2, "scale": False}
