"""The explorer's server and a browser that visits it, for the tests in `test_browser*.py`."""

from __future__ import annotations

import os
import shutil
import threading

import pytest

from tests.explorer.browser import Page

CHROMIUM = os.environ.get("SPARSETOKEN_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


@pytest.fixture(scope="package")
def address():
    pytest.importorskip("dash", reason="the explorer's extra is not installed")
    from sparsetoken.explorer import make_server

    server = make_server(0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="package")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")
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
