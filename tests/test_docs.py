"""What the docs show is what runs."""

import ast
import json
import re
import shlex
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from coviews import OPS, apply_op, space
from coviews.cli import main

ROOT = Path(__file__).parents[1]


def blocks(path, language):
    """The fenced blocks of a page in one language, without their fences."""
    found, inside = [], None
    for line in (ROOT / path).read_text().splitlines():
        if line.startswith("```"):
            if inside is None:
                inside = (line[3:].strip(), [])
            else:
                found.append(inside)
                inside = None
        elif inside is not None:
            inside[1].append(line)
    return ["\n".join(lines) + "\n" for named, lines in found if named == language]


@pytest.fixture
def folder(tmp_path):
    """A user's images, 32 pixels, in two class folders."""
    rng = np.random.default_rng(0)
    for i in range(140):
        path = tmp_path / "my" / "folder" / "ab"[i % 2] / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (32, 32, 3), np.uint8)).save(path)
    rows = [f"{'ab'[i % 2]}/{i}.png,{'ab'[i % 2]}" for i in range(8)]
    (tmp_path / "labels.csv").write_text("\n".join(["file,label", *rows]))
    return tmp_path


SMALL = "--encoder resnet8 --epochs 2 --warmup-epochs 1 --batch-size 32"
PILOTS = "--pilots 2 --epochs 1 --size 16"


def test_the_first_pages_run(folder, monkeypatch, here):
    """The commands and the Python of Start here, then what the README has besides; training is made short."""
    import torch

    import coviews

    monkeypatch.chdir(folder)
    texts = "\n".join([*blocks("docs/index.md", ""), *blocks("README.md", "")])
    lines = [line.split("#")[0].strip() for line in texts.splitlines() if line.startswith("coviews ")]
    assert len(set(lines)) >= 9
    for line in dict.fromkeys(lines):
        words = shlex.split(line)[1:]
        short = {"pretrain": f"{SMALL} --overwrite", "choose": PILOTS, "embed": "--overwrite"}.get(words[0], "")
        assert main(words + shlex.split(short)) == 0, line
    for written in ("views.png", "neighbours.png", "map.png", "runs/first/report.html", "choice/choice.html"):
        assert Path(written).stat().st_size > 1000
    assert Path("encoder.safetensors").exists()
    names = {"coviews": coviews}
    for code in blocks("README.md", "python") + blocks("docs/index.md", "python"):
        exec(code, names)
        assert names.pop("encoder")(torch.zeros(2, 3, 32, 32)).shape == (2, 256)


def test_the_readme_is_one_screen():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 40


def test_make_knows_what_the_pages_say():
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    pages = (ROOT / "README.md").read_text() + "\n".join(blocks("docs/contributing.md", ""))
    asked = re.findall(r"(?:`|^)make (\w+)\b", pages, re.MULTILINE)
    assert {"demo", "docs", "lint", "test"} <= set(asked) <= set(targets)


@pytest.mark.parametrize("page", ["domains", "pretrain", "data", "choose"])
def test_the_trainings_of_a_page_are_understood(page, monkeypatch):
    """Each command is read and checked as it would be; nothing is trained."""
    import importlib

    read = []
    module = importlib.import_module("coviews.training.pretrain")  # its function of the same name is what is imported
    monkeypatch.setattr(module, "pretrain", lambda **given: read.append(given["settings"]))
    lines = [line for block in blocks(f"docs/{page}.md", "") for line in block.splitlines()]
    trainings = [line for line in lines if line.startswith("coviews pretrain ") and ".yaml" not in line]
    for line in trainings:
        assert main(shlex.split(line)[1:]) == 0, line
    assert len(read) == len(trainings)
    if page == "domains":
        assert len(read) >= 8
        assert all(settings.family is not None for settings in read)


