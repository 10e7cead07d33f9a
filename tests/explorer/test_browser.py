"""The explorer in a real browser: what a user does, and what must then be on the screen."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import statistics
import threading
from pathlib import Path
from urllib.parse import parse_qs, urlparse

import pytest

from sparsetoken import Task, Training, forecast, simulate, theory
from sparsetoken.simulation.repeats import trial_seeds
from tests.explorer.browser import FAINT, PATIENCE, TRACES, Page

pytest.importorskip("dash", reason="the explorer's extra is not installed")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

CHROMIUM = os.environ.get("SPARSETOKEN_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine"),
]
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


@pytest.fixture(scope="module")
def address():
    from sparsetoken.explorer import make_server

    server = make_server(0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield started
        started.close()


@pytest.fixture
def visit(browser, address):
    pages: list[Page] = []

    def new(query: str = "", **options) -> Page:
        pages.append(Page(browser, address, **options))
        return pages[-1].open(query)

    yield new
    problems = [problem for page in pages for problem in page.problems]
    for page in pages:
        page.context.close()
    assert not problems


def line(traces: list[dict], meta: str) -> dict:
    return next(t for t in traces if t["meta"] == meta)


def value_at(traces: list[dict], meta: str, x: float) -> float:
    found = line(traces, meta)
    return found["y"][found["x"].index(x)]


def library_error(task: Task, training: Training, model: str = "attention") -> float:
    return forecast(task, training, model, equal_samples=True, accuracy=1e-3, with_capacity=False).test_error


def test_first_page_and_a_moved_slider_show_the_library_s_numbers(visit):
    page = visit()
    traces = page.wait(strength=5)
    for model in ("attention", "pooled", "vectorized", "bayes"):
        expected = library_error(Task(), Training(), model)
        assert value_at(traces, model, 4) == pytest.approx(expected, abs=1e-8)
        assert page.page.locator(f"#row-{model} td").nth(1).inner_text() == f"{expected:.5f}"
    slider = page.page.locator("#slide-strength")
    slider.focus()
    for _ in range(3):
        slider.press("ArrowLeft")
    traces = page.wait(strength=4.7)
    expected = library_error(Task(strength=4.7), Training())
    assert value_at(traces, "attention", 4) == pytest.approx(expected, abs=1e-8)
    assert page.page.locator("#in-strength").input_value() == "4.7"
    assert parse_qs(urlparse(page.page.url).query)["strength"] == ["4.7"]


def test_a_shared_address_shows_the_same_view(visit):
    page = visit("?length=20&sparsity=2&strength=3.5&prevalence=0.2&eta_b=2&equal=no&view=alignment&alpha0=5")
    traces = page.wait(length=20, view="alignment")
    steps = theory.alignment(Task(20, 2, 3.5, 0.2), Training(alpha0=5.0, eta_b=2.0))
    assert value_at(traces, "cosine_q", 5) == pytest.approx(steps.cosine["q"], abs=1e-10)
    assert page.page.locator("#in-prevalence").input_value() == "0.2"
    assert float(page.page.locator("#slide-alpha0").input_value()) == pytest.approx(0.7, abs=0.005)
    assert "readout" in page.page.locator("#in-equal").inner_text()
    again = visit(urlparse(page.page.url).query and "?" + urlparse(page.page.url).query)
    assert again.wait(length=20, view="alignment") == traces


def test_bad_input_is_said_beside_its_field(visit):
    page = visit("?view=alignment&beta=fast")
    page.wait(sparsity=1)
    assert "not a number" in page.page.locator("#remarks").inner_text()
    page.put("sparsity", "50")
    page.wait(stage="invalid", sparsity=50)
    assert "at most length" in page.page.locator("#message-sparsity").inner_text()
    assert page.page.evaluate(TRACES) == []
    page.put("prevalence", "")
    page.wait(stage="invalid", prevalence=None)
    assert "must be a number" in page.page.locator("#message-prevalence").inner_text()
    page.put("sparsity", "3")
    page.put("prevalence", "0.5")
    page.wait(sparsity=3, prevalence=0.5)
    assert page.page.locator("#message-sparsity").inner_text() == ""
    assert page.page.locator("#message-prevalence").inner_text() == ""


def test_simulation_runs_and_is_laid_over_the_curves(visit):
    page = visit("?d=40&trials=2&seed=7")
    other = visit("?view=alignment")
    page.wait(d=40)
    page.page.click("#simulate")
    page.page.wait_for_function("() => document.getElementById('progress').innerText.includes('18 of 18 trials, done')")
    page.page.wait_for_function("() => document.querySelector('#graph .js-plotly-plot').data.length >= 7")
    drawn = line(page.page.evaluate(TRACES), "simulated-attention")
    errors = [simulate(Task(), Training(), 40, seed).test_error for seed in trial_seeds(7, 2)]
    at = drawn["x"].index(4)
    assert drawn["y"][at] == pytest.approx(sum(errors) / 2)
    assert drawn["error"][at] == pytest.approx(abs(errors[0] - errors[1]) / 2)
    # Another page knows nothing of it, and other parameters take it off the figure.
    assert other.page.locator("#progress").inner_text() == ""
    page.put("seed", "8")
    traces = page.wait(seed=8)
    assert not [t for t in traces if str(t["meta"]).startswith("simulated")]


def test_simulation_can_be_cancelled_and_the_page_stays_alive(visit):
    page = visit("?d=200&trials=200")
    page.wait(d=200)
    page.page.click("#simulate")
    page.page.wait_for_function("() => parseInt(document.getElementById('progress').innerText) >= 1")
    page.view("alignment")
    page.wait(view="alignment")  # answers while the simulation runs
    page.view("curves")
    page.page.click("#cancel")
    page.page.wait_for_function("() => document.getElementById('progress').innerText.startsWith('cancelled')")
    page.page.wait_for_function("() => !document.getElementById('simulate').disabled")
    assert page.page.locator("#cancel").is_disabled()


def test_a_plot_of_other_values_is_always_dimmed(visit):
    """In every frame of a flurry of changes, a plot that is not dimmed is that of the fields as they are."""
    page = visit("?view=alignment&loss=square")
    page.wait(view="alignment")
    page.page.evaluate("""() => {
      window.frames_seen = 0; window.stale_seen = [];
      const names = ['strength', 'prevalence', 'eta_b'];
      const watch = () => {
        const graph = document.querySelector('#graph .js-plotly-plot');
        const visible = document.getElementById('plot-area').dataset.stale !== 'yes';
        if (visible && graph && graph.layout && graph.layout.meta) {
          window.frames_seen += 1;
          const state = JSON.parse(graph.layout.meta.key);
          for (const name of names) {
            const field = document.getElementById('in-' + name).value;
            if (Number(field) !== state[name]) window.stale_seen.push([name, field, state[name]]);
          }
        }
        window.watching = requestAnimationFrame(watch);
      };
      watch();
    }""")
    for step in range(1, 9):
        page.put("strength", str(step / 2))
        page.put("prevalence", str(step / 10))
        page.put("eta_b", str(step))
        page.page.wait_for_timeout(60 if step % 2 else 0)
    page.wait(strength=4, prevalence=0.8, eta_b=8)
    page.page.wait_for_timeout(200)
    page.page.evaluate("() => cancelAnimationFrame(window.watching)")
    assert page.page.evaluate("() => window.frames_seen") > 5
    assert page.page.evaluate("() => window.stale_seen") == []


def test_every_view_draws_and_code_and_figure_can_be_taken_away(visit, tmp_path):
    page = visit("?length=6&view=bag&x=strength&y=prevalence&colour=gain&steps=3")
    weights = page.wait(view="bag")
    assert sum(line(weights, "signal")["y"] + line(weights, "noise")["y"]) == pytest.approx(1.0)
    page.view("phase")
    page.wait(stage=None, view="phase")
    assert page.page.locator("#in-x").is_visible()
    page.view("training")
    traces = page.wait(stage="models", view="training", steps=3)
    errors = line(traces, "test")["y"]
    assert len(errors) == 4 and line(traces, "best")["x"] == [errors.index(min(errors))]
    assert page.page.locator("#in-rate_q").is_visible() and not page.page.locator("#in-x").is_visible()
    page.view("capacity")
    assert line(page.wait(stage=None, view="capacity"), "pooled")["y"][0] == pytest.approx(2.0, rel=1e-3)  # Cover's 2
    assert not page.page.locator("#in-x").is_visible()
    page.page.locator("summary").click()
    code = page.page.locator("#code").inner_text()
    assert "Task(length=6" in code and "forecast(task, training" in code
    assert page.saved("#save-png", Path(tmp_path))[:4] == b"\x89PNG"


def test_pictures_are_dark_on_white_and_tables_hold_the_numbers(visit, tmp_path):
    page = visit("?view=alignment&compare=strength%3D3", color_scheme="dark")
    traces = page.wait(view="alignment")
    picture = page.saved("#save-svg", tmp_path).decode()
    assert "fill: rgb(255, 255, 255)" in picture and "Alignment after the two steps" in picture
    assert "θ = 5" in picture and "θ = 3" in picture  # it says what it shows
    inks = set(re.findall(r"fill: (rgb\([^)]*\))[^>]*>[^<]", picture))
    assert inks and all(sum(map(int, re.findall(r"\d+", ink))) < 200 for ink in inks)
    rows = list(csv.DictReader(io.StringIO(page.saved("#save-csv", tmp_path).decode("utf-8-sig"))))
    assert next(iter(rows[0])) == "series" and rows[0]["setting"].startswith("B: L = 10")
    found = [float(row["cosine with the signal"]) for row in rows if row["series"] == "query: cos(q₂, ξ)"]
    assert found == line(traces, "cosine_q")["y"]
    assert {row["setting"][:2] for row in rows} == {"A:", "B:"}


def test_presets_reset_and_a_comparison(visit):
    page = visit("?view=alignment&strength=4")
    page.wait(view="alignment", strength=4)
    page.page.click("#keep")
    page.put("strength", "6")
    traces = page.wait(view="alignment", strength=6)
    for strength, meta in ((6.0, "cosine_q"), (4.0, "other-cosine_q")):
        expected = theory.alignment(Task(strength=strength), Training()).cosine["q"]
        assert value_at(traces, meta, 2) == pytest.approx(expected, abs=1e-10)
    assert "θ = 4" in page.page.locator("#other-setting").inner_text()
    names = page.page.evaluate(
        "() => document.querySelector('#graph .js-plotly-plot').data.filter((t) => t.meta === 'legend').map((t) => t.name)"
    )
    assert names == ["B: θ = 6", "A, dotted: θ = 4"]
    page.page.click("#swap")
    page.wait(view="alignment", strength=4)
    assert "θ = 6" in page.page.locator("#other-setting").inner_text()
    again = visit("?" + urlparse(page.page.url).query)
    assert line(again.wait(view="alignment", strength=4), "other-cosine_q")["y"]
    page.view("bag")  # no lines to lay over each other: two plots
    page.wait(view="bag")
    assert page.page.locator("#graph-a .js-plotly-plot").is_visible()
    page.page.click("#end")
    page.wait(view="bag", compare="")
    assert not page.page.locator("#other-area").is_visible()
    page.page.click("#preset-anti")
    page.wait(view="alignment", prevalence=0.1, alpha0=8)
    assert "anti-aligned" in page.page.locator("#plot-title").inner_text()
    page.page.click("#reset")
    page.wait(view="alignment", prevalence=0.5, alpha0=2, strength=5)


def test_a_click_into_the_phase_diagram_sets_the_parameters(visit):
    page = visit("?view=phase&x=strength&y=ridge&loss=square")
    page.wait(view="phase")
    area = page.page.locator("#graph .nsewdrag").first.bounding_box()
    assert area is not None
    page.page.mouse.click(area["x"] + 0.31 * area["width"], area["y"] + 0.2 * area["height"])
    page.page.wait_for_function("() => Number(document.getElementById('in-strength').value) < 5")
    strength, ridge = (float(page.page.locator(f"#in-{name}").input_value()) for name in ("strength", "ridge"))
    assert strength in (3.5, 4.0) and 0.1 < ridge < 10
    traces = page.wait(view="phase", strength=strength, ridge=ridge)
    assert line(traces, "here")["x"] == [strength]


def test_the_first_answer_is_on_the_screen_while_the_next_is_computed(visit, monkeypatch):
    from sparsetoken.explorer import views

    seen, held, figure_of = threading.Event(), threading.Event(), views.figure_of
    held.set()

    def held_back(state, stage, alive, limits):
        if stage == "models":
            assert seen.wait(PATIENCE / 1000)
        assert held.wait(PATIENCE / 1000)
        return figure_of(state, stage, alive, limits)

    monkeypatch.setattr(views, "figure_of", held_back)
    page = visit("?view=alignment&strength=4.4")
    try:
        page.wait(stage="quick", view="alignment", strength=4.4)
        assert "refining" in page.page.locator("#status").inner_text()
        # What is shown stays, dimmed, until the next values have their answer, and the words are those of the view chosen.
        held.clear()
        page.view("bag")
        area = page.page.locator("#plot-area")
        page.page.wait_for_function("() => document.getElementById('plot-area').dataset.stale === 'yes'")
        assert page.page.locator("#status").inner_text() == "updating …"
        assert "pays each token" in page.page.locator("#caption").inner_text()
        assert page.page.locator("#tab-bag").get_attribute("aria-selected") == "true"
        assert len(page.page.evaluate(TRACES)) == 4 and page.page.locator("#graph .js-plotly-plot").is_visible()
        assert float(page.page.locator("#graph").evaluate("(e) => getComputedStyle(e).opacity")) < 0.5
        assert "updating" in area.evaluate("(e) => getComputedStyle(e, '::after').content")
    finally:
        seen.set()
        held.set()
    page.wait(view="bag")
    assert "one draw" in page.page.locator("#status").inner_text()


def test_small_screens_dark_colours_and_the_keyboard(visit):
    page = visit("?view=alignment&loss=square", color_scheme="dark")
    page.page.set_viewport_size({"width": 360, "height": 740})
    page.wait(view="alignment")
    assert page.page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth + 1")
    brightness = (
        "(e) => getComputedStyle(e).backgroundColor.match(/[0-9]+/g).slice(0, 3).reduce((a, b) => a + Number(b), 0)"
    )
    assert page.page.locator("body").evaluate(brightness) < 150
    ink = "() => document.querySelector('#graph .js-plotly-plot').layout.font.color"
    dark_ink = page.page.evaluate(ink)
    page.page.locator("#theme input[value=light]").check(force=True)
    page.page.wait_for_function(f"(old) => ({ink})() !== old", arg=dark_ink)
    assert page.page.locator("body").evaluate(brightness) > 700
    # With the keyboard alone: from the first field on, Tab reaches slider and number of every parameter.
    page.page.locator("#slide-length").focus()
    reached = []
    for _ in range(8):
        reached.append(page.page.evaluate("() => document.activeElement.id"))
        page.page.keyboard.press("Tab")
    expected = ["slide-length", "in-length", "slide-sparsity", "in-sparsity", "slide-strength", "in-strength"]
    assert [name for name in reached if name][:6] == expected
    for label in ("Length L", "Strength θ", "Ridge λ"):
        assert page.page.get_by_label(label, exact=False).first.is_visible()


def test_tabs_names_and_contrast(visit):
    page = visit("?view=alignment&loss=square")
    page.wait(view="alignment")
    page.page.locator("#tab-alignment").focus()
    page.page.keyboard.press("ArrowRight")
    page.wait(stage="quick", view="capacity")
    page.page.keyboard.press("Home")
    page.page.wait_for_function("() => document.activeElement.id === 'tab-curves'")
    assert page.page.locator("[role=tab][tabindex='0']").count() == 1
    page.page.keyboard.press("ArrowRight")
    page.wait(view="alignment")
    fields = page.page.locator("input:visible:not([aria-hidden=true]), button:visible")
    for at in range(fields.count()):
        named = fields.nth(at).evaluate(
            "(e) => (e.labels && e.labels.length) || e.getAttribute('aria-labelledby') || e.innerText || e.ariaLabel"
        )
        assert named, fields.nth(at).evaluate("(e) => e.outerHTML")
    slider = page.page.locator("#slide-alpha0")
    assert slider.get_attribute("aria-valuetext") == "2"
    tip = page.page.locator("#" + str(slider.get_attribute("aria-describedby")))
    slider.focus()
    assert tip.is_visible() and "query" in tip.inner_text()
    for name in ("slide-alpha0", "in-alpha0", "tab-alignment", "save-svg"):
        page.page.keyboard.press("Tab")  # focus that the keyboard gives is shown, whatever a component's own style says
        page.page.locator("#" + name).focus()
        outline = page.page.locator("#" + name).evaluate("(e) => getComputedStyle(e).outline")
        assert "solid 2px" in outline, (name, outline)
    length = page.page.locator("#slide-length")
    for key, value in (("Home", "2"), ("ArrowRight", "3"), ("End", "1000"), ("ArrowLeft", "980")):
        length.press(key)
        page.page.wait_for_function("(v) => document.getElementById('in-length').value === v", arg=value)
    assert page.page.get_by_role("figure", name="Alignment").is_visible()
    buttons = page.page.locator("#graph .modebar-btn").evaluate_all("(all) => all.map((e) => e.dataset.title)")
    assert buttons and not [t for t in buttons if any(w in t for w in ("Share", "Lasso", "Box", "Cloud", "Download"))]
    for scheme in ("light", "dark"):
        page.page.locator(f"#theme input[value={scheme}]").check(force=True)
        assert page.page.evaluate(FAINT) == []


def test_one_bag_does_not_overlap_itself_and_stays_in_sight(visit):
    page = visit("?view=bag&length=12&loss=square")
    page.page.set_viewport_size({"width": 390, "height": 844})
    page.wait(view="bag")
    parts = ", ".join(f"#graph .{name}" for name in ("legend", "colorbar", "xtitle", "ytitle", "y2title"))
    page.page.wait_for_timeout(300)
    boxes = page.page.locator(parts).evaluate_all(
        "(all) => all.map((e) => [e.getAttribute('class'), e.getBoundingClientRect().toJSON()])"
    )
    planes = page.page.locator("#graph .bglayer rect, #graph .nsewdrag").evaluate_all(
        "(all) => all.map((e) => ['plane', e.getBoundingClientRect().toJSON()])"
    )
    boxes = [(name, box) for name, box in boxes + planes if box["width"] > 0 and box["height"] > 0]
    assert {"legend", "xtitle", "ytitle", "y2title", "plane"} <= {name for name, _ in boxes}
    for i, (one, a) in enumerate(boxes):
        for other, b in boxes[i + 1 :]:
            if one == other == "plane" and abs(a["top"] - b["top"]) < 3:
                continue  # a plot's ground and what takes the pointer on it
            across = min(a["right"], b["right"]) - max(a["left"], b["left"])
            down = min(a["bottom"], b["bottom"]) - max(a["top"], b["top"])
            assert across <= 1 or down <= 1, (one, other)
    page.page.locator("#slide-ridge").focus()
    page.page.locator("#slide-ridge").scroll_into_view_if_needed()
    page.page.wait_for_timeout(100)
    graph, slider = (page.page.locator(name).bounding_box() for name in ("#graph", "#slide-ridge"))
    assert graph is not None and slider is not None
    assert graph["y"] >= 0 and graph["y"] + graph["height"] <= slider["y"] <= 844


PAINTED = """([name, wanted]) => new Promise((resolve) => {
  const field = document.getElementById('in-' + name);
  const begun = performance.now();
  let first = null;
  Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call(field, String(wanted));
  field.dispatchEvent(new Event('input', {bubbles: true}));
  const look = () => {
    const meta = document.querySelector('#graph .js-plotly-plot').layout.meta;
    const visible = document.getElementById('plot-area').dataset.stale !== 'yes';
    if (visible && JSON.parse(meta.key)[name] === wanted) {
      if (first === null) first = [(performance.now() - begun) / 1000, meta.stage];
      if (meta.stage === 'exact') return resolve([...first, (performance.now() - begun) / 1000]);
    }
    requestAnimationFrame(look);
  };
  look();
})"""


@pytest.mark.parametrize(
    ("view", "name", "values"),
    [
        ("curves", "strength", (4.9, 4.8, 4.6)),
        ("capacity", "strength", (3.9, 3.7)),
        ("phase", "beta", (1.1,)),
    ],
)
def test_new_values_are_painted_at_once_and_then_refined(visit, record_property, view, name, values):
    """From a keystroke to the first picture and to the last, at values that nobody has asked for before.

    The times are recorded and not judged: docs/explorer.md has those of a quiet machine (SPARSETOKEN_MORE_VALUES=1 takes
    more values, for a median that means something).
    """
    if os.environ.get("SPARSETOKEN_MORE_VALUES"):
        values = tuple(round(values[-1] - 0.07 * k, 3) for k in range(9))
    page = visit(f"?view={view}&{name}={values[0] + 0.05}")
    page.wait(view=view)
    times = [page.page.evaluate(PAINTED, [name, value]) for value in values]
    assert [stage for _, stage, _ in times] == ["quick"] * len(values)
    assert all(first < last for first, _, last in times)
    medians = {key: round(statistics.median(t[at] for t in times), 3) for key, at in (("first", 0), ("last", 2))}
    for key, seconds in medians.items():
        record_property(f"{view}_{key}_paint_seconds", seconds)
    print(json.dumps({"view": view, "load": os.getloadavg()[0], **medians}))


def test_warm_points_update_quickly(visit, record_property):
    """From a keystroke to the plot, between two sets of parameters computed before: the exact figures, each time the same.

    The median time is recorded and not judged.
    """
    page = visit()
    page.wait(strength=5)
    page.put("strength", "4")
    page.wait(strength=4)
    seconds, curves = [], {4: [], 5: []}
    for step in range(6):
        wanted = 5 if step % 2 == 0 else 4
        took, stage, curve = page.page.evaluate("""(wanted) => new Promise((resolve) => {
          const field = document.getElementById('in-strength');
          const begun = performance.now();
          Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call(field, String(wanted));
          field.dispatchEvent(new Event('input', {bubbles: true}));
          const look = () => {
            const meta = document.querySelector('#graph .js-plotly-plot').layout.meta;
            const visible = document.getElementById('plot-area').dataset.stale !== 'yes';
            if (visible && JSON.parse(meta.key).strength === wanted) {
              const curve = document.querySelector('#graph .js-plotly-plot').data.find((t) => t.meta === 'attention');
              resolve([(performance.now() - begun) / 1000, meta.stage, Array.from(curve.y)]);
            }
            else requestAnimationFrame(look);
          };
          look();
        })""", wanted)  # fmt: skip
        assert stage == "exact"  # at once, with no quick answer in between
        seconds.append(took)
        curves[wanted].append(curve)
    for strength, drawn in curves.items():
        found = forecast(Task(strength=float(strength)), Training(), equal_samples=True, accuracy=1e-3)
        assert drawn == drawn[:1] * 3 and drawn[0][4] == pytest.approx(found.test_error, abs=1e-9)
    median = statistics.median(seconds)
    record_property("median_update_seconds", median)
    print(json.dumps({"median_update_seconds": round(median, 3)}))
