"""What each candidate of the default learner buys: `python -m benchmarks.ablations [set ...]`, some minutes.

Every candidate is fitted once per outer fold (5 folds, or the digits' own split); then the vote is taken again without each
of them, and with some of them alone. Held-out log loss per bag (AUC in brackets), smaller is better. The sets are those of
`benchmarks.learners`.
"""

from __future__ import annotations

import sys

import numpy as np

from sparsetoken.estimators.calibration import area_under_curve, final_calibration, fit_calibration
from sparsetoken.estimators.candidates import DEFAULT, KNOWN, Likelihood, Problem
from sparsetoken.estimators.evaluation import stratified_splits
from sparsetoken.estimators.folds import stratified_folds
from sparsetoken.estimators.lift import LANDMARKS
from sparsetoken.estimators.message_passing.ratio import could_hold
from sparsetoken.estimators.views import BagViews
from sparsetoken.estimators.vote import vote_shares
from sparsetoken.losses import get_loss

from .learners import SETS, digit_set, read_set

BEFORE = (
    "pooled ridge 0.1",
    "pooled ridge 0.01",
    "tied ridge 0.1",
    "tied ridge 0.01",
    "free ridge 0.1",
    "free ridge 0.03",
)
VOTES = (
    ("all but free (default)", lambda name: name.split()[0] in DEFAULT),
    ("with free", lambda name: True),
    *(
        (f"without {one}", lambda name, one=one: name.split()[0] in DEFAULT and name.split()[0] != one)
        for one in DEFAULT
        if one != "likelihood"  # none of these sets looks like its model
    ),
    ("heads on tokens only", lambda name: name.split()[0] in ("linear", "pooled", "tied", "even")),
    ("as before (lifted heads, high ridges)", lambda name: name in BEFORE),
)


def fold_scores(bags, signs, test):
    """Held-out and test scores of every setting of every candidate."""
    weights, rng = np.ones(len(signs)), np.random.default_rng(0)
    known = [c for c in KNOWN if not isinstance(c, Likelihood) or could_hold(bags, signs)]
    views = BagViews(tuple(c.view for c in known), LANDMARKS, True).fit(bags, signs, 0)
    own, other = views.of(bags, np.float32), views.of(test)
    problem = Problem(own, signs, weights, stratified_folds(signs, rng), get_loss("logistic"), 0)
    found = {}
    for candidate in known:
        for setting in candidate.validated(problem):
            seen = other[setting.view]
            found[setting.name] = setting.scores, setting.finish().decide(seen.tokens, seen.starts)
    return found


def voted(found, signs, keep):
    """Log odds of the test bags by the vote of those that are kept."""
    weights = np.ones(len(signs))
    chosen = [scores for name, scores in found.items() if keep(name)]
    calibrations = [fit_calibration(inner, signs, weights) for inner, _ in chosen]
    odds = np.array([c(inner) for c, (inner, _) in zip(calibrations, chosen)])
    shares = vote_shares(np.logaddexp(0.0, -signs * odds), weights, 0)
    final = final_calibration(fit_calibration(shares @ odds, signs, weights), signs, weights)
    return final(sum(s * c(outer) for s, c, (_, outer) in zip(shares, calibrations, chosen)))


def measure(name: str) -> dict[str, tuple[float, float, float]] | None:
    """(log loss, AUC, accuracy) of every vote on a set."""
    if name.startswith("digits"):
        bags, labels, splits = digit_set(int(name.split()[1]))
    else:
        read = read_set(name)
        if read is None:
            return None
        bags, labels = read.bags, (read.labels == np.max(read.labels)).astype(int)
        fold = stratified_splits(labels, 5, 1, seed=0)[0]
        splits = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(5)]
    odds = {what: np.full(len(labels), np.nan) for what, _ in VOTES}
    for train, held in splits:
        signs = np.where(labels[train] == 1, 1.0, -1.0)
        found = fold_scores(bags[train], signs, bags[held])
        for what, keep in VOTES:
            odds[what][held] = voted(found, signs, keep)
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
