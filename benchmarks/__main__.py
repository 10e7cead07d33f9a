"""`python -m benchmarks`: run the cases, print ratios, write JSON when asked."""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # read when NumPy is first imported, below

# Module with cases -> packages whose code its figures are about: a change there makes them old.
MODULES = {
    "theory_speed": ("theory", "laws"),
    "closed_forms": ("theory", "laws"),
    "trajectories": ("theory", "laws"),
    "readout": ("solvers",),
    "samplers": ("simulation",),
    "real_bags": ("estimators", "bags", "solvers"),
    "message_passing": ("estimators", "bags"),
    "learners": ("estimators", "bags"),
    "processes": ("study", "simulation"),
    "growth": ("theory", "laws", "simulation"),
    "training_measured": ("theory", "laws", "simulation"),
    "plans": ("planning", "theory", "simulation", "estimators"),
    "planned": ("planning", "theory", "simulation", "estimators"),
}


def load_cases() -> dict:
    """All cases, by name."""
    from .measure import CASES

    for module in MODULES:
        import_module(f".{module}", "benchmarks")
    return CASES


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Speed against peers, and figures of the pages."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="cases to run (default: all)")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="the same, repeatable")
    parser.add_argument("--quick", action="store_true", help="smallest sizes: does it run, not how fast is it")
    parser.add_argument("--json", action="store_true", help="write each case to results/NAME.json")
    parser.add_argument("--list", action="store_true", help="list the cases and stop")
    given = parser.parse_args(arguments)

    from sparsetoken.cli.printing import print_table

    from .measure import Row, keep, machine_facts
    from .report import lines_of

    cases = load_cases()
    if given.list:
        print_table("benchmarks", ["name", "what"], [[c.name, c.title] for c in cases.values()])
        return 0
    chosen = [*given.names, *given.only] or list(cases)
    for name in chosen:
        if name not in cases:
            print(f"error: no benchmark {name!r}; there are {', '.join(cases)}", file=sys.stderr)
            return 2
    facts = machine_facts()
    print(", ".join(f"{k} {v}" for k, v in facts.items() if k != "load_average"))
    print("wall and CPU seconds, medians of the repeats; ratio: the peer's CPU seconds over ours\n")
    for name in chosen:
        rows = [row.to_dict() if isinstance(row, Row) else row for row in cases[name].run(given.quick)]
        if "output" in rows[0]:
            print(f"{name}: {cases[name].title}\n", *(row["output"] for row in rows), sep="\n")
        else:
            heads, *lines = lines_of(rows)
            print_table(f"{name}: {cases[name].title}", heads, lines)
        sys.stdout.flush()
        if given.json:
            module = cases[name].run.__module__.rpartition(".")[2]
            keep(name, cases[name].title, rows, MODULES[module], quick=given.quick)
    return 0


if __name__ == "__main__":
    sys.exit(main())
