"""The page's figures, as plain Plotly dictionaries, in three stages.

quick    few points on few draws, about 1 % off
models   the library's own forecasts
exact    with the Bayes limit, which can take longer than all the rest
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..plotting.style import NOISE_TOKEN, OTHER_COLOURS, REFERENCE, SIGNAL_TOKEN, colour, label, marker
from ..simulation.steps import two_steps
from ..theory import alignment
from ..training import Training
from .points import REPLICATES, Alive, Curve, Point, always, bags_for, descent_curve, point, tested_at, threshold
from .state import BAG_MODELS, COLOURS, LEAST, LONGEST, NUMBERS, State, descent_fields, tidy

MODELS = ("attention", "pooled", "vectorized")
STAGES = ("quick", "models", "exact")
BAG_DIMENSION = 400
SHOWN_COORDINATES = 24
STAGED = "attention, staged"
FARTHEST = 100  # test bags are at most that many times longer than those of the training
_GRID = "rgba(128,128,128,0.25)"


def _axis(title: str, **more: Any) -> dict[str, Any]:
    if more.get("type") == "log":
        more |= {"dtick": "D2", "exponentformat": "power"}
    return {"title": {"text": title}, "gridcolor": _GRID, "zerolinecolor": _GRID, "automargin": True, **more}


def _layout(title: str, x: dict[str, Any], y: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "title": {"text": title, "font": {"size": 14}, "x": 0.02, "xanchor": "left"},
        "xaxis": x,
        "yaxis": y,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "margin": {"l": 60, "r": 20, "t": 60, "b": 50},
        "legend": {"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom"},
        **more,
    }


def describe(state: State) -> str:
    """The parameters in a line, so that a figure always says what it shows."""
    t, tr = state.task, state.training
    return (
        f"L = {t.length}, R = {t.sparsity}, θ = {t.strength:g}, π = {t.prevalence:g}; α₀ = {tr.alpha0:g}, "
        f"α₁ = {tr.alpha1:g}, λ = {tr.ridge:g}, η_q = {tr.eta_q:g}, {tr.loss}"
    )


def _small(text: str) -> str:
    return f'<span style="font-size:11px">{text}</span>'


def figure_of(state: State, stage: str, alive: Alive = always) -> dict[str, Any]:
    """The figure of the state's view.

    Parameters
    ----------
    state : State
        What the page shows.
    stage : str
        One of `STAGES`.
    alive : callable
        Called between points; may raise to stop the work.

    Returns
    -------
    dict
        Plotly's `data` and `layout`, `failures` (why some points have no answer) and, in some views, a `remark`.
    """
    makers = {
        "curves": curves,
        "alignment": alignment_view,
        "capacity": capacity_view,
        "phase": phase,
        "bag": bag,
        "training": training_view,
        "lengths": lengths_view,
    }
    return makers[state.view](state, stage, alive)


def at_total(training: Training, total: float) -> Training:
    """The training with alpha0 + alpha1 = total and the same share of D0."""
    factor = total / (training.alpha0 + training.alpha1)
    return training.but(alpha0=training.alpha0 * factor, alpha1=training.alpha1 * factor)


def curve_totals(state: State, count: int) -> list[float]:
    """alpha0 + alpha1 along the curves, the state's own value in the middle (exactly)."""
    total = state.training.alpha0 + state.training.alpha1
    steps = np.linspace(-3.0, 3.0, count)
    return [total if step == 0 else float(f"{total * 2.0**step:.6g}") for step in steps]


