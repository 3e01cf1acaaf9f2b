"""Damage to files, drawn by a seeded generator: to their bytes, and to what stands in them."""

import io
import json
import math
import os
import random
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import yaml

LONG = 20_000  # characters of a long text
DEEP = 5_000  # levels of a deep nesting

VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 7, 20_000, 2**31, 2**63, 2**64, -(2**63) - 1, 10**400, 0.5, -0.0, 1e-320, 1e300,
    1e308, math.nan, math.inf, -math.inf, "", "x", "nan", "1e999", "-1", "\x00", "\x1b[2J\r\n", "é" * 9, "\ud800",
    "../../x", "/dev/zero", "shapes:" + "9" * 5000, "x" * LONG, "<script>alert(1)</script>",
    [], {}, [[]], [None], [1, 2, 3], {"": 0},
    {"name": 1}, [1e308] * 9, list(range(2000)), {str(i): i for i in range(2000)},
)  # fmt: skip

_JSON_TEXTS = (
    "[" * DEEP, "[" * DEEP + "]" * DEEP, '{"a":' * DEEP, "1e99999", "9" * LONG, "-", "NaN", "Infinity", "tru", "'x'",
    "{", '{"a":1,"a":2}', "\ufeff{}", '"\\ud800"', '"\\', "//x", "0x10", "1_000", "[1,]",
)  # fmt: skip
_YAML_TEXTS = (
    "!!int ''", "!!timestamp x", "!!float x", "!!bool x", "!!binary '*'", "!!set {a}", "!!omap [a]",
    "!!python/name:os.system ''",
    "!!python/object/apply:os.system ['true']", "0b_", "0x_", "0o9", "1_0:99:99", "2024-99-99", "2024-02-30",
    "9999999999-01-01",
    "2024-01-01T99:99:99", "&a [*a]", "*nothing", "&a {x: *a}", "{? [a] : b}", "? {a: b}\n: c", "<<: 1", "<<: [1]",
    "|", ">-", "%TAG", "---\n---",
    "9" * LONG, "1e999", ".nan", "-.inf", "'", '"\\x"', '"\\U00110000"', "\t- x",
    "[" * DEEP, "{a: " * DEEP, "- " * DEEP,
    "- " * 50 + "x", "\x00", "\u2028", "~", "{}", "[]", "!", "!x y", "=", "[a, b", "a: b: c",
)  # fmt: skip
BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(9)
)
_BYTES = (
    b"\x00" * 8, b"\xff" * 8, b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\xff\xff\xff\xff\xff\xff\xff\x7f",
    b"PK\x03\x04",
    b"\x93NUMPY\x01\x00", b"%s%n", b"\xef\xbb\xbf", b"\xff\xfe", b"../", b"\r\n", b"\n", b",", b"'", b'"', b"(",
    b"{", b"[", b"-1", b"1e999",
    b"9" * 300, b"\x1b[2J",
)  # fmt: skip


def mutate_bytes(content: bytes, chance: random.Random) -> bytes:
    """One to four damages somewhere in the bytes."""
    data = bytearray(content)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        place = chance.randrange(len(data) + 1)
        # headers are where the fields are: half of all damages hit the first bytes
        place = min(place, chance.randrange(1, 200)) if chance.random() < 0.5 else place
        match chance.randrange(9):
            case 0 | 1 if data:
                data[min(place, len(data) - 1)] ^= 1 << chance.randrange(8)
            case 2 if data:
                data[min(place, len(data) - 1)] = chance.randrange(256)
            case 3:
                del data[place:]
            case 4:
                del data[place : place + chance.randrange(1, 64)]
            case 5:
                data[place:place] = data[place : place + chance.randrange(1, 4096)]
            case 6:
                data[place:place] = chance.choice(_BYTES)
            case 7:
                token = chance.choice(_BYTES)
                data[place : place + len(token)] = token
            case _:
                data += chance.randbytes(chance.choice((1, 16, 4096)))
    return bytes(data)


