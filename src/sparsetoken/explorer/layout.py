"""The page: fields on the left, views on the right. Labels belong to their fields; everything works from the keyboard."""

from __future__ import annotations

import json
import math
import uuid
from functools import cache
from pathlib import Path
from typing import Any

from dash import dcc, html

from ..plotting.plotly_panels import CONFIG
from . import fields
from .fields import DEFAULTS, NUMBERS, VIEWS, WORDS, Field

MESSAGES = (*NUMBERS, "x", "y")
FIRST_ANSWER = Path(__file__).with_name("first_answer.json")  # `python docs/tools/pictures.py` renews it
# The page has its own buttons for pictures and tables, with dark ink on white whatever the page's colours.
_PLOT_CONFIG: Any = {**CONFIG, "modeBarButtonsToRemove": [*CONFIG["modeBarButtonsToRemove"], "toImage"]}


@cache
def first_answer() -> dict[str, Any]:
    """The stored answer to the page's defaults, so that a first page waits for no compilation."""
    return json.loads(FIRST_ANSWER.read_text(encoding="utf-8"))


def _part(kind: str, children: Any = None, style: str = "", **more: Any) -> Any:
    """An element of a CSS class; data- and aria- attributes have _ for -, and are left out where they are empty."""
    dashed = {name.replace("_", "-"): more.pop(name) for name in [*more] if name.startswith(("data_", "aria_"))}
    return getattr(html, kind)(children, className=style, **more, **{name: v for name, v in dashed.items() if v})


def _message(name: str) -> Any:
    return _part("Div", style="message", id=f"message-{name}", role="status", aria_live="polite")


def _tip(name: str) -> Any:
    """A remark on the field, shown while the pointer or the keyboard is on it; the script makes it the description."""
    return _part("Span", WORDS["tips"][name], "tip", id=f"tip-{name}", role="tooltip")


def _number(name: str) -> list[Any]:
    shown: dict[str, Any] = {"type": "number", "step": "any", "className": "number", "debounce": False}
    return [dcc.Input(id=f"in-{name}", value=DEFAULTS[name], **shown), _message(name), _tip(name)]


def _field(field: Field) -> Any:
    # A logarithm that ends between two steps of 0.01 moves freely, so that both its ends can be reached.
    step: float | str = "any" if field.whole and field.logarithmic else 0.01 if field.logarithmic else field.step
    low, high, value = (_scaled(field, v) for v in (field.low, field.high, field.default))
    slider: dict[str, Any] = {"type": "range", "min": low, "max": high, "step": step, "value": value}
    children = [
        html.Label([field.label, " ", _part("Span", field.symbol, "symbol")], htmlFor=f"in-{field.name}"),
        _part("Label", f"{field.label} {field.symbol}, slider", "unseen", htmlFor=f"slide-{field.name}"),
        dcc.Input(id=f"slide-{field.name}", className="slide", **slider),
        *_number(field.name),
    ]
    return _part("Div", children, "field")


def _scaled(field: Field, value: float) -> float:
    return round(math.log10(value), 4) if field.logarithmic else value


def _choice(name: str, label: str, options: dict[str, str], views: str = "") -> Any:
    listed: list[Any] = [{"label": text, "value": key} for key, text in options.items()]
    looks: dict[str, Any] = {"clearable": False, "searchable": False, "className": "choice"}
    children = [
        html.Label(label, htmlFor=f"in-{name}", id=f"label-{name}"),
        dcc.Dropdown(id=f"in-{name}", options=listed, value=DEFAULTS[name], **looks),
        *([_message(name)] if name in MESSAGES else []),
        _tip(name),
    ]
    return _part("Div", children, "field choice-field", data_views=views)


def _small_field(name: str, views: str = "") -> Any:
    """A number without a slider; the style sheet hides those that the view or the model does not use."""
    children = [html.Label(NUMBERS[name].label, htmlFor=f"in-{name}"), *_number(name)]
    return _part("Div", children, "field small-field", data_views=views, data_field=name)


def _button(text: str, name: str, title: str = "", **more: Any) -> Any:
    return _part("Button", text, "button", id=name, type="button", title=title or None, **more)


def page() -> html.Div:
    """A fresh page with its own identity (several pages do not disturb each other)."""
    words = {**WORDS, "defaults": DEFAULTS, "compared": list(fields.COMPARED)}
    stores = ("raw", "answer", "asked", "exact", "simulated", "themed", "saved")
    children = [
        dcc.Location(id="url", refresh=False),
        dcc.Store(id="page", data=uuid.uuid4().hex),
        dcc.Store(id="words", data=words),
        *(dcc.Store(id=name) for name in stores),
        # Hidden fields: the view that the tabs choose, and the setting that the page compares with.
        *(dcc.Input(id=f"in-{name}", type="hidden", value=DEFAULTS[name]) for name in ("view", "compare")),
        dcc.Interval(id="poll", interval=300, disabled=True),
        _header(),
        _part("Div", style="message", id="remarks", role="status"),
        html.Main([_controls(), _results()], id="main"),
    ]
    return html.Div(children, id="explorer")


