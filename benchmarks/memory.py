"""Peak memory of a data set that would not fit: the full tensor, drawn and streamed, in a process of its own."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from .measure import Row, case, timed_command

_TRIAL = """
import json, sys
from benchmarks.measure import peak_megabytes
from sparsetoken import Task, Training
from sparsetoken.simulation.two_steps import two_steps

d, length, n = map(int, sys.argv[1:])
two_steps(Task(length=4), Training(), 50, 0, sampler="tensor")
before = peak_megabytes()
found = two_steps(Task(length=length), Training(alpha0=n / d), d, 0, sampler="tensor")
print(json.dumps([before, peak_megabytes(), found.cosine["q"]]))
"""


@case("memory", "the two gradient steps on the full tensor, generated and streamed: peak memory")
def memory(quick: bool) -> list[Row]:
    if not Path("/proc/self/status").exists():
        return []  # the system does not say
    d, length, n = (1000, 50, 200) if quick else (10_000, 100, 6250)
    timing, output = timed_command([sys.executable, "-c", _TRIAL, str(d), str(length), str(n)], {}, 1)
    before, peak, cosine = json.loads(output)
    size = 8e-9 * n * length * d
    note = (
        f"tokens {size:.3g} GB; resident set at most {peak:.0f} MB, of which {before:.0f} MB are the "
        f"imports; cosine of the query {cosine:.3f}"
    )
    return [Row(f"two steps on {n} bags of {length} x {d}", timing, note=note)]
