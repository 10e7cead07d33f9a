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
from .state import (
    AXES,
    BAG_MODELS,
    CHOICES,
    COLOURS,
    COMPARED,
    DEFAULTS,
    DESCENT,
    GOALS,
    NUMBERS,
    SLIDERS,
    VIEWS,
    Field,
)
from .words import CAPTIONS, PRESETS, STATUS, STORY, TIPS

MESSAGES = (*NUMBERS, "x", "y")
FIRST_ANSWER = Path(__file__).with_name("first_answer.json")  # `python docs/tools/pictures.py` renews it
# The page has its own buttons for pictures and tables, with dark ink on white whatever the page's colours.
_PLOT_CONFIG: Any = {**CONFIG, "modeBarButtonsToRemove": [*CONFIG["modeBarButtonsToRemove"], "toImage"]}


@cache
def first_answer() -> dict[str, Any]:
    """The stored answer to the page's defaults, so that a first page waits for no compilation."""
    return json.loads(FIRST_ANSWER.read_text())


def _attributes(**values: str) -> dict[str, Any]:
    """data- and aria- attributes as keywords (with _ for -)."""
    return {name.replace("_", "-"): value for name, value in values.items()}


def _message(name: str) -> html.Div:
    return html.Div(id=f"message-{name}", className="message", role="status", **_attributes(aria_live="polite"))


def _tip(name: str) -> html.Span:
    """A word on the field: shown while the pointer or the keyboard is on it; the script names it as its description."""
    return html.Span(TIPS[name], id=f"tip-{name}", className="tip", role="tooltip")


def _number(name: str) -> dcc.Input:
    return dcc.Input(
        id=f"in-{name}", type="number", step="any", value=DEFAULTS[name], className="number", debounce=False
    )


def _field(field: Field) -> html.Div:
    # A logarithm that ends between two steps of 0.01 moves freely, so that both its ends can be reached.
    step: float | str = 0.01 if field.logarithmic else field.step
    if field.whole and field.logarithmic:
        step = "any"
    words = f"{field.label} {field.symbol}"
    return html.Div(
        [
            html.Label([field.label, " ", html.Span(field.symbol, className="symbol")], htmlFor=f"in-{field.name}"),
            html.Label(f"{words}, slider", htmlFor=f"slide-{field.name}", className="unseen"),
            dcc.Input(
                id=f"slide-{field.name}",
                type="range",
                min=_scaled(field, field.low),
                max=_scaled(field, field.high),
                step=step,
                value=_scaled(field, field.default),
                className="slide",
            ),
            _number(field.name),
            _message(field.name),
            _tip(field.name),
        ],
        className="field",
    )


def _scaled(field: Field, value: float) -> float:
    """The slider's own coordinate of a value."""
    return round(math.log10(value), 4) if field.logarithmic else value


def _choice(name: str, label: str, options: dict[str, str], views: str = "") -> html.Div:
    return html.Div(
        [
            html.Label(label, htmlFor=f"in-{name}", id=f"label-{name}"),
            dcc.Dropdown(
                id=f"in-{name}",
                options=[{"label": text, "value": key} for key, text in options.items()],
                value=DEFAULTS[name],
                clearable=False,
                searchable=False,
                className="choice",
            ),
            *([_message(name)] if name in MESSAGES else []),
            _tip(name),
        ],
        className="field choice-field",
        **(_attributes(data_views=views) if views else {}),
    )


def _small_field(name: str, views: str = "", **more: str) -> html.Div:
    """A number without a slider; the style sheet hides those that the view or the model has no use for."""
    return html.Div(
        [html.Label(NUMBERS[name].label, htmlFor=f"in-{name}"), _number(name), _message(name), _tip(name)],
        className="field small-field",
        **(_attributes(data_views=views) if views else {}),
        **_attributes(**more),
    )


def _button(text: str, name: str, title: str = "", **more: Any) -> html.Button:
    return html.Button(text, id=name, className="button", type="button", title=title or None, **more)


def page() -> html.Div:
    """A fresh page with its own identity (several pages do not disturb each other)."""
    words = {
        "captions": CAPTIONS,
        "status": STATUS,
        "presets": PRESETS,
        "views": VIEWS,
        "defaults": DEFAULTS,
        "compared": list(COMPARED),
    }
    stores = ("raw", "answer", "asked", "exact", "simulated", "themed", "saved")
    return html.Div(
        [
            dcc.Location(id="url", refresh=False),
            dcc.Store(id="page", data=uuid.uuid4().hex),
            dcc.Store(id="words", data=words),
            *(dcc.Store(id=name) for name in stores),
            # Hidden fields: the view that the tabs choose, and the setting that the page compares with.
            dcc.Input(id="in-view", type="hidden", value=DEFAULTS["view"]),
            dcc.Input(id="in-compare", type="hidden", value=DEFAULTS["compare"]),
            dcc.Interval(id="poll", interval=300, disabled=True),
            _header(),
            html.Div(id="remarks", className="message", role="status"),
            html.Main([_controls(), _results()], id="main"),
        ],
        id="explorer",
    )


