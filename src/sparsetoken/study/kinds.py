"""The package's own kinds of trial: thin wrappers of the library's calls."""

from __future__ import annotations
