"""How the explorer's tests ask it: a checked state, a line of a figure, the server's answers as a page gets them."""

from __future__ import annotations

from sparsetoken.explorer.fields import DEFAULTS, check


def state_of(**changes):
    """The page's defaults with changes, checked."""
    state, messages = check({**DEFAULTS, **changes})
    assert state is not None, messages
    return state


def trace(figure, meta):
    """The line of a figure that goes by this name."""
    return next(t for t in figure["data"] if t["meta"] == meta)


def ask(client, values, key="key", page="page"):
    """The server's answer to a page's fields: the quick one, or the exact one where it is known."""
    from sparsetoken.explorer.layout import MESSAGES

    outputs = ["answer.data", "asked.data", *(f"message-{name}.children" for name in MESSAGES)]
    names = [dict(zip(("id", "property"), output.split("."))) for output in outputs]
    body = {
        "output": f"..{'...'.join(outputs)}..",
        "outputs": names,
        "inputs": [{"id": "raw", "property": "data", "value": {"key": key, "values": values}}],
        "state": [{"id": "page", "property": "data", "value": page}],
        "changedPropIds": ["raw.data"],
    }
    found = client.post("/_dash-update-component", json=body, base_url="http://127.0.0.1:8050")
    assert found.status_code == 200, found.get_data(as_text=True)
    return found.get_json()["response"]["answer"]["data"]


def follow(client, shown, values, key="key", page="page"):
    """The exact answer after the quick one that is shown."""
    body = {
        "output": "exact.data",
        "outputs": {"id": "exact", "property": "data"},
        "inputs": [{"id": "asked", "property": "data", "value": shown["key"]}],
        "state": [
            {"id": "raw", "property": "data", "value": {"key": key, "values": values}},
            {"id": "page", "property": "data", "value": page},
        ],
        "changedPropIds": ["asked.data"],
    }
    found = client.post("/_dash-update-component", json=body, base_url="http://127.0.0.1:8050")
    assert found.status_code == 200, found.get_data(as_text=True)
    return found.get_json()["response"]["exact"]["data"]


def simulation(client, values, *triggers, key="key", page="page"):
    """How the page's simulation stands after these triggers, which came in one request."""
    body = {
        "output": "..simulated.data...poll.disabled..",
        "outputs": [{"id": "simulated", "property": "data"}, {"id": "poll", "property": "disabled"}],
        "inputs": [
            {"id": name, "property": attribute, "value": 1}
            for name, attribute in (("simulate", "n_clicks"), ("cancel", "n_clicks"), ("poll", "n_intervals"))
        ],
        "state": [
            {"id": "raw", "property": "data", "value": {"key": key, "values": values}},
            {"id": "page", "property": "data", "value": page},
        ],
        "changedPropIds": list(triggers),
    }
    found = client.post("/_dash-update-component", json=body, base_url="http://127.0.0.1:8050")
    assert found.status_code == 200, found.get_data(as_text=True)
    return found.get_json()["response"]["simulated"]["data"]
