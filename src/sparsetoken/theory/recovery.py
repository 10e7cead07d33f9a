"""How well the signal's direction is learnt from n = alpha d bags without a readout: labelled means, products, eigenvectors.

With centred residuals positive bags weigh a+ = 1 - pi and negative ones a- = -pi. In the notation of Eq. (34) and Eq. (36) of
docs/theory.md the labelled second moment M is the difference of two Wishart matrices, with free cumulants
kappa_s = alpha(L-1)(pi a+^s + (1-pi) a-^s), plus a+ y y^T, where |y|^2 = 1 + x and cos^2(y, xi) = x/(1 + x). Everything follows
for k products with the labelled mean, whose tan^2 is c0^2:

- fresh bags for every product: 1/tan'^2 = (1 + 1/tan^2) B/(a+ x)^2 + 1/x, a recursion;
- the same bags every time: cos^2 = v_k^2/(v_2k + m_2k/c0^2), v_j = xi^T M^j xi and m_j the moments of the difference;
- the top eigenvector: cos^2 = [1 - R'(1/f)/f^2]_+ x/(1 + x) with f = a+(1 + x) and R(z) = sum_s kappa_s z^(s-1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .._core.averages import with_error
from .._core.validation import real_number, rejection
from ..results import Result
from ..task import Task
from ..training import MOST_PRODUCTS, number_of_products
from .bayes.limit import bayes_limit
from .bayes.oracle import bayes_error, pooled_error


@dataclass(frozen=True, kw_only=True, repr=False)
class Recovery(Result):
    """A direction learnt from alpha d bags, and what it is good for.

    Attributes
    ----------
    method, cosine : str, float
        How it is learnt (see `recovery`), and its cosine with xi.
    test_error, standard_error : float
        Error of the best test on the tokens' coordinates along it (the likelihood ratio at strength theta times the cosine);
        of "pooled", the best threshold on their mean. With the standard error of its numerical integration.
    source : str
        What gave the cosine: "closed form", "exact recursion" or "fixed point".
    """

    method: str
    cosine: float
    test_error: float
    standard_error: float
    source: str

    def _words(self) -> str:
        error = with_error(self.test_error, self.standard_error)
        return f"{self.method}: cosine {self.cosine:.4f} ({self.source}), test error {error}"


class _Spike(NamedTuple):
    """The numbers of the module's formulas."""

    prevalence: float
    x: float  # alpha pi theta^2 R (1 - R/L)
    mean: float  # c0^2
    bags: float  # alpha (L - 1)

    @property
    def B(self) -> float:
        return self.bags * self.prevalence * (1 - self.prevalence)


def _spike(task: Task, alpha: float) -> _Spike:
    L, R, theta, _ = task.only_kind("products with the labelled second moment")
    pi = task.prevalence
    return _Spike(
        pi, alpha * pi * theta**2 * R * (1 - R / L), theta**2 * R**2 * pi * (1 - pi) * alpha / L, alpha * (L - 1)
    )


def _fresh(s: _Spike, products: int) -> float:
    if s.x**2 == 0:
        return 0.0 if products or s.mean == 0 else (1 + 1 / s.mean) ** -1
    inverse = 1 / s.mean
    for _ in range(products):
        inverse = (1 + inverse) * s.B / ((1 - s.prevalence) * s.x) ** 2 + 1 / s.x
    return 1 / (1 + inverse)


def _moments(cumulants: np.ndarray, order: int) -> np.ndarray:
    """m_0 .. m_order of a law with these free cumulants (the first of them kappa_1)."""
    m = np.zeros(order + 1)
    m[0] = 1.0
    for j in range(1, order + 1):
        power = np.eye(1, j)[0]  # coefficients of (m_0 + m_1 w + ..)^s
        for s in range(1, j + 1):
            power = np.convolve(power, m[:j])[:j]
            m[j] += cumulants[s - 1] * power[j - s]
    return m


