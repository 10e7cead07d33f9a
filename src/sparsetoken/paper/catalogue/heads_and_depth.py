"""Do several heads or a second layer change how the strength needed grows with the length of the bags?

The studies: `heads` (staged training) and `depth` (two layers run to the end of joint training, and self-attention).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import ndtri

from ...plotting.panels import Layer, Line, Panel, Points, estimates
from ...plotting.style import AXES, OTHER_COLOURS, colour
from ...study.claims import Judgement, NotJudgeable, Tables, claim, need
from ...study.criteria import ValueWithError, limits_of, means_of
from ...study.study import Grid
from . import OPEN, THEORY_DEGREES, self_attention
from .claim_builders import decided, exact, listed, ordered, pair, sharp, study
from .self_attention import crossing
from .separation import KNOWN, TARGET, known, known_ratio

SHORT, LONG = 8, 32
# Strengths on both sides of 10 % error in theory, by heads and length; the second of each pair is simulated too.
PAIRS = {
    **{(1, SHORT): (3.5, 3.9), (1, LONG): (4.0, 4.4)},
    **{(2, SHORT): (3.5, 3.9), (2, LONG): (4.1, 4.5)},
    **{(4, SHORT): (3.5, 3.9), (4, LONG): (4.3, 4.8)},
    **{(8, SHORT): (3.7, 4.1), (8, LONG): (5.0, 5.6)},
}
NEEDED = f"strength θ for {TARGET:.0%} error"


def heads_grids(heads: list[int], sizes: list[int], repeats: int, accuracy: float) -> list[Grid]:
    """The trials of one form: heads, simulated dimensions and repeats, and the accuracy of the heads' forecast."""

    def spot(heads: int, length: int, strength: float) -> dict[str, Any]:  # k as in the study `scaling`
        k = round(float(sharp(length)), 6)
        return {"heads": heads, "length": length, "strength": strength, "sharpness": k}

    training = {"sparsity": 1, "prevalence": 0.5, "loss": "logistic", "alpha0": 4.0, "alpha1": 4.0, "ridge": 0.1}
    places = [(h, n) for h in heads for n in (SHORT, LONG)]
    both = [spot(*at, s) for at in places for s in PAIRS[at]]
    upper = [spot(*at, PAIRS[at][1]) for at in places]
    return [
        Grid("staged", "heads_forecast", {**training, "accuracy": accuracy}, points=both),
        Grid("simulated", "heads", training, {"d": sizes}, points=upper, repeats=repeats, first_seed=1000),
        KNOWN,  # shared with the study `scaling`: computed once
    ]


def needed(tables: Tables) -> dict[tuple[int, int], ValueWithError]:
    """Strength for 10 % error by heads and length, in staged training: a line through the probits at two strengths."""
    found = {}
    for place, part in need(tables, "staged", ["test_error"]).groupby(["heads", "length"]):
        error = part["test_error"]
        if len(part) < 2 or not error.between(0, 1, inclusive="neither").all():
            raise NotJudgeable(f"heads, length = {place}: one strength, or an error that is not between 0 and 1")
        probit = ndtri(error)
        errors = part["standard_error"] * np.sqrt(2 * np.pi) * np.exp(0.5 * probit**2)
        found[place] = crossing(dict(zip(part["strength"], map(ValueWithError, probit - ndtri(TARGET), errors))))
    return found


@exact("heads-exact", OPEN, ["heads", "length", "strength"], 0.04)
def heads_exact(tables: Tables) -> Any:
    """The theory of several heads gives their test error.

    Both lengths, near 10 % error.
    """
    return pair(tables, predicted="staged")


@claim("heads-price", OPEN)
def price(tables: Tables) -> Judgement:
    """Several heads need more strength than one on as many samples, and on long bags more so.

    Theory: strength for 10 % error over that of one head above 1 at L = 8 and 32, and larger at 32, beyond the margin.
    """
    rows = needed(tables)
    most, ratio = max(heads for heads, _ in rows), {}
    for n in (SHORT, LONG):
        many, one = rows[most, n], rows[1, n]
        value = many.value / one.value
        error = value * float(np.hypot(many.error / many.value, one.error / one.value))
        ratio[n] = ValueWithError(value, error, THEORY_DEGREES)
    pairs: list[Any] = [*((ratio[n], 1.0) for n in ratio), (ratio[LONG], ratio[SHORT])]
    return ordered(pairs, "above 1, and rising with L", f"{listed(ratio, 'L')}, {most} heads over one")


@claim("one-head-enough", OPEN)
def no_room(tables: Tables) -> Judgement:
    """One head leaves no room for a better law: with a known query it needs hardly more strength than the Bayes rule.

    Known signal, k = 0.75 √(2 log L): at most 10 % more strength for 10 % error at any L from 2^4 to 2^30.
    """
    most = float(known_ratio(tables, "growing", "bayes").max())
    return decided(most < 1.1, "at most 1.1 times", f"at most {most:.3f} times")


