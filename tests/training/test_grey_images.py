"""Grey images, also those that are stored in three channels, get no operations that change only colours."""

import numpy as np
import pytest

from coviews.cli import main
from coviews.data.colours import has_colour
from coviews.data.imageset import ImageSet
from coviews.ops.plan import Plan
from coviews.runs.folder import Run
from coviews.training.pretrain import pretrain
from coviews.training.setup import without_colour
from small_runs import SMALL

SHORT = SMALL.replaced(views="recipe", epochs=1, knn_every=0, batch_size=16, space=None)
FORBIDDEN = "Color,Hue,Grayscale"


def pixels(channels, grey, n=32):
    rng = np.random.default_rng(0)
    values = rng.integers(0, 256, (n, 16, 16, 1 if grey else channels), np.uint8)
    return np.ascontiguousarray(np.broadcast_to(values, (n, 16, 16, channels)))


def test_whether_images_have_colours():
    assert not has_colour(ImageSet(pixels(3, grey=True)))
    assert not has_colour(ImageSet(pixels(1, grey=True)))
    assert has_colour(ImageSet(pixels(3, grey=False)))
    assert has_colour(ImageSet(pixels(4, grey=True)))  # whatever its channels are


@pytest.mark.parametrize("views", ["recipe", "simclr", "uniform", "coviews", "hardviews", "randaugment"])
def test_colour_operations_are_left_out_of_named_views(views):
    images = ImageSet(pixels(3, grey=True))
    settings = without_colour(SHORT.replaced(views=views, epochs=2), images)
    assert settings.forbid == FORBIDDEN
    source = (
        settings.first_source()
        if settings.learns_views
        else settings.named_source("simclr" if views == "hardviews" else views)
    )
    drawn = source.sample(200, np.random.default_rng(0))
    assert not {drawn.space.ops[i] for i in np.unique(drawn.ops)} & {"Color", "Saturation", "Hue", "Grayscale"}


def test_choices_of_the_user_stay():
    grey, coloured = ImageSet(pixels(3, grey=True)), ImageSet(pixels(3, grey=False))
    for settings in (SHORT.replaced(ignores="colour"), SHORT.replaced(views="crop small, colour")):
        assert without_colour(settings, grey) == settings
    assert without_colour(SHORT.replaced(forbid="Invert"), grey).forbid == f"Invert,{FORBIDDEN}"
    assert without_colour(SHORT.replaced(matters="orientation"), grey).forbid == FORBIDDEN
    assert without_colour(SHORT, coloured) == SHORT


def test_a_run_says_and_keeps_it(tmp_path, capsys):
    run = tmp_path / "run"
    pretrain(pixels(3, grey=True), settings=SHORT, out=run)
    assert "the images are grey: their views never have Color, Hue, Grayscale" in capsys.readouterr().err
    assert Run(run).settings.forbid == FORBIDDEN
    pretrain(pixels(3, grey=True), settings=SHORT, resume=run, progress=False)
    old = run / "config.yaml"  # of a version that left nothing out
    old.write_text(old.read_text().replace(f"forbid: {FORBIDDEN}", "forbid: null"))
    (run / "checkpoints" / "last.pt").unlink()
    pretrain(pixels(3, grey=True), resume=run, progress=False)
    assert Run(run).settings.forbid is None


@pytest.mark.parametrize("views", ["recipe", "uniform", "simclr"])
def test_a_preview_shows_what_a_training_would_do(views, tmp_path, capsys, monkeypatch):
    drawn = set()
    draw = Plan.draw

    def spied(source, *arguments):
        plan = draw(source, *arguments)
        drawn.update(plan.space.ops[i] for i in np.unique(plan.ops))
        return plan

    monkeypatch.setattr(Plan, "draw", spied)
    np.save(tmp_path / "grey.npy", pixels(3, grey=True))
    assert main(["preview", str(tmp_path / "grey.npy"), "--views", views, "--out", str(tmp_path / "sheet.png")]) == 0
    assert "the images are grey: their views never have Color, Hue, Grayscale" in capsys.readouterr().err
    assert drawn
    assert not drawn & {"Color", "Saturation", "Hue", "Grayscale"}


def test_no_word_about_colours_that_were_forbidden_for_other_reasons(tmp_path, capsys):
    line = "crop small, mirror, light"  # the user's own choice: nothing is added to it
    pretrain(pixels(1, grey=True), settings=SHORT.replaced(views=line, forbid="Brightness"), out=tmp_path / "run")
    assert "the images are grey" not in capsys.readouterr().err
