"""`doctor` and `cite`: what this installation has and whether anything is missing; how to cite the paper and the software."""

from __future__ import annotations

import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

from .._core.imports import EXTRAS, present
from .._core.workers import THREAD_VARIABLES
from . import CHOSEN_THREADS
from .options import STUDIES, command, option
from .printing import echo

PAPER = """@inproceedings{barnfield2026attention,
  title     = {High-Dimensional Analysis of Single-Layer Attention for Sparse-Token Classification},
  author    = {Barnfield, Nicholas and Cui, Hugo and Lu, Yue M.},
  booktitle = {International Conference on Learning Representations},
  year      = {2026},
  eprint    = {2509.25153},
  archivePrefix = {arXiv},
}"""
SOFTWARE = """@software{{sparsetoken,
  title   = {{sparsetoken: exact theory, simulation and learners for sparse-token classification}},
  author  = {{{{The sparsetoken developers}}}},
  version = {{{version}}},
  license = {{MIT}},
}}"""


@command("This installation")
def doctor(
    json_output: bool = option(False, "As JSON, to paste into a report of a problem.", "--json"),
) -> int:
    """Show versions, devices, threads, caches and extras; the exit code is 1 where something required is missing.

    Example: sparsetoken doctor --json
    """
    facts = examine()
    if json_output:
        echo(json.dumps(facts, indent=1))
    else:
        echo("\n".join(f"problem: {line}" for line in facts["problems"]) or "nothing is missing")
        for heading, lines in facts.items():
            if heading != "problems":
                echo(f"{heading}")
                width = max(len(name) for name in lines)
                for name, value in lines.items():
                    echo(f"  {name:<{width}}  {value}")
    return 1 if facts["problems"] else 0


def examine() -> dict[str, Any]:
    """The facts by heading, each a mapping of text to text, and the list `problems`."""
    from .. import __version__

    problems: list[str] = []
    return {
        "program": {
            "sparsetoken": f"{__version__} in {Path(__file__).resolve().parents[1]}",
            "Python": f"{platform.python_version()} in {sys.prefix}",
            "system": f"{platform.system()} {platform.release()}, {platform.machine()}",
        },
        "packages": _packages(problems),
        "extras": {
            name: f"{'installed' if present(name) else 'not installed'}: {purpose}"
            for name, (_, purpose, _) in EXTRAS.items()
        },
        "devices": _devices(problems),
        "threads": _threads(),
        "cache": _cache(problems),
        "problems": problems,
    }


def _packages(problems: list[str]) -> dict[str, str]:
    """Version of every required package; one that is missing or too old is a problem."""
    from importlib import metadata

    from packaging.requirements import Requirement

    try:
        listed = metadata.requires("sparsetoken") or []
    except metadata.PackageNotFoundError:
        problems.append("sparsetoken runs from its sources and is not installed: pip install -e .")
        return {"sparsetoken": "not installed"}
    versions = {}
    for text in listed:
        wanted = Requirement(text)
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
            continue
        try:
            version = metadata.version(wanted.name)
        except metadata.PackageNotFoundError:
            versions[wanted.name] = "missing"
            problems.append(f"{wanted.name} is not installed: pip install '{wanted.name}{wanted.specifier}'")
            continue
        versions[wanted.name] = version
        if not wanted.specifier.contains(version, prereleases=True):
            problems.append(f"{wanted.name} is {version}, and {wanted.specifier} is required")
    return versions


def _devices(problems: list[str]) -> dict[str, str]:
    """What JAX computes on; one that cannot start is a problem, since theory needs it."""
    try:
        import jax

        devices = jax.devices()
    except (ImportError, RuntimeError) as error:
        problems.append(f"JAX does not start: {error}")
        return {"JAX": "does not start"}
    lines = {}
    for number, device in enumerate(devices):
        room = (device.memory_stats() or {}).get("bytes_limit")
        memory = f", {room / 1e9:.1f} GB" if room else ""
        lines[f"{device.platform} {number}"] = f"{device.device_kind}{memory}"
    if all(device.platform == "cpu" for device in devices):
        lines["accelerator"] = "none; device='auto' stays with NumPy"
    return lines


def _threads() -> dict[str, str]:
    import scipy.linalg  # noqa: F401  (loads SciPy's own BLAS, so that it is found)
    from threadpoolctl import threadpool_info

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    lines = {"cores": str(cores)}
    pools: dict[str, int] = {}
    for pool in threadpool_info():
        name = f"{pool['internal_api']} {pool['version'] or ''}".strip()
        pools[name] = max(pools.get(name, 0), pool["num_threads"])
    for name, count in pools.items():
        lines[name] = f"{count} thread{'s' if count != 1 else ''}"
    chosen = [f"{name}={os.environ[name]}" for name in THREAD_VARIABLES if name in CHOSEN_THREADS]
    lines["set by you"] = ", ".join(chosen) or "nothing; commands take one thread per process"
    return lines


def _cache(problems: list[str]) -> dict[str, str]:
    """Where compiled code is kept, and how much of it; a folder that cannot be written is a problem."""
    folder = Path(os.environ["JAX_COMPILATION_CACHE_DIR"])
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    if folder.exists() and not os.access(folder, os.W_OK):
        problems.append(f"the cache folder {folder} cannot be written: set JAX_COMPILATION_CACHE_DIR to one that can")
    held = f"{len(sizes)} files, {sum(sizes) / 1e6:.1f} MB; it may be removed at any time" if sizes else "empty"
    return {"compiled code": f"{folder}: {held}"}


@command(STUDIES)
def cite() -> None:
    """Print BibTeX entries of the paper and of this software.

    Example: sparsetoken cite > references.bib
    """
    from .. import __version__

    echo(PAPER)
    echo(SOFTWARE.format(version=__version__))
