"""The readers of JSON and YAML: what they accept, and that nothing hostile takes long or ends in another error."""

import json
import math
import os
import resource
import time
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest
import yaml

from coviews import load_policy
from coviews.boundary.checkpoints import read_tensors
from coviews.boundary.json_text import DEEPEST, json_lines, parse_json, read_json
from coviews.boundary.regular import open_regular, read_bounded
from coviews.boundary.schema import Count, Name, OpenSchema, Schema, checked
from coviews.boundary.yaml_text import LARGEST, parse_yaml, read_yaml
from coviews.errors import LONGEST, CoviewsError, one_line, unknown


class Point(Schema):
    x: Count
    y: float
    names: Annotated[tuple[str, ...], msgspec.Meta(max_length=3)] = ()


# ---------------------------------------------------------------------------------------------------- messages


def test_a_message_is_one_line_of_bounded_length_without_control_characters():
    message = one_line(f"cannot read {'x' * 400_000}\x1b[31m\n{'y' * 1000}: give another one")
    assert len(message) <= LONGEST
    assert message.isprintable()
    assert message.startswith("cannot read xxx")
    assert one_line("a\x1b[31m\x07\r\x00b\udcff") == r"a\x1b[31m\x07\r\x00b\udcff"
    assert one_line("one\ntwo") == "one two"


def test_long_words_are_shortened_before_sentences_are_cut():
    message = one_line(f"cannot read {'p' * 500}: it is too large, so give a smaller one")
    assert message.endswith("ppp: it is too large, so give a smaller one")
    assert "ppp...ppp" in message


def test_a_short_message_is_left_as_it_is():
    text = f"cannot read {'/folder' * 20}: No such file"
    assert str(CoviewsError(text)) == text


def test_every_error_is_short_whoever_makes_it():
    assert len(str(CoviewsError("x" * 10**6))) <= LONGEST
    assert len(str(unknown("thing", "y" * 10**6, ["a", "b"]))) <= LONGEST


# ------------------------------------------------------------------------------------------------------- files


@pytest.mark.parametrize("kind", ["fifo", "device", "folder"])
def test_only_regular_files_are_opened(tmp_path, kind):
    path = {"fifo": tmp_path / "fifo", "device": "/dev/zero", "folder": tmp_path}[kind]
    if kind == "fifo":
        os.mkfifo(path)
    with pytest.raises(CoviewsError, match="not a regular file"):
        open_regular(path)


def test_a_file_is_read_up_to_its_limit(tmp_path):
    (tmp_path / "ten").write_bytes(b"0123456789")
    assert read_bounded(tmp_path / "ten", 10) == b"0123456789"
    with pytest.raises(CoviewsError, match="too large: at most 9 bytes"):
        read_bounded(tmp_path / "ten", 9)
    with pytest.raises(CoviewsError, match="there is no list"):
        read_bounded(tmp_path / "none", 9, "list")
    with pytest.raises(CoviewsError, match="null"):
        read_bounded("a\0b", 9)


# -------------------------------------------------------------------------------------------------------- JSON


@pytest.mark.parametrize(
    "value", [{}, [], 1, 0.1, -1e300, "text \U0001f600", None, True, {"a": [1, {"b": ']]]]"[[['}]}, -(2**63), 2**64 - 1]
)
def test_json_gives_what_was_written(value):
    assert parse_json(json.dumps(value), Any, "it") == value
    assert parse_json(json.dumps(value).encode(), Any, "it") == value


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "nul", "NaN", "Infinity", "-Infinity", "1e400", "[1e999]", "9" * 30, "9" * 5000, "-" + "9" * 400,
        str(2**64), "{'a': 1}", "\x00", "[" * 5000, "[" * 5000 + "]" * 5000, '{"a":' * 40 + "1" + "}" * 40,
        '"' + '\\"' * 100_000, "1 2",
    ],
)  # fmt: skip
def test_json_that_is_refused(text):
    start = time.monotonic()
    with pytest.raises(CoviewsError, match="the file it is not JSON"):
        parse_json(text, Any, "the file it")
    assert time.monotonic() - start < 2