def curves(state: State, stage: str, alive: Alive) -> dict[str, Any]:
    """Test error against the total number of samples, the share of D0 kept."""
    quick = stage == "quick"
    totals = curve_totals(state, 5 if quick else 9)
    total = state.training.alpha0 + state.training.alpha1
    traces, failures = [], []
    for model in models_at(stage):
        near: Point | None = None
        found = []
        shown = totals if model != "bayes" else curve_totals(state, 7)
        for x in shown:
            alive()
            training = state.training if x == total else at_total(state.training, x)
            near = point(
                state.task,
                training,
                model,
                equal_samples=state.equal_samples,
                quick=quick and model != "bayes",
                near=near,
            )
            found.append(near)
        failures += [f.failure for f in found if f.failure][:1]
        traces.append({
            "type": "scatter", "mode": "lines+markers", "name": label(model), "x": shown,
            "y": [_finite(f.test_error) for f in found], "line": {"color": colour(model)},
            "marker": {"color": colour(model), "symbol": marker(model), "size": 5},
            "error_y": {"type": "data", "array": [_finite(f.standard_error) for f in found], "width": 0, "thickness": 1},
            "meta": model,
        })  # fmt: skip
        if model == "bayes" and any(f.hard for f in found):
            traces.append({
                "type": "scatter", "mode": "lines", "name": label("reachable"), "x": shown,
                "y": [_finite(f.reachable) for f in found], "line": {"color": colour("reachable"), "dash": "dash"},
                "meta": "reachable",
            })  # fmt: skip
    layout = _layout(
        f"Test error against samples<br>{_small(describe(state))}",
        _axis("samples α₀ + α₁ = n/d", type="log"),
        _axis("test error", rangemode="tozero"),
        shapes=[{"type": "line", "x0": total, "x1": total, "y0": 0, "y1": 1, "yref": "paper",
                 "line": {"color": REFERENCE, "dash": "dot", "width": 1}}],
    )  # fmt: skip
    return {"data": traces, "layout": layout, "failures": failures}


def alignment_view(state: State, stage: str, alive: Alive) -> dict[str, Any]:
    """The query's cosine with the signal against alpha0, its first-order approach to one, and the sharpness."""
    here = state.training.alpha0
    alphas = sorted({*np.geomspace(here / 30, here * 30, 61).tolist(), here})
    found = [alignment(state.task, state.training.but(alpha0=a)) for a in alphas]
    rate = found[0].rate
    sign = -1.0 if found[-1].cosine["q"] < 0 else 1.0
    line = lambda name, y, **more: {"type": "scatter", "mode": "lines", "name": name, "x": alphas, "y": y, **more}  # noqa: E731
    cosines = lambda name: [c if np.isfinite(c := f.cosine[name]) else None for f in found]  # noqa: E731
    traces = [line("cos(q₂, ξ)", cosines("q"), line={"color": colour("attention"), "width": 3}, meta="cosine_q")]
    traces.append(line("cos(w₁, ξ)", cosines("w"), line={"color": OTHER_COLOURS[0]}, meta="cosine_w"))
    if np.isfinite(rate):
        first = [sign * (1 - rate / a) if rate / a < 1 else None for a in alphas]
        traces.append(line("±(1 − K/α₀)", first, line={"color": REFERENCE, "dash": "dash"}, meta="rate"))
    sharpness = [f.sharpness for f in found]
    traces.append(
        line("sharpness k = β‖q₂‖", sharpness, line={"color": OTHER_COLOURS[2], "dash": "dot"}, yaxis="y2", meta="k")
    )
    note = ": anti-aligned here" if found[alphas.index(here)].cosine["q"] < 0 else ""
    layout = _layout(
        f"Alignment after the two steps{note}<br>{_small(describe(state))}",
        _axis("samples of the steps α₀ = n₀/d", type="log"),
        _axis("cosine with the signal", range=[-1.05, 1.05]),
        yaxis2=_axis("sharpness k", overlaying="y", side="right", rangemode="tozero", showgrid=False, tickmode="auto"),
        shapes=[{"type": "line", "x0": here, "x1": here, "y0": 0, "y1": 1, "yref": "paper",
                 "line": {"color": REFERENCE, "dash": "dot", "width": 1}}],
    )  # fmt: skip
    return {"data": traces, "layout": layout, "failures": []}


