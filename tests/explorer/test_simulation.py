"""The explorer's simulations in the background: the library's trials, bounded, cancelled, replaced."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pytest

pytest.importorskip("dash", reason="the explorer's extra is not installed")

from sparsetoken import simulate
from sparsetoken.explorer import simulation
from sparsetoken.explorer.simulation import Simulations
from sparsetoken.simulation.seeds import trial_seeds
from tests.explorer.asking import state_of


def finished(jobs: Simulations, page: str):
    for _ in range(600):
        job = jobs.get(page)
        assert job is not None
        if job.finished:
            return job
        time.sleep(0.05)
    raise AssertionError("the simulation did not end")


def test_simulated_points_are_the_library_s():
    jobs, state = Simulations(), state_of(d=40, trials=2, seed=5)
    jobs.start("page", state, "key")
    job = finished(jobs, "page")
    assert job.done == job.total == 18 and not job.notes and job.key == "key"
    row = next(r for r in job.rows if r["model"] == "attention" and r["x"] == 4.0)
    errors = [simulate(state.task, state.training, 40, seed).test_error for seed in trial_seeds(5, 2)]
    assert row["y"] == pytest.approx(sum(errors) / 2)
    assert row["error"] == pytest.approx(abs(errors[0] - errors[1]) / 2)


def test_simulations_can_be_cancelled_and_replaced():
    jobs, state = Simulations(), state_of(d=60, trials=200)
    jobs.start("one", state, "a")
    jobs.cancel("one")
    job = finished(jobs, "one")
    assert job.cancelled and job.done < job.total
    first = jobs.start("one", state, "a")
    second = jobs.start("one", state_of(d=40, trials=2), "b")
    assert first.cancelled and finished(jobs, "one") is second and not second.cancelled
    assert jobs.get("other") is None


def test_simulations_too_large_are_refused_in_words():
    jobs = Simulations()
    jobs.start("page", state_of(d=5000, trials=2, alpha0=4.0, alpha1=4.0), "key")
    jobs.cancel("page")
    assert any("smaller d" in note for note in finished(jobs, "page").notes)


def test_simulations_that_fail_say_why():
    jobs = Simulations()
    jobs.start("page", state_of(d=4, trials=2, prevalence=0.02), "key")
    job = finished(jobs, "page")
    assert job.notes and job.done == job.total


@pytest.mark.parametrize(
    ("changes", "small"),
    [
        ({"length": 5000, "alpha1": 2400.0, "d": 50}, {"pooled"}),  # a block of 65,536 samples with 5000 tokens: 10 GB
        ({"length": 5000, "d": 500}, {"attention", "pooled"}),
        ({}, {"attention", "pooled", "vectorized"}),
    ],
)
def test_parameters_that_multiply_to_gigabytes_are_refused(changes, small):
    cases, notes = simulation._cases(state_of(**changes))
    assert {model for model, _ in cases} == small
    assert {note.split()[0] for note in notes} == {"attention", "pooled", "vectorized"} - small
    assert all("too large to simulate here" in note for note in notes)


def test_two_jobs_are_at_work_however_many_pages_ask(monkeypatch):
    free, at_work = threading.Event(), []
    trial = SimpleNamespace(test_error=0.1, converged=True)
    monkeypatch.setattr(simulation, "simulate", lambda *_, **__: at_work.append(None) or (free.wait(60) and trial))
    jobs = Simulations()
    for i in range(20):
        jobs.start(f"page {i}", state_of(d=40, trials=2), "key")
    time.sleep(0.2)
    assert len(at_work) == 2
    for i in range(20):
        jobs.cancel(f"page {i}")
    free.set()
    assert all(finished(jobs, f"page {i}").cancelled for i in range(20))
    assert len(at_work) == 2  # those that waited did not begin
