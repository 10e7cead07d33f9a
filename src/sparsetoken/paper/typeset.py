r"""Formulas as MathML, which browsers draw without scripts: the same for the report and the site.

In HTML, \(...\) is a formula in the line and \[... \tag{7}\] a numbered one with the anchor `eq-7`. `formulas.css` has
the rules for both, and the subset of the font STIX Two Math that they need.
"""

from __future__ import annotations

import re
from html import escape, unescape

_INLINE = re.compile(r"\\\((.+?)\\\)", flags=re.DOTALL)
_DISPLAY = re.compile(r"\\\[(.+?)\\\]", flags=re.DOTALL)
_TAG = re.compile(r"\\tag\{(\w+)\}")
# Corrections of the converter: fences and infinity have no spaces around them, a tilde has, and a prime's glyph is raised
# already.
_BETTER = {
    r"<mo(?: stretchy=\"false\")?>(&#x02016;|&#x0007C;|&#x0002F;)</mo>": r'<mo stretchy="false" lspace="0" rspace="0">\1</mo>',
    r"<mo>(&#x0221E;)</mo>": r"<mi>\1</mi>",
    r"<mi>&#x0007E;</mi>": r'<mo lspace="0.28em" rspace="0.28em">&#x0223C;</mo>',
    r"<msup><mi>([^<]*)</mi><mi>(&#x0203[23];)</mi></msup>": r'<mi>\1</mi><mo lspace="0" rspace="0">\2</mo>',
}


def with_mathml(html: str) -> str:
    """The page with its formulas typeset."""
    return _INLINE.sub(lambda found: _mathml(found[1], "inline"), _DISPLAY.sub(lambda found: _numbered(found[1]), html))


def _numbered(formula: str) -> str:
    tag = _TAG.search(formula)
    place, number = (f' id="eq-{tag[1]}"', f"<span>({tag[1]})</span>") if tag else ("", "")
    return f'<div class="equation"{place}>{_mathml(_TAG.sub("", formula), "block")}{number}</div>'


def _mathml(formula: str, display: str) -> str:
    from latex2mathml.converter import convert

    latex = " ".join(unescape(formula).split())
    mathml = convert(latex, display=display).replace("<math ", f'<math alttext="{escape(latex, quote=True)}" ', 1)
    for plain, better in _BETTER.items():
        mathml = re.sub(plain, better, mathml)
    return mathml
