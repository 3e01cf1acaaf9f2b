"""What views must not do, as settings: a trip through YAML, contradictions, and the commands."""

import importlib

import numpy as np
import pytest
from PIL import Image

from coviews import CoviewsError, Placement, TableSettings
from coviews.cli import main
from coviews.comparison.plan import view_variants
from coviews.runs.settings import PretrainSettings
from coviews.runs.settings_file import read_settings, settings_yaml

ALL_TOPICS = "colour,orientation,brightness,detail,position,cutout"


@pytest.mark.parametrize("views", ["coviews", "simclr", "recipe", "hardviews", "crop tiny, turns, light"])
def test_yaml_there_and_back(views, tmp_path):
    locks = {"matters": "orientation,position", "forbid": "Invert,blur", "cap": "Rotate=10"}
    settings = PretrainSettings(views=views, hard_views=4, **locks)  # hard views without crops are the encoder's choice
    (tmp_path / "c.yaml").write_text(settings_yaml(settings))
    read = read_settings(tmp_path / "c.yaml")
    assert read == settings.settled() == settings.settled().settled()
    assert read.limits == settings.limits
    assert read.placement == settings.placement
    assert (read.placement.crop, read.placement.flip, read.placement.quarter_turns) == ("none", 0.0, 0.0)
    assert not read.differences(settings)
    assert set(read.differences(PretrainSettings(views=views))) >= {"matters", "forbid", "cap"}


def test_what_is_ignored_is_turned_on(tmp_path):
    settings = PretrainSettings(views="cropflip", ignores="turns,brightness", matters="mirror")
    assert settings.family.text == "crop small, turns, light"
    p = settings.placement
    assert (p.flip, p.flip_vertical, p.quarter_turns) == (0.0, 0.5, 0.75)
    (tmp_path / "c.yaml").write_text(settings_yaml(settings))
    assert read_settings(tmp_path / "c.yaml").family == settings.family
    assert settings.replaced(quarter_turns=0).placement.flip_vertical == 0.5  # for views that are not square


def test_a_flag_that_agrees_is_fine():
    settings = PretrainSettings(matters="orientation,position", flip=0.0, crop="none", quarter_turns=0.0)
    assert settings.placement == Placement(crop="none", flip=0.0)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"matters": "orientation", "flip": 0.5}, "--flip 0.5 contradicts --matters: leave out one"),
        ({"matters": "turns", "quarter_turns": 0.75}, "--quarter-turns 0.75 contradicts --matters"),
        ({"matters": "position", "crop": "joint"}, "--crop joint contradicts --matters"),
        ({"matters": "position", "views": "simclr", "views_local": 2, "method": "dino"}, "leave out --views-local"),
        ({"ignores": "tone", "views": "coviews"}, "families of views can: use --views recipe or cropflip.*not coviews"),
        ({"ignores": "tone", "views": "simclr"}, "only families of views can"),
        ({"ignores": "tone", "views": "policy.safetensors"}, "only families of views can"),
        ({"ignores": "mirror", "views": "recipe", "flip": 0.0}, "--flip 0 contradicts --ignores"),
        ({"ignores": "position", "views": "recipe", "crop": "none"}, "--crop none contradicts --ignores"),
        ({"ignores": "grey", "views": "recipe", "forbid": "Grayscale"}, "grey on, and --forbid excludes all"),
        ({"matters": "colour,orientation,brightness,detail,position,cutout", "views": "coviews"}, "leave no operation"),
        ({"matters": "colour,brightness", "search": TableSettings(prior="simclr")}, "leave no operation"),
        ({"matters": "colour,brightness", "views": "hardviews"}, "leave no operation"),
        ({"matters": ALL_TOPICS, "views": "recipe"}, "nothing in which the views of an image differ"),
        ({"forbid": "Rotat"}, "did you mean 'Rotate'"),
        ({"forbid": 3}, "forbid must be of the type str, not 3"),
    ],
)
def test_contradictions_are_one_line(options, says):
    with pytest.raises(CoviewsError, match=says) as caught:
        PretrainSettings().replaced(**options)
    assert "\n" not in str(caught.value)


def test_a_family_may_be_left_with_crops_alone():
    settings = PretrainSettings(views="recipe", matters="colour,orientation,brightness")
    assert settings.family.text == "crop small"
    drawn = settings.named_source("recipe").sample(10, np.random.default_rng(0))
    assert (drawn.ops == drawn.space.identity).all()


def test_runs_of_a_comparison_share_the_limits(monkeypatch):
    from coviews.comparison import compare

    called = {}
    monkeypatch.setattr(compare, "compare", lambda **arguments: called.update(arguments))
    limits = ["--matters", "orientation", "--cap", "Hue=0.05"]
    main(["compare", "shapes", "--views", "simclr,coviews,recipe", *limits, "--dry-run"])
    variants = view_variants(called["settings"], ["simclr", "coviews", "recipe"])
    assert {s.placement.flip for s in variants.values()} == {0.0}
    assert {s.cap for s in variants.values()} == {"Hue=0.05"}
    assert main(["compare", "shapes", "--views", "recipe,cropflip", "--ignores", "tone", "--dry-run"]) == 0
    assert {s.family.tone for s in view_variants(called["settings"], ["recipe", "cropflip"]).values()} == {True}
    with pytest.raises(CoviewsError, match="only families"):
        view_variants(called["settings"], ["recipe", "simclr"])


@pytest.mark.parametrize("views", ["random", "recipe"])
def test_preview_keeps_to_the_limits(views, tmp_path, monkeypatch):
    plans = []

    def keep(images, draw, **_):
        plans.append(draw(images)[1])
        return Image.new("RGB", (1, 1))

    monkeypatch.setattr(importlib.import_module("coviews.cli.preview"), "contact_sheet", keep)
    words = f"preview shapes:40 --views {views} --rows 40 --matters orientation,colour --forbid Blur --cap Contrast=1.2"
    assert main([*words.split(), "--out", str(tmp_path / "a.png")]) == 0
    (plan,) = plans
    assert not plan.flips.any()
    assert not {"Rotate", "Hue", "Blur", "Color"} & set(plan.space.ops)
    contrast = plan.space.values[plan.space.index("Contrast")]
    assert (contrast.min(), contrast.max()) == pytest.approx((0.8, 1.2))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("preview --flip 1 --matters mirror", "--flip 1 contradicts --matters"),
        ("preview --views random --ignores mirror", "only families"),
        (f"preview --views recipe --matters {ALL_TOPICS}", "nothing in which the views"),
        ("preview --forbid Inverted", "did you mean 'Invert'"),
        ("pretrain shapes --matters colours", "did you mean 'colour'"),
        ("pretrain shapes --cap Rotate:10", "unknown operation for --cap 'Rotate:10': did you mean 'Rotate'"),
        ("compare shapes --dry-run --matters colours", "did you mean 'colour'"),
    ],
)
def test_bad_input_of_the_commands(words, says, tmp_path, capsys):
    assert main([*words.split(), "--out", str(tmp_path / "out.png")]) == 2
    said = capsys.readouterr().err.strip()
    assert says in said
    assert "Traceback" not in said
