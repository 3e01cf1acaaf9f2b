"""The layering rule: data flows one way, and nothing further up imports what stands further down."""

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "coviews"

# what each room may import of the package
ALLOWED = {
    "errors": set(),
    "compat": set(),
    "images": {"errors"},
    "late_bar": {"display"},
    "atomic": {"errors"},
    "ops": {"errors", "images", "ops"},
    "policies": {"atomic", "errors", "ops", "policies"},
    "learners": {"atomic", "compat", "errors", "images", "learners"},
    "search": {"errors", "ops", "policies", "search"},
    "data": {"atomic", "compat", "errors", "images", "late_bar", "data"},
    "evaluation": {"compat", "errors", "images", "late_bar", "learners", "ops", "evaluation"},
    "report": {"atomic", "config", "data", "errors", "images", "ops", "policies", "report", "search"},
}
# `policies` and `search` never see an image, an encoder or a data set; the engine is what makes images
FORBIDDEN = {"policies": "coviews.ops.engine", "search": "coviews.ops.engine"}


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


def test_nothing_imports_what_stands_further_down():
    seen = 0
    for path in SOURCE.rglob("*.py"):
        room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if room not in ALLOWED:
            continue
        for name in imports(path):
            seen += 1
            parts = name.split(".")
            assert len(parts) == 1 or parts[1] in ALLOWED[room], f"{path.name} imports {name}"
            assert not name.startswith(FORBIDDEN.get(room, "nothing")), f"{path.name} imports {name}"
    assert seen > 10


def test_making_views_does_not_need_torch():
    """A process that only makes views starts fast."""
    import subprocess
    import sys

    code = "import sys, coviews, coviews.cli; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