def test_depth_is_that_of_brackets_not_of_texts():
    deepest = "[" * DEEPEST + "]" * DEEPEST
    assert parse_json(deepest, list, "it")
    with pytest.raises(CoviewsError, match=f"more than {DEEPEST} deep"):
        parse_json(f"[{deepest}]", list, "it")
    assert parse_json(json.dumps(["[" * 100, '\\"[' * 100, "\\"]), list, "it")[2] == "\\"
    assert len(parse_json("[" + "[]," * 100 + "[]]", list, "it")) == 101


def test_json_in_another_encoding_is_refused():
    with pytest.raises(CoviewsError, match="not text in UTF-8"):
        parse_json(b"\xff\xfe{\x00}\x00", Any, "it")
    assert parse_json(b'\xef\xbb\xbf{"a": 1}', Any, "it") == {"a": 1}


def test_halves_of_characters_are_replaced():
    value = parse_json('{"a\\ud800": ["\\uDFFF", "\\ud83d\\ude00"]}', Any, "it")
    assert value == {"a\ufffd": ["\ufffd", "\U0001f600"]}
    str(value).encode()


def test_a_schema_is_strict_and_names_the_place():
    point = parse_json('{"x": 1, "y": 2, "names": ["a"]}', Point, "it")
    assert (point.x, point.y, point.names) == (1, 2.0, ("a",))
    for wrong, reason in [
        ('{"x": "1", "y": 2}', "x: expected int, got str"),
        ('{"x": true, "y": 2}', "x: expected int, got bool"),
        ('{"x": -1, "y": 2}', ">= 0"),
        ('{"x": 1.5, "y": 2}', "x: expected int, got float"),
        ('{"y": 2}', "missing required field x"),
        ('{"x": 1, "y": 2, "z": 3}', "unknown field z"),
        ('{"x": 1, "y": 2, "names": ["", "", "", ""]}', "length <= 3"),
        ("[]", "expected object, got array"),
        ("null", "expected object, got null"),
    ]:
        with pytest.raises(CoviewsError, match=f"^it is wrong: .*{reason}"):
            parse_json(wrong, Point, "it")


def test_an_open_schema_leaves_out_what_it_does_not_name():
    class Open(OpenSchema):
        x: int

    assert checked({"x": 1, "new": 2}, Open, "it").x == 1


def test_lines_that_are_no_objects_are_none(tmp_path):
    lines = ['{"a": 1}', "[]", "3", "null", "[" * 5000, '{"a": NaN}', '{"a": ' + "9" * 400 + "}", '{"b": 2}', '{"c']
    (tmp_path / "lines").write_text("\n".join(lines))
    assert list(json_lines(tmp_path / "lines")) == [{"a": 1}, *[None] * 4, {"a": None}, None, {"b": 2}, None]


def test_many_values_are_not_read(tmp_path, monkeypatch):
    with pytest.raises(CoviewsError, match="2,000,000 brackets"):
        parse_json(b"[" + b"[]," * 2_000_001 + b"1]", list, "it")
    monkeypatch.setattr("coviews.boundary.json_text._MOST_LINES", 3)
    (tmp_path / "x.jsonl").write_text("{}\n" * 3)
    assert list(json_lines(tmp_path / "x.jsonl")) == [{}] * 3
    (tmp_path / "x.jsonl").write_text("{}\n" * 4)
    with pytest.raises(CoviewsError, match="more than 3 lines"):
        list(json_lines(tmp_path / "x.jsonl"))


def test_a_json_file_names_its_kind(tmp_path):
    (tmp_path / "a.json").write_text('{"x": []}')
    with pytest.raises(CoviewsError, match=r"the plan .*a\.json is wrong: "):
        read_json(tmp_path / "a.json", Point, "plan")
    with pytest.raises(CoviewsError, match="there is no plan"):
        read_json(tmp_path / "b.json", Point, "plan")


# -------------------------------------------------------------------------------------------------------- YAML


@pytest.mark.parametrize(
    "value",
    [
        {"a": 1, "b": -2.5, "c": [True, False, None], "d": {"e": "text", "f": []}}, "yes", "1.5", "1e-3", "2020-01-01",
        "0b_", "010", "1:30", "~", "null", "", "a: b", "*a", "&a", "!!int x", "<<", "=", "x\ny", "\U0001f600", 1e-30,
        1e300, 2**63, {"on": 1, "1": 2}, ["0x10", "+1", "1_0", ".5", "5.", ".inf", "-.inf", ".nan", "1.5e3"],
    ],
)  # fmt: skip
def test_yaml_gives_what_was_written(value):
    assert parse_yaml(yaml.safe_dump(value, allow_unicode=True), Any, "it") == value


