"""The report: its order, its filters, and that it fits every screen."""

import os
import re
import shutil
from concurrent.futures import Future
from pathlib import Path

import pandas as pd
import pytest

import sparsetoken
from sparsetoken.paper.catalogue import get_studies
from sparsetoken.paper.report import StudyOutcome, first_sentences, write_report
from sparsetoken.plotting.panels import Line, Panel, Points
from sparsetoken.plotting.style import COLOURS
from sparsetoken.study import Claim, Grid, Judgement, Study
from sparsetoken.study.claims import ledger
from sparsetoken.study.runner import RunSummary

CHROMIUM = os.environ.get("SPARSETOKEN_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
LONG = "samples of the readout per dimension, with a name that is longer than any narrow screen is wide"


def outcome(name, source, *verdicts, found=None):
    claims = tuple(
        Claim(f"{name}{i}", f"Statement {i} of {name} </script>", "rule", judged, source)
        for i, judged in enumerate((lambda tables, v=v: Judgement(v, "1", "2", "why")) for v in verdicts)
    )
    study = Study(name, f"Title {name}", "Question?", {"quick": [Grid("t", "alignment")]}, claims=claims)
    panel = Panel(
        LONG, LONG, "error", (Line([1, 2], [1, 2], LONG, "#000000"), Points([1], [1], [0.1], "points </script>"))
    )
    return StudyOutcome(
        study, {"t": pd.DataFrame({"a": [1]})}, [panel] * 2, found, ledger(name, claims, {}), RunSummary(), []
    )


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    outcomes = [
        outcome("first", "paper", "confirmed", "refuted"),
        outcome("second", "ours", "confirmed", "undecided", found="Found one. And more."),
        outcome("third", "yours", "confirmed"),
    ]
    return write_report(outcomes, tmp_path_factory.mktemp("report"), "quick", "Title")


def test_summary_then_figures_then_ledger(page):
    text = page.read_text()
    places = [
        text.index(words)
        for words in (
            "claims of the paper",
            "What is new here",
            "Not as recorded",
            "<section id='first'",
            "<details id='ledger'",
        )
    ]
    assert places == sorted(places)
    assert "claims of your studies" in text and "Found one. And more." in text[places[1] : places[2]]
    refuted = text[places[2] : places[3]]
    assert "Statement 1 of first" in refuted and "recorded: confirmed" in refuted
    assert "Statement 1 of second" in refuted and "why" in refuted  # undecided: its reason
    assert text.count("</script>") == text.count("<script")  # no statement ends a script
    assert text.count("class='panel'") == 6 and "http-equiv" not in text


class Elsewhere:
    """An executor that draws as asked, but for one study."""

    remote = False

    def submit(self, function, panels, stem):
        future: Future = Future()
        if stem.name == "second":
            future.set_exception(RuntimeError("the worker had no room"))
        else:
            future.set_result(function(panels, stem))
            (stem.parent / "drawn elsewhere").touch()
        return future


def test_other_processes_draw_the_pictures_and_this_one_what_they_could_not(tmp_path):
    outcomes = [outcome("first", "paper"), outcome("second", "ours")]
    write_report(outcomes, tmp_path, "quick", "Title", Elsewhere())
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert names == {"first.png", "first.pdf", "second.png", "second.pdf", "drawn elsewhere"}
    assert not any(one.problems for one in outcomes)


def test_every_claim_says_whose_it_is():
    claims = {claim.id: claim for study in get_studies() for claim in study.claims}
    by_source = {source: {c.id for c in claims.values() if c.source == source} for source in ("paper", "ours")}
    assert {c.source for c in claims.values()} == {"paper", "commonly stated", "ours"}
    assert {"attention-fixed", "misaligned-exact", "alignment-exact"} <= by_source["paper"]
    assert {"guidelines-hold", "guidelines-pay", "transition-dimension", "vectorized-sqrt"} <= by_source["ours"]
    for claim in claims.values():
        named = re.search(r"Propositions?|Theorems?|Corollary|Conjecture|Figure", claim.reference)
        assert (named is not None) == (claim.source == "paper"), claim.id
    # What is refuted is none of the paper's.
    assert {c.source for c in claims.values() if c.expected == "refuted"} == {"commonly stated", "ours"}


def test_first_sentences():
    assert first_sentences("One is 0.5. Two is more.", 12) == "One is 0.5."
    assert first_sentences("One is 0.5. Two is more.") == "One is 0.5. Two is more."
    assert first_sentences("Found: 1. L = 3; 2. L = 4. Then this.", 30) == "Found: 1. L = 3; 2. L = 4."
    assert first_sentences("") == ""


def test_a_classifier_s_colour_is_named_not_copied():
    """One palette: code that draws asks `style` for a classifier's colour, and uses it for nothing else."""
    root = Path(sparsetoken.__file__).parent
    for file in [*(root / "paper").rglob("*.py"), *(root / "cli").rglob("*.py"), *(root / "planning").rglob("*.py")]:
        used = {colour.upper() for colour in re.findall(r"#[0-9A-Fa-f]{6}", file.read_text())}
        assert not used & set(COLOURS.values()), file


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
@pytest.mark.parametrize("width, scheme", [(390, "light"), (1400, "dark")])
def test_it_fits_the_screen(page, width, scheme):
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        tab = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        wrong: list[str] = []
        tab.on("pageerror", lambda error: wrong.append(str(error)))
        tab.goto(page.as_uri())
        tab.locator("#second").scroll_into_view_if_needed()
        tab.wait_for_selector("#second .panel .main-svg")
        assert tab.evaluate("document.documentElement.scrollWidth") == width and not wrong
        left = tab.evaluate("[...document.querySelectorAll('#second .panel')].map(p => p.getBoundingClientRect().left)")
        assert len(set(left)) == (1 if width == 390 else 2)
        assert tab.evaluate("getComputedStyle(document.querySelector('nav')).position") == "sticky"
        ground = tab.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 25, 31)")
        titles = tab.evaluate("[...document.querySelectorAll('.modebar-btn')].map(b => b.dataset.title)")
        assert not any(re.search("cloud|share|lasso|box select", title, re.I) for title in titles)
        tab.evaluate("location.hash = '#ledger'")
        tab.fill("#ledger input", "of second")
        tab.select_option("#ledger select >> nth=0", "undecided")
        assert tab.inner_text("#ledger output") == "1 of 5 claims"
        assert tab.locator("#ledger tbody tr:visible").count() == 1
        browser.close()
