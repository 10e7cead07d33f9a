"""Studies: a grid of trials -> executor -> store -> tidy tables -> figures and judged claims.

Names are resolved on first use, so that worker processes import no more than the trial they run.
"""

from __future__ import annotations

from .._core.imports import lazy_exports

_HOME = {
    "trial_kind": "kind_registry",
    "TrialSpec": "study",
    "Grid": "study",
    "Study": "study",
    "Claim": "claims",
    "Judgement": "claims",
    "Panel": ".plotting.panels",
    "Store": "store",
    "StoreError": "store",
    "open_executor": "executor",
    "run_trials": "runner",
    "run_study": "runner",
    "load_studies": "study_files",
    "share_source": "._core.user_code",
}

__all__ = list(_HOME)

__getattr__, __dir__ = lazy_exports(__name__, _HOME)
