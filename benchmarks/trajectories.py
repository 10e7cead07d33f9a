"""Exact training dynamics: against the same equations in plain NumPy, against full-tensor simulation, and over the steps.

The plain program is what one writes first: one tangent for each earlier step, independent random numbers. Both are compared at
equal error: the peer's time is multiplied by the ratio of the variances of its test error and ours (averages fall like one
over the number of bags or draws), at the last step and at the step where the scatter is worst.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from sparsetoken import Task
from sparsetoken._core.devices import double_precision
from sparsetoken.laws.bag_model_measures import fresh_draws, measures_on
from sparsetoken.schedules import Stage
from sparsetoken.simulation.trajectory import simulate_trajectory
from sparsetoken.theory.dynamics.problem import PROBES, problem_of, replicate_rng
from sparsetoken.theory.dynamics.trajectory import solve_replicate

from .growth import exponent
from .measure import Row, Timing, case, timed

TASK = Task()
RATES, DECAY, ALPHA = {"q": 1.0, "w": 1.0, "bias": 0.5}, {"q": 0.1, "w": 0.1}, 2.0


def stage(steps: int) -> Stage:
    return Stage(steps, ALPHA, RATES, DECAY)


def plain_attention(seed: int, bags: int, steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Joint attention, logistic loss, zero start: (overlaps, Gram matrices, biases) over the steps, in plain NumPy."""
    rng = np.random.default_rng(seed)
    r, L, R, theta, pi, n, half = 2, TASK.length, TASK.sparsity, TASK.strength, TASK.prevalence, steps + 1, bags // 2
    y = np.repeat([1.0, -1.0], half)
    weight = np.where(y > 0, pi / half, (1 - pi) / half)
    v = np.zeros((bags, L))
    v[:half, :R] = 1
    D, decay, eta_b = np.array([RATES["q"], RATES["w"]]), np.array([DECAY["q"], DECAY["w"]]), RATES["bias"]
    P, Q, C = np.zeros((n, n + 1, r, r)), np.zeros((n, n, r, r)), np.zeros((n + 1, n + 1, r, r))
    mu, m, b = np.zeros((n, r)), np.zeros((n + 1, r)), np.zeros(n + 1)
    E, G = rng.standard_normal((n, bags, L, r)), np.zeros((n, bags, L, r))
    omega, moved = rng.choice([-1.0, 1.0], (n, bags, L, r)), np.zeros((n, n, bags, L, r))
    factor = np.zeros((n * r, n * r))
    for t in range(n):
        for a in range(r):
            i = t * r + a
            for j in range(i):
                if factor[j, j] > 0:
                    factor[i, j] = (C[j // r, t][j % r, a] - factor[i, :j] @ factor[j, :j]) / factor[j, j]
            left = C[t, t][a, a] - factor[i, :i] @ factor[i, :i]
            factor[i, i] = np.sqrt(left) if left > 1e-11 * C[t, t][a, a] else 0.0
        row = factor[t * r : (t + 1) * r, : (t + 1) * r].T.reshape(t + 1, r, r)
        B = -(1 / ALPHA) * D[:, None] * P[:t, t]
        H = theta * v[..., None] * m[t] + np.einsum("snla,sac->nlc", E[: t + 1], row, optimize=True)
        H += np.einsum("snla,sac->nlc", G[:t], B, optimize=True)
        q, w = H[..., 0], H[..., 1]
        p = np.exp(q - q.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        f = (p * w).sum(-1)
        z = f + b[t]
        slope, curvature = -y * expit(-y * z), expit(z) * expit(-z)
        g = np.stack([p * (w - f[:, None]), p], -1)
        G[t] = slope[:, None, None] * g
        K = np.zeros((t + 1, r, r))
        for s in range(t + 1):
            dH = omega[t] if s == t else np.einsum("snla,sac->nlc", moved[s, s:t], B[s:], optimize=True)
            dq, dw = dH[..., 0], dH[..., 1]
            dp = p * (dq - (p * dq).sum(-1, keepdims=True))
            df = (dp * w + p * dw).sum(-1)
            dg = np.stack([dp * (w - f[:, None]) + p * (dw - df[:, None]), dp], -1)
            moved[s, t] = (curvature * df)[:, None, None] * g + slope[:, None, None] * dg
            K[s] = np.tensordot(omega[s] * weight[:, None, None], moved[s, t], ([0, 1], [0, 1])) * D
            Q[t, s] = np.tensordot(G[t] * weight[:, None, None], G[s], ([0, 1], [0, 1])) / ALPHA
            Q[s, t] = Q[t, s].T
        mu[t] = np.einsum("nl,nlc,n->c", v, G[t], weight, optimize=True)
        b[t + 1] = b[t] - eta_b * (weight @ slope)
        for s in range(t):
            P[s, t + 1] = P[s, t] * (1 - decay * D) - np.einsum("uab,ubc->ac", P[s, s + 1 : t + 1], K[s + 1 :])
        P[t, t + 1] = np.eye(r)
        m[t + 1] = -theta * np.einsum("sa,sab->b", mu[: t + 1] * D, P[: t + 1, t + 1])
        noise = np.einsum("sa,swac,c,wcd->sad", np.tile(D, (t + 1, 1)), Q[: t + 1, : t + 1], D, P[: t + 1, t + 1])
        for u in range(t + 2):
            C[u, t + 1] = np.outer(m[u], m[t + 1]) + np.einsum("sab,sad->bd", P[:u, u], noise[:u])
            C[t + 1, u] = C[u, t + 1].T
    return m[:n], np.array([C[t, t] for t in range(n)]), b[:n]


def scatter(runs: list[np.ndarray]) -> np.ndarray:
    """Standard deviation over runs of the test error at each step."""
    return np.std(runs, axis=0, ddof=1)


def _at_equal_error(timing: Timing, theirs: np.ndarray, ours: np.ndarray) -> tuple[Timing, str]:
    """The peer's time at our error at the last step, and what it is at the worst steps."""
    last, worst = (theirs[-1] / ours[-1]) ** 2, (theirs.max() / ours.max()) ** 2
    at_worst = timing.times(worst)
    note = (
        f"one run scatters by {theirs[-1]:.1e} at the end, {theirs.max():.1e} at worst; at equal error of the worst step "
        f"{at_worst.cpu:.3g} CPU s"
    )
    return timing.times(last), note


def _median(timings: list[Timing]) -> Timing:
    return Timing(float(np.median([t.wall for t in timings])), float(np.median([t.cpu for t in timings])), len(timings))


@case("trajectories", "exact training dynamics: joint attention, L = 10, T = 30, and growth with T")
def trajectories(quick: bool) -> list[Row]:
    steps, bags, runs, d = (6, 256, 3, 100) if quick else (30, 1024, 40, 1000)
    problem = problem_of(TASK, "attention", stage(steps), "logistic", None)

    def measured(m: np.ndarray, gram: np.ndarray, bias: np.ndarray, seed: int) -> np.ndarray:
        fresh = fresh_draws(replicate_rng(seed), TASK, 2, problem.split)
        return measures_on(fresh, TASK, problem.model, m, gram, bias)[:, 0]

    def ours(index: int) -> np.ndarray:
        with double_precision():
            return solve_replicate(problem, index, bags, PROBES)["test_error"]

    def plain(seed: int) -> np.ndarray:
        return measured(*plain_attention(seed, bags, steps), seed)

    def simulated(seed: int) -> np.ndarray:
        return simulate_trajectory(TASK, "attention", stage(steps), d, seed).test_error

    first, _ = timed(lambda: ours(0), 1)
    rows = [Row(f"first replicate at T = {steps}, compiling included", first)]
    # Replicate by replicate in turn, so that both meet the machine in the same mood. A replicate and a plain run have as many
    # bags; the scatter is that of one of them.
    found: dict[str, list[np.ndarray]] = {"ours": [], "plain": []}
    timings: dict[str, list[Timing]] = {"ours": [], "plain": []}
    for seed in range(runs):
        for name, function in (("ours", ours), ("plain", plain)):
            timing, error = timed(lambda: function(seed), 1)  # noqa: B023
            timings[name].append(timing)
            found[name].append(error)
    mine = scatter(found["ours"])
    # Replicates to a standard error of 5e-4 at every step, as `theory.trajectory` takes them: eight at least.
    count = max(8, int(np.ceil((mine.max() / 5e-4) ** 2)))
    one, error = _median(timings["ours"]).times(count), mine / np.sqrt(count)
    what = f"T = {steps}, standard error {error[-1]:.1e} at the end, {error.max():.1e} at worst"
    peer, note = _at_equal_error(_median(timings["plain"]), scatter(found["plain"]), error)
    rows.append(Row(what, one, "plain NumPy, a tangent for each step", peer, note, "10"))

    timing, _ = timed(lambda: simulate_trajectory(TASK, "attention", stage(steps), d, 0, sampler="tensor"), 1)
    trials = [simulated(seed) for seed in range(min(runs, 16))]
    peer, note = _at_equal_error(timing, scatter(trials), error)
    rows.append(Row(what, one, f"averaged full-tensor simulation at d = {d}", peer, note, "10"))

    curve = []
    for size in (4, 8, 16) if quick else (25, 50, 100, 200):
        longer = problem_of(TASK, "attention", stage(size), "logistic", None)
        with double_precision():
            solve_replicate(longer, 0, 256, PROBES)
            timing, _ = timed(lambda: solve_replicate(longer, 1, 256, PROBES), 1 if quick else 5)  # noqa: B023
        curve.append((size, timing))
    for size, timing in curve:
        last = f"exponent {exponent(curve):.2f} at the last three sizes" if size == curve[-1][0] else ""
        rows.append(Row(f"a replicate of 256 bags, T = {size}", timing, note=last))
    return rows
