"""Formulas become MathML, numbered ones with an anchor."""

from __future__ import annotations

from importlib import resources
from xml.etree import ElementTree

import pytest

from sparsetoken.paper.typeset import with_mathml

pytest.importorskip("latex2mathml", reason="needs the extra sparsetoken[report]")


def test_formulas_are_replaced_and_text_is_kept():
    html = with_mathml(
        r"<p>Where \(a &lt; b\), <b>see</b> \[\begin{split}a &amp;= b\\ c &amp;= d\end{split} \tag{7}\]</p>"
    )
    page = ElementTree.fromstring(html)
    inline, block = page.iter("{http://www.w3.org/1998/Math/MathML}math")
    assert (inline.get("display"), block.get("display")) == ("inline", "block")
    assert inline.get("alttext") == "a < b"
    assert len(list(block.iter("{http://www.w3.org/1998/Math/MathML}mtr"))) == 2
    numbered = page.find("div[@id='eq-7']")
    assert numbered is not None and numbered.findtext("span") == "(7)"
    assert page.findtext("b") == "see"


def test_primes_are_not_raised_twice():
    assert "<msup>" not in with_mathml(r"\(l'(r) + l''(r)\)")


def test_the_style_sheet_needs_no_network():
    text = resources.files("sparsetoken.paper").joinpath("formulas.css").read_text()
    assert "url(data:" in text and "http" not in text.split("base64,")[0]
