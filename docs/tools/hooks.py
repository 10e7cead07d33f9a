"""Hooks of MkDocs, named in mkdocs.yml: pages made from the gallery's scripts, from notebooks and from the public names.

Links of the pages to files beside the folder `docs` (`../examples/...`, `../CHANGELOG.md`) are links to copies inside the site.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
import sys
from html import escape
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
for place in (str(ROOT), str(ROOT / "src")):
    if place not in sys.path:
        sys.path.insert(0, place)

from benchmarks.report import expand  # noqa: E402
from docs.tools.execute import GALLERY, TUTORIALS, execute, log  # noqa: E402
from docs.tools.size import table as size_table  # noqa: E402

from sparsetoken.paper.stated_results import paper_markdown, studies_markdown  # noqa: E402
from sparsetoken.paper.typeset import with_mathml  # noqa: E402

# Public package -> what its page is called and says first.
REFERENCE = {
    "sparsetoken": ("Top level", "What most people need. Every name can be imported from `sparsetoken` itself."),
    "sparsetoken.theory": ("Theory", "The infinite world: d and n grow together."),
    "sparsetoken.simulation": ("Simulation", "The finite world: one trial from a seed."),
    "sparsetoken.estimators": ("Estimators", "Classifiers for bags, with scikit-learn's interface."),
    "sparsetoken.bags": ("Bags", "Bags of tokens, their files and their scaling."),
    "sparsetoken.planning": ("Planning", "From the theory to a decision."),
    "sparsetoken.study": ("Studies", "Grids of trials, their store, tables and tested claims."),
    "sparsetoken.losses": ("Losses", "Convex losses, and the base class for your own."),
    "sparsetoken.activations": ("Activations", "How tokens are weighted."),
    "sparsetoken.results": ("Results", "The fields that theory and simulation share."),
}

OUTPUT = re.compile(r"<!-- output: (examples/\w+\.py) -->")

# Pictures of `docs/images` that are line drawings, and so turn dark with the page.
DRAWINGS = ("cost_growth", "plan", "story", "strength")


def on_config(config: Any) -> Any:
    """Put the generated pages into the navigation."""
    for entry in config.nav:
        if "Tutorials" in entry:
            entry["Tutorials"] = [f"tutorials/{path.stem}.md" for path in sorted(TUTORIALS.glob("*.ipynb"))]
        if "Reference" in entry:
            pages = [{title: f"reference/{name}.md"} for name, (title, _) in REFERENCE.items()]
            entry["Reference"] = [{"Commands": "reference/commands.md"}, *pages]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages, the pictures behind them, and copies of what lies beside `docs`."""
    log.info("gallery and tutorials: what has not run since the code changed runs now")
    for path in sorted((ROOT / "examples").iterdir()):
        if path.is_file():
            files.append(_file(config, f"examples/{path.name}", path.read_bytes()))
    files.append(_file(config, "changelog.md", (ROOT / "CHANGELOG.md").read_text()))
    files.append(_file(config, "assets/formulas.css", (ROOT / "src/sparsetoken/paper/formulas.css").read_text()))
    files.append(_file(config, "gallery.md", _gallery(files, config)))
    for path in sorted(TUTORIALS.glob("*.ipynb")):
        existing = files.get_file_from_path(f"tutorials/{path.name}")
        if existing is None:
            files.append(_file(config, f"tutorials/{path.name}", path.read_bytes()))
        files.append(_file(config, f"tutorials/{path.stem}.md", _tutorial(path, files, config)))
    log.info("reference and commands; then the pages, a minute")
    for page, text in _reference().items():
        files.append(_file(config, page, text))
    files.append(_file(config, "reference/commands.md", _commands()))
    return files