def _places(tree: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in nested dictionaries and lists; of long lists only the ends."""
    places = [at]
    if isinstance(tree, dict):
        for key, value in tree.items():
            places += _places(value, (*at, key))
    elif isinstance(tree, list):
        for i in {0, 1, len(tree) - 1} & set(range(len(tree))):
            places += _places(tree[i], (*at, i))
    return places


def mutate_tree(tree: Any, chance: random.Random, values: tuple[Any, ...] = VALUES) -> Any:
    """One or two values replaced, removed, added, doubled or wrapped; the tree itself stays as it is."""
    tree = _copied(tree)
    for _ in range(chance.choice((1, 1, 2))):
        place = chance.choice(_places(tree))
        if not place:
            if chance.random() < 0.1:
                return chance.choice(values)
            continue
        owner = tree
        for key in place[:-1]:
            owner = owner[key]
        key = place[-1]
        match chance.randrange(8):
            case 0:
                del owner[key]
            case 1 if isinstance(owner, dict):
                owner[chance.choice(("name", "x", "", 1, None, "format", "x" * LONG))] = owner[key]
            case 1:
                owner.append(owner[key])
            case 2:
                owner[key] = chance.choice(([owner[key]], {"x": owner[key]}, [owner[key]] * 3))
            case 3 if isinstance(owner[key], list):
                owner[key] = owner[key] * chance.choice((2, 100))
            case 4 if type(owner[key]) in (int, float):
                owner[key] = _other_number(owner[key], chance)
            case _:
                owner[key] = chance.choice(values)
    return tree


def _other_number(value: float, chance: random.Random) -> Any:
    try:
        return chance.choice(
            (-value, value + 1, value * 1000, value * 10**9, value / 7, float(value), str(value), int(value))
        )
    except (OverflowError, ValueError):
        return 0


def _copied(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _copied(value) for key, value in tree.items()}
    return [_copied(value) for value in tree] if isinstance(tree, list | tuple) else tree


def json_text(tree: Any, chance: random.Random) -> str:
    """As JSON; keys that are no texts become such, and lone surrogates stay escaped."""
    text = json.dumps(tree, skipkeys=True)
    if chance.random() < 0.2:  # what no writer would write, in the place of a value
        starts = [i for i, c in enumerate(text) if c in ":,["]
        if starts:
            place = chance.choice(starts) + 1
            ends = [i for i, c in enumerate(text) if c in ",]}" and i >= place]
            text = text[:place] + chance.choice(_JSON_TEXTS) + text[(chance.choice(ends[:2]) if ends else place) :]
    return text


def mutate_json(content: bytes, chance: random.Random) -> bytes:
    if chance.random() < 0.25:
        return mutate_bytes(content, chance)
    return json_text(mutate_tree(json.loads(content), chance), chance).encode()


def mutate_lines(content: bytes, chance: random.Random) -> bytes:
    """JSON, one value a line."""
    if chance.random() < 0.2:
        return mutate_bytes(content, chance)
    lines = content.splitlines()
    for _ in range(chance.choice((1, 1, 3))):
        place = chance.randrange(len(lines))
        match chance.randrange(6):
            case 0:
                lines.insert(place, json_text(chance.choice(VALUES), chance).encode())
            case 1:
                lines.insert(place, chance.choice(_JSON_TEXTS).encode())
            case 2:
                lines[place:place] = [lines[place]] * chance.choice((1, 3, 500))
            case _:
                try:
                    lines[place] = json_text(mutate_tree(json.loads(lines[place]), chance), chance).encode()
                except (ValueError, RecursionError):
                    lines[place] = b"null"
    return b"\n".join(lines) + b"\n" * chance.choice((0, 1, 1, 1))


def mutate_yaml(content: bytes, chance: random.Random) -> bytes:
    draw = chance.random()
    if draw < 0.2:
        return mutate_bytes(content, chance)
    if draw < 0.6:
        tree = mutate_tree(yaml.safe_load(content), chance)
        try:
            return yaml.safe_dump(tree, sort_keys=False, allow_unicode=chance.random() < 0.5).encode(
                "utf-8", "surrogatepass"
            )
        except (yaml.YAMLError, UnicodeError):
            return json.dumps(tree, skipkeys=True).encode()  # JSON is YAML
    lines, token = content.decode().splitlines(), chance.choice(_YAML_TEXTS)
    place = chance.randrange(len(lines))
    match chance.randrange(5):
        case 0:
            lines.insert(place, chance.choice((token, f"x: {token}", BOMB + f"data: *{chance.choice('adgj')}")))
        case 1:
            key, _, value = lines[place].partition(":")
            lines[place] = f"{key}: &a {value}\nx: [*a, *a]"
        case _:
            lines[place] = lines[place].partition(":")[0] + f": {token}"
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def mutate_safetensors(content: bytes, chance: random.Random) -> bytes:
    """The bytes, the header, or the description that coviews keeps in it."""
    draw = chance.random()
    if draw < 0.2:
        return mutate_bytes(content, chance)
    length = struct.unpack("<Q", content[:8])[0]
    header, data = json.loads(content[8 : 8 + length]), bytearray(content[8 + length :])
    if draw < 0.65 and "coviews" in header.get("__metadata__", {}):
        tree = mutate_tree(json.loads(header["__metadata__"]["coviews"]), chance)
        header["__metadata__"]["coviews"] = json_text(tree, chance)
    elif draw < 0.9:
        header = mutate_tree(header, chance)
    elif data:
        place = chance.randrange(len(data))
        wrong = chance.choice((b"\xff" * 8, b"\x00\x00\x80\x7f" * 4, chance.randbytes(64)))
        data[place : place + len(wrong)] = wrong[: len(data) - place]
    text = json.dumps(header, skipkeys=True).encode()
    size = len(text) if chance.random() < 0.95 else chance.choice((0, 1, 2**31, 2**63 - 1, 2**64 - 1, len(text) + 1))
    return struct.pack("<Q", size) + text + bytes(data)


def mutate_tensors(content: bytes, chance: random.Random) -> bytes:
    """A file of torch.save: its bytes, its archive, or the values in it."""
    draw = chance.random()
    if draw < 0.2:
        return mutate_bytes(content, chance)
    if draw < 0.35:
        return mutate_zip(content, chance)
    tensors = (
        torch.zeros(0), torch.zeros(()), torch.full((3,), math.nan), torch.zeros(1).expand(10**10),
        torch.zeros(2, 2).to_sparse(),
        torch.empty(2**40, device="meta"), torch.zeros(3, dtype=torch.complex64), torch.zeros(3, dtype=torch.bool),
        torch.zeros(1).expand(3, 3, 3, 3), torch.ones(3, dtype=torch.uint8), torch.zeros(2).to(torch.float8_e4m3fn),
    )  # fmt: skip
    tree = mutate_tree(torch.load(io.BytesIO(content), weights_only=True), chance, (*VALUES, *tensors, *tensors))
    file = io.BytesIO()
    torch.save(tree, file)
    return file.getvalue()


def mutate_zip(content: bytes, chance: random.Random) -> bytes:
    """A member damaged, renamed, doubled, left out, or as large as memory; written again with right checksums."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    except zipfile.BadZipFile:
        return mutate_bytes(content, chance)
    place = chance.randrange(len(members))
    name, data = members[place]
    how = chance.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA))
    match chance.randrange(7):
        case 0:
            members.pop(place)
        case 1:
            members.append((name, data))
        case 2:
            members[place] = (chance.choice(("../x", "x" * 5000, " ", "/x", name + "x")), data)
        case 3:
            members[place], how = (name, data + b"\x00" * 120_000_000 * (chance.random() < 0.2)), zipfile.ZIP_DEFLATED
        case 4:
            members[place] = (name, b"")
        case _:
            members[place] = (name, mutate_npy(data, chance) if name.endswith(".npy") else mutate_bytes(data, chance))
    file = io.BytesIO()
    with warnings.catch_warnings():  # of names that are there twice
        warnings.simplefilter("ignore")
        with zipfile.ZipFile(file, "w", how, compresslevel=1) as archive:
            for member, value in members:
                archive.writestr(member, value)
    written = file.getvalue()
    return mutate_bytes(written, chance) if chance.random() < 0.2 else written