def capacity_view(state: State, stage: str, alive: Alive) -> dict[str, Any]:
    """The separability threshold alpha* against the strength, and the readout's alpha1."""
    here, quick = state.task.mean_strength, stage == "quick"
    strengths = np.linspace(0.0, max(2 * here, 4.0), 5 if quick else 9).tolist()
    strengths = sorted({*strengths, here})
    traces, failures = [], []
    for model in MODELS:
        values: list[float | None] = []
        errors: list[float | None] = []
        for strength in strengths:
            alive()
            try:
                found = threshold(state.task.but(strength=strength), state.training, model, quick)
                values.append(found.alpha)
                errors.append(found.standard_error)
            except (ValueError, ArithmeticError, MemoryError) as error:
                failures.append(str(error) or "it takes more memory than there is")
                values.append(None)
                errors.append(None)
        traces.append({
            "type": "scatter", "mode": "lines+markers", "name": label(model), "x": strengths, "y": values,
            "line": {"color": colour(model)}, "marker": {"symbol": marker(model), "size": 5}, "meta": model,
            "error_y": {"type": "data", "array": errors, "width": 0, "thickness": 1},
        })  # fmt: skip
    alpha1 = state.training.alpha1
    traces.append({
        "type": "scatter", "mode": "lines", "name": "α₁", "x": [strengths[0], strengths[-1]], "y": [alpha1, alpha1],
        "line": {"color": REFERENCE, "dash": "dash"}, "meta": "alpha1",
    })  # fmt: skip
    layout = _layout(
        f"Capacity: D₁ is separable below the line, not above<br>{_small(describe(state))}",
        _axis("strength θ"),
        _axis("capacity α* = n₁/d", type="log"),
    )
    return {"data": traces, "layout": layout, "failures": failures[:1]}


def lengths_view(state: State, stage: str, alive: Alive) -> dict[str, Any]:
    """Attention trained at this length and tested on longer bags: error, AUC and sensitivity against their length."""
    quick, here = stage == "quick", state.task.longest
    furthest = min(FARTHEST * here, LONGEST)
    spaced = np.geomspace(here, furthest, 4 if quick else 7) if furthest > here else [here]
    lengths = sorted({round(float(length)) for length in spaced})
    rows: list[dict[str, float] | None] = []
    failures: list[str] = []
    for length in lengths:
        alive()
        try:
            rows.append(tested_at(state.task, state.training, length, quick))
        except (ValueError, ArithmeticError, MemoryError) as error:
            failures.append(str(error) or "it takes more memory than there is")
            rows.append(None)
    shown = (
        ("test_error", "test error", colour("attention"), "solid"),
        ("threshold_error", "test error, threshold fitted", colour("attention"), "dash"),
        ("auc", "AUC", OTHER_COLOURS[0], "solid"),
        ("sensitivity", "sensitivity", OTHER_COLOURS[1], "solid"),
    )
    traces = [
        {"type": "scatter", "mode": "lines+markers", "name": words, "x": lengths,
         "y": [None if row is None else _finite(row[name]) for row in rows],
         "line": {"color": ink, "dash": dash}, "marker": {"size": 5}, "meta": name}
        for name, words, ink, dash in shown
    ]  # fmt: skip
    layout = _layout(
        f"Attention trained at L = {here}, tested on longer bags<br>{_small(describe(state))}",
        _axis("tokens per bag at test time", type="log"),
        _axis("share", range=[0.0, 1.02]),
    )
    return {"data": traces, "layout": layout, "failures": failures[:1]}


def axis_values(name: str, here: float, count: int) -> list[float]:
    """Values of a phase diagram's axis: around the state's value on logarithmic axes, the slider's range otherwise."""
    field = NUMBERS[name]
    if not field.logarithmic:
        values = np.linspace(max(field.low, 0.0), field.high, count)
    elif here <= 0.0:  # zero has no place on a logarithmic axis
        values = np.geomspace(field.low, field.high, count)
    elif name == "length":
        values = np.geomspace(max(2.0, here / 8), min(here * 8, LONGEST), count)
    else:
        values = np.geomspace(here / 30, here * 30, count)
    if field.whole:
        return [float(v) for v in dict.fromkeys(round(v) for v in values)]
    return [float(f"{v:.4g}") for v in values]


