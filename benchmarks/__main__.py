"""Run benchmark modules: each is a module of this package with a `main()` that prints its table."""

from __future__ import annotations

import os
import pkgutil
import sys
from importlib import import_module

import benchmarks

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

known = sorted(module.name for module in pkgutil.iter_modules(benchmarks.__path__))
known = [name for name in known if not name.startswith("_")]
chosen = sys.argv[1:] or known
for name in chosen:
    if name not in known:
        sys.exit(f"error: no benchmark {name!r}; there are {', '.join(known)}")
for name in chosen:
    import_module(f"benchmarks.{name}").main()