_SHAPES = (
    "()", "(0,)", "(-1, 8, 8, 3)", "(True, 8, 8, 3)", "(8, 8, 8, 3, 1)", "(10**6, 10**6)", "(999999999999, 8, 8, 3)",
    "(2**62, 2**62)",
    "(8, 8, 8, 300)", "(8, 0, 8, 3)", "(1e3,)", "('x',)", "8", "(8, 8, 8)", "(4, 100000, 100000)",
    "(99999999999999999999999,)",
)  # fmt: skip
_TYPES = (
    "'|O'",
    "'<f8'",
    "'>u2'",
    "'|b1'",
    "'<U9'",
    "'<M8[s]'",
    "'<c16'",
    "'|V0'",
    "'|S0'",
    "[('a', '<i4')]",
    "'x'",
    "0",
    "'<f2'",
    "'<i8'",
)
_HEADERS = (
    "",
    "{",
    "}",
    "{'descr': ",
    "\x00",
    "'",
    "(" * DEEP,
    "{'shape': (3,)}",
    "__import__('os')",
    "{'a': 1}" * 9,
    "\t" * 999,
    "1" * 9999,
)


def mutate_npy(content: bytes, chance: random.Random) -> bytes:
    """The bytes, or the header, which is a text of Python."""
    if chance.random() < 0.25 or content[:6] != b"\x93NUMPY":
        return mutate_bytes(content, chance)
    length = struct.unpack("<H", content[8:10])[0]
    header, data = content[10 : 10 + length].decode("latin-1"), content[10 + length :]
    match chance.randrange(5):
        case 0 | 1:
            start = header.find("(")
            header = header[:start] + chance.choice(_SHAPES) + header[header.find(")", start) + 1 :]
        case 2:
            start = header.find(":") + 1
            header = header[:start] + chance.choice(_TYPES) + header[header.find(",", start) :]
        case 3:
            header = chance.choice(_HEADERS)
        case _:
            header = mutate_bytes(header.encode("latin-1"), chance).decode("latin-1")
    text = header.encode("latin-1")[:65_000]
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


