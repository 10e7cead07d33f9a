"""Files that commands on bags are tried with."""

from __future__ import annotations

import pytest

from tests.helpers import planted_table


@pytest.fixture
def folder(tmp_path):
    """A folder with bags.csv and, of another seed, new.csv.gz."""
    planted_table().to_csv(tmp_path / "bags.csv", index=False)
    planted_table(1).to_csv(tmp_path / "new.csv.gz", index=False)
    return tmp_path
