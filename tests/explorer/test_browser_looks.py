"""How the explorer looks in a real browser: small screens, dark colours, the keyboard, pictures taken away."""

from __future__ import annotations

import csv
import io
import re

import pytest

from tests.explorer.browser import FAINT, line

pytestmark = pytest.mark.browser


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
    for _ in range(2):
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
        # Both of them: a key that is pressed before the slider itself has moved may be lost on a busy machine.
        page.page.wait_for_function(
            "(v) => document.getElementById('in-length').value === v"
            " && document.getElementById('slide-length').getAttribute('aria-valuetext') === v",
            arg=value,
        )
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