_CELLS = (
    "", "x" * LONG, "/dev/zero", "/dev/stdin", "../../../etc/passwd", ".", "/", "a\x00b.png",
    '"', '"a\nb"', "é" * 300, "\x1b[31m", "1e999",
    "9" * 5000, "-1", "nan", "a/" * 2000 + "b.png", "label", "path", "file,label", "#", "\u2028", "~", "<b>", "\ufeff",
)  # fmt: skip


def mutate_table(content: bytes, chance: random.Random) -> bytes:
    """Lines of cells: a list of files, or labels."""
    if chance.random() < 0.25:
        return mutate_bytes(content, chance)
    lines = content.decode("utf-8", "replace").splitlines()
    for _ in range(chance.choice((1, 1, 3))):
        place = chance.randrange(len(lines))
        cells = lines[place].split(",")
        match chance.randrange(5):
            case 0:
                lines.insert(place, chance.choice(_CELLS))
            case 1:
                lines[place:place] = [lines[place]] * chance.choice((1, 1000))
            case 2:
                lines[place] = ",".join(cells * chance.choice((2, 500)))
            case _:
                cells[chance.randrange(len(cells))] = chance.choice(_CELLS)
                lines[place] = ",".join(cells)
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def mutate_picture(content: bytes, chance: random.Random) -> bytes:
    """The bytes; of a PNG also the fields of its header, with the right checksum; of TIFF and DICOM their tags."""
    draw = chance.random()
    if content[:4] == b"II*\0" and draw < 0.6:
        return _with_other_tag(content, chance)
    if content[128:132] == b"DICM" and draw < 0.6:
        return _with_other_element(content, chance)
    if content[:8] != b"\x89PNG\r\n\x1a\n" or draw < 0.6:
        return mutate_bytes(content, chance)
    width, height, *rest = struct.unpack(">IIBBBBB", content[16:29])
    match chance.randrange(4):
        case 0:
            width = chance.choice((0, 1, 9000, 65_536, 2**31 - 1, 2**32 - 1))
        case 1:
            height = chance.choice((0, 1, 9000, 65_536, 2**31 - 1, 2**32 - 1))
        case 2:
            width = height = chance.choice((9000, 13_000, 20_000))
        case _:
            rest[chance.randrange(5)] = chance.choice((0, 1, 2, 3, 4, 6, 16, 255))
    chunk = b"IHDR" + struct.pack(">IIBBBBB", width, height, *rest)
    return content[:12] + chunk + struct.pack(">I", zlib.crc32(chunk)) + content[33:]


