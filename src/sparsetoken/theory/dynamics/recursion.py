"""Dynamical mean field theory of gradient descent on bags: the recursion itself, compiled, on one set of draws.

The equations, in whose notation the code is, are Eq. (25) to Eq. (29) of docs/theory.md, with nu_t = -theta D_t mu_t and with E
over bags of all kinds. With tokens correlated by rho, A^2 = (1 - rho) I + rho 11^T, they hold for the tokens' own noise:
H^t = theta v m_t^T + A (U^t + sum_s G^s B_{t,s}) with A G^t in the place of G^t, except in mu. The start is one more source,
s = -1: P_{-1,t} carries Theta_0 forward, with P_{-1,0} = I, nu_{-1} = m_0 and the Gram matrix of Theta_0 off the signal in Q's
place.

Averages run over N drawn bags. The response M needs derivatives through the memory: one tangent serves all s. U^s moves by
omega_s = h_s rho with rho a random sign for every bag, token and direction and h_s a sign for every bag, the h of different
steps orthogonal over the bags (columns of a Hadamard matrix). Correlating the tangent that arrives at t with omega_s picks
the contribution of step s, without bias; what u = t contributes directly is kept apart. Time is of order
T^2 N L r^2 (2 + probes), memory (2 + probes) T N L r numbers. Tangents may be kept in single precision: they enter nothing but
averages whose own scatter is ten thousand times that rounding.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ...laws.bag_model_measures import innovation_root
from ...laws.draws import with_shared_part
from ...losses import Loss
from ...trajectories import mistakes


class ScheduleArrays(NamedTuple):
    """The schedule as arrays over entries t = 0 .. T (T steps and the state after them), r directions."""

    rates: Any
    decay: Any
    momentum: Any
    alpha: Any
    slot: Any
    first: Any
    same: Any
    time: Any
    theta: Any
    pi: Any
    contamination: Any
    sharpness: Any
    m0: Any
    gram0: Any
    bias0: Any


class GroupDraws(NamedTuple):
    """Random numbers of one replicate for bags of one length, the bags last."""

    normals: Any
    signs: Any
    codes: Any
    places: Any
    y: Any
    weight: Any


BagDraws = tuple[GroupDraws, ...]


class RecursionState(NamedTuple):
    """What step t needs of the past."""

    P: Any  # ((n + 1) r, n r): block (s + 1, t) is P_{s,t}, block row 0 the start's
    Q: Any  # ((n + 1) r, (n + 1) r): D_s Q_{s,w} D_w, block 0 the start's Gram matrix
    nu: Any  # ((n + 1) r,)
    m: Any  # (n, r)
    gram: Any  # (n, r, r): C_{t,t}
    bias: Any  # (n,)
    factor: Any  # (n r, n r): Cholesky factor of C within data sets, unit rows where an innovation was dropped
    alive: Any  # (n r,): which innovations were kept
    G: Any  # of each group (slots, r, L N)
    tangent: Any  # of each group (slots, r, probes L N)
    train_loss: Any  # (n,)
    train_error: Any  # (n,)


def first_state(plan: ScheduleArrays, draws: BagDraws) -> RecursionState:
    """The state before step 0."""
    n, r = plan.decay.shape
    slots = len(draws[0].codes)

    def zeros(*shape):
        return jnp.zeros(shape)

    P = zeros((n + 1) * r, n * r).at[:r, :r].set(jnp.eye(r))
    Q = zeros((n + 1) * r, (n + 1) * r).at[:r, :r].set(plan.gram0 - jnp.outer(plan.m0, plan.m0))
    return RecursionState(
        P,
        Q,
        zeros((n + 1) * r).at[:r].set(plan.m0),
        zeros(n, r).at[0].set(plan.m0),
        zeros(n, r, r).at[0].set(plan.gram0),
        zeros(n).at[0].set(plan.bias0),
        jnp.eye(n * r),
        zeros(n * r),
        tuple(zeros(slots, r, group.normals.shape[-1]) for group in draws),
        tuple(jnp.zeros((slots, r, group.signs[:, 0].size), group.signs.dtype) for group in draws),
        zeros(n),
        zeros(n),
    )


def bag_responses(score: Any, loss: Loss, H: Any, bias: Any, y: Any, *tangents: Any) -> tuple[Any, ...]:
    """Per bag: score z, G = dl/dH (r, L, N), dl/db, and the change of G along each family of tangents (p, r, L, N)."""

    def of_bag(F, b):  # fields (r, L) of one bag
        return score(F.T, b)

    slopes = jax.vmap(jax.value_and_grad(of_bag, argnums=(0, 1)), (-1, None), (0, (-1, 0)))

    def at(F):
        return slopes(F, bias)

    z, (g, g_bias) = at(H)
    slope, curvature = loss.slope(z, y), loss.curvature(z, y)
    # The same point in the tangents' precision.
    precision = tangents[0].dtype
    (_, (g_here, _)), push = jax.linearize(at, H.astype(precision))
    slope_here, curvature_here = slope.astype(precision), curvature.astype(precision)

    def change(tangent):
        dz, (dg, _) = push(tangent)
        return (curvature_here * dz * g_here + slope_here * dg).astype(precision)

    return z, slope * g, slope * g_bias, *(jax.vmap(change)(family) for family in tangents)


class Shape(NamedTuple):
    """What is fixed when the recursion is compiled."""

    window: int
    single: bool
    correlation: float = 0.0


class BagAverages(NamedTuple):
    """Averages over the bags of a group at step t; products and responses for every slot of the data set."""

    train_loss: Any
    train_error: Any
    bias_slope: Any
    mu: Any
    products: Any  # (window, r, r): Q_{s,t}
    responses: Any  # (window, r, r): M_{t,s}


class _Window:
    """The slots of step t's data set in the buffers, which step each of them holds, and whether that step is at most t."""

    def __init__(self, shape: Shape, plan: ScheduleArrays, slots: int, t: Any):
        self.shape, self.first, self.size = shape, plan.first[t], shape.window
        same, n = plan.same[t], len(plan.momentum)
        self.earlier = same & (jnp.arange(n) < t)
        self.time = self.of_set(plan.time)
        # Slots beyond the last step's only fill the buffers up; their entry in `time` points elsewhere.
        filled = plan.slot[self.time] == self.of_set(jnp.arange(slots))
        self.used = (filled & same[self.time] & (self.time <= t)).astype(float)[:, None, None]
        self.is_now = (filled & (self.time == t))[:, None, None]
        self.slot = plan.slot[t]

    def of_set(self, buffer: Any) -> Any:
        """The data set's part of a buffer; with one data set that is all of it."""
        if self.shape.single:
            return buffer[: self.size]
        return jax.lax.dynamic_slice_in_dim(buffer, self.first, self.size, 0)

    def mix(self, coefficients: Any, buffer: Any) -> Any:
        """sum_s coefficients_s^T buffer_s over the data set's past and present, (r, ...)."""
        r = coefficients.shape[-1]
        table = coefficients.astype(buffer.dtype).reshape(self.size * r, r)
        return table.T @ self.of_set(buffer).reshape(self.size * r, -1)

    def put(self, buffer: Any, x: Any) -> Any:
        """The buffer with x at the step's slot."""
        return jax.lax.dynamic_update_slice_in_dim(buffer, x.reshape(1, *buffer.shape[1:]), self.slot, 0)


