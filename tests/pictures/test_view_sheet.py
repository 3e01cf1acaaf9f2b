import importlib
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from coviews import CoviewsError, Policy, Subpolicies, apply_op, cli, load_images, make_views, space
from coviews.data.shapes.draw import make_shapes
from coviews.pictures import view_sheet as sheets
from coviews.pictures.drawing import font, wrapped
from coviews.pictures.view_sheet import contact_sheet, view_steps

SPACE = space("autoaugment")

PREVIEW = importlib.import_module("coviews.cli.preview")  # the command has its module's name


def noise(n: int, h: int, w: int, c: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (n, h, w, c), np.uint8)


def doing(text: str, count: list[int]):
    """A way to draw that turns each image into known noise, and tells the text."""

    def draw(images):
        count[0] += 1
        n, h, w, c = images.shape
        views = np.stack([noise(n, h, w, c, seed=10 * count[0] + v) for v in range(2)], axis=1)
        return views, Subpolicies.from_texts([text] * n, SPACE)

    return draw


def find(page: np.ndarray, tile: np.ndarray) -> list[tuple[int, int]]:
    """Where a tile is on the page, as (top, left)."""
    h, w = tile.shape[:2]
    starts = np.argwhere((page[:-h, :-w] == tile[0, 0]).all(axis=2))
    return [(y, x) for y, x in starts.tolist() if np.array_equal(page[y : y + h, x : x + w], tile)]


# ----------------------------------------------------------------------------------------- the sheet


