"""Nothing that only some systems or versions of Python have is needed, and the wheel is whole."""

import ast
import os
import subprocess
import sys
import sysconfig
import textwrap
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "coviews"
TEXTS = {path: path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")}
TREES = {path: ast.parse(text, feature_version=(3, 11)) for path, text in TEXTS.items()}  # the syntax of the oldest

POSIX_ONLY = {"fcntl", "grp", "posix", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty"}
# names of os and signal that Windows does not have
NOT_ON_WINDOWS = {
    "fork", "forkpty", "getuid", "geteuid", "getgid", "getloadavg", "getpgid", "killpg", "mkfifo", "nice", "setsid",
    "sched_getaffinity", "statvfs", "uname", "wait", "waitpid", "SIGKILL", "SIGHUP", "SIGALRM", "SIGUSR1", "SIGUSR2",
    "SIGCHLD", "SIGPIPE", "SIGSTOP", "SIGTSTP", "alarm", "pause", "setitimer", "O_NONBLOCK", "O_DIRECTORY",
}  # fmt: skip

# imports every module of the package while such modules do not exist for it, then makes views and reads an option
BLOCKED = """
import builtins, importlib, os, pkgutil, signal, sys
names, gone = {posix_only!r}, {gone!r}
plain = builtins.__import__

def blocked(name, globals=None, *rest):
    if name.split(".")[0] in names and (globals or {{}}).get("__name__", "").startswith("coviews"):
        raise ImportError(name + " is not on this system")
    return plain(name, globals, *rest)

builtins.__import__ = blocked
import coviews
modules = [m.name for m in pkgutil.walk_packages(coviews.__path__, "coviews.")]
for name in modules:
    if name.rpartition(".")[2] not in ("__main__", "lightning"):
        importlib.import_module(name)
import numpy as np
for module in (os, signal):
    for name in gone:
        if hasattr(module, name):
            delattr(module, name)
plan = coviews.Plan.draw(coviews.view_source("uniform"), 4, (8, 8), np.random.default_rng(0))
assert coviews.make_views(np.zeros((4, 8, 8, 3), np.uint8), plan).shape == (4, 2, 8, 8, 3)
print(len(modules))
"""


def test_modules_that_only_posix_has_are_not_needed():
    code = BLOCKED.format(posix_only=POSIX_ONLY, gone=sorted(NOT_ON_WINDOWS - {"nice", "uname", "wait", "pause"}))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 150


def test_what_windows_does_not_have_is_asked_for_first():
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            of_system = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
            if of_system and node.value.id in ("os", "signal") and node.attr in NOT_ON_WINDOWS:
                assert f'hasattr({node.value.id}, "{node.attr}")' in TEXTS[path], f"{path.name}: {node.attr}"
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""]
                assert not POSIX_ONLY & {name.split(".")[0] for name in names}, path.name


def test_text_files_say_their_encoding():
    """The default is not UTF-8 everywhere."""
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                given = {k.arg for k in node.keywords}
                if node.func.attr in ("read_text", "write_text"):
                    assert "encoding" in given, f"{path.relative_to(SOURCE)}:{node.lineno}"


def test_python_3_11_to_3_13_are_promised():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["requires-python"] == ">=3.11"
    versions = [c.rpartition(" ")[2] for c in project["classifiers"] if c.startswith("Programming Language")]
    assert versions == ["3.11", "3.12", "3.13"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (file,) = folder.glob("*.whl")
    return file


def test_the_wheel_has_every_file_of_the_package(wheel):
    names = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("coviews/")}
    here = {
        f"coviews/{path.relative_to(SOURCE).as_posix()}"
        for path in SOURCE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert names == here
    assert {"coviews/py.typed", "coviews/report/page.css", "coviews/report/templates/page.html"} <= names


@pytest.mark.slow  # the kernels are compiled anew for the new place
def test_the_wheel_runs_without_the_checkout(wheel, tmp_path):
    venv.create(tmp_path / "venv", with_pip=False, symlinks=os.name != "nt")
    folder = "Scripts" if os.name == "nt" else "bin"
    python = tmp_path / "venv" / folder / "python"
    own = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], capture_output=True, text=True,
        check=True,
    ).stdout.strip()  # fmt: skip
    # the packages of this environment, which its .pth files (an editable coviews) are no part of
    Path(own, "packages.pth").write_text(sysconfig.get_path("purelib"))
    install = ["-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    subprocess.run([sys.executable, *install, "--ignore-installed"], check=True, cwd=tmp_path)
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"OMP_NUM_THREADS": "1"}

    def run(*words):
        done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    coviews = str(tmp_path / "venv" / folder / "coviews")
    assert run(coviews, "--version").startswith("coviews ")
    where = run(python, "-c", "import coviews; print(coviews.__file__)")
    assert Path(where.strip()).is_relative_to(tmp_path)
    run(coviews, *textwrap.dedent("pretrain --epochs 2 --subset 512 --out demo").split())
    assert (tmp_path / "demo" / "report.html").stat().st_size > 10_000
    assert (tmp_path / "demo" / "encoder.safetensors").exists()
