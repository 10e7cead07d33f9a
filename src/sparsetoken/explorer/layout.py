"""The page: fields on the left, views on the right. Labels belong to their fields; everything works from the keyboard."""

from __future__ import annotations

import math
import uuid
from typing import Any

from dash import dcc, html

from .state import AXES, BAG_MODELS, CHOICES, COLOURS, DEFAULTS, DESCENT, FIELDS, NUMBERS, VIEWS, Field

MESSAGES = (*NUMBERS, "d", "trials", "seed", "x", "y", *DESCENT)


def _attributes(name: str, value: str) -> dict[str, Any]:
    """A data- or aria- attribute as a keyword."""
    return {name: value}


def _message(name: str) -> html.Div:
    return html.Div(id=f"message-{name}", className="message", role="status", **_attributes("aria-live", "polite"))


def _number(name: str) -> dcc.Input:
    return dcc.Input(
        id=f"in-{name}", type="number", step="any", value=DEFAULTS[name], className="number", debounce=False
    )


def _field(field: Field) -> html.Div:
    step = 0.01 if field.logarithmic else field.step
    return html.Div(
        [
            html.Label([field.label, " ", html.Span(field.symbol, className="symbol")], htmlFor=f"in-{field.name}"),
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
        ],
        className="field",
    )


def _scaled(field: Field, value: float) -> float:
    """The slider's own coordinate of a value."""
    return round(math.log10(value), 4) if field.logarithmic else value


def _choice(name: str, label: str, options: dict[str, str], views: str = "") -> html.Div:
    return html.Div(
        [
            html.Label(label, htmlFor=f"in-{name}"),
            dcc.Dropdown(
                id=f"in-{name}",
                options=[{"label": text, "value": key} for key, text in options.items()],
                value=DEFAULTS[name],
                clearable=False,
                searchable=False,
                className="choice",
            ),
            *([_message(name)] if name in MESSAGES else []),
        ],
        className="field choice-field",
        **(_attributes("data-views", views) if views else {}),
    )


def _descent_field(name: str, text: str) -> html.Div:
    """A number of the view "training"; the style sheet hides it for models that have no use for it."""
    return html.Div(
        [html.Label(text, htmlFor=f"in-{name}"), _number(name), _message(name)],
        className="field small-field",
        **_attributes("data-views", "training"),
        **_attributes("data-field", name),
    )


def page() -> html.Div:
    """A fresh page with its own identity (several pages do not disturb each other)."""
    names = {name: f"{NUMBERS[name].label} {NUMBERS[name].symbol}" for name in AXES}
    options: list[Any] = [
        _choice("x", "Horizontal axis", names, "phase"),
        _choice("y", "Vertical axis", names, "phase"),
        _choice("colour", "Colour", COLOURS, "phase"),
        html.Div(
            [html.Label("Seed", htmlFor="in-seed"), _number("seed"), _message("seed")],
            className="field small-field",
            **_attributes("data-views", "bag curves"),
        ),
        _choice("model", "Model", BAG_MODELS, "training"),
        *(_descent_field(name, text) for name, (text, _, _) in DESCENT.items()),
    ]
    return html.Div(
        [
            dcc.Location(id="url", refresh=False),
            dcc.Store(id="page", data=uuid.uuid4().hex),
            dcc.Store(id="raw"),
            dcc.Store(id="answer"),
            dcc.Store(id="refined"),
            dcc.Store(id="completed"),
            dcc.Store(id="simulated"),
            dcc.Store(id="themed"),
            dcc.Store(id="saved"),
            dcc.Interval(id="poll", interval=300, disabled=True),
            html.Header(
                [
                    html.H1("sparsetoken explorer"),
                    dcc.RadioItems(
                        id="theme",
                        options=[{"label": text, "value": text} for text in ("auto", "light", "dark")],
                        value="auto",
                        inline=True,
                        persistence=True,
                        className="theme",
                    ),
                ]
            ),
            html.Div(id="remarks", className="message", role="status"),
            html.Main(
                [
                    html.Section(
                        [
                            html.H2("Task"),
                            *(_field(field) for field in FIELDS if field.group == "task"),
                            html.H2("Training"),
                            *(_field(field) for field in FIELDS if field.group == "training"),
                            _choice("loss", "Loss", {name: name.replace("_", " ") for name in CHOICES["loss"]}),
                            _choice(
                                "equal",
                                "Pooled and vectorized learn from",
                                {"yes": "all samples, α₀ + α₁", "no": "the readout's samples, α₁"},
                            ),
                        ],
                        className="controls",
                        **_attributes("aria-label", "Parameters"),
                    ),
                    html.Section(
                        [
                            dcc.RadioItems(
                                id="in-view",
                                options=[{"label": text, "value": key} for key, text in VIEWS.items()],
                                value=DEFAULTS["view"],
                                inline=True,
                                className="views",
                            ),
                            html.Div(options, className="options"),
                            html.Div(
                                dcc.Graph(
                                    id="graph",
                                    figure={"data": [], "layout": {"paper_bgcolor": "rgba(0,0,0,0)"}},
                                    config={"displaylogo": False, "responsive": True},
                                    responsive=True,
                                    style={"height": "480px"},
                                    className="graph",
                                ),
                                id="plot-area",
                            ),
                            html.Div(
                                id="status", className="status", role="status", **_attributes("aria-live", "polite")
                            ),
                            html.Div(_simulation(), className="simulation", **_attributes("data-views", "curves")),
                            html.Div(
                                [
                                    html.Button("Save PNG", id="save-png", className="button"),
                                    html.Button("Save SVG", id="save-svg", className="button"),
                                ],
                                className="buttons",
                            ),
                            html.H2("At these settings"),
                            html.Div(id="numbers"),
                            html.Details(
                                [
                                    html.Summary("Python code for these numbers"),
                                    dcc.Clipboard(target_id="code", title="Copy the code", className="copy"),
                                    html.Pre(id="code", tabIndex="0"),
                                ]
                            ),
                        ],
                        className="results",
                        **_attributes("aria-label", "Results"),
                    ),
                ],
                id="main",
            ),
        ],
        id="explorer",
    )


def _simulation() -> list[Any]:
    return [
        html.Div([html.Label("Simulate at d =", htmlFor="in-d"), _number("d"), _message("d")], className="small-field"),
        html.Div(
            [html.Label("Trials", htmlFor="in-trials"), _number("trials"), _message("trials")], className="small-field"
        ),
        html.Button("Simulate here", id="simulate", className="button"),
        html.Button("Cancel", id="cancel", className="button", disabled=True),
        html.Progress(id="bar", value="0", max="1", **_attributes("aria-label", "Progress of the simulation")),
        html.Span(id="progress", role="status"),
    ]