def phase(state: State, stage: str, alive: Alive) -> dict[str, Any]:
    """Attention's test error, or attention minus pooling, over two parameters."""
    quick = stage == "quick"
    count = 5 if quick else 9
    values = {axis: axis_values(axis, float(_value(state, axis)), count) for axis in (state.x, state.y)}
    models = ("attention",) if state.colour == "error" else ("attention", "pooled")
    z: list[list[float | None]] = []
    failures = []
    for y in values[state.y]:
        row: list[float | None] = []
        near: dict[str, Point | None] = dict.fromkeys(models)
        for x in values[state.x]:
            alive()
            try:
                task, training = _with(state, {state.x: x, state.y: y})
            except ValueError:  # a combination that does not exist, such as R > L: a gap in the picture
                row.append(None)
                continue
            for model in models:
                near[model] = point(
                    task, training, model, equal_samples=state.equal_samples, quick=quick, near=near[model]
                )
            points = [near[model] for model in models]
            failures += [p.failure for p in points if p is not None and p.failure][:1]
            errors = [p.test_error for p in points if p is not None]
            row.append(_finite(errors[0] if len(errors) == 1 else errors[0] - errors[1]))
        z.append(row)
    scale = {"colorscale": "Viridis"} if state.colour == "error" else {"colorscale": "RdBu", "zmid": 0.0}
    trace = {
        "type": "heatmap", "x": values[state.x], "y": values[state.y], "z": z, "zsmooth": False, **scale,
        "colorbar": {"title": {"text": COLOURS[state.colour], "side": "right"}}, "meta": "phase",
        "hovertemplate": f"{state.x} %{{x}}<br>{state.y} %{{y}}<br>%{{z:.4f}}<extra></extra>",
    }  # fmt: skip
    here = {
        "type": "scatter", "mode": "markers", "x": [_value(state, state.x)], "y": [_value(state, state.y)],
        "marker": {"symbol": "x", "size": 12, "color": "white", "line": {"color": "black", "width": 1}},
        "name": "here", "showlegend": False, "meta": "here",
    }  # fmt: skip
    layout = _layout(
        f"{COLOURS[state.colour].capitalize()}<br>{_small(describe(state))}",
        _axis(_title(state.x), type=_scale(state.x)),
        _axis(_title(state.y), type=_scale(state.y)),
    )
    off = [name for name in (state.x, state.y) if _scale(name) == "log" and _value(state, name) <= 0.0]
    remark = (
        f"{' and '.join(off)} = 0 has no place on a logarithmic axis, which shows the slider's range" if off else ""
    )
    return {"data": [trace, here], "layout": layout, "failures": failures[:1], "remark": remark}


def _title(name: str) -> str:
    return f"{NUMBERS[name].label.lower()} {NUMBERS[name].symbol}"


def _scale(name: str) -> str:
    return "log" if NUMBERS[name].logarithmic else "linear"


def _value(state: State, name: str) -> float:
    return tidy(float(getattr(state.task if NUMBERS[name].group == "task" else state.training, name)))


def _with(state: State, changes: dict[str, float]):
    task = {k: v for k, v in changes.items() if NUMBERS[k].group == "task"}
    training = {k: v for k, v in changes.items() if NUMBERS[k].group == "training"}
    return state.task.but(**task), state.training.but(**training)


