"""What is outside an image: black as in Pillow, or another colour, byte for byte as Pillow's fillcolor."""

import numpy as np
import pytest
from PIL import Image

import coviews
from coviews import CoviewsError
from coviews.cli import main
from coviews.ops.engine import apply_op
from coviews.ops.space import space
from coviews.ops.view_settings import outside_colour
from coviews.training.pretrain import pretrain
from small_runs import SMALL, content

AFFINE = Image.Transform.AFFINE


def by_pillow(image, name, value, colour):
    picture = Image.fromarray(image[..., 0] if image.shape[2] == 1 else image)
    size, (w, h) = picture.size, picture.size
    colour = colour[0] if image.shape[2] == 1 else colour
    matrices = {
        "ShearX": (1, value, 0, 0, 1, 0), "ShearY": (1, 0, 0, value, 1, 0),
        "TranslateX": (1, 0, value * w, 0, 1, 0), "TranslateY": (1, 0, 0, 0, 1, value * h),
    }  # fmt: skip
    if name == "Rotate":
        made = picture.rotate(value, fillcolor=colour)
    else:
        made = picture.transform(size, AFFINE, matrices[name], fillcolor=colour)
    return np.asarray(made).reshape(image.shape)


@pytest.mark.parametrize("name", ["Rotate", "ShearX", "ShearY", "TranslateX", "TranslateY"])
@pytest.mark.parametrize("shape", [(24, 24, 3), (17, 31, 3), (20, 13, 1)])
@pytest.mark.parametrize("level", [0, 3, 10])
def test_as_pillows_fillcolor(name, shape, level):
    operations = space("autoaugment")
    image = np.random.default_rng(level).integers(0, 256, shape, np.uint8)
    value = float(operations.values[operations.index(name), level])
    colour = (250, 3, 128)[: shape[2]]
    made = apply_op(image, name, level, space_name="autoaugment", outside=colour)
    assert np.array_equal(made, by_pillow(image, name, value, colour))
    black = apply_op(image, name, level, space_name="autoaugment")
    assert np.array_equal(black, by_pillow(image, name, value, (0, 0, 0)))


def test_colours_of_the_data_set():
    images = np.zeros((5, 8, 8, 3), np.uint8)
    images[:, 1:-1, 1:-1] = 100
    images[:4, 0], images[:4, -1], images[:4, :, 0], images[:4, :, -1] = (240,) * 4
    assert outside_colour(images, "black") is None
    assert outside_colour(images, "border") == (240, 240, 240)
    mean = round(float(images.mean()))
    assert outside_colour(images, "mean") == (mean,) * 3
    deep = np.full((2, 4, 4, 5), 60_000, np.uint16)
    assert outside_colour(deep, "border") == (60_000,) * 5


def test_a_colour_that_does_not_fit():
    with pytest.raises(CoviewsError, match=r"outside must be 3 whole numbers of 0..255"):
        apply_op(np.zeros((4, 4, 3), np.uint8), "Rotate", 1, outside=(300, 0, 0))


def test_a_run_on_white_paper_has_no_black_wedges(tmp_path, monkeypatch):
    paper = np.full((32, 16, 16, 3), 255, np.uint8)
    paper[:, 6:10, 6:10] = 90
    seen = []
    original = coviews.training.pretrain.to_tensors

    def note(views, *rest):
        seen.append(views)
        return original(views, *rest)

    monkeypatch.setattr(coviews.training.pretrain, "to_tensors", note)
    short = SMALL.replaced(views="crop large, tilt", epochs=1, knn_every=0, batch_size=16)
    for fill, darkest in (("black", 0), ("border", 90)):
        seen.clear()
        pretrain(paper, settings=short, fill=fill, out=tmp_path / fill, progress=False)
        assert min(int(views.min()) for views in seen) == darkest
    assert "fill: border" in content(tmp_path / "border")["config.yaml"]
    with pytest.raises(CoviewsError, match="did you mean 'border'"):
        SMALL.replaced(fill="boarder")


def test_the_preview_has_the_option(tmp_path, capsys):
    command = ["preview", "shapes:20", "--rows", "1", "--pairs", "1", "--out", str(tmp_path / "s.png"), "--fill"]
    assert main([*command, "border"]) == 0
    assert main([*command, "whit"]) == 2
    assert "unknown fill 'whit'" in capsys.readouterr().err
