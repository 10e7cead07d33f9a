"""Panels as Matplotlib figures: names, whole numbers and plain ticks on their axes."""

import itertools

import pytest

from sparsetoken.plotting.matplotlib_panels import matplotlib_figure, thumbnail
from sparsetoken.plotting.panels import Line, Panel, Points, Rule


@pytest.mark.parametrize(
    "panel, words",
    [
        (Panel("T", "task", "error", (Points([0.9, 2.1], [1.0, 2.0]),), names=["plain", "long"]), ["plain", "long"]),
        (Panel("T", "step", "error", (Line([1.0, 3.0], [1.0, 2.0]),)), ["1", "2", "3"]),
        (
            Panel("T", "L", "error", (Line([8.0, 2e9], [1.0, 2.0]),), logx=True),
            ["100", "10,000", "10⁶", "10⁸"],
        ),
    ],
)
def test_what_stands_on_the_horizontal_axis(panel, words):
    figure = matplotlib_figure([panel])
    figure.canvas.draw()
    axes = figure.axes[0]
    low, high = axes.get_xlim()
    labels = [t.get_text() for t in axes.get_xticklabels() if low <= t.get_position()[0] <= high and t.get_text()]
    assert labels == words
    boxes = [t.get_window_extent() for t in axes.get_xticklabels() if t.get_text() in words]
    assert all(a.x1 < b.x0 for a, b in itertools.pairwise(boxes))


def test_indices_are_lowered_and_one_legend_lies_below():
    layers = (Points([1.0, 2.0], [1.0, 2.0], None, "η_b"), Rule("y", 5.0, "limit"))
    figure = matplotlib_figure([Panel("η_w", "x", "y", layers)])
    figure.canvas.draw()
    (legend,) = figure.legends
    assert {t.get_text() for t in legend.get_texts()} == {r"η$_\mathrm{b}$", "limit"}
    assert legend.get_window_extent().y1 <= figure.axes[0].get_window_extent().y0
    assert figure.axes[0].get_ylim()[1] >= 5.0


def test_many_names_are_turned_and_do_not_touch():
    names = ["softmax", "sparsemax", "top 2", "hard max", "thresholded", "sigmoid", "tied, at once", "gated, at once"]
    figure = matplotlib_figure([Panel("T", "x", "y", (Points(range(1, 9), range(8)),), names=names)])
    labels = figure.axes[0].get_xticklabels()
    assert {label.get_rotation() for label in labels} == {35.0}
    assert [label.get_text() for label in labels] == names  # in one line each


def test_panels_of_a_paper_s_figure_have_letters_and_fit_its_column():
    panels = [Panel("A title that is rather long for a narrow column", "x", "y", (Line([1, 2], [1, 2], "a"),))] * 3
    figure = matplotlib_figure(panels, width=3.4)
    figure.canvas.draw()
    assert figure.get_figwidth() == 3.4 and [axes.get_title()[:4] for axes in figure.axes] == ["(a) ", "(b) ", "(c) "]
    assert all(axes.title.get_window_extent().x1 <= figure.bbox.x1 for axes in figure.axes)
    assert matplotlib_figure(panels).get_figwidth() > 10 and matplotlib_figure(panels[:1]).axes[0].get_title()[0] == "A"
    assert thumbnail(panels[0]).startswith(b"\x89PNG")
