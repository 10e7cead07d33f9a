"""One colour, marker and name per classifier, wherever it is drawn."""

from collections import Counter

from sparsetoken.plotting.panels import curves, measured
from sparsetoken.plotting.style import COLOURS, OTHER_COLOURS, colour, label, loss_label, marker


def test_no_colour_stands_for_two_things():
    assert max(Counter([*COLOURS.values(), *OTHER_COLOURS]).values()) == 1


def test_one_thing_has_one_colour_under_all_its_names():
    assert colour("optimal") == colour("bayes") != colour("reachable") == colour("message_passing")
    assert label("optimal") == "Bayes limit" and label("my own") == "my own"
    assert colour("my own", 1) == OTHER_COLOURS[1] and marker("my own") == "diamond"


def test_losses_have_names_in_words():
    assert [loss_label(name) for name in ("square", "smoothed_hinge", "logistic:positives=19", "focal:2")] == [
        "square", "smoothed hinge", "logistic × 19", "focal 2",
    ]  # fmt: skip


def test_lines_and_points_of_a_classifier_match():
    import pandas as pd

    table = pd.DataFrame({"x": [2.0, 1.0, 1.0], "y": [5.0, 1.0, 3.0], "model": ["attention"] * 3})
    (line,), (points,) = curves(table.tail(2), "x", "y", "model"), measured(table, "x", "y", "model")
    assert line.colour == points.colour == COLOURS["attention"] and points.marker == "circle"
    assert points.x.tolist() == [1.0, 2.0] and points.y.tolist() == [2.0, 5.0]
    assert points.error[0] == 1.0  # of 1 and 3: standard deviation sqrt(2), over sqrt(2) trials
