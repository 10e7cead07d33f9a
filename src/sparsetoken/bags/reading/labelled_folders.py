"""A folder of files as bags, here or on a cluster, with the labels and groups that a table has for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..bags import Bags
from ..cluster_opening import on_cluster
from ..missing import READ, checked_treatment
from .array_files import ending_of
from .folders import BagFiles, check_ignored, gather, holds_tables, list_files
from .tables import check_agreement, leave_out, values_by_id


@dataclass(frozen=True)
class LabelledFolder:
    """Bags of a folder."""

    bags: Any
    labels: np.ndarray | None
    groups: np.ndarray | None


def open_folder(
    files: Any,
    labels: Any = None,
    *,
    key: str | None = None,
    bag: str = "bag_id",
    label: str = "label",
    token_label: str = "instance_label",
    ignore: Sequence[str] = (),
    features: Sequence[str] | None = None,
    groups: str | None = None,
    literal_ids: bool = False,
    need_labels: bool = False,
    skip_unmatched: bool = False,
    executor: Any = "local",
    scheduler: str | None = None,
    missing: str = "error",
) -> LabelledFolder:
    """Bags from one file per bag, or from Parquet files with several each, for `Bags.from_files` and `read_bags`."""
    checked_treatment(missing, READ)
    found = list_files(files)
    place = files if isinstance(files, str | Path) else found.paths[0].parent
    known = None if labels is None else values_by_id(labels, bag, label, literal_ids)
    if skip_unmatched and known is None:
        raise ValueError("skip_unmatched goes with a table of labels")
    if groups is not None and labels is None:
        raise ValueError("the groups of a folder's bags are a column of the table of labels (labels_file, or --labels)")
    if need_labels and known is None and not found.are_tables:
        raise ValueError(f"{place} is a folder of bags: give the table with their labels (labels_file, or --labels)")
    check_ignored(found, ignore)
    if skip_unmatched and known is not None and not holds_tables(found, (bag,)):
        found = _with_values(found, known)  # other files are not even read
    aside = (token_label, *ignore, *([] if groups is None else [groups]))
    own_labels = None
    bags: Any
    if isinstance(executor, str) and executor == "local":
        if scheduler is not None:
            raise ValueError("scheduler belongs to executor='dask'")
        held = gather(found, key, bag, label, aside, features, need_labels and known is None, missing)
        bags, own_labels = Bags.trusted(held.tokens, held.starts, held.ids, held.names), held.labels
    elif missing != "error":
        raise ValueError("missing must be 'error' for bags on a cluster: its workers read complete tokens only")
    else:
        bags = on_cluster(found, executor, scheduler, key, bag, label, aside)
    if known is None:
        if need_labels and own_labels is None:
            raise ValueError(
                f"{place} has no column {label!r} for the labels: give the table with them (labels_file, or --labels)"
            )
        return LabelledFolder(bags, own_labels, None)
    values = values_of_bags(known, bags.ids, skip_unmatched)
    if skip_unmatched and len(values) < len(bags):
        kept = np.array([name in values for name in bags.ids.tolist()])
        if not kept.any():
            raise ValueError(f"none of the {len(bags)} bags in {place} has a label; the first is {bags.ids[0]!r}")
        bags, own_labels = bags[kept], None if own_labels is None else own_labels[kept]
    found_labels = bags.labels(values)
    if own_labels is not None and label not in ignore:
        where = f"column {label!r} of the files in {place}"
        source = labels if isinstance(labels, str | Path) else "the table of labels"
        check_agreement(found_labels, own_labels, bags.ids, where, source, leave_out(label))
    found_groups = None
    if groups is not None:
        of_table = values_by_id(labels, bag, groups, literal_ids)
        found_groups = bags.labels(values_of_bags(of_table, bags.ids, skip_unmatched))
    return LabelledFolder(bags, found_labels, found_groups)


def values_of_bags(values: dict[str, Any], ids: Iterable[str], skip_unmatched: bool = False) -> dict[str, Any]:
    """Values of a table by bag id, where the table may name a bag's file instead, ending and all."""
    known = set(ids)
    found: dict[str, Any] = {}
    named: dict[str, str] = {}
    for name, value in values.items():
        ending = None if name in known else ending_of(Path(name))
        bag = name if ending is None else name[: -len(ending)]
        if skip_unmatched and bag not in known:
            continue
        if bag in named:
            raise ValueError(f"the table of labels names bag {bag!r} twice, as {named[bag]!r} and as {name!r}")
        found[bag], named[bag] = value, name
    return found


def _with_values(files: BagFiles, values: dict[str, Any]) -> BagFiles:
    """The files whose bags have a value."""
    wanted = values_of_bags(values, files.ids, skip_unmatched=True)
    kept = [i for i, name in enumerate(files.ids) if name in wanted]
    if not kept:
        raise ValueError(f"none of the {len(files.ids)} files has a label; the first is {files.paths[0]}")
    return BagFiles(tuple(files.paths[i] for i in kept), tuple(files.ids[i] for i in kept))