def test_yaml_written_by_hand():
    text = "# a comment\nviews: {mirror: yes, crop: small}\nlist:\n  - 1_000\n  - 0.5 # half\n  - on\n1: 2\nempty:\n"
    expected = {"views": {"mirror": True, "crop": "small"}, "list": [1000, 0.5, True], "1": 2, "empty": None}
    assert parse_yaml(text, Any, "it") == expected
    assert parse_yaml("", Any, "it") is None
    assert parse_yaml(b"\xef\xbb\xbfa: 1", Any, "it") == {"a": 1}


@pytest.mark.parametrize("text", ["2001-99-99", "0b_", "0o_", "0x", "190:20:30", "2001-01-01T99:99:99Z", ".inf", "<<"])
def test_what_only_looks_like_something_else_is_text(text):
    assert parse_yaml(f"a: {text}", Any, "it") == {"a": text}


@pytest.mark.parametrize(
    "text",
    [
        "a: !!int ''", "!!timestamp x", "!!python/object/apply:os.system [ls]", "! x", "!x y", "!!str 1", "!<a> b",
        "a: &x 1\nb: *x", "a: *x", "&a [*a]", "*a : 1", "&a b: 1", "[" * 5000, "[" * 5000 + "]" * 5000, "- " * 5000,
        "? " * 3000, "{a: " * 100, "9" * 30, "-" + "9" * 5000, "1.0e+999", "a: 1\na: 2", "a: 1\n---\nb: 2",
        "? [a]\n: 1",
        "{", "a: b: c", "\t", "%YAML 9.9\n---\na", "\x00", "a: '", "{a: 1}: 2",
        "a: &a [x,x,x,x]\nb: &b [*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b]\nd: [*c,*c,*c,*c]",
    ],
)  # fmt: skip
def test_yaml_that_is_refused(text):
    start = time.monotonic()
    with pytest.raises(CoviewsError, match="cannot be read as YAML") as error:
        parse_yaml(text, Any, "it")
    assert len(str(error.value)) <= LONGEST
    assert time.monotonic() - start < 2


def test_a_yaml_file_of_the_largest_size_is_read_in_seconds(tmp_path):
    text = "\n".join(f"key{i}: [{i}, {i}.5, x]" for i in range(7000))
    assert LARGEST * 0.5 < len(text) < LARGEST
    (tmp_path / "large.yaml").write_text(text)
    start = time.monotonic()
    assert len(read_yaml(tmp_path / "large.yaml", dict[str, list[Any]])) == 7000
    assert time.monotonic() - start < 20
    (tmp_path / "large.yaml").write_text(text * 3)
    with pytest.raises(CoviewsError, match="too large"):
        read_yaml(tmp_path / "large.yaml", Any)


def test_yaml_goes_through_a_schema():
    assert parse_yaml("x: 1\ny: 2.5", Point, "it").y == 2.5
    with pytest.raises(CoviewsError, match="it is wrong: x: expected int, got str"):
        parse_yaml("x: a\ny: 2.5", Point, "it")
    assert math.isclose(parse_yaml("x: 1\ny: 1.0e-3", Point, "it").y, 1e-3)


@pytest.mark.parametrize("read", [load_policy, read_tensors])
def test_weights_that_do_not_fit_into_memory_are_an_error_of_one_line(read, tmp_path):
    """A file of 3 GB that takes no room on the disk, read by a process that may map one more."""
    path = tmp_path / "large.safetensors"
    with open(path, "wb") as file:
        file.truncate(3 << 30)
    limits = resource.getrlimit(resource.RLIMIT_AS)
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + (1 << 30), limits[1]))
    try:
        with pytest.raises(CoviewsError, match="does not fit into memory"):
            read(path)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


class _Named(Schema):
    name: Name


@pytest.mark.parametrize("value", [{"\ud800": 1, "name": "x"}, {"name": "\udfff" * 300}])
def test_texts_that_are_not_valid_unicode(value):
    """As in a pickled checkpoint, whose texts can hold what no text file can."""
    with pytest.raises(CoviewsError, match="it is wrong"):
        checked(value, _Named, "it")