class _Fields(NamedTuple):
    """How the fields of step t are made: from the data set's innovations, and from its gradients."""

    gram: Any  # C_{t,t}
    innovations: Any  # (window, r, r)
    memory: Any  # (window, r, r): B_{t,s}
    factor: Any
    alive: Any


def _block(x: Any, i: Any, r: int, axis: int) -> Any:
    return jax.lax.dynamic_slice_in_dim(x, i * r, r, axis)


def _fields(plan: ScheduleArrays, state: RecursionState, window: _Window, t: Any) -> _Fields:
    """U^t as its regression on the data set's earlier ones and an innovation, and B_{t,s}."""
    n, r = plan.decay.shape
    P = _block(state.P, t, r, 1)
    column = state.P.T @ (state.Q @ P) + jnp.outer(state.m.reshape(-1), state.m[t])  # C_{u,t} for all u <= t
    gram = _block(column, t, r, 0)
    gram = 0.5 * (gram + gram.T)
    earlier = jnp.where(jnp.repeat(window.earlier, r), state.alive, 0.0)[:, None] * column
    X = jax.scipy.linalg.solve_triangular(state.factor, earlier, lower=True)
    # An innovation is dropped where its conditional variance is below this share. Shares of 1e-11 are rounding errors, which
    # training may amplify; up to 1e-5 the test error does not depend on this value.
    F, kept = innovation_root(gram - X.T @ X, jnp.diag(gram), 1e-7)

    def row(past: Any, diagonal: Any) -> Any:
        return jax.lax.dynamic_update_slice_in_dim(past, diagonal, t * r, 1)

    # An innovation that was dropped leaves a unit row in the factor, which stays invertible.
    stored = jnp.where(kept[:, None], row(X.T, F), row(jnp.zeros_like(X.T), jnp.eye(r)))
    factor = jax.lax.dynamic_update_slice_in_dim(state.factor, stored, t * r, 0)
    alive = jax.lax.dynamic_update_slice_in_dim(state.alive, kept.astype(float), t * r, 0)
    innovations = row(X.T, F).reshape(r, n, r).transpose(1, 2, 0)[window.time] * window.used
    since_start = P.reshape(n + 1, r, r)[1:]
    memory = -(plan.rates[:, :r, None] / plan.alpha[t]) * jnp.where(window.earlier[:, None, None], since_start, 0.0)
    return _Fields(gram, innovations, memory[window.time] * window.used, factor, alive)


