"""Bags at the end of joint training: a bag's fields in training, from its leave-one-out fields; averages over bags.

Eq. (39) and Eq. (41) of docs/theory.md, with the noise's part of a bag's fields as the unknown: fields theta v m^T + A omega,
A^2 the tokens' covariance (1 - rho) I + rho 11^T, become theta v m^T + A u by taking part in training, with

    u* = argmin_u  1/2 sum_l (u_l - omega_l)^T V^{-1} (u_l - omega_l) + l(score(theta v m^T + A u, b); y)

and f = V^{-1}(u* - omega). The bias minimises the mean of that minimum over the bags: b and all u are found together, by
Newton's method with the bias eliminated.
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

FIRST_DAMPING = 0.1  # in units of a bound on the loss's negative curvature: one makes every Hessian positive


class OrderParameters(NamedTuple):
    """All that a bag depends on: m = Theta^T xi, S = Theta^T Theta - m m^T, V^{-1}, and the bias."""

    m: Any
    S: Any
    precision: Any
    bias: Any


class LocalBags(NamedTuple):
    """Bags of one length: normals (N, L, r), signal strengths of the tokens (N, L), labels and weights (N,)."""

    normals: Any
    places: Any
    y: Any
    weight: Any


class LocalModel(NamedTuple):
    """What is compiled: score(H, bias, sharpness), the loss and the tokens' correlation."""

    score: Any
    loss: Loss
    correlation: float


class LocalAverages(NamedTuple):
    """Averages over the bags at their minima."""

    pull: Any  # -E sum_l v_l dl/dH_l
    products: Any  # E sum_l f_l f_l^T
    response: Any  # -E sum_l df_l/domega_l
    pairs: Any  # E sum_ll' D_ll' (x) D_ll', D_ll' = -df_l/domega_l'
    train_loss: Any
    train_error: Any


class _Bag(NamedTuple):
    omega: Any
    places: Any
    y: Any


class _Iterate(NamedTuple):
    u: Any  # of each group (N, L, r)
    damping: Any  # of each group (N,)
    bias: Any
    moved: Any
    steps: Any


def _left_out(at: OrderParameters, normals: Any) -> Any:
    """omega for the bags of these normals (N, L, r)."""
    gram = at.S + jnp.outer(at.m, at.m)
    F, _ = innovation_root(gram, jnp.diag(gram))
    return normals @ F.T


class _Local:
    """The function of one bag and its derivatives at given order parameters."""

    def __init__(self, model: LocalModel, theta: Any, sharpness: Any, at: OrderParameters):
        self.model, self.sharpness, self.at, self.theta_m = model, sharpness, at, theta * at.m

    def score(self, u: Any, bias: Any, places: Any, theta_m: Any) -> Any:
        """score(theta v m^T + A u, b)."""
        mixed = with_shared_part(u, self.model.correlation) if self.model.correlation else u
        return self.model.score(places[:, None] * theta_m + mixed, bias, self.sharpness)

    def value(self, u: Any, bias: Any, bag: _Bag) -> Any:
        """What the bag minimises in u."""
        off = u - bag.omega
        z = self.score(u, bias, bag.places, self.theta_m)
        return 0.5 * (off @ self.at.precision * off).sum() + self.model.loss.value(z, bag.y)

    def derivatives(self, u: Any, bias: Any, bag: _Bag) -> tuple[Any, Any, Any, Any]:
        """Gradient and Hessian in (u, b), a bound on the Hessian's negative part, and the score."""
        loss, n = self.model.loss, u.size

        def score(x: Any) -> Any:
            return self.score(x[:n].reshape(u.shape), x[n], bag.places, self.theta_m)

        x = jnp.append(u.ravel(), bias)
        z, g = jax.value_and_grad(score)(x)
        G = jax.jacfwd(jax.grad(score))(x)
        slope, curvature = loss.slope(z, bag.y), loss.curvature(z, bag.y)
        gradient = slope * g + jnp.append(((u - bag.omega) @ self.at.precision).ravel(), 0.0)
        metric = jnp.pad(jnp.kron(jnp.eye(len(u)), self.at.precision), (0, 1))
        bound = jnp.abs(slope) * jnp.sqrt((G**2).sum()) + jnp.maximum(-curvature, 0.0) * (g**2).sum()
        return gradient, metric + curvature * jnp.outer(g, g) + slope * G, bound, z

    def newton(self, u: Any, damping: Any, bias: Any, bag: _Bag) -> tuple[Any, ...]:
        """A bag's step, its step for a unit step of the bias, whether the Hessian is positive, and what the bag adds to the
        bias's equation and to that equation's slope."""
        gradient, hessian, bound, _ = self.derivatives(u, bias, bag)
        across = hessian[:-1, -1]
        found, fine = _solved(hessian, damping * bound, jnp.stack([gradient[:-1], across], axis=1))
        own = jnp.where(fine, jnp.array([gradient[-1], hessian[-1, -1]]) - across @ found, 0.0)
        return found[:, 0].reshape(u.shape), found[:, 1].reshape(u.shape), fine, own[0], own[1]

    def measured(self, u: Any, bias: Any, bag: _Bag) -> tuple[LocalAverages, Any]:
        """What a bag adds to the averages at its minimum, and its pull f."""
        _, hessian, _, z = self.derivatives(u, bias, bag)
        precision, (length, r) = self.at.precision, u.shape
        inverse, fine = _solved(hessian, 0.0, jnp.eye(u.size))
        inverse = inverse.reshape(length, r, length, r)
        D = jnp.einsum("ab,lm->lamb", precision, jnp.eye(length))
        D = jnp.where(fine, D - jnp.einsum("ab,lbmc,cd->lamd", precision, inverse, precision), 0.0)
        f = (u - bag.omega) @ precision
        through = jax.grad(self.score, argnums=3)(u, bias, bag.places, self.theta_m)
        found = LocalAverages(
            -self.model.loss.slope(z, bag.y) * through,
            f.T @ f,
            jnp.einsum("lalb->ab", D),
            jnp.einsum("lamb,lcmd->acbd", D, D),
            self.model.loss.value(z, bag.y),
            mistakes(z, bag.y),
        )
        return found, f


