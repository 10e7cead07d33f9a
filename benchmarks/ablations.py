"""What each candidate of the default learner buys: `python -m benchmarks.ablations [set ...]`, some minutes.

Every candidate is fitted once per outer fold (5 folds, shuffled REPEATS times, or as many draws of digits), with the inner
folds of the learner; then the vote is taken again without each of them, and with some of them alone. Held-out log loss per bag
(AUC in brackets), smaller is better. The sets are those of `benchmarks.learners`.
"""

from __future__ import annotations

import sys

import numpy as np

from sparsetoken.estimators.calibration import area_under_curve, final_calibration, fit_calibration
from sparsetoken.estimators.candidates import DEFAULT, KNOWN, Likelihood, Problem
from sparsetoken.estimators.canonical import canonical
from sparsetoken.estimators.evaluation import stratified_splits
from sparsetoken.estimators.folds import fold_rounds
from sparsetoken.estimators.lift import LANDMARKS
from sparsetoken.estimators.message_passing.ratio import could_hold
from sparsetoken.estimators.near_copies import near_copies
from sparsetoken.estimators.training_range import fit_range
from sparsetoken.estimators.views import BagViews
from sparsetoken.estimators.vote import vote_shares, vote_trust
from sparsetoken.losses import get_loss

from .learners import SETS, digit_set, read_set

REPEATS = 3  # shuffles of the outer folds
VOTES = (
    ("all but free (default)", lambda name: name.split()[0] in DEFAULT),
    ("with free", lambda name: True),
    *(
        (f"without {one}", lambda name, one=one: name.split()[0] in DEFAULT and name.split()[0] != one)
        for one in DEFAULT
        if one != "likelihood"  # none of these sets looks like its model
    ),
    ("heads on tokens only", lambda name: name.split()[0] in ("linear", "mean", "pooled", "tied", "even")),
)


def fold_scores(bags, signs, test):
    """The problem as the learner poses it, and held-out and test scores of every setting of every candidate."""
    used = canonical(bags, signs, np.ones(len(signs)))
    bags, signs, rng = bags[used.rows], signs[used.rows], np.random.default_rng(0)
    groups = near_copies(fit_range(bags, signs, used.weights)[1], (signs > 0).astype(int))
    seed = int(rng.integers(2**31))
    known = [c for c in KNOWN if not isinstance(c, Likelihood) or could_hold(bags, signs)]
    views = BagViews(tuple(c.view for c in known), LANDMARKS, True).fit(bags, signs, seed)
    own, other = views.of(bags, np.float32), views.of(test)
    rounds = fold_rounds(signs, rng, groups, bags.n_tokens)
    problem = Problem(own, signs, used.weights, rounds, get_loss("logistic"), seed, groups)
    found = {}
    for candidate in known:
        for setting in candidate.validated(problem):
            seen = other[setting.view]
            inner = np.broadcast_to(setting.scores, (len(rounds), len(signs)))
            found[setting.name] = inner, setting.finish().decide(seen.tokens, seen.starts)
    return problem, found


def voted(problem, found, keep):
    """Log odds of the test bags by the vote of those that are kept."""
    signs, weights, seed, groups = problem.signs, problem.weights, problem.seed, problem.groups
    chosen = [scores for name, scores in found.items() if keep(name)]
    calibrations = [fit_calibration(inner, signs, weights) for inner, _ in chosen]
    odds = np.array([c(inner) for c, (inner, _) in zip(calibrations, chosen)])
    shares = vote_shares(np.logaddexp(0.0, -signs * odds).mean(axis=1), weights, seed, groups)
    held_out = np.tensordot(shares, odds, 1)
    fitted = fit_calibration(held_out, signs, weights)
    trust = vote_trust(fitted, held_out, signs, weights, seed, groups)
    final = final_calibration(fitted, signs, weights, trust=trust)
    return final(sum(s * c(outer) for s, c, (_, outer) in zip(shares, calibrations, chosen)))


def measure(name: str) -> dict[str, tuple[float, float, float]] | None:
    """(log loss, AUC, accuracy) of every vote on a set, means over the shuffles or draws."""
    runs = []
    for repeat in range(REPEATS):
        if name.startswith("digits"):
            bags, labels, splits = digit_set(int(name.split()[1]), repeat)
        else:
            read = read_set(name)
            if read is None:
                return None
            bags, labels = read.bags, (read.labels == np.max(read.labels)).astype(int)
            fold = stratified_splits(labels, 5, 1, seed=repeat)[0]
            splits = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(5)]
        runs.append(list(measured(bags, labels, splits).values()))
    means = np.mean(runs, axis=0)
    return {what: tuple(row) for (what, _), row in zip(VOTES, means)}


def measured(bags, labels, splits):
    """(log loss, AUC, accuracy) of every vote on the test bags of some splits."""
    odds = {what: np.full(len(labels), np.nan) for what, _ in VOTES}
    for train, held in splits:
        problem, found = fold_scores(bags[train], np.where(labels[train] == 1, 1.0, -1.0), bags[held])
        for what, keep in VOTES:
            odds[what][held] = voted(problem, found, keep)
    out = {}
    for what, u in odds.items():
        tested = np.isfinite(u)
        positive = labels[tested] == 1
        loss = float(np.mean(np.logaddexp(0.0, np.where(positive, -u[tested], u[tested]))))
        out[what] = loss, area_under_curve(u[tested], positive), float(np.mean((u[tested] > 0) == positive))
    return out


def main() -> None:
    assert set(DEFAULT) <= {candidate.name for candidate in KNOWN}
    names = sys.argv[1:] or [*SETS, "digits 10", "digits 50"]
    columns = {}
    for name in names:
        found = measure(name)
        if found is not None:
            columns[name] = found
            loss, auc, accuracy = found[VOTES[0][0]]
            print(f"{name}: default's log loss {loss:.3f}, AUC {auc:.3f}, accuracy {accuracy:.3f}", flush=True)
            print({what: f"{v[0]:.3f} ({v[1]:.3f})" for what, v in found.items()}, flush=True)
    print("| vote | " + " | ".join(columns) + " |\n|---|" + "---|" * len(columns))
    for what, _ in VOTES:
        print(f"| {what} | " + " | ".join(f"{c[what][0]:.3f} ({c[what][1]:.3f})" for c in columns.values()) + " |")


if __name__ == "__main__":
    main()