def _group_step(
    responses: Any,
    loss: Loss,
    correlation: float,
    fields: _Fields,
    window: _Window,
    signal: Any,
    group: GroupDraws,
    past: tuple[Any, Any],
) -> tuple[BagAverages, Any, Any]:
    """The bags of one length at step t: their averages, and the buffers of gradients and tangents (`past`) with this step's;
    `responses(H, y, *tangents)` are those of `bag_responses`, `signal` is theta m_t."""
    G_before, tangents_before = past
    probes, r, L, N = group.signs.shape
    y, weight, code = group.y, group.weight, group.codes[window.slot]

    def shared(x: Any) -> Any:
        """A x: tokens that share a part of their noise are A times independent ones, and so is what is remembered of G."""
        return with_shared_part(x, correlation) if correlation else x

    noise = window.mix(fields.innovations, group.normals) + window.mix(fields.memory, G_before)
    H = signal[:, None, None] * group.places + shared(noise.reshape(r, L, N))
    carried = window.mix(fields.memory, tangents_before).reshape(r, probes, L, N).swapaxes(0, 1)
    moved = group.signs * code.astype(group.signs.dtype)
    z, G, g_bias, direct, through = responses(H, y, shared(moved), shared(carried))
    mu = (weight * G * group.places).sum((1, 2))
    G, direct, through = shared(G), shared(direct), shared(through)

    flat, weighted = G.reshape(r, -1), (weight * G).reshape(r, -1)
    with_past = (window.of_set(G_before).reshape(-1, L * N) @ weighted.T).reshape(-1, r, r)
    products = jnp.where(window.is_now, flat @ weighted.T, with_past) * window.used

    def per_bag(change: Any) -> Any:
        return weight * jnp.einsum("paln,pcln->acn", group.signs, change) / probes

    by_code = jnp.einsum("sn,acn->sac", window.of_set(group.codes), per_bag(through))
    response = jnp.where(window.is_now, (code * per_bag(direct)).sum(-1), by_code) * window.used
    averages = BagAverages(
        (weight * loss.value(z, y)).sum(),
        (weight * mistakes(z, y)).sum(),
        (weight * g_bias).sum(),
        mu,
        products,
        response,
    )
    # The buffers are read (for the products) before they are written; the sum makes that order explicit, else XLA copies them.
    return (
        averages,
        window.put(G_before, G + 0.0 * products.sum()),
        window.put(tangents_before, (direct + through).swapaxes(0, 1)),
    )