@pytest.mark.parametrize(("h", "w", "factor"), [(32, 32, 5), (28, 28, 5), (20, 50, 3), (64, 64, 2), (99, 90, 1)])
@pytest.mark.parametrize("channels", [1, 3])
def test_every_image_and_view_is_there_enlarged_by_a_whole_factor(h, w, factor, channels):
    images, count = noise(3, h, w, channels), [0]
    page = np.asarray(contact_sheet(images, doing("Invert | Equalize", count), pairs=2))
    assert count == [2]

    def place(image):
        tile = image.repeat(factor, axis=0).repeat(factor, axis=1).repeat(3 // channels, axis=2)
        (found,) = find(page, tile)
        return found

    tops = []
    for row, image in enumerate(images):
        views = [noise(3, h, w, channels, 10 * pair + v)[row] for pair in (1, 2) for v in (0, 1)]
        places = [place(tile) for tile in (image, *views)]
        assert len({top for top, _ in places}) == 1, "one row"
        lefts = [left for _, left in places]
        steps = np.diff(lefts)
        assert (steps > w * factor).all(), "from left to right, without overlap"
        assert steps[1] == steps[3] < steps[2], "the views of a pair are closer than the pairs"
        tops.append(places[0][0])
    assert (np.diff(tops) > h * factor).all()


def test_large_images_are_reduced():
    images = noise(2, 300, 600)
    page = contact_sheet(images, doing("Invert | Invert", [0]), pairs=1)
    small = Image.fromarray(images[0]).resize((160, 80), Image.Resampling.LANCZOS)
    assert len(find(np.asarray(page), np.asarray(small))) == 1
    assert page.width < 700


def test_what_was_done_is_written_and_nothing_is_clipped():
    images = np.full((1, 32, 32, 3), 255, np.uint8)

    def page(text: str, **options) -> np.ndarray:
        def draw(batch):
            return batch[:, None].repeat(2, axis=1), Subpolicies.from_texts([text], SPACE)

        return np.asarray(contact_sheet(images, draw, pairs=1, **options))

    long = "word " * 60 + "x" * 300
    for made in (
        page("Invert | Equalize"),
        page("Invert | Equalize", title=long, note=long, captions=[long]),
    ):
        border = sheets._MARGIN
        for edge in (made[:border], made[-border:], made[:, :border], made[:, -border:]):
            assert (edge == 255).all()
    assert not np.array_equal(page("Invert | Equalize"), page("Invert | AutoContrast"))
    assert np.array_equal(page("Identity, Invert | Equalize, Identity"), page("Invert, Identity | Identity, Equalize"))
    assert page("Invert, Rotate 18 | Invert, Invert").shape[0] > page("Invert, Identity | Identity, Identity").shape[0]


@pytest.mark.parametrize(
    "text", ["TranslateX -0.4455", "one two three four five", "y" * 90, "a " + "w" * 70 + " b", ""]
)
@pytest.mark.parametrize("width", [5, 40, 128])
def test_wrapped_text_fits_and_loses_nothing(text, width):
    lines = wrapped(text, 13, width)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert all(len(line) == 1 or font(13).getlength(line) <= width for line in lines)
    if width == 128 and len(text) < 30:
        assert " ".join(lines) == text, "broken at spaces only"


def test_steps_that_do_nothing_are_left_out():
    assert view_steps("Rotate -18 deg, Identity | Identity, Identity") == [["Rotate -18 deg"], ["nothing"]]
    assert view_steps("Invert | Solarize 128, Cutout 0.1") == [["Invert"], ["Solarize 128", "Cutout 0.1"]]


def test_a_sheet_needs_a_pair():
    with pytest.raises(CoviewsError, match="at least 1 pair"):
        contact_sheet(noise(1, 8, 8), doing("Invert | Invert", [0]), pairs=0)


# ----------------------------------------------------------------------------------- coviews preview


def preview(*arguments: str | Path) -> int:
    return cli.main(["preview", *map(str, arguments)])


@pytest.mark.parametrize("views", ["random", "uniform", "randaugment", "trivialaugment", "simclr"])
def test_preview_of_every_view_source(tmp_path, capsys, views):
    out = tmp_path / "made" / "here" / "sheet.png"
    assert preview("shapes:40", "--views", views, "--out", out, "--rows", 3, "--pairs", 2) == 0
    assert str(out) in capsys.readouterr().out
    with Image.open(out) as made:
        assert made.mode == "RGB"
        assert made.width > 5 * 160
        assert made.height > 3 * 160


def test_the_default_is_the_built_in_set_in_this_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert preview() == 0
    assert (tmp_path / "sheet.png").stat().st_size > 10_000


def test_the_same_seed_gives_the_same_sheet_and_replaces_it(tmp_path):
    out = tmp_path / "a.png"
    out.write_bytes(b"old")
    made = []
    for seed in (1, 1, 2):
        assert preview("--seed", seed, "--out", out, "--rows", 2) == 0
        made.append(out.read_bytes())
    assert made[0] == made[1] != made[2]


def test_preview_of_a_folder_shows_each_class_and_skips_broken_files(tmp_path, capsys, monkeypatch):
    images, _ = make_shapes(30, 40)
    for i, image in enumerate(images):
        folder = tmp_path / "data" / "abcdefghij"[i % 10]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(folder / f"{i}.png")
    (tmp_path / "data" / "a" / "bad.png").write_text("no image")
    seen = {}
    monkeypatch.setattr(
        importlib.import_module("coviews.cli.preview"),
        "contact_sheet",
        lambda *a, **k: seen.update(k) or Image.new("RGB", (1, 1)),
    )
    assert preview(tmp_path / "data", "--rows", 10, "--out", tmp_path / "a.webp") == 0
    assert sorted(seen["captions"]) == list("abcdefghij")
    assert seen["title"] == f"{tmp_path.name}/data · recipe"
    error = capsys.readouterr().err
    assert error.startswith("warning: 1 broken and skipped")
    assert "a/bad.png (not an image)" in error
    assert len(error.splitlines()) == 1


def test_one_image_file_and_more_rows_than_images(tmp_path, capsys):
    Image.fromarray(noise(1, 30, 20, 1)[0, ..., 0]).save(tmp_path / "grey.png")
    assert preview(tmp_path / "grey.png", "--rows", 9, "--out", tmp_path / "a.jpg") == 0
    assert "views of 1 image\n" in capsys.readouterr().out


@pytest.fixture
def drawn(tmp_path, monkeypatch):
    """What `preview` would put on the sheet: images, views and subpolicies, given its options."""

    def run(*options: str):
        kept = []

        def keep(images, draw, **_):
            kept.append((images, *draw(images)))
            return Image.new("RGB", (1, 1))

        monkeypatch.setattr(PREVIEW, "contact_sheet", keep)
        assert preview("shapes:300", "--rows", 60, "--out", tmp_path / "a.png", *options) == 0
        return kept[0]

    return run


def test_what_is_told_is_what_was_done(drawn):
    """`uniform` leaves out every fifth step: the text must not name those."""
    images, views, plan = drawn("--views", "uniform", "--space", "autoaugment", "--crop", "none", "--flip", "0")
    assert (plan.ops == SPACE.identity).mean() > 0.15
    fill = load_images("shapes:300", limit=128).mean
    for b, v in np.ndindex(60, 2):
        expected = images[b]
        for op, level, spot in zip(plan.ops[b, v], plan.levels[b, v], plan.spots[b, v], strict=True):
            expected = apply_op(expected, SPACE.ops[op], int(level), place=tuple(spot), fill=fill)
        assert np.array_equal(views[b, v], expected), plan.texts()[b]


def test_placements_are_told_and_done(drawn):
    options = "--views simclr --crop joint --crop-area 0.1 0.5 --flip-vertical 1 --quarter-turns 1 --view-size 24"
    images, views, plan = drawn(*options.split())
    assert views.shape == (60, 2, 24, 24, 3)
    assert plan.sizes == ((24, 24), (24, 24))
    area = (plan.boxes[..., 2] - plan.boxes[..., 0]) * (plan.boxes[..., 3] - plan.boxes[..., 1]) / 32**2
    assert 0.08 < area.min() < area.max() < 0.52
    assert np.array_equal(views, make_views(images, plan, fill=load_images("shapes:300", limit=128).mean))
    for text in plan.texts():
        for view in view_steps(text):
            assert [step.split()[0] for step in view if step != "mirrored"][-3:] == ["crop", "upside", "turned"]


def test_crop_and_flip_are_turned_off_one_by_one(drawn):
    def same(a, b):
        return (a == b).all(axis=(-3, -2, -1)).mean()

    def plain(options):
        images, views, done = drawn("--views", "randaugment", "--magnitude", "0", *options)
        keep = np.isin(done.ops, [done.space.index(o) for o in ("Identity", "Rotate", "ShearX")]).all(axis=2)
        assert keep.sum() > 3
        return images[:, None].repeat(2, axis=1)[keep], views[keep]

    images, views = plain(["--crop", "none", "--flip", "0"])
    assert same(images, views) == 1
    images, views = plain(["--crop", "none"])
    assert same(images, views) + same(images[:, :, ::-1], views) == 1
    assert 0 < same(images, views) < 1
    images, views = plain(["--flip", "0"])
    assert same(images, views) < 0.5
    assert same(images[:, :, ::-1], views) == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["preview", "--views", "randm"], "unknown view source 'randm': did you mean 'random'?"),
        (["preview", "--views", "randm", "--magnitude", "3"], "did you mean 'random'?"),
        (["preview", "shpes"], "did you mean 'shapes'?"),
        (["preview", "no/such/place"], "no file or folder 'no/such/place'"),
        (["preview", "--rows", "0"], "--rows must be 1 to 100, not 0"),
        (["preview", "--pairs", "99"], "--pairs must be 1 to 20"),
        (["preview", "--seed", "-1"], "--seed"),
        (["preview", "--size", "0"], "size"),
        (["preview", "--magnitude", "9"], "--magnitude is an option of --views randaugment"),
        (["preview", "--views", "randaugment", "--magnitude", "31"], "0..30"),
        (["preview", "--out", "sheet.txt"], "name it .png"),
        (["preview", "--out", "sheet"], "name it .png"),
        (["preview", "--out", "folder.png"], "it is a folder"),
        (["preview", "--out", "file/sheet.png"], "cannot write file/sheet.png"),
        (["preveiw"], "unknown command 'preveiw': did you mean 'preview'?"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(tmp_path, monkeypatch, capsys, arguments, says):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "file").touch()
    assert cli.main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("error: ")
    assert says in printed.err
    assert len(printed.err.splitlines()) == 1
    assert printed.out == ""


