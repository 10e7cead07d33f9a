"""How many bags to test on: exact intervals and exact comparisons."""

from __future__ import annotations

import pytest
from scipy.stats import binom, binomtest

from sparsetoken import planning
from sparsetoken.planning.evaluation_sizes import comparison_power


def test_intervals_are_clopper_and_pearson_s():
    for wrong, tested in ((0, 20), (3, 50), (50, 50)):
        exact = binomtest(wrong, tested).proportion_ci(0.95, "exact")
        assert planning.error_interval(wrong, tested) == pytest.approx((exact.low, exact.high))


@pytest.mark.parametrize(("error", "width", "confidence"), [(0.1, 0.1, 0.95), (0.0, 0.05, 0.95), (0.3, 0.02, 0.99)])
def test_sets_are_as_large_as_needed_and_no_larger(error, width, confidence):
    m = planning.sample_size_for_error(error, width, confidence)
    spans = [high - low for low, high in (planning.error_interval(round(error * k), k, confidence) for k in (m - 1, m))]
    assert spans[1] <= width < spans[0]


def test_comparisons_have_the_power_that_they_claim():
    """The exact McNemar test counted out over all outcomes of 60 bags."""
    for disagreement in (None, 0.3):
        share = 0.1 * 0.7 + 0.3 * 0.9 if disagreement is None else disagreement
        first = (share + 0.2) / (2 * share)
        total = 0.0
        for count in range(61):
            for wrong in range(count + 1):
                if count and binomtest(wrong, count).pvalue <= 0.05:
                    total += binom.pmf(count, 60, share) * binom.pmf(wrong, count, first)
        assert comparison_power(0.3, 0.1, 60, disagreement) == pytest.approx(total, abs=1e-6)


def test_comparison_sets_are_large_enough():
    m = planning.sample_size_for_comparison(0.1, 0.15, disagreement=0.08)
    assert comparison_power(0.1, 0.15, m, 0.08) >= 0.8 > comparison_power(0.1, 0.15, m // 2, 0.08)
    assert m < planning.sample_size_for_comparison(0.1, 0.15)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: planning.sample_size_for_error(1.2, 0.1), "error must be"),
        (lambda: planning.sample_size_for_error(0.1, 0.0), "width must be"),
        (lambda: planning.sample_size_for_error(0.1, 0.1, 1.0), "confidence must be"),
        (lambda: planning.sample_size_for_error(0.5, 1e-7), "more than 10,000,000"),
        (lambda: planning.sample_size_for_comparison(0.1, 0.1), "must differ"),
        (lambda: planning.sample_size_for_comparison(0.1, 0.2, disagreement=0.05), "disagreement must lie"),
    ],
)
def test_bad_sizes_are_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_the_command(command):
    code, out, _ = command("test-size", "--error", 0.1, "--width", 0.1)
    assert code == 0 and out.startswith("159 test bags")
    code, out, _ = command("test-size", "--error", 0.1, "--versus", 0.15)
    assert code == 0 and "McNemar" in out
    code, _, err = command("test-size", "--error", 0.1)
    assert code == 2 and "--width or --versus" in err