def _solved(hessian: Any, damping: Any, sides: Any) -> tuple[Any, Any]:
    """The damped Hessian in u solved for the columns of `sides`, and whether it was positive (zeros if not)."""
    n = len(sides)
    factor = jnp.linalg.cholesky(hessian[:n, :n] + damping * jnp.eye(n))
    found = jax.scipy.linalg.cho_solve((factor, True), sides)
    fine = jnp.isfinite(found).all()
    return jnp.where(fine, found, 0.0), fine


def _minimised(local: _Local, groups: tuple[LocalBags, ...], bags: list[_Bag], start: list[Any]) -> _Iterate:
    """u* of the bags of every group and the bias that goes with them."""

    def step(now: _Iterate) -> _Iterate:
        def newton(u: Any, damping: Any, bag: _Bag) -> Any:
            return local.newton(u, damping, now.bias, bag)

        newton_steps = [jax.vmap(newton)(*row) for row in zip(now.u, now.damping, bags, strict=True)]
        slope, bend = (
            sum((g.weight * row[i]).sum() for g, row in zip(groups, newton_steps, strict=True)) for i in (3, 4)
        )
        # At most a step of one: far from the end the bias's equation is nearly flat, and a full step would overshoot.
        # Losses with straight parts may leave it flat, and balanced, at the start.
        change = -slope / jnp.maximum(jnp.maximum(bend, jnp.abs(slope)), 1e-300)
        bias, moved = now.bias + change, jnp.abs(change)

        def value(u: Any, bag: _Bag) -> Any:
            return local.value(u, bias, bag)

        us, dampings = [], []
        for u, damping, bag, (back, across, fine, _, _) in zip(now.u, now.damping, bags, newton_steps, strict=True):
            trial = u - back - change * across
            before, after = jax.vmap(value)(u, bag), jax.vmap(value)(trial, bag)
            better = fine & (after <= before + 1e-9 * (1.0 + jnp.abs(before)))  # a rise by less is rounding
            less = jnp.where(damping > FIRST_DAMPING, 0.25 * damping, 0.0)
            dampings.append(jnp.where(better, less, jnp.maximum(4.0 * damping, FIRST_DAMPING)))
            us.append(jnp.where(better[:, None, None], trial, u))
            moved = jnp.maximum(moved, jnp.where(better, jnp.abs(trial - u).max((1, 2)), 1.0).max())
        return _Iterate(tuple(us), tuple(dampings), bias, moved, now.steps + 1)

    def going(now: _Iterate) -> Any:
        return (now.moved > 1e-10) & (now.steps < 60)  # two to five steps are usual once the start is warm

    undamped = tuple(jnp.zeros(len(u)) for u in start)
    return jax.lax.while_loop(going, step, _Iterate(tuple(start), undamped, local.at.bias, jnp.inf, 0))


@partial(jax.jit, static_argnames="model")
def local_averages(
    model: LocalModel, theta: Any, sharpness: Any, at: OrderParameters, groups: tuple[LocalBags, ...], pulls: Any
) -> tuple[LocalAverages, Any, tuple[Any, ...]]:
    """Averages over all bags at their minima, the bias, and the pulls f (N, L, r) of every group, beginning with `pulls`."""
    local, V = _Local(model, theta, sharpness, at), jnp.linalg.inv(at.precision)
    bags = [_Bag(_left_out(at, group.normals), group.places, group.y) for group in groups]
    ends = _minimised(local, groups, bags, [bag.omega + f @ V for bag, f in zip(bags, pulls, strict=True)])
    totals, pulls_now = [], []
    for u, bag, group in zip(ends.u, bags, groups, strict=True):

        def measured(u: Any, bag: _Bag) -> Any:
            return local.measured(u, ends.bias, bag)

        found, f = jax.vmap(measured)(u, bag)
        totals.append([jnp.tensordot(group.weight, value, 1) for value in found])
        pulls_now.append(f)
    return LocalAverages(*(sum(parts) for parts in zip(*totals, strict=True))), ends.bias, tuple(pulls_now)


@partial(jax.jit, static_argnames="model")
def left_out_scores(
    model: LocalModel, theta: Any, sharpness: Any, at: OrderParameters, groups: tuple[LocalBags, ...]
) -> tuple[Any, ...]:
    """The score of every bag as if it had been left out, (N,) for each group."""
    local = _Local(model, theta, sharpness, at)
    return tuple(
        jax.vmap(lambda omega, places: local.score(omega, at.bias, places, local.theta_m))(
            _left_out(at, group.normals), group.places
        )
        for group in groups
    )