def _same(s: _Spike, products: int) -> float:
    if s.mean == 0 or s.bags == 0 or products == 0:
        return _fresh(s, products)
    order, pi = 2 * products, s.prevalence
    spike = (1 - pi) * (1 + s.x)
    scale = max(s.B**0.5, spike)  # M in units of its size
    powers = np.arange(1, order + 1)
    cumulants = s.bags * (pi * ((1 - pi) / scale) ** powers + (1 - pi) * (-pi / scale) ** powers)
    m = _moments(cumulants, order)
    spiked, f = np.ones(order + 1), spike / scale  # moments along y
    for j in range(1, order + 1):
        spiked[j] = m[j] + f * (m[:j] @ spiked[j - 1 :: -1])
    v = (s.x * spiked + m) / (1 + s.x)
    return float(v[products] ** 2 / (v[order] + m[order] / s.mean))


def _eigenvector(s: _Spike) -> float:
    pi, f = s.prevalence, (1 - s.prevalence) * (1 + s.x)
    if s.x**2 == 0:
        return 0.0
    spread = s.B / f**2 * ((1 - pi) * (1 + s.x) ** 2 / s.x**2 + pi / (1 + pi / f) ** 2)
    return max(0.0, 1 - spread) * s.x / (1 + s.x)


def _positive_eigenvector(s: _Spike) -> float:
    """Of the second moment of the positive bags alone: one Wishart matrix, the spike 1 + x."""
    return max(0.0, 1 - s.bags * s.prevalence / s.x**2) * s.x / (1 + s.x) if s.x else 0.0


class _Method(NamedTuple):
    squared_cosine: Callable[[Task, float], float]
    source: str


def _products(method: str) -> _Method | None:
    same, fresh = (number_of_products(method, word=word) for word in ("products", "fresh_products"))
    if same is not None:
        return _Method(lambda task, alpha: _same(_spike(task, alpha), same), "closed form")
    if fresh is not None:
        return _Method(lambda task, alpha: _fresh(_spike(task, alpha), fresh), "exact recursion")
    return None


_METHODS = {
    "pooled": _Method(lambda task, alpha: _same(_spike(task, alpha), 0), "closed form"),
    "eigenvector": _Method(lambda task, alpha: _eigenvector(_spike(task, alpha)), "closed form"),
    "positive_eigenvector": _Method(lambda task, alpha: _positive_eigenvector(_spike(task, alpha)), "closed form"),
    "message_passing": _Method(lambda task, alpha: bayes_limit(task, alpha).reachable_overlap, "fixed point"),
    "bayes": _Method(lambda task, alpha: bayes_limit(task, alpha).overlap, "fixed point"),
}


def method_of(method: str) -> _Method:
    """A method by its name; ValueError for an unknown one."""
    found = _METHODS.get(method) or _products(str(method))
    if found is None:
        known = ", ".join([*_METHODS, "products:K", "fresh_products:K"])
        raise rejection("method", method, f"one of {known} (K from 0 to {MOST_PRODUCTS})")
    return found


def recovery(task: Task, alpha: float, method: str = "products:1") -> Recovery:
    """How well the signal's direction is learnt from n = alpha d bags, in the limit d -> infinity at fixed length.

    Eq. (14) and Eq. (34) to Eq. (37) of docs/theory.md.

    Parameters
    ----------
    task : Task
        What the data is: bags that are alike, except for "message_passing" and "bayes".
    alpha : float
        n/d; with "fresh_products:K", of each product.
    method : str
        "products:K": the labelled mean, multiplied K times with the labelled second moment of the same bags, residuals
        centred; K = 0 is the labelled mean itself, K = 1 the two steps at small rates. "fresh_products:K": the same with
        alpha d new bags for every product. "eigenvector": the top eigenvector of the labelled second moment;
        "positive_eigenvector": that of the positive bags alone. "message_passing" and "bayes": `bayes_limit`. "pooled": the
        labelled mean as a pooled classifier, which differs from "products:0" in its test error only.
    """
    Task.require(task)
    alpha = real_number("alpha", alpha, 0.0, open_low=True)
    chosen = method_of(method)
    cosine = float(chosen.squared_cosine(task, alpha)) ** 0.5
    if method == "pooled":
        error, uncertain = pooled_error(task.at_strength(cosine * task.mean_strength)), 0.0
    else:
        error, uncertain = bayes_error(task, cosine * task.mean_strength)
    return Recovery(method=method, cosine=cosine, test_error=error, standard_error=uncertain, source=chosen.source)
