"""`cite` prints what CITATION.cff says, and README shows."""

from __future__ import annotations

import yaml

from sparsetoken import __version__
from tests.helpers import ROOT


def test_entries_agree_with_the_citation_file(command):
    file = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors", "license"} <= set(file)
    code, printed, _ = command("cite")
    assert code == 0
    assert f"```text\n{printed.strip()}\n```" in (ROOT / "README.md").read_text()
    assert printed.count("@") == 2 and printed.count("{") == printed.count("}")
    paper = file["references"][0]
    authors = " and ".join(f"{a['family-names']}, {a['given-names']}" for a in paper["authors"])
    for words in (paper["title"], authors, paper["identifiers"][0]["value"].removeprefix("arXiv:"), str(paper["year"])):
        assert f"{{{words}}}" in printed
    assert file["version"] == __version__
    assert f"{{{__version__}}}" in printed and file["title"] in printed and file["authors"][0]["name"] in printed
