"""The web application: callbacks between the page and the library."""

from __future__ import annotations

import socket
import sys
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dash import ClientsideFunction, Dash, Input, Output, State, ctx, no_update
from flask import abort, request
from werkzeug.exceptions import HTTPException

from .fields import DEFAULTS, SLIDERS, VIEWS, WORDS, check, from_query, other_of
from .fields import State as PageState
from .layout import MESSAGES, first_answer, page

if TYPE_CHECKING:
    from .simulation import Simulations

LOCAL_HOSTS = ("127.0.0.1", "localhost")
LARGEST_REQUEST = 100_000  # bytes: a page sends its fields and the words of two settings
FIELDS = [f"in-{name}" for name in DEFAULTS]


class Callbacks:
    """What the server answers, and what it keeps between requests."""

    def __init__(self) -> None:
        self._latest: dict[str, str] = {}  # each page's last request: work for older ones stops
        self._first, _ = check(DEFAULTS)

    def load(self, search: str | None) -> tuple:
        """The fields' values from the address, and remarks on it."""
        values, remarks = from_query(search or "")
        return (*values.values(), "; ".join(remarks))

    def quick(self, raw: dict[str, Any] | None, page_id: str) -> tuple:
        """The first answer to a page's fields, whose question has a second one, and the messages beside them."""
        if not raw:
            return (no_update,) * (2 + len(MESSAGES))
        self._latest[page_id] = raw["key"]
        state, messages = check(raw["values"])
        beside = [messages.get(name, "") for name in MESSAGES]
        if state is None:
            return ({"key": raw["key"], "stage": "invalid"}, no_update, *beside)
        answer = self._answer(state, raw, page_id, quick=True)
        follows = answer is not no_update and answer["stage"] == "quick"
        return (answer, raw["key"] if follows else no_update, *beside)

    def exact(self, asked: str | None, raw: dict[str, Any] | None, page_id: str) -> Any:
        """The second answer, if the page still shows the same request."""
        if not asked or not raw or asked != raw["key"]:
            return no_update
        state, _ = check(raw["values"])
        return no_update if state is None else self._answer(state, raw, page_id, quick=False)

    def _answer(self, state: PageState, raw: dict[str, Any], page_id: str, quick: bool) -> Any:
        other, why_none = other_of(raw["values"])
        if state == self._first and other is None:
            answer: dict[str, Any] | None = first_answer()
        else:
            from . import answers  # its theory takes a second to import, for which the first page does not wait
            from .forecasts import Superseded

            def check_page() -> None:
                if self._latest.get(page_id, raw["key"]) != raw["key"]:
                    raise Superseded

            answer = answers.answer(state, other, quick, check_page)
        return no_update if answer is None else {**answer, "key": raw["key"], "no_other": why_none}

    @cached_property
    def _simulations(self) -> Simulations:
        from .simulation import Simulations

        return Simulations()

    def simulation(self, _start: Any, _cancel: Any, _tick: Any, raw: dict[str, Any] | None, page_id: str) -> tuple:
        """The state of the page's simulation, after a click on "Simulate here" or "Cancel" and at every tick."""
        asked = set(ctx.triggered_prop_ids.values())  # a click and a tick may come as one request
        if "simulate" in asked and raw is not None:
            state, _ = check(raw["values"])
            if state is not None:
                self._simulations.start(page_id, state, raw["key"])
        elif "cancel" in asked:
            self._simulations.cancel(page_id)
        job = self._simulations.get(page_id)
        return (no_update, True) if job is None else (job.snapshot(), job.finished)


def create_app() -> Dash:
    """The Dash application; everything it serves is local."""
    app = Dash("sparsetoken.explorer", title="sparsetoken explorer", update_title="", serve_locally=True)
    app.layout = page
    app.index_string = app.index_string.replace("<html>", '<html lang="en">')
    app.server.config["MAX_CONTENT_LENGTH"] = LARGEST_REQUEST
    app.server.before_request(_local_only)
    app.server.register_error_handler(Exception, _unreadable)
    _add_server_callbacks(app, Callbacks())
    _add_field_callbacks(app)
    _add_figure_callbacks(app)
    return app


def _local_only() -> None:
    """Refuse other host names: a page elsewhere must not reach this server through a name that it resolves to 127.0.0.1."""
    host = request.headers.get("Host")
    if not host:
        abort(400, "the request names no host")
    if host.rsplit(":", 1)[0] not in LOCAL_HOSTS:
        abort(403)


def _unreadable(error: Exception) -> Any:
    """Requests that Dash cannot handle are bad requests; the explorer's own callbacks report their errors themselves."""
    if isinstance(error, HTTPException):
        return error
    reason = f"{type(error).__name__}: {error}".splitlines()[0]
    print(f"refused a request that is not the page's ({reason})", file=sys.stderr)
    return "this request is not one of the page's", 400


def _values(names: list[str], kind: type) -> list[Any]:
    return [kind(name, "value") for name in names]