def test_the_summary_shows_the_table_of_the_results():
    """The same figures, made from the same file."""
    table = re.compile(r"<!-- study -->.*?<!-- end -->", re.DOTALL)
    pages = [(ROOT / "docs" / name).read_text() for name in ("what-to-use.md", "results.md")]
    assert table.findall(pages[0]) == table.findall(pages[1])


@pytest.mark.parametrize("name", ["first-encoder", "own-views"])
def test_a_notebook_runs(name, tmp_path, monkeypatch):
    """Its cells in their order, with fewer images and epochs; a last line that is shown must have a value."""
    monkeypatch.chdir(tmp_path)
    cells = json.loads((ROOT / "docs" / "notebooks" / f"{name}.ipynb").read_text())["cells"]
    assert not any(cell.get("outputs") for cell in cells)
    names = {}
    for cell in cells:
        if cell["cell_type"] != "code":
            continue
        code = re.sub(r"shapes:\d+", "shapes:260", "".join(cell["source"]))
        *rest, last = ast.parse(re.sub(r"EPOCHS = \d+", "EPOCHS = 2", code)).body
        if isinstance(last, ast.Expr):
            exec(compile(ast.Module(rest, []), name, "exec"), names)
            shown = eval(compile(ast.Expression(last.value), name, "eval"), names)
            assert shown is not None or "print" in code
        else:
            exec(compile(ast.Module([*rest, last], []), name, "exec"), names)
    if name == "first-encoder":
        assert names["embedding"].shape == (260, 256)
    else:
        assert "Rotate" not in names["source"].space.ops
        assert len(names["history"]) == 2


def test_the_site_is_built_without_a_broken_link(tmp_path, monkeypatch):
    """Every link and anchor leads somewhere, and the reference has all that it names."""
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    monkeypatch.setenv("NO_MKDOCS_2_WARNING", "1")
    config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(tmp_path / "site"), strict=True)
    config.plugins.on_startup(command="build", dirty=False)
    build(config)
    commands = (tmp_path / "site" / "commands.html").read_text()
    assert "--search.reward.bound" in commands
    assert "<code>--labels DATA</code>" in commands
    reference = (tmp_path / "site" / "reference.html").read_text()
    assert reference.count('class="doc doc-heading"') > 25
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").glob("*.md")}
    nav = (ROOT / "mkdocs.yml").read_text()
    assert not [page for page in pages if page not in nav]


def test_the_page_on_views_runs_and_lists_every_operation(monkeypatch):
    code, in_python, own_operation, placed, limited, sized, deep = blocks("docs/views.md", "python")
    names = {}
    exec(code.replace('"shapes"', '"shapes:50"'), names)
    assert names["views"].shape == (50, 2, 32, 32, 3)
    for name in ("Fade", "Speckle", "Darken"):
        monkeypatch.setitem(OPS, name, None)  # so that it is removed again
        del OPS[name]
    exec(in_python, names)
    assert set(names["mine"].ops) == {"Fade", "Speckle", "Rotate", "Identity"}
    assert {"Fade", "Speckle"} < set(names["source"].space.ops)
    exec(own_operation, names)
    darker = apply_op(np.full((2, 2, 3), 100, np.uint8), "Darken", 0)
    assert (darker == 20).all()
    exec(placed + limited + sized, names)
    assert names["placement"].flip == 0
    assert not {"Rotate", "Invert"} & set(names["source"].space.ops)
    assert names["small"].shape == (50, 2, 16, 16, 3)
    exec(deep, names)
    assert names["six"].shape == (8, 2, 32, 32, 6)
    page = (ROOT / "docs" / "views.md").read_text()
    for op in space("autoaugment").ops:
        assert re.search(rf"\b{op}\b", page), op
        low, high = OPS[op].low, OPS[op].high
        if low != high:
            assert f"{low:g} .. {high:g}" in page, op


