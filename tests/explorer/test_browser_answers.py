"""How answers follow each other in a real browser: dimmed, rough at first, then exact, at once where they are known."""

from __future__ import annotations

import json
import os
import statistics
import threading

import pytest

from sparsetoken import Task, Training, forecast
from tests.explorer.browser import PATIENCE, TRACES

pytestmark = pytest.mark.browser


def test_a_plot_of_other_values_is_always_dimmed(visit):
    """In every frame of a flurry of changes, a plot that is not dimmed is that of the fields as they are."""
    page = visit("?view=alignment&loss=square")
    page.wait(view="alignment")
    page.page.evaluate("""() => {
      window.frames_seen = 0; window.stale_seen = [];
      const names = ['strength', 'prevalence', 'eta_b'];
      const watch = () => {
        const graph = document.querySelector('#graph .js-plotly-plot');
        const visible = document.getElementById('plot-area').dataset.stale === 'no';
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


def test_the_first_answer_is_on_the_screen_while_the_next_is_computed(visit, monkeypatch):
    from sparsetoken.explorer import answers

    seen, held, figure_of = threading.Event(), threading.Event(), answers.figure_of
    held.set()

    def held_back(state, quick):
        if not quick:
            assert seen.wait(PATIENCE / 1000)
        assert held.wait(PATIENCE / 1000)
        return figure_of(state, quick)

    monkeypatch.setattr(answers, "figure_of", held_back)
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
        assert "attention weight" in page.page.locator("#caption").inner_text()
        assert page.page.locator("#tab-bag").get_attribute("aria-selected") == "true"
        assert len(page.page.evaluate(TRACES)) == 4 and page.page.locator("#graph .js-plotly-plot").is_visible()
        assert float(page.page.locator("#graph").evaluate("(e) => getComputedStyle(e).opacity")) < 0.5
        assert "updating" in area.evaluate("(e) => getComputedStyle(e, '::after').content")
    finally:
        seen.set()
        held.set()
    page.wait(view="bag")
    assert "one draw" in page.page.locator("#status").inner_text()


PAINTED = """([name, wanted]) => new Promise((resolve) => {
  const field = document.getElementById('in-' + name);
  const begun = performance.now();
  let first = null;
  Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call(field, String(wanted));
  field.dispatchEvent(new Event('input', {bubbles: true}));
  const look = () => {
    const meta = document.querySelector('#graph .js-plotly-plot').layout.meta;
    const visible = document.getElementById('plot-area').dataset.stale === 'no';
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
            const visible = document.getElementById('plot-area').dataset.stale === 'no';
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
        found = forecast(Task(strength=float(strength)), Training(equal_samples=True), accuracy=2e-4)
        assert drawn == drawn[:1] * 3 and min(drawn[0], key=lambda y: abs(y - found.test_error)) == pytest.approx(
            found.test_error, abs=1e-9
        )
    median = statistics.median(seconds)
    record_property("median_update_seconds", median)
    print(json.dumps({"median_update_seconds": round(median, 3)}))