def _header() -> html.Header:
    presets = [_button(label, f"preset-{name}", title) for name, (label, title, _) in PRESETS.items()]
    theme = dcc.RadioItems(
        id="theme",
        options=[{"label": text, "value": text} for text in ("auto", "light", "dark")],
        value="auto",
        inline=True,
        persistence=True,
        className="theme",
    )
    return html.Header(
        [
            html.Div(
                [
                    html.H1("sparsetoken explorer"),
                    html.Div(theme, role="group", **_attributes(aria_label="Colours of the page")),
                ],
                className="headline",
            ),
            html.P(STORY, className="story"),
            html.Div(
                [
                    html.Span("Start from:", id="presets-label"),
                    *presets,
                    _button("Reset", "reset", "All parameters as at first; the view stays."),
                ],
                className="buttons presets",
                role="group",
                **_attributes(aria_labelledby="presets-label"),
            ),
        ]
    )


def _controls() -> html.Section:
    return html.Section(
        [
            html.H2("Task"),
            *(_field(field) for field in SLIDERS if field.group == "task"),
            html.H2("Training"),
            *(_field(field) for field in SLIDERS if field.group == "training"),
            _choice("loss", "Loss", {name: name.replace("_", " ") for name in CHOICES["loss"]}),
            _choice(
                "equal",
                "Pooled and vectorized learn from",
                {"yes": "all samples, α₀ + α₁", "no": "the readout's samples, α₁"},
            ),
        ],
        className="controls",
        **_attributes(aria_label="Parameters"),
    )


def _tabs() -> html.Div:
    tabs = [
        html.Button(
            text,
            id=f"tab-{name}",
            className="view-tab",
            type="button",
            role="tab",
            tabIndex="0" if name == DEFAULTS["view"] else "-1",
            **_attributes(aria_selected=str(name == DEFAULTS["view"]).lower(), aria_controls="panel"),
        )
        for name, text in VIEWS.items()
    ]
    return html.Div(tabs, className="view-tabs", role="tablist", id="tabs", **_attributes(aria_label="Views"))


def _graph(name: str, figure: Any = None) -> dcc.Graph:
    empty = {"layout": {"paper_bgcolor": "rgba(0,0,0,0)", "xaxis": {"visible": False}, "yaxis": {"visible": False}}}
    return dcc.Graph(id=name, figure=figure or empty, config=_PLOT_CONFIG, responsive=True, className="graph")


def _results() -> html.Section:
    names = {name: f"{NUMBERS[name].label} {NUMBERS[name].symbol}" for name in AXES}
    options: list[Any] = [
        _choice("goal", "To reach", GOALS, "needed"),
        _choice("x", "Horizontal axis", names, "phase"),
        _choice("y", "Vertical axis", names, "phase"),
        _choice("colour", "Colour", COLOURS, "phase"),
        _choice("model", "Model", BAG_MODELS, "training"),
        *(_small_field(field.name, "training", data_field=field.name) for field in DESCENT),
    ]
    first = {name: first_answer()[name] for name in ("data", "layout")}
    figure = html.Figure(
        [html.H2(id="plot-title"), html.P(id="plot-setting", className="setting"), _graph("graph", first)],
        id="plot-area",
        **_attributes(aria_labelledby="plot-title", aria_describedby="caption", data_stale="yes"),
    )
    other = html.Figure(
        [html.P(id="other-setting", className="setting"), html.Div(_graph("graph-a"), id="other-plot", hidden=True)],
        id="other-area",
        hidden=True,
        **_attributes(aria_labelledby="other-setting"),
    )
    panel = [
        html.Div(options, className="options"),
        figure,
        other,
        html.P(CAPTIONS[DEFAULTS["view"]], id="caption", className="caption"),
        html.Div(id="status", className="status", role="status", **_attributes(aria_live="polite")),
        html.Div(_drawing(), className="simulation", **_attributes(data_views="curves bag")),
        html.Div(
            [
                _button("Save PNG", "save-png"),
                _button("Save SVG", "save-svg"),
                _button("Save CSV", "save-csv", "The numbers behind the figure."),
            ],
            className="buttons",
        ),
        html.Div(
            [
                html.Span("Compare:"),
                _button(
                    "Keep as A", "keep", "Remember these parameters; the figure then shows A beside the fields' own, B."
                ),
                _button("Swap A and B", "swap", disabled=True),
                _button("End comparison", "end", disabled=True),
            ],
            className="buttons compare",
            role="group",
            **_attributes(aria_label="Compare two settings"),
        ),
        html.H2("At these settings"),
        html.Div(id="numbers", className="wide"),
        html.Details(
            [
                html.Summary("Python code for these numbers"),
                dcc.Clipboard(target_id="code", title="Copy the code", className="copy"),
                html.Pre(id="code", tabIndex="0"),
            ]
        ),
    ]
    return html.Section(
        [
            _tabs(),
            html.Div(
                panel, id="panel", className="panel", role="tabpanel", **_attributes(aria_labelledby="tab-curves")
            ),
        ],
        className="results",
        **_attributes(aria_label="Results"),
    )


def _drawing() -> list[Any]:
    """What concerns random draws: the seed of one bag and of simulations, and the simulation itself."""
    simulation = [
        _small_field("trials"),
        _button("Simulate here", "simulate"),
        _button("Cancel", "cancel", disabled=True),
        html.Progress(id="bar", value="0", max="1", **_attributes(aria_label="Progress of the simulation")),
        html.Span(id="progress", role="status"),
    ]
    return [
        _small_field("seed"),
        _small_field("d"),
        html.Div(simulation, className="simulation", **_attributes(data_views="curves")),
    ]