def test_the_tables_are_those_of_the_package():
    check = [sys.executable, str(ROOT / "docs" / "tables.py"), "--check"]
    done = subprocess.run(check, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_page_on_own_loops_shows_the_examples_and_runs(folder, monkeypatch):
    import torch

    import coviews

    views, learn, *examples = blocks("docs/own-loop.md", "python")
    for code, name in zip(examples, ("own_loop", "own_loop_table"), strict=True):
        assert code == (ROOT / "examples" / f"{name}.py").read_text()
    monkeypatch.chdir(folder)
    exec(views, names := {})
    assert names["x1"].shape == (140, 3, 32, 32)
    names["encoder"] = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, 4), torch.nn.ReLU(), torch.nn.Flatten())
    names["settings"] = coviews.PPOSettings(iterations=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an encoder that is not trained
        exec(learn.replace("generator=generator)", "generator=generator, settings=settings)"), names)
    assert names["source"].sample(3, np.random.default_rng(0)) == names["policy"].sample(3, np.random.default_rng(0))


def test_the_example_of_a_table_runs(capsys):
    source = (ROOT / "examples" / "own_loop_table.py").read_text()
    exec(source.replace("shapes:2048", "shapes:512").replace("range(1, 13)", "range(1, 7)"), names := {})
    losses = [float(x) for x in re.findall(r"loss ([\d.]+)", capsys.readouterr().out)]
    assert len(losses) == 6
    assert max(losses) < 4.84  # of 64 pairs that were not told apart: log 127
    assert len(names["table"]) == 6 * 512
    assert names["source"].statistics["pairs"] == 5 * 512


def test_the_page_on_pretraining_says_the_same_in_yaml_and_in_python(tmp_path):
    import coviews
    from coviews.runs.settings_file import read_settings

    (yaml,), code = blocks("docs/pretrain.md", "yaml"), blocks("docs/pretrain.md", "python")[-1]
    (tmp_path / "c.yaml").write_text(yaml)
    exec(code.replace("coviews.pretrain(settings=settings)", ""), names := {"coviews": coviews})
    assert names["settings"] == read_settings(tmp_path / "c.yaml").replaced(data="my/images")


def comparisons_of_results():
    """The commands of docs/results.md that compare, by the folder that they write."""
    lines = "\n".join(blocks("docs/results.md", "")).replace("\\\n", " ").splitlines()
    commands = [shlex.split(line)[1:] for line in lines if line.startswith("coviews compare")]
    return {words[words.index("--out") + 1]: words for words in commands}


@pytest.mark.parametrize("out", ["equal-5000", "table-1000", "table-100", "shapes-3", "learning-rate"])
def test_the_commands_of_the_results_are_those_of_the_published_figures(out, monkeypatch):
    """As the command line reads them today, they give the settings that the published runs had."""
    from coviews.comparison import compare
    from coviews.comparison.plan import named_variants, read_variants, view_variants
    from coviews.comparison.results import read_results

    called = {}
    monkeypatch.setattr(compare, "compare", lambda **arguments: called.update(arguments))
    monkeypatch.chdir(ROOT)
    words = comparisons_of_results()[out]
    main([*words, "--dry-run"])
    settings, options = called["settings"], called["options"]
    variants = view_variants(settings, options.views.split(",")) if options.views else {}
    variants |= named_variants(settings, read_variants(options.variants), "variants")
    published = read_results(ROOT / "docs" / "results" / f"{out.removesuffix('-3')}.json").variants
    assert set(variants) == set(published)
    for name, before in published.items():
        differences = before.differences(variants[name])
        if not before.learns_views:  # its search is not used, but for the operations in a row and their probability
            used = ("search.steps", "search.p")
            differences = {k: v for k, v in differences.items() if not k.startswith("search") or k in used}
        if before.views != "hardviews":
            differences = {k: v for k, v in differences.items() if not k.startswith("hard_")}
        assert set(differences) <= {"data", "test_data"}, name  # folders


def test_links_lead_somewhere():
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for link in re.findall(r"\]\((?!https?://)([^)#]+)[^)]*\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"