def heads_in_words(heads: float) -> str:
    return f"{heads:g} head{'s' if heads > 1 else ''}"


def draw_heads(tables: Tables) -> list[Panel]:
    rows, runs = needed(tables), limits_of(tables["simulated"], ["heads", "length"], "test_error")
    predicted = tables["staged"].set_index(["heads", "length", "strength"])["test_error"]
    best = known(tables, "bayes").query("length <= 256")
    strengths: list[Layer] = [
        Line(best["length"], best["strength_needed"], "Bayes rule, signal known", colour("bayes"), "dot")
    ]
    errors: list[Layer] = []
    lengths = [SHORT, LONG]
    shades = {1: colour("attention"), 2: OTHER_COLOURS[0], 4: OTHER_COLOURS[1], 8: OTHER_COLOURS[4]}
    for heads in sorted({h for h, _ in rows}):
        name, shade = heads_in_words(heads), shades[heads]
        strengths.append(Line(lengths, [rows[heads, n].value for n in lengths], f"{name}, trained: theory", shade))
        line = [predicted[heads, n, PAIRS[heads, n][1]] for n in lengths]
        errors.append(Line(lengths, line, f"{name}: theory", shade))
        errors.append(estimates({n: runs[heads, n] for n in lengths}, f"{name}: simulated, d → ∞", shade, "diamond"))
    return [
        Panel("Strength needed by several heads", AXES["length"], NEEDED, strengths, logx=True),
        Panel("Heads: errors near 10 %", AXES["length"], AXES["test_error"], errors, logx=True),
    ]


def heads_findings(tables: Tables) -> str:
    rows, ratio = needed(tables), float(known_ratio(tables, "growing", "bayes").max())
    words = ", ".join(
        f"{heads_in_words(h)} {rows[h, SHORT].value:.2f} and {rows[h, LONG].value:.2f}"
        for h in sorted({h for h, _ in rows})
    )
    return (
        f"One softmax head that looks along the signal needs at most {ratio:.2f} times the strength of the best possible rule "
        f"at any length, so only the training is left to improve. There, more heads cost: for 10 % error at L = {SHORT} and "
        f"{LONG} staged training needs θ = {words}, because every head has to find the signal with its share of the samples."
    )


heads = study(
    "heads",
    {"quick": heads_grids([1, 4], [80, 160], 24, 2e-3), "full": heads_grids([1, 2, 4, 8], [200, 400], 16, 4e-4)},
    draw_heads,
    heads_findings,
    (heads_exact, price, no_room),
)


# The study `depth`: one attention layer and two with a value path between them, run to the end of joint training.

# With the decay that `theory.design_end` finds for short bags, from directions aligned with the signal: the best case for a
# second layer, which stays at zero from a start at zero. Both have as many samples.
LAYERS: dict[str, dict[str, float]] = {
    "attention:2": {"q": 0.1, "w": 3.0},
    "two_layer:0.5": {"k": 0.23, "v": 0.82, "q": 0.09, "w": 1.5},
}
WORDS = dict(zip(LAYERS, ("one layer", "two layers")))
SHADES = dict(zip(LAYERS, (colour("attention"), OTHER_COLOURS[5])))
SHORTEST = 5  # where theory is solved as well: its time grows like (L r)^3
NEAR_TARGET = {SHORTEST: 3.5, 16: 3.9, 50: 4.3, 160: 4.7, 500: 5.0}  # strengths with about 10 % error
# Larger factors of the decays lose the signal on long bags; time grows like L^2, so the full form has fewer repeats there.
LONG_BAGS = {160: ([0.5, 0.7], 8), 500: ([0.5, 0.7], 8)}
COMPOUNDING = 0.85  # of one layer's error, about what 3 % more strength brings: less is an advantage of depth


def layer_spots(lengths: Sequence[int], factors: Sequence[float]) -> list[dict[str, Any]]:
    """Both models at every length, with their decay times each of the factors; one layer needs twice as much on short bags."""
    spots = []
    for length in lengths:
        for model, decay in LAYERS.items():
            usual = 2.0 if (model, length) == ("attention:2", SHORTEST) else 1.0
            start = dict.fromkeys(decay, 0.5) | {f"cosine[{name}]": 0.9 for name in decay}
            common = {"model": model, "length": length, "strength": NEAR_TARGET[length], "start": start}
            for f in factors:
                spots.append({**common, "decay": {name: round(usual * f * value, 4) for name, value in decay.items()}})
    return spots


