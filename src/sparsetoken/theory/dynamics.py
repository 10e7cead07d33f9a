"""Dynamical mean field theory of gradient descent on bags: the recursion itself, compiled, on one set of draws.

Step t uses data set k = k(t) with n_k = alpha_k d bags; the update is that of `schedules`. In the limit d, n -> infinity one
random bag of each data set stands for all of them. With its label y, the indicator v of its signal tokens, and G^t = dl/dH at
H^t,

    H^t = theta v m_t^T + U^t + sum_{s<t, k(s)=k} G^s B_{t,s},        B_{t,s} = -(1/alpha_k) D_s P_{s,t}
    U^t Gaussian, independent tokens, E[U^t_l (U^s_l)^T] = C_{t,s}

    mu_t = E[v^T G^t],   nu_t = -theta D_t mu_t,   Q_{t,s} = E[sum_l G^t_l (G^s_l)^T]/alpha_k
    M_{t,s}[a,c] = E[sum_l dG^t_{l,c}/dU^s_{l,a}],   K_{t,s} = M_{t,s} D_t
    P_{s,t+1} = P_{s,t} (I - Lambda_t D_t) + rho_t (P_{s,t} - P_{s,t-1}) - sum_{s<u<=t} P_{s,u} K_{t,u},   P_{s,s+1} = I
    m_t = sum_s nu_s^T P_{s,t},   C_{t,u} = m_t m_u^T + sum_{s,w} P_{s,t}^T D_s Q_{s,w} D_w P_{w,u}

where Q and M vanish between different data sets. Bags of several kinds have their own v, theta and length, and labels may be
flipped: E runs over all of them. With tokens correlated by rho, A^2 = (1 - rho) I + rho 11^T, the same holds for the tokens'
own noise: H^t = theta v m_t^T + A (U^t + sum_s G^s B_{t,s}) with A G^t in the place of G^t, except in mu. The start is one
more source, s = -1: P_{-1,t} carries Theta_0 forward, with P_{-1,0} = I, nu_{-1} = m_0 and the Gram matrix of Theta_0 off the
signal in Q's place.

Averages run over N drawn bags. The response M needs derivatives through the memory. A tangent for each s, pushed forward to
each t, costs T^3. Here one tangent serves all s: U^s moves by omega_s = h_s rho with rho a random sign for every bag, token
and direction and h_s a sign for every bag, the h of different steps orthogonal over the bags (columns of a Hadamard matrix).
The tangent that arrives at t is the sum of all steps' contributions, and correlating it with omega_s picks that of step s,
without bias. Time is of order T^2 N L r^2 (2 + probes), memory (2 + probes) T N L r numbers. What u = t contributes directly
is kept apart, so that it adds no noise to s < t. Tangents may be kept and pushed in single precision: they enter nothing but
averages whose own scatter is ten thousand times that rounding, and reading them is most of the time.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ..laws.bag_model_measures import innovation_root
from ..laws.draws import with_shared_part
from ..losses import Loss
from ..trajectories import mistakes

# Of the variance of U^t given the data set's earlier steps: less than this share is dropped. Rounding grows with the inverse of
# the factor that the later steps are solved with, which reaches 5e9 by step 17 where shares of 1e-11 are kept (attention,
# L = 30): their noise is then kept for innovations, divided by and multiplied up, and a replicate in ten flies apart within
# 36 steps. At 1e-9 none does, and 1e-5 moves the test error by nothing that could be seen: 1e-7 is between.
SMALLEST_INNOVATION = 1e-7


class Plan(NamedTuple):
    """The schedule as arrays over entries t = 0 .. T (T steps and the state after them), r directions.

    Attributes
    ----------
    rates, decay, momentum : array (n, r + 1), (n, r), (n,)
        With zeros at the last entry; the bias's rate is the last column.
    alpha : array (n,)
        alpha_k of the step's data set.
    slot, first : array (n,)
        The place of a step in the buffers, ordered by data set, and its set's first one.
    same : array (n, n)
        Whether two steps share their data set.
    time : array (slots,)
        The step of each slot.
    theta, pi, contamination, sharpness, m0, gram0, bias0 : float, and arrays (r,) and (r, r)
        As in the equations; m0, gram0 and bias0 are those of the start.
    """

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
    """Random numbers of one replicate for bags of one length, the bags last.

    Attributes
    ----------
    normals : tuple of arrays (slots of the block, r, L N)
        Innovations of U. In several blocks: a step skips those that lie in its future, and reads the others whole, since a
        part of an array would be copied first.
    signs : array (probes, r, L, N)
        The random signs rho, in the precision of the tangents.
    codes : array (slots, N)
        The signs h.
    places : array (L, N)
        v times the bag's strength over theta.
    y : array (N,)
        Labels as seen.
    weight : array (N,)
        Probabilities, which sum to 1 over all groups.
    """

    normals: Any
    signs: Any
    codes: Any
    places: Any
    y: Any
    weight: Any


BagDraws = tuple[GroupDraws, ...]


class State(NamedTuple):
    """What step t needs of the past."""

    P: Any  # ((n + 1) r, n r): block (s + 1, t) is P_{s,t}, block row 0 the start's
    Q: Any  # ((n + 1) r, (n + 1) r): D_s Q_{s,w} D_w, block 0 the start's Gram matrix
    nu: Any  # ((n + 1) r,)
    m: Any  # (n, r)
    gram: Any  # (n, r, r): C_{t,t}
    bias: Any  # (n,)
    factor: Any  # (n r, n r): Cholesky factor of C within data sets, unit rows where an innovation was dropped
    alive: Any  # (n r,): which innovations were kept
    G: Any  # of each group, blocks (slots of the block, r, L N)
    tangent: Any  # of each group, blocks (slots of the block, r, probes L N)
    train_loss: Any  # (n,)
    train_error: Any  # (n,)


def first_state(plan: Plan, draws: BagDraws) -> State:
    """The state before step 0."""
    n, r = plan.decay.shape
    sizes = [block.shape[0] for block in draws[0].normals]

    def zeros(*shape):
        return jnp.zeros(shape)

    P = zeros((n + 1) * r, n * r).at[:r, :r].set(jnp.eye(r))
    Q = zeros((n + 1) * r, (n + 1) * r).at[:r, :r].set(plan.gram0 - jnp.outer(plan.m0, plan.m0))
    return State(
        P,
        Q,
        zeros((n + 1) * r).at[:r].set(plan.m0),
        zeros(n, r).at[0].set(plan.m0),
        zeros(n, r, r).at[0].set(plan.gram0),
        zeros(n).at[0].set(plan.bias0),
        jnp.eye(n * r),
        zeros(n * r),
        tuple(tuple(zeros(size, r, group.normals[0].shape[-1]) for size in sizes) for group in draws),
        tuple(
            tuple(jnp.zeros((size, r, group.signs[:, 0].size), group.signs.dtype) for size in sizes) for group in draws
        ),
        zeros(n),
        zeros(n),
    )


def covariance_column(P: Any, Q: Any, m: Any, t: Any, r: int) -> Any:
    """C_{u,t} for all u <= t, (n r, r)."""
    Pt = jax.lax.dynamic_slice_in_dim(P, t * r, r, axis=1)
    mt = jax.lax.dynamic_index_in_dim(m, t, keepdims=False)
    return P.T @ (Q @ Pt) + jnp.outer(m.reshape(-1), mt)


def bag_responses(score: Any, loss: Loss, H: Any, bias: Any, y: Any, *tangents: Any) -> tuple[Any, ...]:
    """Per bag: score z, G = dl/dH (r, L, N), dl/db, and the change of G along each family of tangents (p, r, L, N).

    The loss enters by its own slope and curvature, which are right at z = 0 too.
    """

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
    """What is fixed when the recursion is compiled.

    Attributes
    ----------
    window : int
        Bounds the number of steps that a data set has, the entry after the last included.
    single : bool
        Whether there is one data set only; the buffers are one block otherwise.
    correlation : float
        rho of the tokens of a bag.
    """

    window: int
    single: bool
    correlation: float = 0.0


def advance(score: Any, loss: Loss, shape: Shape, plan: Plan, draws: BagDraws, state: State, t: Any) -> State:
    """Entry t measured, and everything at t + 1; `score` is a function of (H, bias)."""
    window = shape.window
    n, r = plan.decay.shape
    slots = len(draws[0].codes)
    alpha, rates = plan.alpha[t], plan.rates[t, :r]

    def block(x, i, axis):
        return jax.lax.dynamic_slice_in_dim(x, i * r, r, axis)

    # The data set's slots in the buffers; with one data set these are all of them.
    def of_set(x: Any) -> Any:
        return x[:window] if shape.single else jax.lax.dynamic_slice_in_dim(x, plan.first[t], window, 0)

    time = of_set(plan.time)
    same = plan.same[t]
    earlier = same & (jnp.arange(n) < t)
    # Slots beyond the last step's only fill the buffers up; their entry in `time` points elsewhere.
    filled = plan.slot[time] == of_set(jnp.arange(slots))
    in_window = (filled & same[time] & (time <= t)).astype(float)[:, None, None]

    # U^t: its regression on the data set's earlier ones, and an innovation.
    column = covariance_column(state.P, state.Q, state.m, t, r)
    gram = block(column, t, 0)
    gram = 0.5 * (gram + gram.T)
    known = jnp.where(jnp.repeat(earlier, r), state.alive, 0.0)[:, None] * column
    X = jax.scipy.linalg.solve_triangular(state.factor, known, lower=True)
    F, kept = innovation_root(gram - X.T @ X, jnp.diag(gram), SMALLEST_INNOVATION)
    row = jax.lax.dynamic_update_slice_in_dim(X.T, F, t * r, 1)  # (r, n r)
    unit = jnp.eye(r)
    kept_f = kept.astype(float)
    stored = jax.lax.dynamic_update_slice_in_dim(X.T, jnp.where(kept[:, None], F, unit), t * r, 1)
    own = jax.lax.dynamic_update_slice_in_dim(jnp.zeros_like(stored), unit, t * r, 1)
    factor = jax.lax.dynamic_update_slice_in_dim(state.factor, jnp.where(kept[:, None], stored, own), t * r, 0)
    alive = jax.lax.dynamic_update_slice_in_dim(state.alive, kept_f, t * r, 0)

    # Fields: signal, U and memory.
    row_blocks = row.reshape(r, n, r).transpose(1, 2, 0)[time] * in_window  # (window, a, c)
    Pt = block(state.P, t, 1).reshape(n + 1, r, r)[1:]
    B = -(plan.rates[:, :r, None] / alpha) * jnp.where(earlier[:, None, None], Pt, 0.0)  # (n, a, c)
    B = B[time] * in_window
    starts = [sum(block.shape[0] for block in draws[0].normals[:i]) for i in range(len(draws[0].normals))]

    def unless_ahead(start: int, what: Any, otherwise: Any) -> Any:
        """`what()` where the block's first slot `start` is no later than t, else the array `otherwise`."""
        return what() if start == 0 else jax.lax.cond(t >= start, what, lambda: otherwise)

    def mix(coefficients: Any, blocks: Any) -> Any:
        """sum_s coefficients_s^T block_s over the data set's past and present, (r, ...)."""
        table = coefficients.astype(blocks[0].dtype)
        if not shape.single:
            return table.reshape(window * r, r).T @ of_set(blocks[0]).reshape(window * r, -1)
        total = jnp.zeros((r, blocks[0].shape[-1]), blocks[0].dtype)
        for start, block in zip(starts, blocks, strict=True):
            size = block.shape[0]
            rows = table[start : start + size].reshape(size * r, r)
            total = total + unless_ahead(
                start,
                lambda rows=rows, block=block: rows.T @ block.reshape(len(rows), -1),
                jnp.zeros_like(total),
            )
        return total

    def with_past(blocks: Any, now: Any) -> Any:
        """sum over bags and tokens of G^s_a now_c for the data set's past, (window, a, c)."""

        def sums(block):
            return (block.reshape(-1, now.shape[1]) @ now.T).reshape(-1, r, r)

        if not shape.single:
            return sums(of_set(blocks[0]))
        parts = [
            unless_ahead(start, lambda block=block: sums(block), jnp.zeros((block.shape[0], r, r)))
            for start, block in zip(starts, blocks, strict=True)
        ]
        return jnp.concatenate(parts)[:window]

    def put(blocks: Any, x: Any) -> tuple[Any, ...]:
        """The blocks with x at the step's slot."""
        x = jax.lax.optimization_barrier(x)  # worked out once, not once for every block
        written = []
        for start, block in zip(starts, blocks, strict=True):
            place = jnp.clip(plan.slot[t] - start, 0, block.shape[0] - 1)
            old = jax.lax.dynamic_slice_in_dim(block, place, 1, 0)
            new = jnp.where(plan.slot[t] - start == place, x.reshape(old.shape), old)
            written.append(jax.lax.dynamic_update_slice_in_dim(block, new, place, 0))
        return tuple(written)

    mt, bias = state.m[t], state.bias[t]
    # Tokens that share a part of their noise are A times independent ones, and so is what is remembered of G.
    shared = (lambda x: with_shared_part(x, shape.correlation)) if shape.correlation else (lambda x: x)
    is_now = (filled & (time == t))[:, None, None]
    G_all, tangents = [], []
    train_loss = train_error = slope_of_bias = mu = 0.0
    products = response = jnp.zeros((window, r, r))
    for group, G_before, tangents_before in zip(draws, state.G, state.tangent, strict=True):
        probes, _, L, N = group.signs.shape
        M, y, weight = L * N, group.y, group.weight
        signal = plan.theta * mt[:, None, None] * group.places
        noise = mix(row_blocks, group.normals) + mix(B, G_before)
        H = signal + shared(noise.reshape(r, L, N))
        code = group.codes[plan.slot[t]]
        carried = mix(B, tangents_before).reshape(r, probes, L, N).swapaxes(0, 1)
        moved = group.signs * code.astype(group.signs.dtype)
        z, G, g_bias, direct, through = bag_responses(score, loss, H, bias, y, shared(moved), shared(carried))
        train_loss += (weight * loss.value(z, y)).sum()
        train_error += (weight * mistakes(z, y)).sum()
        slope_of_bias += (weight * g_bias).sum()

        # Averages over the bags.
        mu += (weight * G * group.places).sum((1, 2))
        G, direct, through = shared(G), shared(direct), shared(through)
        weighted = weight * G
        of_group = with_past(G_before, weighted.reshape(r, M))
        own_product = G.reshape(r, M) @ weighted.reshape(r, M).T
        of_group = jnp.where(is_now, own_product, of_group) * in_window / alpha
        products = products + of_group
        # The blocks are read (for the products) before they are written; the sum tells the compiler, which would copy them
        # else.
        G_all.append(put(G_before, G + 0.0 * of_group.sum()))
        tangents.append(put(tangents_before, (direct + through).swapaxes(0, 1)))

        def per_bag(change):
            return weight * jnp.einsum("paln,pcln->acn", group.signs, change) / probes  # noqa: B023

        of_group = jnp.einsum("sn,acn->sac", of_set(group.codes), per_bag(through))
        own_response = (code * per_bag(direct)).sum(-1)
        response = response + jnp.where(is_now, own_response, of_group) * in_window

    # Everything at t + 1.
    def spread(x):
        return jnp.zeros((n, r, r)).at[time].add(x)

    K = (spread(response) * rates).reshape(n * r, r)
    Q_row = (plan.rates[:, :r, None] * spread(products) * rates).reshape(n * r, r)  # blocks D_s Q_{s,t} D_t
    here = (t + 1) * r
    Q = jax.lax.dynamic_update_slice(state.Q, Q_row, (r, here))
    Q = jax.lax.dynamic_update_slice(Q, Q_row.T, (here, r))
    nu = jax.lax.dynamic_update_slice_in_dim(state.nu, -plan.theta * rates * mu, here, 0)
    last = block(state.P, jnp.maximum(t - 1, 0), 1)
    now = block(state.P, t, 1)
    following = now * (1 - plan.decay[t] * rates) + plan.momentum[t] * (now - last) - state.P @ K
    following = jax.lax.dynamic_update_slice_in_dim(following, unit, here, 0)
    after = jnp.minimum(t + 1, n - 1)  # the last entry has no next one: it is written again, unchanged
    final = t == n - 1

    def keep_last(x, old):
        return jnp.where(final, old, x)

    P = jax.lax.dynamic_update_slice_in_dim(state.P, keep_last(following, block(state.P, after, 1)), after * r, 1)
    m_next = nu @ following
    b_next = bias - plan.rates[t, r] * slope_of_bias
    return State(
        P,
        Q,
        nu,
        state.m.at[after].set(keep_last(m_next, state.m[after])),
        state.gram.at[t].set(gram),
        state.bias.at[after].set(keep_last(b_next, bias)),
        factor,
        alive,
        tuple(G_all),
        tuple(tangents),
        state.train_loss.at[t].set(train_loss),
        state.train_error.at[t].set(train_error),
    )


def advance_to_the_end(score: Any, loss: Loss, shape: Shape, plan: Plan, draws: BagDraws, state: State) -> State:
    """All entries in turn; `score` is a function of (H, bias, sharpness)."""

    def at_sharpness(H, bias):
        return score(H, bias, plan.sharpness)

    step = partial(advance, at_sharpness, loss, shape, plan, draws)
    return jax.lax.fori_loop(0, len(plan.momentum), lambda t, s: step(s, t), state)


first_compiled = jax.jit(first_state)
advance_compiled = jax.jit(advance_to_the_end, static_argnames=("score", "loss", "shape"), donate_argnames=("state",))