def advance(
    score: Any, loss: Loss, shape: Shape, plan: ScheduleArrays, draws: BagDraws, state: RecursionState, t: Any
) -> RecursionState:
    """Entry t measured, and everything at t + 1; `score` is a function of (H, bias)."""
    window = _Window(shape, plan, len(draws[0].codes), t)
    fields = _fields(plan, state, window, t)

    def responses(H: Any, y: Any, *tangents: Any) -> tuple[Any, ...]:
        return bag_responses(score, loss, H, state.bias[t], y, *tangents)

    common = (responses, loss, shape.correlation, fields, window, plan.theta * state.m[t])
    done = [_group_step(*common, group, past) for group, past in zip(draws, zip(state.G, state.tangent), strict=True)]
    averages = BagAverages(*map(sum, zip(*(of_group for of_group, _, _ in done))))
    return _next_state(plan, state, window, fields, averages, t)._replace(
        G=tuple(G for _, G, _ in done), tangent=tuple(tangent for _, _, tangent in done)
    )


def _next_state(
    plan: ScheduleArrays, state: RecursionState, window: _Window, fields: _Fields, averages: BagAverages, t: Any
) -> RecursionState:
    """P, Q, nu, m and the bias at t + 1, and what was measured at t."""
    n, r = plan.decay.shape
    rates = plan.rates[t, :r]

    def over_steps(x: Any) -> Any:
        return jnp.zeros((n, r, r)).at[window.time].add(x)

    K = (over_steps(averages.responses) * rates).reshape(n * r, r)
    products = over_steps(averages.products / plan.alpha[t])
    Q_row = (plan.rates[:, :r, None] * products * rates).reshape(n * r, r)  # blocks D_s Q_{s,t} D_t
    offset = (t + 1) * r
    Q = jax.lax.dynamic_update_slice(state.Q, Q_row, (r, offset))
    Q = jax.lax.dynamic_update_slice(Q, Q_row.T, (offset, r))
    nu = jax.lax.dynamic_update_slice_in_dim(state.nu, -plan.theta * rates * averages.mu, offset, 0)
    last, now = _block(state.P, jnp.maximum(t - 1, 0), r, 1), _block(state.P, t, r, 1)
    following = now * (1 - plan.decay[t] * rates) + plan.momentum[t] * (now - last) - state.P @ K
    following = jax.lax.dynamic_update_slice_in_dim(following, jnp.eye(r), offset, 0)
    after = jnp.minimum(t + 1, n - 1)  # the last entry has no next one: it is written again, unchanged

    def unless_last(x: Any, old: Any) -> Any:
        return jnp.where(t == n - 1, old, x)

    P_column = unless_last(following, _block(state.P, after, r, 1))
    bias = state.bias[t] - plan.rates[t, r] * averages.bias_slope
    return state._replace(
        P=jax.lax.dynamic_update_slice_in_dim(state.P, P_column, after * r, 1),
        Q=Q,
        nu=nu,
        m=state.m.at[after].set(unless_last(nu @ following, state.m[after])),
        gram=state.gram.at[t].set(fields.gram),
        bias=state.bias.at[after].set(unless_last(bias, state.bias[t])),
        factor=fields.factor,
        alive=fields.alive,
        train_loss=state.train_loss.at[t].set(averages.train_loss),
        train_error=state.train_error.at[t].set(averages.train_error),
    )


def advance_to_the_end(
    score: Any, loss: Loss, shape: Shape, plan: ScheduleArrays, draws: BagDraws, state: RecursionState
) -> RecursionState:
    """All entries in turn; `score` is a function of (H, bias, sharpness)."""

    def at_sharpness(H, bias):
        return score(H, bias, plan.sharpness)

    step = partial(advance, at_sharpness, loss, shape, plan, draws)
    return jax.lax.fori_loop(0, len(plan.momentum), lambda t, s: step(s, t), state)


first_compiled = jax.jit(first_state)
advance_compiled = jax.jit(advance_to_the_end, static_argnames=("score", "loss", "shape"), donate_argnames=("state",))