def test_interruption_and_defects(monkeypatch, capsys):
    def stop(data: str = "shapes") -> None:
        raise KeyboardInterrupt

    def fail(data: str = "shapes") -> None:
        raise ZeroDivisionError

    monkeypatch.setitem(cli.COMMANDS, "stop", stop)  # another command is one function
    monkeypatch.setitem(cli.COMMANDS, "fail", fail)
    assert cli.main(["stop"]) == 130
    assert "Traceback" not in capsys.readouterr().err
    with pytest.raises(ZeroDivisionError):
        cli.main(["fail"])


def test_help_and_version(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.split()[0] == "coviews"
    for arguments in ([], ["--help"], ["preview", "--help"]):
        with pytest.raises(SystemExit) as left:
            cli.main(arguments)
        assert left.value.code == 0
        assert "preview" in capsys.readouterr().out


def test_as_a_program(tmp_path):
    """Exit codes and messages as a shell sees them, and no torch on the way."""
    code = "import sys, coviews.cli as c; r = c.main(); assert 'torch' not in sys.modules; sys.exit(r)"

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", code, *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    good = run("preview", "shapes:20", "--rows", "1", "--pairs", "1", "--out", "s.png")
    assert good.returncode == 0
    assert re.sub("coviews: compiling image operations.*\n", "", good.stderr) == ""  # said on a slow machine
    assert good.stdout == "wrote s.png: recipe views of 1 image\n"
    assert (tmp_path / "s.png").exists()
    (tmp_path / "empty").mkdir()
    bad = run("preview", "empty")
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr == "error: there is no image in empty\n"
    mistyped = run("preview", "--rwos", "3")
    assert mistyped.returncode == 2
    assert "--rows" in mistyped.stderr
    assert "Traceback" not in mistyped.stderr


def test_the_file_of_a_learned_policy_is_a_view_source_too(tmp_path, capsys):
    policy = Policy.untrained(space("autoaugment"), np.random.default_rng(0), kind="indepviews")
    policy.save(tmp_path / "mine.safetensors")
    out = tmp_path / "sheet.png"
    assert cli.main(["preview", "shapes:20", "--views", str(tmp_path / "mine.safetensors"), "--out", str(out)]) == 0
    assert out.stat().st_size > 1000
    assert cli.main(["preview", "shapes:20", "--views", "none.safetensors", "--out", str(out)]) == 2
    assert "there is no policy file none.safetensors" in capsys.readouterr().err
