"""The layering rule: data flows one way, and nothing further up imports what stands further down."""

import ast
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "coviews"
TOP_LEVEL = {"__init__", "__main__", "errors", "compat"}
LONGEST, LONGEST_PRETRAIN = 400, 200  # lines

# what each room may import of the package, besides errors, compat and itself
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "compat": set(),
    "boundary": set(),  # what comes from outside comes in here
    "files": set(),
    "console": set(),
    "ops": {"boundary"},
    "policies": {"boundary", "files", "ops"},  # never sees an image or an encoder
    "searching": {"boundary", "files", "ops", "policies"},  # neither
    "methods": {"boundary", "files"},  # never sees a policy
    "data": {"boundary", "console", "files", "ops"},
    "launching": {"boundary", "files"},  # does not know what it starts
}
_ALL = ("boundary", "console", "files", "ops", "policies", "searching", "methods", "data", "launching")
# from here on, a room may import all rooms above it
for _room in (
    "runs", "encoders", "transforms", "pictures", "evaluation", "features", "report", "training", "comparison",
    "choosing", "cli",
):  # fmt: skip
    ALLOWED[_room] = set(_ALL)
    _ALL = (*_ALL, _room)
ALLOWED["__init__"] = ALLOWED["__main__"] = set(_ALL)
# single files that a room must not see, though it may see their room
FORBIDDEN = {"policies": "coviews.ops.engine", "searching": "coviews.ops.engine"}


def imports(path: Path) -> set[str]:
    found = set()
    tree = ast.parse(path.read_text())
    skipped = {  # for the reader and the type checker only
        id(n)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for n in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name for name in found if name.split(".")[0] == "coviews"}


def rooms() -> list[str]:
    return sorted({p.relative_to(SOURCE).parts[0].removesuffix(".py") for p in SOURCE.rglob("*.py")})


def test_every_file_is_in_a_room_with_a_rule():
    assert set(rooms()) == set(ALLOWED)
    assert {p.stem for p in SOURCE.glob("*.py")} == TOP_LEVEL
    assert not list(SOURCE.rglob("utils.py"))


def test_nothing_imports_what_stands_further_down():
    seen = 0
    for path in SOURCE.rglob("*.py"):
        room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        names = {p.stem for p in SOURCE.iterdir()}
        for name in imports(path):
            seen += 1
            parts = name.split(".")
            if len(parts) == 1 or parts[1] not in names:  # a public name of the package itself
                continue
            allowed = ALLOWED[room] | {room, "errors", "compat"}
            assert parts[1] in allowed, f"{path.relative_to(SOURCE)} imports {name}"
            assert not name.startswith(FORBIDDEN.get(room, "nothing")), f"{path.relative_to(SOURCE)} imports {name}"
    assert seen > 500


# what reads something from outside the process, and who may besides the boundary: files of the package itself, of the
# system, and what was written a moment ago
READERS = (
    "json.load", "json.loads", "yaml.safe_load", "yaml.load", "np.load", "numpy.load", "torch.load", "pickle.load",
    "pickle.loads", "safe_open", "safetensors.safe_open", "safetensors.torch.load_file",
)  # fmt: skip
TEXTS = {"report/page.py", "compat.py", "encoders/export.py"}


def test_what_comes_from_outside_passes_the_boundary():
    for path in SOURCE.rglob("*.py"):
        name = path.relative_to(SOURCE).as_posix()
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or name.startswith("boundary/"):
                continue
            called = ast.unparse(node.func)
            assert called not in READERS, f"{name} calls {called}"
            reads = called.endswith((".read_text", ".read_bytes"))
            assert not reads or name in TEXTS, f"{name} calls {called}: coviews.boundary has readers with limits"


def test_files_are_short():
    lines = {str(p.relative_to(SOURCE)): len(p.read_text().splitlines()) for p in SOURCE.rglob("*.py")}
    assert {name: n for name, n in lines.items() if n > LONGEST} == {}
    assert lines["training/pretrain.py"] <= LONGEST_PRETRAIN


def test_making_views_does_not_need_torch():
    """A process that only makes views starts fast."""
    code = "import sys, coviews, coviews.cli; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
