"""The report: its order, its filters, and that it fits every screen."""

import os
import re
import shutil
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import sparsetoken
from sparsetoken.paper import reproduce
from sparsetoken.paper.catalogue import get_studies
from sparsetoken.paper.page import _prose, first_sentences
from sparsetoken.paper.reproduce import StudyOutcome, write_report
from sparsetoken.paper.stated_results import RESULTS, paper_lines, paper_markdown, recorded_rows
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
    words = ("claims of the paper", "What is new,", "Not as recorded", "<article id='first'", "<details id='ledger'")
    places = [text.index(part) for part in words]
    assert places == sorted(places)
    assert "claims of your studies" in text and "Found one. And more." in text[places[1] : places[2]]
    refuted = text[places[2] : places[3]]
    assert "Statement 1 of first" in refuted and "recorded: confirmed" in refuted
    assert "Statement 1 of second" in refuted and "why" in refuted  # undecided: its reason
    assert text.count("</script>") == text.count("<script")  # no statement ends a script
    assert text.count("class='panel'") == 6 and "http-equiv" not in text
    assert page.stat().st_size < 3e6  # Plotly's script is packed


def test_the_paper_s_results_come_first(tmp_path):
    """A result's row has its claims, its number, a picture, the reason of a refuted claim, and counts by source."""
    named = outcome("scaling", "paper", "confirmed", "refuted")
    whose = ((RESULTS[0].number, "paper"), ("b", "ours"))
    claims = [replace(c, reference=RESULTS[0].name, id=i, source=s) for c, (i, s) in zip(named.study.claims, whose)]
    named.ledger = ledger("scaling", claims, {})
    text = write_report([named], tmp_path, "quick", "Title").read_text()
    table = text[text.index("The paper, result by result") : text.index("</table>")]
    assert RESULTS[0].name in table and RESULTS[1].name not in table and "data:image/png" in table
    assert f"{RESULTS[0].unit} 2" in table and "Why: why" in table and "1 confirmed; ours: 1 refuted" in table
    assert text.index("The task") < text.index("The paper, result by result")
    assert paper_lines(named.ledger) == [(RESULTS[0].name, f"1 confirmed; ours: 1 refuted; {RESULTS[0].unit} 2")]


def test_the_page_shows_real_signs():
    words = _prose("L^((k+1)/2), 2^8, -0.5 ± 0.1, sqrt(2 log L), η_b, scikit-learn, study `ladder` <b>")
    assert words == (
        "L<sup>(k+1)/2</sup>, 2<sup>8</sup>, −0.5 ± 0.1, √(2 log L), η<sub>b</sub>, scikit-learn, study "
        "<code>ladder</code> &lt;b&gt;"
    )


def test_every_result_of_the_paper_has_claims_and_its_number_is_one_of_them():
    rows, panels = recorded_rows(), {study.name for study in get_studies()}
    for result in RESULTS:
        mine = result.claims(rows)
        assert mine and result.picture[0] in panels, result.name
        assert not result.number or result.number in {row.claim.id for row in mine}, result.name
        assert result.name in paper_markdown()
    referred = {part for row in rows if row.claim.source == "paper" for part in row.claim.reference.split("; ")}
    assert referred == {result.name for result in RESULTS if not result.group}


class Elsewhere:
    """An executor that draws as asked, but for one study."""

    remote = False

    def submit(self, function, panels, stem, width):
        future: Future = Future()
        if stem.name == "second":
            future.set_exception(RuntimeError("the worker had no room"))
        else:
            future.set_result(function(panels, stem, width))
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
        named = re.search(r"Propositions?|Theorems?|Corollary|Conjecture|Figure|Eq", claim.reference)
        assert named is not None or claim.source != "paper", claim.id
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


@pytest.mark.slow
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


def test_a_line_says_that_a_study_s_trials_are_done_where_there_is_no_terminal(capsys):
    def silent(title, total):
        return lambda count: None

    advance = reproduce._bar(silent, "fig1", 3, announced=True)
    advance(0), advance(2)
    assert capsys.readouterr().err == ""
    advance(1)
    assert capsys.readouterr().err == "fig1: 3 trials\n"
    reproduce._bar(silent, "mine", 1, announced=False)(1)  # a study alone says enough at its end
    assert capsys.readouterr().err == ""
