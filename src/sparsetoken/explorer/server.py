"""The web application: callbacks between the page and the library."""

from __future__ import annotations

import contextlib
import threading
import traceback
from collections.abc import Iterator
from typing import Any

from dash import ClientsideFunction, Dash, Input, Output, State, ctx, no_update
from flask import abort, request

from . import views
from .background import Idle
from .layout import MESSAGES, page
from .points import REFUSALS, Alive, BayesLimits, Superseded, always, words_of
from .recent import Recent
from .simulation import Simulations
from .state import DEFAULTS, FIELDS, NAMES, VIEWS, check, from_query, other_of
from .state import State as PageState
from .words import PRESETS

LOCAL_HOSTS = ("127.0.0.1", "localhost")
_MOST_PAGES = 1000
_EXACT_KEPT = 200  # finished exact answers, shown at once when a page comes back to them
# What is computed ahead while nobody asks for this many seconds: views whose programs take seconds to compile.
_AHEAD, _QUIET_SECONDS = ("capacity", "phase", "lengths", "training", "heads"), 3.0
_pages = Idle()
# Answers made at a time, whatever the number of pages: what one may take in memory is bounded by its parameters' limits.
ANSWERS_AT_ONCE = 4
_places = threading.BoundedSemaphore(ANSWERS_AT_ONCE)


class _Latest:
    """Which parameters each page asked for last: work for older ones stops."""

    def __init__(self) -> None:
        self._keys = Recent[str](_MOST_PAGES)

    def ask(self, page: str, key: str) -> None:
        self._keys.put(page, key)

    def alive(self, page: str, key: str) -> None:
        if self._keys.get(page) not in (None, key):
            raise Superseded


def answer_for(state: PageState, other: PageState | None, key: str, stage: str, alive: Any) -> dict[str, Any]:
    """What the page shows for a state, and beside it for the one that it is compared with."""
    limits = BayesLimits(alive)
    answer = {"key": key, "stage": stage, "view": state.view, **_shown(state, stage, alive, limits)}
    answer["code"] = views.code_of(state)
    if other is not None:
        answer["other"] = _shown(other, stage, alive, limits)
        answer["differs"], answer["other"]["differs"] = views.differences(state, other)
    return answer


def _shown(state: PageState, stage: str, alive: Any, limits: BayesLimits) -> dict[str, Any]:
    figure = views.figure_of(state, stage, alive, limits)
    alive()
    rows = views.numbers(state, stage, limits)
    late = figure["late"] or any(row.get("late") for row in rows)
    return {**figure, "setting": views.describe(state), "rows": rows, "late": late}


def _or_failure(state: PageState, other: PageState | None, key: str, stage: str, alive: Any) -> dict[str, Any]:
    """The answer, or in words why there is none: whatever goes wrong, the page says so instead of waiting for ever."""
    try:
        with _pages.busy(), _turn(alive):
            return answer_for(state, other, key, stage, alive)
    except Superseded:
        raise
    except ZeroDivisionError as error:
        words = _mistake(error)
    except REFUSALS as error:  # the library's own word on these settings, which the page's reader gets
        words = words_of(error)
    except Exception as error:
        words = _mistake(error)
    return {"key": key, "stage": "failed", "message": f"There is no answer to these settings: {words}"}


@contextlib.contextmanager
def _turn(alive: Alive) -> Iterator[None]:
    """Wait for one of the places at work; pages that move on meanwhile leave the queue."""
    while not _places.acquire(timeout=0.05):
        alive()
    try:
        yield
    finally:
        _places.release()


def _mistake(error: Exception) -> str:
    """What the page says about a mistake of ours; the server's terminal shows where it is, for whoever runs it."""
    traceback.print_exception(error)
    return str(error) or type(error).__name__


