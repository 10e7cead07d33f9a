"""A page of the explorer as the browser's tests use it: what is on the screen, fields, views, files taken away."""

from __future__ import annotations

from pathlib import Path

PATIENCE = 120_000  # ms; the machine may be busy

SHOWN = """(wanted) => {
  const graph = document.querySelector('#graph .js-plotly-plot');
  if (!graph || !graph.layout || !graph.layout.meta || !graph.layout.meta.key) return false;
  if (document.getElementById('plot-area').dataset.stale !== 'no') return false;
  const state = JSON.parse(graph.layout.meta.key);
  if (wanted.stage && graph.layout.meta.stage !== wanted.stage) return false;
  return Object.entries(wanted.values).every(([name, value]) => state[name] === value);
}"""
# The fields have no figure: the last one stays, dimmed.
DIMMED = "() => document.getElementById('plot-area').dataset.stale === 'none'"
TRACES = """() => document.querySelector('#graph .js-plotly-plot').data.map(
  (t) => ({meta: t.meta, x: Array.from(t.x || []), y: Array.from(t.y || []),
           error: t.error_y && t.error_y.array ? Array.from(t.error_y.array) : []}))"""

# Text whose contrast with what lies behind it is below 4.5, the least for ordinary letters. Disabled buttons are exempt.
FAINT = """() => {
  const numbers = (text) => (text.match(/[0-9.]+/g) || []).map(Number);
  const light = (c) => {
    const [r, g, b] = c.slice(0, 3).map((v) => (v / 255 <= 0.03928 ? v / 3294.6 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const c = numbers(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] > 0.99) return c;
    }
    return [255, 255, 255];
  };
  const faint = [];
  for (const e of document.querySelectorAll('#explorer *')) {
    const own = Array.from(e.childNodes).some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || e.closest('svg') || e.closest(':disabled') || !e.getClientRects().length) continue;
    const [a, b] = [light(numbers(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) faint.push([e.outerHTML.slice(0, 80), (a + 0.05) / (b + 0.05)]);
  }
  return faint;
}"""


class Page:
    """A page and what the tests do with it."""

    def __init__(self, browser, address: str, **options):
        self.context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.address, self.problems = address, []
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("console", lambda m: self.problems.append(m.text) if m.type == "error" else None)
        self.page.on("request", lambda request: self._local(request.url))

    def _local(self, url: str) -> None:
        if not url.startswith((self.address, "data:", "blob:")):
            self.problems.append(f"a request to {url}")

    def open(self, query: str = "") -> Page:
        self.page.goto(self.address + query)
        return self

    def wait(self, stage: str | None = "exact", **values) -> list[dict]:
        """The traces once the figure of these parameters is on the screen."""
        self.page.wait_for_function(SHOWN, arg={"stage": stage, "values": values})
        return self.page.evaluate(TRACES)

    def wait_dimmed(self) -> None:
        """Until the page has said that there is no figure for the fields."""
        self.page.wait_for_function(DIMMED)

    def put(self, name: str, text: str) -> None:
        self.page.locator(f"#in-{name}").fill(text)

    def view(self, name: str) -> None:
        self.page.locator(f"#tab-{name}").click()

    def saved(self, button: str, folder: Path) -> bytes:
        with self.page.expect_download() as download:
            self.page.click(button)
        target = folder / download.value.suggested_filename
        download.value.save_as(target)
        return target.read_bytes()


def line(traces: list[dict], meta: str) -> dict:
    return next(t for t in traces if t["meta"] == meta)


def value_at(traces: list[dict], meta: str, x: float) -> float:
    found = line(traces, meta)
    return found["y"][found["x"].index(x)]