def on_post_build(config: Any) -> None:
    """Write the search's index as a script too: pages opened as files may not fetch it otherwise."""
    folder = Path(config.site_dir) / "search"
    (folder / "search_index.js").write_text(f"var __index = {(folder / 'search_index.json').read_text()}")


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Measured tables and what examples print are filled in; links to files beside `docs` become links inside the site."""
    markdown = OUTPUT.sub(lambda mark: _printed(ROOT / mark[1]), expand(markdown))
    markdown = markdown.replace("<!-- size -->", size_table())
    markdown = markdown.replace("<!-- paper -->", paper_markdown()).replace("<!-- studies -->", studies_markdown())
    if "<!-- kinds -->" in markdown:
        for name, table in _kinds().items():
            markdown = markdown.replace(f"<!-- {name} -->", table)
    up = "../" * page.file.src_uri.count("/")
    markdown = re.sub(r"\]\((?:\.\./)+examples/", f"]({up}examples/", markdown)
    markdown = re.sub(r"\]\((?:\.\./)*CHANGELOG\.md", f"]({up}changelog.md", markdown)
    markdown = re.sub(rf"(\]\([./]*images/(?:{'|'.join(DRAWINGS)})\.png\))(?!\{{)", r"\1{.figure .drawing}", markdown)
    if page.file.src_uri == "changelog.md":
        markdown = markdown.replace("](docs/", "](")
    return markdown


def on_page_content(html: str, page: Any, config: Any, files: Files) -> str:
    """Typeset formulas, link equation numbers, and mend what docstrings lose.

    An inner product <w, x> is no tag, and no dash follows a type that has no words.
    """
    html = re.sub(r"<([\w()^* ]+, [^<>\"=]+)>", r"&lt;\1&gt;", html)
    html = re.sub(r'<(span|div) class="arithmatex">(.*?)</\1>', lambda f: _formula(f[2]), html, flags=re.DOTALL)
    if page.file.src_uri.startswith("reference/"):
        html = re.sub(
            r"<p>[^<]*Eq\. \(\d+\)[^<]*docs/theory\.md[^<]*</p>", lambda words: words[0] + _equations(words[0]), html
        )
    target = "../" * page.file.dest_uri.count("/") + "theory.html"
    html = re.sub(r"Eq\.\s\((\d+)\)(?: of docs/theory\.md)?", rf'<a href="{target}#eq-\1">Eq. (\1)</a>', html)
    return re.sub(r"\s*–\s*(?:<div class=\"doc-md-description\">\s*</div>)?\s*</li>", "\n        </li>", html)


def _equations(words: str) -> str:
    """The equations of docs/theory.md that a docstring refers to, typeset; hidden behind a line where they are many."""
    text = (ROOT / "docs" / "theory.md").read_text()
    numbered = {
        int(tag[1]): tag[0] for tag in re.finditer(r"\$\$(?:(?!\$\$).)*?\\tag\{(\d+)\}.*?\$\$", text, flags=re.DOTALL)
    }
    named = [
        range(int(r[1]), int(r[2] or r[1]) + 1) for r in re.finditer(r"Eq\. \((\d+)\)(?: to Eq\. \((\d+)\))?", words)
    ]
    wanted = [number for numbers in named for number in numbers]
    drawn = [_formula(rf"\[{escape(numbered[number].strip('$'), quote=False)}\]") for number in wanted]
    body = re.sub(r' id="eq-\w+"', "", "".join(drawn))
    opened = " open" if len(wanted) <= 4 else ""
    return f"<details class='equations'{opened}><summary>The equations</summary>{body}</details>"


def _formula(text: str) -> str:
    """A formula, and beside a displayed one of several parts these parts below each other, which a telephone shows instead."""
    drawn = with_mathml(text)
    rows = re.sub(r"\\(begin|end)\{split\}|\\tag\{\w+\}|\\\[|\\\]|&amp;", "", text)
    parts = [part for part in re.split(r"\\\\|\\q?quad\b", rows) if part.strip()]
    if not text.strip().startswith(r"\[") or len(parts) < 2:
        return drawn
    place = re.search(r' id="eq-\w+"', drawn)
    number = re.search(r"<span>\(\w+\)</span>", drawn)
    stacked = "".join(with_mathml(rf"\[{part}\]") for part in parts)
    if number:
        stacked = stacked.removesuffix("</div>") + number[0] + "</div>"
    whole = drawn.replace(place[0], "") if place else drawn
    return f'<div class="parts"{place[0] if place else ""}>{whole}<div class="stacked">{stacked}</div></div>'


def _printed(script: Path) -> str:
    """What an example prints when the site is built: Markdown tables as they are, anything else as text."""
    run = execute(script)
    text = "\n".join(content for kind, content in run.outputs[0] if kind == "text")
    shown = text if "|---|" in text else f"```text\n{text}\n```"
    name = script.relative_to(ROOT)
    return f"*Printed by `python {name}` with the present code, {run.seconds:.0f} CPU s.*\n\n{shown}\n"


def _kinds() -> dict[str, str]:
    """Tables of the kinds of trial and of their columns."""
    from sparsetoken import Task, Training
    from sparsetoken.study.kind_registry import all_kinds

    common = {"seed", *Task.__dataclass_fields__, *Training.__dataclass_fields__}
    lines = ["| kind | what it does | arguments |", "|---|---|---|"]
    columns: dict[str, str] = {}
    for name, kind in all_kinds().items():
        words = " ".join((kind.function.__doc__ or "").split("\n\n")[0].split())
        taken = ", ".join(f"`{part}`" for part in sorted(set(kind.names) - common))
        lines.append(f"| `{name}` | {words.replace('|', chr(92) + '|')} | {taken} |")
        columns |= {c: text for c, text in (kind.columns or {}).items() if not c.endswith("_se")}
    rows = [f"| `{column}` | {text.replace('|', chr(92) + '|')} |" for column, text in columns.items()]
    return {"kinds": "\n".join(lines), "columns": "\n".join(["| column | meaning |", "|---|---|", *rows])}


def _file(config: Any, path: str, content: str | bytes) -> File:
    return File.generated(config, path, content=content)


def _title_and_words(text: str) -> tuple[str, str]:
    title, _, words = text.strip().partition("\n")
    return title.rstrip("."), " ".join(words.split("\n")).strip()


def _gallery(files: Files, config: Any) -> str:
    """One section per script: its docstring, its picture, its code."""
    parts = [
        "# Gallery\n\nEvery picture was made by the script below it while this site was built. Copy one and change the "
        "numbers; most run in a few seconds, and `python docs/gallery/NAME.py` writes NAME.png.\n"
    ]
    for path in sorted(GALLERY.glob("*.py")):
        code = path.read_text()
        title, words = _title_and_words(ast.get_docstring(ast.parse(code)) or path.stem)
        run = execute(path)
        for entries in run.outputs:
            for kind, name in entries:
                if kind == "picture":
                    files.append(_file(config, f"gallery/{path.stem}-{name}", (run.folder / name).read_bytes()))
                    plain = "" if "imshow" in code or "pcolormesh" in code else " .drawing"
                    picture = f"![{title}](gallery/{path.stem}-{name}){{.figure{plain}}}"
        body = re.sub(r'^""".*?"""\n+', "", code, flags=re.DOTALL)
        parts.append(
            f'## {title}\n\n{words}\n\n{picture}\n\n??? example "docs/gallery/{path.name}, {run.seconds:.0f} CPU s"\n\n'
        )
        parts.append("\n".join("    " + line for line in ["```python", *body.rstrip().split("\n"), "```"]) + "\n")
    return "\n".join(parts)


def _tutorial(path: Path, files: Files, config: Any) -> str:
    """A notebook as a page, with the output of its run."""
    notebook, run = json.loads(path.read_text()), execute(path)
    parts, outputs = [], iter(run.outputs)
    for number, cell in enumerate(notebook["cells"]):
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(text)
            if number == 0:
                parts.append(
                    f"[Download this notebook]({path.name}){{ download }} · it ran in {run.seconds:.0f} CPU seconds."
                )
            continue
        parts.append(f"```python\n{text}\n```")
        for kind, content in next(outputs):
            if kind == "text":
                parts.append(f"```text\n{content}\n```")
            elif kind == "html":
                parts.append(f'<div class="shown">{content}</div>')
            else:
                files.append(_file(config, f"tutorials/{path.stem}-{content}", (run.folder / content).read_bytes()))
                plain = "" if "imshow" in text or "pcolormesh" in text else " .drawing"
                parts.append(f"![The cell's picture]({path.stem}-{content}){{.figure{plain}}}")
    return "\n\n".join(parts) + "\n"


def _reference() -> dict[str, str]:
    """Page -> text. Every object is described once, on the page of its own package; the top level links to the others."""
    pages, described = {}, set()
    for package in reversed(REFERENCE):  # the top level last
        title, words = REFERENCE[package]
        module = importlib.import_module(package)
        listed = getattr(module, "__all__", None) or [
            name
            for name, value in vars(module).items()
            if not name.startswith("_") and getattr(value, "__module__", "") == package
        ]
        parts, elsewhere = [f"# {title}\n\n`{package}`: {words}\n"], []
        for name in sorted(listed, key=str.lower):
            value = getattr(module, name)
            if not (inspect.isclass(value) or inspect.isfunction(value)):
                continue
            path = f"{value.__module__}.{value.__qualname__}"
            if path in described:
                first = (inspect.getdoc(value) or "").split("\n")[0]
                elsewhere.append(f"| [`{name}`][{path}] | {_escaped(first)} |")
            else:
                described.add(path)
                parts.append(f"::: {path}\n")
        if elsewhere:
            parts.insert(1, "\n".join(["| described on another page | |", "|---|---|", *elsewhere, ""]))
        pages[f"reference/{package}.md"] = "\n".join(parts)
    return pages


def _commands() -> str:
    """A page with the help of every command."""
    import typer.main

    from sparsetoken import cli

    for name in cli.COMMAND_MODULES:
        importlib.import_module(f"sparsetoken.cli.{name}")
    group: Any = typer.main.get_command(cli.app)
    parts = [
        "# Commands\n\n`sparsetoken COMMAND --help` prints the same. Options that take a number in `simulate` and "
        "`forecast` take lists (`1,2,4`) and ranges (`0.5:8:6`, `1e-5:1e-1:3:log`), too.\n"
    ]
    for name, command in sorted(group.commands.items()):
        parts.append(f"## {name}\n\n{_escaped(inspect.cleandoc(command.help or ''))}\n")
        arguments = " ".join(f"{p.name.upper()}" for p in command.params if p.param_type_name == "argument")
        parts.append(f"```text\nsparsetoken {name} {arguments} [OPTIONS]\n```\n")
        rows = []
        for option in command.params:
            words = _escaped(" ".join((getattr(option, "help", "") or "").split()))
            names = ", ".join(f"`{text}`" for text in [*option.opts, *option.secondary_opts] if text.startswith("-"))
            default = ", ".join(option.default) if isinstance(option.default, list | tuple) else option.default
            known = isinstance(default, str | int | float) and not isinstance(default, bool) and default != ""
            shown = f"`{default}`" if known and option.param_type_name == "option" else ""
            rows.append(f"| {names or f'`{option.name.upper()}`'} | {words} | {shown} |")
        parts.append("| option | meaning | default |\n|---|---|---|\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("[", "\\[")
