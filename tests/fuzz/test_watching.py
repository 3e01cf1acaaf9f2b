"""The watch over cases sees what it is for: tracebacks, hangs, memory and long messages."""

import random
import time

import numpy as np
import pytest

from coviews import CoviewsError
from hostile_formats import Format
from mutations import MUTATIONS
from watched_cases import Work, run_cases


def _fail(kind):
    match kind:
        case "traceback":
            raise KeyError("x")
        case "hang":
            time.sleep(60)
        case "memory":
            np.ones(1_200_000_000, np.uint8)
        case "long message":
            raise CoviewsError("x" * 400)
        case "error":
            raise CoviewsError("wrong: do this")


@pytest.mark.parametrize("kind", ["ok", "error", "traceback", "hang", "memory", "long message"])
def test_each_ending_is_seen(kind, tmp_path):
    def make(folder):
        (folder / "x.json").write_text("{}")

    work = Work(tmp_path, {"x": Format(make, {"x.json": "json"}, {"call": lambda folder: _fail(kind)})})
    work.prepare(["x"])
    endings = list(run_cases(work, ["x:1", "x:2"], seconds=0.5 if kind == "hang" else 20))
    assert [e.kind for e in endings] == [kind, kind]
    assert [e.case for e in endings] == ["x:1", "x:2"]


def test_a_case_is_the_same_at_any_time():
    content = {
        "json": b'{"a": [1, 2, {"b": "c"}]}',
        "yaml": b"a: 1\nb: {c: [1, 2]}\n",
        "table": b"path,label\nx.png,1\n",
    }
    for name, data in content.items():
        damaged = {MUTATIONS[name](data, random.Random(f"case {i}")) for i in range(50)}
        assert damaged == {MUTATIONS[name](data, random.Random(f"case {i}")) for i in range(50)}
        assert len(damaged) > 30
