"""What the policies in JSON files share: their operations with the ends of the ranges, so that no space has a name."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from coviews.boundary.schema import Name, Schema
from coviews.errors import CoviewsError, unknown
from coviews.files.atomic import write_whole
from coviews.ops.series_operations import every_operation
from coviews.ops.space import FINE, SPACES, Space, has_bins, space

Ranges = dict[str, tuple[float, float]]  # the lowest and the highest value of each operation
FORMAT = 1  # of the file
DEFAULT = "autoaugment"  # the operations and ranges of AutoAugment and its successors


class JSONPolicy(Schema, kw_only=True):
    """What every such file has."""

    format: int
    policy: Name  # its kind
    operations: Ranges
    statistics: dict[str, Any] = msgspec.field(default_factory=dict)  # how it was found


def range_space(name: str | None = None) -> Space:
    """A built-in space whose levels divide ranges evenly, finely enough to be continuous; AutoAugment's by default."""
    return space(DEFAULT if name is None or has_bins(name) else name, levels=FINE)


def write_json_policy(
    path: str | Path, kind: str, operations: Space, used: Iterable[str], rows: Mapping[str, Sequence[Any]],
    statistics: Mapping[str, Any] | None,
) -> None:  # fmt: skip
    """Write a policy atomically, a row to a line.

    Args:
        path: the file.
        kind: of the policy.
        operations: the space of the policy.
        used: its operations that are written.
        rows: what the policy consists of, under one name.
        statistics: how it was found, as plain JSON.
    """
    ends = zip(operations.ops, operations.values.tolist(), strict=True)
    names = {*used}
    ranges = {op: (values[0], values[-1]) for op, values in ends if op in names and op != "Identity"}
    head = {"format": FORMAT, "policy": kind, "statistics": statistics or {}, "operations": ranges}
    lines = [f' "{name}": {json.dumps(value, allow_nan=False)}' for name, value in head.items()]
    for name, values in rows.items():
        listed = ",\n".join(f"  {json.dumps(row, allow_nan=False)}" for row in values)
        lines.append(f' "{name}": [\n{listed}\n ]')
    write_whole(Path(path), ("{\n" + ",\n".join(lines) + "\n}\n").encode())


def json_policy_space(content: JSONPolicy, kind: str, used: Iterable[str], path: str | Path) -> Space:
    """The space of a policy that was read; an error if the file is of another kind, or lacks a range."""
    if content.format != FORMAT or content.policy != kind:
        raise CoviewsError(
            f"{path} has the format {content.format} of {content.policy!r}, and this version of coviews reads {FORMAT} "
            f"of {kind!r}"
        )
    where = f"the policy file {path}"
    rows, widest = {"Identity": np.zeros(FINE)}, _widest()
    for op, (low, high) in content.operations.items():
        if op not in widest or op == "Identity":
            raise unknown(f"operation in {where}:", op, widest)
        least, most = widest[op]
        if not least <= low <= high <= most:
            raise CoviewsError(
                f"{where} is wrong: the range {low:g} .. {high:g} of {op} is beyond {least:g} .. {most:g}"
            )
        rows[op] = low + (high - low) * np.arange(FINE) / (FINE - 1)
    for op in sorted({*used} - rows.keys()):
        raise CoviewsError(f"{where} is wrong: it has no range for {op}")
    return Space("of a policy file", tuple(rows), np.stack(list(rows.values())))


def _widest() -> Ranges:
    """The widest range of each operation in the tables and in all spaces."""
    widest = {op: (row.low, row.high) for op, row in every_operation().items()}
    for operations in map(space, SPACES):
        for op, values in zip(operations.ops, operations.values, strict=True):
            low, high = widest[op]
            widest[op] = min(low, float(values.min())), max(high, float(values.max()))
    return widest
