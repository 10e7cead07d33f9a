"""Fixtures of the planner's tests."""

from __future__ import annotations

import pytest

from sparsetoken import Task, plan


@pytest.fixture(scope="session")
def small_plan():
    """A plan that several modules look at."""
    return plan(Task(), 400, 200, questions=("samples",), target=0.1)