def create_app() -> Dash:
    """The Dash application; everything it serves is local."""
    app = Dash(
        "sparsetoken.explorer",
        title="sparsetoken explorer",
        update_title="",
        serve_locally=True,
        assets_folder="assets",
        suppress_callback_exceptions=False,
    )
    app.layout = page
    app.index_string = app.index_string.replace("<html>", '<html lang="en">')
    latest, simulations = _Latest(), Simulations()
    # By the states that were checked here; a page's own key for an answer is only handed back to that page.
    exact = Recent[dict[str, Any]](_EXACT_KEPT)

    @app.server.before_request
    def _local_only() -> None:
        # A page elsewhere must not reach this server through a name that it resolves to 127.0.0.1.
        if request.host.rsplit(":", 1)[0] not in LOCAL_HOSTS:
            abort(403)

    @app.callback(
        *(Output(f"in-{name}", "value") for name in NAMES), Output("remarks", "children"), Input("url", "search")
    )
    def load(search: str | None) -> tuple:
        values, remarks = from_query(search or "")
        return (*values.values(), "; ".join(remarks))

    for field in FIELDS:
        slide, number = f"slide-{field.name}", f"in-{field.name}"
        app.clientside_callback(
            ClientsideFunction("explorer", _sync_name(field.logarithmic, field.whole)),
            Output(slide, "value"),
            Output(number, "value", allow_duplicate=True),
            Input(slide, "value"),
            Input(number, "value"),
            prevent_initial_call=True,
        )
    # What the buttons, the tabs and a click into the plot do to the fields.
    acting = (
        "reset",
        "keep",
        "swap",
        "end",
        *(f"preset-{name}" for name in PRESETS),
        *(f"tab-{name}" for name in VIEWS),
    )
    app.clientside_callback(
        ClientsideFunction("explorer", "act"),
        *(Output(f"in-{name}", "value", allow_duplicate=True) for name in NAMES),
        *(Input(name, "n_clicks") for name in acting),
        Input("graph", "clickData"),
        State("words", "data"),
        *(State(f"in-{name}", "value") for name in NAMES),
        prevent_initial_call=True,
    )
    fields = [Input(f"in-{name}", "value") for name in DEFAULTS]
    # At once: the tabs, the caption and the word that an answer is on its way. After a moment: the question to the server.
    app.clientside_callback(
        ClientsideFunction("explorer", "touched"),
        Output("status", "children"),
        Output("caption", "children"),
        Output("swap", "disabled"),
        Output("end", "disabled"),
        *(Output(f"tab-{name}", attribute) for name in VIEWS for attribute in ("aria-selected", "tabIndex")),
        Output("panel", "aria-labelledby"),
        *fields,
        State("words", "data"),
    )
    app.clientside_callback(ClientsideFunction("explorer", "collect"), Output("raw", "data"), *fields)

    @app.callback(
        Output("answer", "data"),
        *(Output(f"message-{name}", "children") for name in MESSAGES),
        Input("raw", "data"),
        State("page", "data"),
    )
    def answer(raw: dict[str, Any] | None, page_id: str) -> tuple:
        if not raw:
            return (no_update,) * (1 + len(MESSAGES))
        key, values = raw["key"], raw["values"]
        latest.ask(page_id, key)
        state, messages = check(values)
        beside = [messages.get(name, "") for name in MESSAGES]
        if state is None:
            return ({"key": key, "stage": "invalid"}, *beside)
        other, why = other_of(values)
        known = exact.get((state, other))
        if known is not None:
            return ({**known, "key": key}, *beside)
        try:
            found = _or_failure(state, other, key, "quick", lambda: latest.alive(page_id, key))
        except Superseded:
            return (no_update,) * (1 + len(MESSAGES))
        return ({**found, "no_other": why}, *beside)

    def following(shown: dict[str, Any] | None, raw: dict[str, Any] | None, page_id: str) -> Any:
        """The next stage after what is shown, if that is still what the page asks for."""
        if not shown or shown["stage"] not in views.STAGES[:-1]:
            return no_update
        return at_stage(views.STAGES[views.STAGES.index(shown["stage"]) + 1], shown["key"], raw, page_id)

    def at_stage(stage: str, key: str, raw: dict[str, Any] | None, page_id: str) -> Any:
        state = check(raw["values"])[0] if raw and raw["key"] == key else None
        if raw is None or state is None:
            return no_update
        other, why = other_of(raw["values"])
        try:
            found = _or_failure(state, other, key, stage, lambda: latest.alive(page_id, key))
        except Superseded:
            return no_update
        found["no_other"] = why
        if found["stage"] == views.STAGES[-1] and not (found["late"] or found.get("other", {}).get("late")):
            exact.put((state, other), found)
        return found

    for before, after in (("answer", "refined"), ("refined", "completed")):
        app.callback(
            Output(after, "data"), Input(before, "data"), State("raw", "data"), State("page", "data"),
            prevent_initial_call=True,
        )(following)  # fmt: skip

    @app.callback(
        Output("completed", "data", allow_duplicate=True),
        Input("again", "data"),
        State("raw", "data"),
        State("page", "data"),
        prevent_initial_call=True,
    )
    def again(asked: dict[str, Any] | None, raw: dict[str, Any] | None, page_id: str) -> Any:
        """The last stage once more, with what has been computed since: the page asks while something is late."""
        return at_stage(views.STAGES[-1], asked["key"], raw, page_id) if asked else no_update

    @app.callback(
        Output("simulated", "data"),
        Output("poll", "disabled"),
        Input("simulate", "n_clicks"),
        Input("cancel", "n_clicks"),
        Input("poll", "n_intervals"),
        State("raw", "data"),
        State("page", "data"),
        prevent_initial_call=True,
    )
    def simulation(_start: Any, _cancel: Any, _tick: Any, raw: dict[str, Any] | None, page_id: str) -> tuple:
        # A click and a tick may come as one request, whose first trigger is the tick.
        asked = set(ctx.triggered_prop_ids.values())
        if "simulate" in asked and raw is not None:
            state, _ = check(raw["values"])
            if state is None:
                return no_update, no_update
            job = simulations.start(page_id, state, raw["key"])
            return job.snapshot(), False
        if "cancel" in asked:
            simulations.cancel(page_id)
        found = simulations.get(page_id)
        if found is None:
            return no_update, True
        return found.snapshot(), found.finished

    app.clientside_callback(ClientsideFunction("explorer", "theme"), Output("themed", "data"), Input("theme", "value"))
    # One callback for each thing that can change. A single one with all of them as inputs would wait for the last: Dash holds
    # a callback back while any of its inputs is being computed, and the first answer sets off the second.
    shown = (
        ("graph", "figure"), ("graph-a", "figure"), ("other-area", "hidden"), ("other-plot", "hidden"),
        ("other-setting", "children"), ("plot-title", "children"), ("plot-setting", "children"), ("status", "children"),
        ("numbers", "children"), ("code", "children"),
    )  # fmt: skip
    for changed in ("answer", "refined", "completed", "simulated", "themed"):
        app.clientside_callback(
            ClientsideFunction("explorer", "show"),
            *(Output(name, attribute, allow_duplicate=True) for name, attribute in shown),
            Input(changed, "data"),
            *(State(name, "data") for name in ("answer", "refined", "completed", "simulated", "words")),
            prevent_initial_call=True,
        )
    app.clientside_callback(
        ClientsideFunction("explorer", "simulation"),
        Output("progress", "children"),
        Output("bar", "value"),
        Output("bar", "max"),
        Output("simulate", "disabled"),
        Output("cancel", "disabled"),
        Input("simulated", "data"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction("explorer", "save"),
        Output("saved", "data"),
        Input("save-png", "n_clicks"),
        Input("save-svg", "n_clicks"),
        Input("save-csv", "n_clicks"),
        prevent_initial_call=True,
    )
    return app


def _sync_name(logarithmic: bool, whole: bool) -> str:
    return "sync" + ("Log" if logarithmic else "Linear") + ("Whole" if whole else "")


def make_server(port: int = 8050):
    """A threaded server on 127.0.0.1 (port 0: any free one); `serve_forever()` runs it."""
    from werkzeug.serving import WSGIRequestHandler
    from werkzeug.serving import make_server as make

    class Quiet(WSGIRequestHandler):
        """Requests are not logged, errors are."""

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            pass

    return make("127.0.0.1", port, create_app().server, threaded=True, request_handler=Quiet)


def warm_up() -> None:
    """Compile what the first page needs, and then what the other views need, whenever no page asks for anything."""
    _compute(DEFAULTS["view"], always)
    for view in _AHEAD:
        done = False
        while not done:
            _pages.wait(_QUIET_SECONDS)
            with contextlib.suppress(Superseded):
                done = _compute(view, _unless_disturbed)


def _unless_disturbed() -> None:
    if not _pages.quiet():
        raise Superseded


def _compute(view: str, alive: Alive) -> bool:
    """All stages of a view at the page's defaults; whether nothing of it is late."""
    state, _ = check({**DEFAULTS, "view": view})
    assert state is not None
    return not [views.figure_of(state, stage, alive)["late"] for stage in views.STAGES][-1]
