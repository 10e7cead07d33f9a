"""The explorer in a real browser: what a user does, and what must then be on the screen."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qs, urlparse

import pytest

from sparsetoken import Task, Training, forecast, theory
from tests.explorer.browser import TRACES, line, value_at

pytestmark = pytest.mark.browser


def library_error(task: Task, training: Training, model: str = "attention") -> float:
    return forecast(task, training.but(equal_samples=True), model, accuracy=2e-4, with_capacity=False).test_error


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
    before = page.page.evaluate(TRACES)
    page.put("sparsity", "50")
    page.wait_dimmed()
    page.page.wait_for_timeout(700)  # and it stays so after the moment in which a field may still move
    assert page.page.locator("#remarks").inner_text() == ""  # what was said of the address belongs to it
    assert "at most length" in page.page.locator("#message-sparsity").inner_text()
    assert page.page.evaluate(TRACES) == before  # the last figure stays, dimmed
    assert float(page.page.locator("#graph").evaluate("(e) => getComputedStyle(e).opacity")) < 0.5
    assert "Correct the marked fields" in page.page.locator("#status").inner_text()
    page.put("prevalence", "")
    page.page.wait_for_function("() => document.getElementById('message-prevalence').innerText")
    assert "must be a number" in page.page.locator("#message-prevalence").inner_text()
    page.put("sparsity", "3")
    page.put("prevalence", "0.5")
    page.wait(sparsity=3, prevalence=0.5)
    assert page.page.locator("#message-sparsity").inner_text() == ""
    assert page.page.locator("#message-prevalence").inner_text() == ""


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
    assert "In A: the query's cosine" in page.page.locator("#caption").inner_text()
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
    assert "Shown in the view “Alignment”" in page.page.locator("#remarks").inner_text()  # no jump without a word
    page.page.click("#preset-weak")
    page.wait(view="alignment", strength=2.5)  # a preset of no view of its own leaves the view
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
    assert strength in (3.6, 4.2) and 0.1 < ridge < 10
    traces = page.wait(view="phase", strength=strength, ridge=ridge)
    assert line(traces, "here")["x"] == [strength]


def test_every_view_draws_and_code_and_figure_can_be_taken_away(visit, tmp_path):
    page = visit("?length=6&view=bag&x=strength&y=prevalence&colour=gain&steps=3")
    weights = page.wait(view="bag")
    assert page.page.locator("#in-d").is_visible() and not page.page.locator("#in-trials").is_visible()
    assert sum(line(weights, "signal")["y"] + line(weights, "noise")["y"]) == pytest.approx(1.0)
    page.view("phase")
    page.wait(stage=None, view="phase")
    assert page.page.locator("#in-x").is_visible()
    page.view("training")
    traces = page.wait(view="training", steps=3)
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