def _outputs(*names: str) -> list[Output]:
    """Outputs by their names, "graph.figure" for one; several callbacks may have the same."""
    parts = [name.partition(".") for name in names]
    return [Output(element, attribute, allow_duplicate=True) for element, _, attribute in parts]


def _add_server_callbacks(app: Dash, answers: Callbacks) -> None:
    raw_and_page = State("raw", "data"), State("page", "data")
    messages = [Output(f"message-{name}", "children") for name in MESSAGES]
    answered = Output("answer", "data"), Output("asked", "data"), *messages
    clicks = Input("simulate", "n_clicks"), Input("cancel", "n_clicks"), Input("poll", "n_intervals")
    simulated = Output("simulated", "data"), Output("poll", "disabled")
    app.callback(*_values(FIELDS, Output), Output("remarks", "children"), Input("url", "search"))(answers.load)
    app.callback(*answered, Input("raw", "data"), State("page", "data"))(answers.quick)
    later = {"prevent_initial_call": True}
    app.callback(Output("exact", "data"), Input("asked", "data"), *raw_and_page, **later)(answers.exact)
    app.callback(*simulated, *clicks, *raw_and_page, **later)(answers.simulation)


def _client(app: Dash, function: str, *arguments: Any, initial: bool = False) -> None:
    at_first = "initial_duplicate" if initial else True
    app.clientside_callback(ClientsideFunction("explorer", function), *arguments, prevent_initial_call=at_first)


def _add_field_callbacks(app: Dash) -> None:
    """Fields, sliders, buttons and tabs, up to the question that goes to the server."""
    for field in SLIDERS:
        slide, number = f"slide-{field.name}", f"in-{field.name}"
        sync = "sync" + ("Log" if field.logarithmic else "Linear") + ("Whole" if field.whole else "")
        both = _outputs(f"{slide}.value", f"{number}.value")
        _client(app, sync, *both, Input(slide, "value"), Input(number, "value"))
    tabs = [f"tab-{name}" for name in VIEWS]
    buttons = ("reset", "keep", "swap", "end", *(f"preset-{name}" for name in WORDS["presets"]), *tabs)
    clicks = [*(Input(name, "n_clicks") for name in buttons), Input("graph", "clickData")]
    page_words = State("words", "data")
    _client(app, "act", *_outputs(*(f"{name}.value" for name in FIELDS)), *clicks, page_words, *_values(FIELDS, State))
    # At once: the tabs, the caption and the notice that an answer is being computed. After a moment: the request to the server.
    at_once = ("status.children", "caption.children", "remarks.children", "swap.disabled", "end.disabled")
    chosen = [f"{tab}.{attribute}" for tab in tabs for attribute in ("aria-selected", "tabIndex")]
    shown = _outputs(*at_once, *chosen, "panel.aria-labelledby")
    _client(app, "touched", *shown, *_values(FIELDS, Input), page_words, initial=True)
    _client(app, "collect", Output("raw", "data"), *_values(FIELDS, Input), initial=True)


def _add_figure_callbacks(app: Dash) -> None:
    """Figures, table, code and their captions; colours, simulations, downloads."""
    shown = (
        *("graph.figure", "graph-a.figure", "other-area.hidden", "other-plot.hidden", "other-setting.children"),
        *("plot-title.children", "plot-setting.children", "status.children", "caption.children", "numbers.children"),
        "code.children",
    )
    # One callback for each thing that can change. A single one with all of them as inputs would wait for the last: Dash holds
    # a callback back while any of its inputs is being computed, and the first answer sets off the second.
    for changed in ("answer", "exact", "simulated", "themed"):
        states = (State(name, "data") for name in ("answer", "exact", "simulated", "words"))
        _client(app, "show", *_outputs(*shown), Input(changed, "data"), *states)
    running = ("progress.children", "bar.value", "bar.max", "simulate.disabled", "cancel.disabled")
    for changed in ("simulated", "raw"):
        _client(app, "simulation", *_outputs(*running), Input(changed, "data"), State("simulated", "data"))
    _client(app, "theme", Output("themed", "data"), Input("theme", "value"), initial=True)
    saves = (Input(f"save-{kind}", "n_clicks") for kind in ("png", "svg", "csv"))
    _client(app, "save", Output("saved", "data"), *saves)


def make_server(port: int = 8050):
    """A threaded server on 127.0.0.1 (port 0: any free one); `serve_forever()` runs it."""
    from werkzeug.serving import WSGIRequestHandler
    from werkzeug.serving import make_server as make

    class Quiet(WSGIRequestHandler):
        """Requests are not logged, errors are."""

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            pass

    # Bound here: werkzeug would print its own lines on a port that is taken, and end the program.
    with socket.create_server(("127.0.0.1", port)) as bound:
        chosen = bound.getsockname()[1]
        application = create_app().server
        return make("127.0.0.1", chosen, application, threaded=True, request_handler=Quiet, fd=bound.fileno())


def warm_up() -> None:
    """Import the theory and compile what first answers need."""
    from .answers import figure_of

    for view in VIEWS:
        state, _ = check({**DEFAULTS, "view": view})
        assert state is not None
        figure_of(state, quick=True)