def _header() -> html.Header:
    presets = [_button(p["label"], f"preset-{name}", p["shows"]) for name, p in WORDS["presets"].items()]
    reset = _button("Reset", "reset", "Reset all parameters; the view stays.")
    looks: dict[str, Any] = {"value": "auto", "inline": True, "persistence": True, "className": "theme"}
    theme = dcc.RadioItems(id="theme", options=["auto", "light", "dark"], **looks)
    chosen = _part("Div", theme, role="group", aria_label="Colours of the page")
    start = [html.Span("Start from:", id="presets-label"), *presets, reset]
    return html.Header(
        [
            _part("Div", [html.H1("sparsetoken explorer"), chosen], "headline"),
            _part("P", WORDS["story"], "story"),
            _part("Div", start, "buttons presets", role="group", aria_labelledby="presets-label"),
        ]
    )


def _controls() -> Any:
    samples = {"yes": "all samples, α₀ + α₁", "no": "the readout's samples, α₁"}
    children = [
        html.H2("Task"),
        *map(_field, fields.TASK),
        html.H2("Training"),
        *map(_field, fields.TRAINING),
        _choice("loss", "Loss", {name: name.replace("_", " ") for name in fields.CHOICES["loss"]}),
        _choice("equal", "Pooled and vectorized learn from", samples),
    ]
    return _part("Section", children, "controls", aria_label="Parameters")


def _tabs() -> Any:
    def tab(name: str, text: str) -> Any:
        chosen = name == DEFAULTS["view"]
        said = {"aria_selected": str(chosen).lower(), "aria_controls": "panel", "type": "button"}
        return _part("Button", text, "view-tab", id=f"tab-{name}", role="tab", tabIndex="0" if chosen else "-1", **said)

    return _part("Div", [tab(*view) for view in VIEWS.items()], "view-tabs", role="tablist", aria_label="Views")


def _graph(name: str, figure: Any = None) -> dcc.Graph:
    empty = {"layout": {"paper_bgcolor": "rgba(0,0,0,0)", "xaxis": {"visible": False}, "yaxis": {"visible": False}}}
    return dcc.Graph(id=name, figure=figure or empty, config=_PLOT_CONFIG, responsive=True, className="graph")


def _figures() -> list[Any]:
    """The figure, which begins with the stored one, and the place of the other setting's."""
    first = {name: first_answer()[name] for name in ("data", "layout")}
    this = [html.H2(id="plot-title"), _part("P", style="setting", id="plot-setting"), _graph("graph", first)]
    other = [_part("P", style="setting", id="other-setting"), html.Div(_graph("graph-a"), id="other-plot", hidden=True)]
    described = {"aria_labelledby": "plot-title", "aria_describedby": "caption", "data_stale": "yes"}
    return [
        _part("Figure", this, id="plot-area", **described),
        _part("Figure", other, id="other-area", hidden=True, aria_labelledby="other-setting"),
    ]


def _results() -> Any:
    names = {name: f"{NUMBERS[name].label} {NUMBERS[name].symbol}" for name in fields.AXES}
    options = [
        _choice("goal", "To reach", fields.GOALS, "needed"),
        _choice("x", "Horizontal axis", names, "phase"),
        _choice("y", "Vertical axis", names, "phase"),
        _choice("colour", "Colour", fields.COLOURS, "phase"),
        _choice("model", "Model", fields.BAG_MODELS, "training"),
        *(_small_field(field.name, "training") for field in fields.DESCENT),
    ]
    save = [_button(f"Save {kind.upper()}", f"save-{kind}") for kind in ("png", "svg", "csv")]
    keep = _button("Keep as A", "keep", "Remember these parameters; the figure then shows A beside the fields' own, B.")
    swap, end = _button("Swap A and B", "swap", disabled=True), _button("End comparison", "end", disabled=True)
    compared = [html.Span("Compare:"), keep, swap, end]
    code = [
        html.Summary("Python code for these numbers"),
        dcc.Clipboard(target_id="code", title="Copy the code", className="copy"),
        html.Pre(id="code", tabIndex="0"),
    ]
    panel = [
        _part("Div", options, "options"),
        *_figures(),
        _part("P", style="caption", id="caption"),
        _part("Div", style="status", id="status", role="status", aria_live="polite"),
        _part("Div", _drawing(), "simulation", data_views="curves bag"),
        _part("Div", save, "buttons"),
        _part("Div", compared, "buttons compare", role="group", aria_label="Two settings"),
        html.H2("At these settings"),
        _part("Div", style="wide", id="numbers"),
        html.Details(code),
    ]
    shown = _part("Div", panel, "panel", id="panel", role="tabpanel", aria_labelledby="tab-curves")
    return _part("Section", [_tabs(), shown], "results", aria_label="Results")


def _drawing() -> list[Any]:
    """What concerns random draws: the seed and the dimension of one bag and of simulations, and the simulation itself."""
    simulation = [
        _small_field("trials"),
        _button("Simulate here", "simulate"),
        _button("Cancel", "cancel", disabled=True),
        _part("Progress", id="bar", value="0", max="1", aria_label="Progress of the simulation"),
        html.Span(id="progress", role="status"),
    ]
    return [_small_field("seed"), _small_field("d"), _part("Div", simulation, "simulation", data_views="curves")]
