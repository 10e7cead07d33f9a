"""The site builds without a warning, asks no other host for anything, and its search knows the pages."""

import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from sparsetoken import __all__ as public
from tests.helpers import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    paths = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]))
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return folder


class Fetched(HTMLParser):
    """Addresses that a browser fetches by itself when it shows a page."""

    def __init__(self, text: str):
        super().__init__()
        self.found: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        named = dict(attrs)
        if tag == "link" and named.get("rel") in ("canonical", "next", "prev", "alternate"):
            return
        if tag in ("link", "script", "img", "iframe", "source", "video", "audio", "embed", "object"):
            self.found += [named[key] for key in ("href", "src", "srcset", "data") if named.get(key)]


def test_pages_fetch_nothing_from_other_hosts(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        fetched = Fetched(page.read_text()).found
        assert fetched and not [a for a in fetched if re.match(r"(https?:)?//", a)], page
    for style in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import)\s*['\"]?(https?:)?//", style.read_text()), style


def test_what_pages_fetch_is_there(site):
    for page in site.rglob("*.html"):
        if page.name == "404.html":  # its addresses are absolute
            continue
        for address in Fetched(page.read_text()).found:
            if not address.startswith("data:"):
                assert (page.parent / address.split("?")[0].split("#")[0]).exists(), (page, address)


class Linked(HTMLParser):
    """Where a page's links go, and which places in it have a name."""

    def __init__(self, text: str):
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        named = dict(attrs)
        self.places |= {named[key] for key in ("id", "name") if named.get(key)}
        if tag == "a" and named.get("href"):
            self.links.append(named["href"])


def test_links_and_anchors_go_somewhere(site):
    pages = {page.resolve(): Linked(page.read_text()) for page in site.rglob("*.html") if page.name != "404.html"}
    dead = []
    for page, found in pages.items():
        for link in found.links:
            path, _, place = unquote(link).partition("#")
            if re.match(r"[a-z]+:", path):  # another host, or mail
                continue
            target = (page.parent / path).resolve() if path else page
            if not target.is_file() or (place and target in pages and place not in pages[target].places):
                dead.append((str(page.relative_to(site.resolve())), link))
    assert not dead and sum(len(found.links) for found in pages.values()) > 1000


def test_formulas_and_lists_come_through(site):
    """An inner product <w, x> of a docstring is text, not a tag; a list is one; nothing follows a dash at the end."""
    for page in site.rglob("*.html"):
        text = re.sub(r"<pre.*?</pre>|<code.*?</code>", "", page.read_text(), flags=re.DOTALL)
        assert not re.findall(r"<[\w() ]+, [^<>]*>", text), page
        assert not re.findall(r"<p>[^<]*\n(?:- |\d\. )", text), page
        assert not re.findall(r"–\s*</li>", text), page
    assert "l(&lt;w, f_i&gt; + b; y_i)" in (site / "reference" / "sparsetoken.theory.html").read_text()


def test_an_equation_of_several_parts_has_them_below_each_other_too(site):
    """Telephones show the parts; the number and the anchor stand once."""
    text = (site / "theory.html").read_text()
    found = re.search(r'<div class="parts" id="eq-6">(.*?)</div></div></div>', text, flags=re.DOTALL)
    assert found and found[1].count("<math ") == 1 + 3 and text.count('id="eq-6"') == 1
    assert text.count("<span>(6)</span>") == 2  # of the whole and of the last part, one of which is shown


def test_tables_that_examples_print_are_on_the_page(site):
    text = (site / "theory_tables.html").read_text()
    assert text.count("Printed by") == 3 and "<th>top eigenvector</th>" in text and "<!-- output" not in text


def test_search_knows_pages_and_names(site):
    entries = json.loads((site / "search" / "search_index.json").read_text())["docs"]
    titles = {entry["title"] for entry in entries}
    assert {"Gallery", "Install", "doctor"} <= titles
    named = " ".join(re.sub(r"<[^>]+>", "", title) for title in titles)
    assert not [name for name in public if name not in ("__version__", "theory") and name not in named]


def test_every_page_of_the_folder_is_in_the_site(site):
    for page in (ROOT / "docs").rglob("*.md"):
        assert (site / page.relative_to(ROOT / "docs").with_suffix(".html")).exists()


@pytest.fixture
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = os.environ.get("SPARSETOKEN_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no chromium on this machine")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        yield started
        started.close()


@pytest.mark.browser
def test_no_page_is_wider_than_a_telephone(site, browser):
    page = browser.new_page(viewport={"width": 390, "height": 844})
    wide = []
    for path in [*site.glob("*.html"), *(site / "derivations").glob("*.html"), *(site / "start").glob("*.html")]:
        page.goto(path.as_uri())
        if page.evaluate("() => document.documentElement.scrollWidth") > 390:
            wide.append(path.name)
    assert not wide


@pytest.mark.browser
def test_search_works_without_a_server(site, browser):
    page = browser.new_page()
    problems = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.goto((site / "start" / "index.html").as_uri())
    page.keyboard.press("/")
    page.keyboard.type("strength_needed")
    page.wait_for_selector(".md-search-result__item a[href*='sparsetoken.theory.html']", timeout=60_000)
    assert not problems


def test_docstrings_show_the_equations_they_refer_to(site):
    page = (site / "reference" / "sparsetoken.theory.html").read_text()
    shown = re.findall(r"<details class=['\"]equations.*?</details>", page, flags=re.DOTALL)
    assert len(shown) >= 8 and all("<math" in part for part in shown)
    readout = next(part for part in shown if "<span>(11)</span>" in part and "<span>(8)</span>" in part)
    assert "<span>(10)</span>" in readout and "<mo>&amp;</mo>" not in readout and "&amp;amp;" not in readout
