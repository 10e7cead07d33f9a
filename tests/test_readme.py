"""The examples in README and documentation run, and print what they are said to print."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / name).read_text(), flags=re.DOTALL)


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_readme_example_prints_what_it_says():
    code, output = blocks("README.md", "python"), blocks("README.md", "text")
    assert run(code[0]) == output[0]


def test_loss_of_a_user_in_the_documentation():
    (code,) = (block for block in blocks("docs/simulate.md", "python") if "class Sharper(Loss)" in block)
    assert 0.0 < float(run(code)) < 0.2