def bag(state: State, stage: str, alive: Alive) -> dict[str, Any]:
    """One positive bag as a heat map, and each token's attention before and after the two steps.

    Coordinates are turned so that the first lies along the signal; the steps are taken on n0 = alpha0 d bags, d = 400.
    """
    task, training, d = state.task, state.training, BAG_DIMENSION
    length, sparsity, strength, _ = task.only_kind("the view of one bag")
    rng = np.random.default_rng([state.seed, 1])
    steps = two_steps(task, training, d, state.seed)
    tokens = rng.standard_normal((length, d))
    places = np.sort(rng.choice(length, sparsity, replace=False))
    tokens[places, 0] += strength
    scores = training.beta * tokens @ steps.query
    after = np.exp(scores - scores.max())
    after /= after.sum()
    before = np.full(length, 1.0 / length)
    index = list(range(1, length + 1))
    heat = {
        "type": "heatmap", "x": [f"{i}" for i in range(1, SHOWN_COORDINATES + 1)], "y": index,
        "z": np.round(tokens[:, :SHOWN_COORDINATES], 3).tolist(), "colorscale": "RdBu", "zmid": 0.0, "reversescale": True,
        "colorbar": {"title": {"text": "coordinate", "side": "right"}, "x": -0.18}, "meta": "tokens",
    }  # fmt: skip
    bars = [
        {"type": "scatter", "mode": "lines", "name": "weight before (1/L)", "x": before.tolist(), "y": index,
         "line": {"color": REFERENCE, "dash": "dash"}, "xaxis": "x2", "meta": "before"},
        {"type": "bar", "orientation": "h", "name": "weight after", "x": after.tolist(), "y": index, "xaxis": "x2",
         "marker": {"color": [SIGNAL_TOKEN if i in set(places.tolist()) else NOISE_TOKEN for i in range(length)]},
         "meta": "after"},
    ]  # fmt: skip
    share = float(after[places].sum())
    layout = _layout(
        f"A positive bag, signal tokens highlighted: their weight goes from {sparsity / length:.2f} to {share:.2f} "
        f"(cos(q₂, ξ) = {steps.cosine['q']:.2f} at d = {d})<br>"
        f"{_small(describe(state))}",
        _axis("coordinate (first: along the signal)", domain=[0.0, 0.6]),
        _axis("token", autorange="reversed"),
        xaxis2=_axis("attention weight", domain=[0.66, 1.0], rangemode="tozero"),
        margin={"l": 130, "r": 20, "t": 60, "b": 50},
    )
    return {"data": [heat, *bars], "layout": layout, "failures": []}


def _all_samples(state: State) -> float:
    """alpha = alpha0 + alpha1: what step-by-step training learns from, so that it compares with the staged forecast."""
    return state.training.alpha0 + state.training.alpha1


def _curve(state: State, stage: str, alive: Alive = always) -> Curve:
    quick, loss = stage == "quick", state.training.loss
    return descent_curve(state.task, state.descent, _all_samples(state), loss, quick=quick, alive=alive)


def _describe_descent(state: State) -> str:
    """The fields of step-by-step training in a line."""
    d = state.descent
    texts = {
        "rate_q": f"q {d.rate_q:g}, ",
        "rate_w": f"w {d.rate_w:g}, ",
        "rate_b": f"bias {d.rate_b:g}; ",
        "decay": f"decay {d.decay:g}, ",
        "sharpness": f"sharpness {d.sharpness:g}, ",
        "start": f"start {d.start:g}",
    }
    return "rates " + "".join(text for name, text in texts.items() if name in descent_fields(d.model))


def _over_steps(name: str, meta: str, values: np.ndarray, spread: np.ndarray, line: dict[str, Any]) -> list[dict]:
    """A line over the steps, and the band of two standard errors around it."""
    steps = list(range(len(values)))
    edges = np.maximum([*(values + 2 * spread), *(values - 2 * spread)[::-1]], LEAST)  # zero has no place on the axis
    band = {
        "type": "scatter", "mode": "lines", "x": [*steps, *steps[::-1]], "y": edges.tolist(), "fill": "toself",
        "line": {"width": 0, "color": line["color"]}, "opacity": 0.25, "hoverinfo": "skip", "showlegend": False,
        "meta": f"{meta}_band",
    }  # fmt: skip
    return [band, {
        "type": "scatter", "mode": "lines", "name": name, "x": steps, "y": [y or None for y in values.tolist()],
        "line": line, "meta": meta,
        "customdata": spread.tolist(), "hovertemplate": "step %{x}: %{y:.4f} ± %{customdata:.1g}",
    }]  # fmt: skip


