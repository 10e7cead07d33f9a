"""Renew the pictures of `docs/images` and the explorer's stored first answer: `python docs/tools/pictures.py [NAME ...]`.

Pictures of the explorer need playwright and Chromium. About three minutes in all.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from sparsetoken.explorer import make_server
from sparsetoken.explorer.answers import answer_for
from sparsetoken.explorer.fields import DEFAULTS, check
from sparsetoken.explorer.layout import FIRST_ANSWER

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs" / "images"
sys.path.insert(0, str(ROOT))

# Name -> address, width, height, colours.
PAGES = {
    "curves": ("?compare=strength%3D4", 1400, 900, "light"),
    "needed": ("?view=needed&goal=cosine", 1400, 860, "light"),
    "phase-dark": ("?view=phase", 1400, 860, "dark"),
    "bag": ("?view=bag&length=30&sparsity=2&seed=3", 1400, 800, "light"),
    "training": ("?view=training&model=tied&sharpness=2&rate_w=0.5&rate_b=1.5&decay=0.2&steps=30", 1400, 860, "light"),
    "small": ("?view=alignment", 390, 844, "light"),
}
GALLERY = {"story": "01_story", "strength": "03_strength_against_length"}
PLAN = "--length 100 --sparsity 2 --strength 4 --prevalence 0.3 -n 5000 -d 768 --ask none"


def first_answer() -> None:
    """The answer to the page's defaults, which a first page shows at once."""
    state, _ = check(DEFAULTS)
    assert state is not None
    FIRST_ANSWER.write_text(json.dumps(answer_for(state, None, quick=False), ensure_ascii=False) + "\n")


def explorer() -> None:
    """Pages of the explorer, each when its exact answer is on the screen."""
    from playwright.sync_api import sync_playwright
    from tests.explorer.browser import SHOWN

    server = make_server(0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    chromium = os.environ.get("SPARSETOKEN_CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for name, (query, width, height, scheme) in PAGES.items():
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
            page.goto(f"http://127.0.0.1:{server.port}/{query}")
            page.wait_for_function(SHOWN, arg={"stage": "exact", "values": {}}, timeout=300_000)
            page.wait_for_timeout(500)  # until the last transition has ended
            page.screenshot(path=IMAGES / f"explorer-{name}.png")
            page.close()
        browser.close()
    server.shutdown()


def gallery() -> None:
    """Pictures of the README, as the site's gallery has them."""
    from docs.tools.execute import GALLERY as scripts
    from docs.tools.execute import execute

    for name, script in GALLERY.items():
        run = execute(scripts / f"{script}.py")
        shutil.copy(run.folder / "0.png", IMAGES / f"{name}.png")


def plan() -> None:
    """The plan's learning curves in docs/plan.md."""
    from sparsetoken.cli import main

    main(["plan", *PLAN.split(), "--plot", str(IMAGES / "plan.png")])


MAKERS: dict[str, Callable[[], None]] = {m.__name__: m for m in (first_answer, explorer, gallery, plan)}

if __name__ == "__main__":
    for chosen in sys.argv[1:] or MAKERS:
        print(f"{chosen} ...", flush=True)
        MAKERS[chosen]()