_WORDS = (0, 1, 2, 7, 65_535, 2**31 - 1, 2**32 - 1)


def _with_other_tag(content: bytes, chance: random.Random) -> bytes:
    """One or two entries of a TIFF file's first directory with another type, count or value."""
    data = bytearray(content)
    first = struct.unpack_from("<I", data, 4)[0]
    for _ in range(chance.choice((1, 1, 2))):
        entry = first + 2 + 12 * chance.randrange(struct.unpack_from("<H", data, first)[0])
        match chance.randrange(4):
            case 0:
                struct.pack_into("<H", data, entry + 2, chance.choice((0, 1, 2, 3, 4, 5, 7, 11, 12, 16, 99)))
            case 1:
                struct.pack_into("<I", data, entry + 4, chance.choice(_WORDS))
            case 2:
                struct.pack_into("<H", data, entry, chance.choice((256, 257, 258, 259, 262, 270, 273, 277, 279, 317)))
            case _:
                struct.pack_into("<I", data, entry + 8, chance.choice((*_WORDS, 5, 7, 8, 32_773)))
    return bytes(data)


def _with_other_element(content: bytes, chance: random.Random) -> bytes:
    """One or two elements of the group of pixels in a DICOM file with another value, length or type."""
    data = bytearray(content)
    starts = [i for i in range(132, len(data) - 8) if data[i : i + 2] == b"\x28\x00" and data[i + 4 : i + 6].isupper()]
    for _ in range(chance.choice((1, 1, 2))):
        start = chance.choice(starts)
        length = struct.unpack_from("<H", data, start + 6)[0]
        match chance.randrange(4):
            case 0:
                struct.pack_into("<H", data, start + 6, chance.choice((0, 1, 4, 65_535)))
            case 1:
                data[start + 4 : start + 6] = chance.choice((b"US", b"IS", b"DS", b"OB", b"SQ", b"UN", b"XX"))
            case _ if length:
                value = chance.choice((b"\xff" * length, bytes(length), b"9" * length, b"-1e9"[:length], b"\x01"))
                data[start + 8 : start + 8 + length] = value.ljust(length, b"\0")
    return bytes(data)


MUTATIONS: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "json": mutate_json, "lines": mutate_lines, "yaml": mutate_yaml, "safetensors": mutate_safetensors,
    "tensors": mutate_tensors, "zip": mutate_zip, "npy": mutate_npy, "table": mutate_table, "picture": mutate_picture,
    "bytes": mutate_bytes,
}  # fmt: skip


def replace_by_special(path: Path, chance: random.Random) -> str:
    """Put something else where a file is expected; says what."""
    kind = chance.choice(("pipe", "/dev/zero", "folder", "loop", "empty", "missing", "no access", "zeros", "/dev/full"))
    path.unlink()
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "loop":
            path.symlink_to(path.name)
        case "empty":
            path.touch()
        case "no access":
            path.write_bytes(b"x")
            path.chmod(0)
        case "zeros":  # large, and no room taken on the disk
            with open(path, "wb") as file:
                file.truncate(3 << 30)
        case "missing":
            pass
        case device:
            path.symlink_to(device)
    return kind