def _error_axis(found: Curve, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """A logarithmic axis of errors up to one half.

    It ends at half the least test error of the rows, or lower where the training error goes on, by up to another factor of
    ten; never below 1e-6.
    """
    least = min((row["test_error"] for row in rows if row["test_error"]), default=0.1) / 2
    training = found.train_error[found.train_error > 0]
    low = max(min(least, max(float(training.min(initial=1.0)) / 2, least / 10)), 1e-6)
    ticks = [digit * 10.0**power for power in range(-6, 0) for digit in (1, 2, 5)]
    labels = {"tickmode": "array", "tickvals": ticks, "ticktext": [f"{tick:g}" for tick in ticks]}
    return _axis("error", type="log", range=[float(np.log10(low)), float(np.log10(0.7))], **labels)


def training_view(state: State, stage: str, alive: Alive) -> dict[str, Any]:
    """Test and training error over the steps of descent on all samples; the staged forecast and the Bayes limit beside them."""
    descent, traces, failures, remarks = state.descent, [], [], []
    found = _curve(state, stage, alive)
    ink = colour(descent.model, tuple(BAG_MODELS).index(descent.model))
    if found.failure:
        failures.append(found.failure)
    else:
        traces += _over_steps(
            "training error", "train", found.train_error, found.train_spread, {"color": ink, "dash": "dot"}
        )
        traces += _over_steps("test error", "test", found.test_error, found.test_spread, {"color": ink, "width": 3})
        best = found.best_step
        value = float(found.test_error[best])
        traces.append({
            "type": "scatter", "mode": "markers+text", "name": "best step", "x": [best], "y": [value], "meta": "best",
            "marker": {"color": ink, "symbol": "star", "size": 14}, "text": [f"step {best}: {value:.4f}"],
            "textposition": "top left" if best > descent.steps / 2 else "top right", "hoverinfo": "skip",
        })  # fmt: skip
    rows = numbers(state, stage)
    for model, name, line in (
        ("attention", STAGED, {"color": REFERENCE, "dash": "dash"}),
        ("bayes", label("bayes"), {"color": colour("bayes"), "width": 1}),
    ):
        row = next((row for row in rows if row["model"] == model), None)
        if row is None:
            continue
        failures += [row["failure"]] if row["failure"] else []
        alive()
        traces.append({
            "type": "scatter", "mode": "lines", "name": name, "x": [0, descent.steps], "y": [row["test_error"]] * 2,
            "line": line, "meta": "staged" if model == "attention" else model,
        })  # fmt: skip
    if descent.model.startswith("heads") and descent.start == 0:
        remarks.append("from a start at zero both heads stay equal")
    if not found.failure and (found.train_error == 0).any():
        remarks.append("training errors of zero have no place on the logarithmic axis")
    layout = _layout(
        f"Training step by step: {BAG_MODELS[descent.model]}<br>{_small(describe(state))}<br>"
        f"{_small(_describe_descent(state))}",
        _axis("step", range=[-0.02 * descent.steps, 1.02 * descent.steps]),
        _error_axis(found, rows),
        margin={"l": 60, "r": 20, "t": 80, "b": 50},
    )
    return {"data": traces, "layout": layout, "failures": failures[:1], "remark": "; ".join(remarks)}


def models_at(stage: str) -> tuple[str, ...]:
    """What a stage computes."""
    return (*MODELS, "bayes") if stage == "exact" else MODELS


def numbers(state: State, stage: str) -> list[dict[str, Any]]:
    """The forecasts at the state itself, a row per model."""
    rows: list[dict[str, Any]] = []
    if state.view == "training":
        rows += _rows_of_training(state, stage)
    for model in models_at(stage):
        if state.view == "training" and model in ("pooled", "vectorized"):
            continue  # staged attention is what step-by-step training is compared with
        found = point(state.task, state.training, model, equal_samples=state.equal_samples, quick=stage == "quick")
        rows.append({"model": model, "test_error": _finite(found.test_error), "standard_error": found.standard_error,
                     "failure": found.failure})  # fmt: skip
        if state.view == "training" and model == "attention":
            rows[-1]["label"] = STAGED
    return rows


def _rows_of_training(state: State, stage: str) -> list[dict[str, Any]]:
    """The test error of step-by-step training at its best step and at the end."""
    found, name = _curve(state, stage), BAG_MODELS[state.descent.model]
    if found.failure:
        return [{"model": "last", "label": name, "test_error": None, "standard_error": 0.0, "failure": found.failure}]
    places = (("best", found.best_step, "best step"), ("last", state.descent.steps, "at the end, step"))
    return [
        {"model": key, "label": f"{name}, {words} {step}", "test_error": float(found.test_error[step]),
         "standard_error": float(found.test_spread[step]), "failure": ""}
        for key, step, words in places
    ]  # fmt: skip


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def code_of(state: State) -> str:
    """Python that makes the numbers of the page."""
    t, tr = state.task, state.training
    task = ", ".join(f"{name}={getattr(t, name)!r}" for name in ("length", "sparsity", "strength", "prevalence"))
    fields = ("loss", "alpha0", "alpha1", "eta_w", "eta_b", "eta_q", "beta", "ridge")
    training = ", ".join(f"{name}={getattr(tr, name)!r}" for name in fields)
    lines = [
        "from sparsetoken import Task, Training, forecast, forecast_grid, theory",
        "",
        f"task = Task({task})",
        f"training = Training({training})",
    ]
    if state.view == "phase":
        grid = {a: axis_values(a, float(_value(state, a)), 9) for a in (state.x, state.y)}
        lines += [
            f"grid = {grid!r}",
            f"rows = forecast_grid(task, training, ['attention', 'pooled'], over=grid, equal_samples={state.equal_samples},",
            "                     accuracy=1e-3, with_capacity=False)",
        ]
    elif state.view == "training":
        lines[0] = "from sparsetoken import Stage, Task, Training, forecast, get_bag_model, theory"
        lines += _code_of_training(state)
    elif state.view == "lengths":
        lines += [
            f"for length in ({t.longest}, {10 * t.longest}, {100 * t.longest}):",
            "    found = forecast(task, training, 'attention', test_task={'length': length}, accuracy=5e-3)",
            "    print(length, found.test_error, found.auc, found.sensitivity)",
        ]
    elif state.view == "alignment":
        lines += ["print(theory.alignment(task, training))"]
    else:
        lines += [
            "for model in ('attention', 'pooled', 'vectorized', 'bayes'):",
            f"    found = forecast(task, training, model, equal_samples={state.equal_samples}, accuracy=1e-3)",
            "    print(model, found.test_error, found.standard_error, found.capacity)",
        ]
    return "\n".join(lines) + "\n"


def _code_of_training(state: State) -> list[str]:
    descent, bags = state.descent, bags_for(state.task, state.descent)
    stage = descent.stage(_all_samples(state))
    model = f"get_bag_model({descent.model!r})"
    if "sharpness" in descent_fields(descent.model):
        model += f".with_sharpness({descent.sharpness!r})"
    return [
        f"model = {model}",
        f"stage = Stage({stage.steps}, alpha={stage.alpha!r}, rates={dict(stage.rates)!r}, decay={dict(stage.decay)!r})",
        f"found = theory.trajectory(task, model, stage, {state.training.loss!r}, start={descent.start_norms!r},",
        f"                          accuracy=1.0, bags={bags or None}, replicates={REPLICATES})",
        "print(found)",
        "for model in ('attention', 'bayes'):  # staged, and the limit",
        f"    print(forecast(task, training, model, equal_samples={state.equal_samples}, accuracy=1e-3))",
    ]