def layer_grids(tried: Mapping[int, tuple[Sequence[float], int]], limit: dict[str, int]) -> list[Grid]:
    """Ends by length, each with the factors of its decays and its repeats; both lengths of theory's averages."""
    task: dict[str, Any] = {"sparsity": 1, "prevalence": 0.5, "alpha": 2.0}
    first: dict[str, Any] = {"first_seed": 7000}  # decays and strengths were chosen on others
    exact_at = layer_spots([SHORTEST], [1.0])
    informed = [{**spot, "start": "informed"} for spot in exact_at]
    return [
        *(
            Grid("ends", "end_directions", task, {"d": [60]}, layer_spots([n], factors), repeats=repeats, **first)
            for n, (factors, repeats) in tried.items()
        ),
        Grid("shortest", "simulate_end", task, {"d": [60, 120]}, exact_at, repeats=12, **first),
        Grid("shortest_predicted", "joint_end", {**task, **limit}, points=informed),
    ]


def best_ends(tables: Tables) -> dict[tuple[str, int], ValueWithError]:
    """Error with the best bias by model and length, at the best of the decays."""
    table = need(tables, "ends", ["best_bias_error"])
    means = means_of(table.assign(scale=table["decay"].map(str)), ["model", "length", "scale"], "best_bias_error")
    worst_first = sorted(means.items(), key=lambda item: -item[1].value)
    return {(model, int(length)): mean for (model, length, _), mean in worst_first}


def by_length(found: dict[tuple[str, int], ValueWithError], model: str) -> dict[int, ValueWithError]:
    return {n: value for (m, n), value in sorted(found.items()) if m == model}


@exact("depth-exact", OPEN, ["model"], value="refitted_error", error="refitted_error_se")
def depth_exact(tables: Tables) -> Any:
    """The theory gives the test error at the end of joint training of two layers, bias refitted.

    One and two layers, L = 5, from directions aligned with the signal.
    """
    return pair(tables, "refitted_error", "shortest", "shortest_predicted")


@claim("depth-does-not-compound", OPEN)
def no_compounding(tables: Tables) -> Judgement:
    """A second layer with a value path of its own has no advantage that grows with the length of the bags.

    α = 2, both run to their end at d = 60 from directions aligned with the signal, best bias for the directions they end with,
    best of the decays tried (quick form: one), strengths near 10 % error: at L = 5 and 16 (full form: and 50, 160, 500) two
    layers' error is above 0.85 times one layer's, beyond the margin.
    """
    found = best_ends(tables)
    one, two = (by_length(found, model) for model in LAYERS)
    pairs = [(two[n], one[n].scaled(COMPOUNDING)) for n in one]
    return ordered(pairs, f"above {COMPOUNDING:g} times {listed(one, 'L')}", listed(two, "L"))


def draw_depth(tables: Tables) -> list[Panel]:
    found = best_ends(tables)
    layers: list[Layer] = [
        estimates(by_length(found, model), f"{WORDS[model]}: simulated, d = 60", SHADES[model]) for model in LAYERS
    ]
    for model, part in tables["shortest_predicted"].groupby("model"):
        words = f"{WORDS[str(model)]}, theory"
        layers.append(Points(part["length"], part["best_bias_error"], None, words, SHADES[str(model)], "x"))
    title = "Ends of joint training near 10 % error, strengths rising with L"
    return [Panel(title, AXES["length"], AXES["test_error"], layers, logx=True), *self_attention.panels(tables)]


def depth_findings(tables: Tables) -> str:
    judged = no_compounding(tables)
    return (
        "One attention layer along the known signal is within 10 % of the Bayes rule's strength at every length (study "
        "`heads`), so a second layer could only learn better directions. It does not: trained to the end, each with its own "
        f"decay, two layers have errors {judged.measured}; criterion: {judged.predicted}, one layer's. "
        f"{self_attention.finding(tables)}"
    )


depth = study(
    "depth",
    {
        "quick": [
            *layer_grids(dict.fromkeys([5, 16], ([1.0], 12)), {"bags": 256, "replicates": 4}),
            *self_attention.saddle_grids(5, 3.5, {50: 80, 600: 40}),
            *self_attention.leaving_grids([5, 10], 80, 9, theory=[]),
            *self_attention.spectral_grids([10], 100, 9),
        ],
        "full": [
            *layer_grids(LONG_BAGS | dict.fromkeys([5, 16, 50], ([0.7, 1.0, 1.4], 12)), {"bags": 512, "replicates": 8}),
            *self_attention.saddle_grids(10, 5.0, {100: 60, 400: 60, 1600: 30}),
            *self_attention.leaving_grids([5, 10, 20], 200, 12, theory=[5, 10, 20]),
            *self_attention.spectral_grids([10, 20], 200, 12),
        ],
    },
    draw_depth,
    depth_findings,
    (depth_exact, no_compounding, self_attention.stays, self_attention.own_law, self_attention.spectral),
)
