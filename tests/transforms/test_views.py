"""The transform: every kind of image in, the engine's views out; picklable, and never the same in two workers."""

import pickle

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

import coviews
from coviews import CoviewsError, Plan
from coviews.ops.generators import numpy_generator
from coviews.transforms import Views
from coviews.transforms.pixels import image_levels

PIXELS = np.random.default_rng(0).integers(0, 256, (12, 10, 3), np.uint8)
KINDS = {
    "pillow": Image.fromarray(PIXELS),
    "array": PIXELS,
    "bytes": torch.from_numpy(PIXELS).permute(2, 0, 1),
    "floats": torch.from_numpy(PIXELS).permute(2, 0, 1) / 255,
}


@pytest.mark.parametrize("kind", KINDS)
def test_views_are_those_of_the_engine(kind):
    mean, std = (0.4, 0.5, 0.6), (0.2, 0.2, 0.2)
    views = Views("uniform", size=(8, 6), mean=mean, std=std)
    torch.manual_seed(7)
    result = views(KINDS[kind])
    torch.manual_seed(7)
    generator = numpy_generator(torch.default_generator)
    plan = Plan.draw(coviews.view_source("uniform"), 1, (12, 10), generator).at_size((8, 6))
    expected = coviews.to_tensors(coviews.make_views(PIXELS[None], plan, fill=(102, 128, 153)), mean, std)
    assert [view.shape for view in result] == [(3, 8, 6)] * 2
    assert all(torch.equal(view, one[0]) for view, one in zip(result, expected, strict=True))


def test_pictures_of_other_modes_become_grey_or_coloured():
    picture = Image.fromarray(PIXELS)
    assert image_levels(picture.convert("L")).shape == (12, 10, 1)
    assert image_levels(picture.convert("1")).shape == (12, 10, 1)
    for mode in ("P", "RGBA", "CMYK"):
        assert image_levels(picture.convert(mode)).shape == (12, 10, 3)
    deep = np.arange(120, dtype=np.uint16).reshape(12, 10) * 500
    assert np.array_equal(image_levels(Image.fromarray(deep))[..., 0], deep)
    assert [view.shape for view in Views("recipe", size=8)(PIXELS[..., 0])] == [(1, 8, 8)] * 2  # without colour


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (KINDS["floats"] * 2 - 1, "make views before you normalise"),
        (torch.from_numpy(np.zeros((24, 20, 3), np.uint8)), r"give image.permute\(2, 0, 1\)"),
        (PIXELS.astype(np.int64), "must be uint8, uint16 or floats"),
        (PIXELS[None], r"an image is \(C, H, W\) as a tensor"),
        (Image.new("F", (4, 4)), "has no range"),
        ("a.png", "not of str"),
    ],
)
def test_what_is_no_image_is_an_error(image, message):
    with pytest.raises(CoviewsError, match=message):
        Views()(image)


@pytest.mark.parametrize("size", [0, -3, 2.5, "big", (3,)])
def test_a_wrong_size_is_an_error_at_once(size):
    with pytest.raises(CoviewsError, match="the size must be a whole number"):
        Views("recipe", size=size)


@pytest.mark.parametrize("name", ["hardviews", "viewmaker", "coviews", "indepviews"])
def test_views_that_need_a_training_say_so(name):
    with pytest.raises(CoviewsError, match=f"only coviews pretrain --views {name}"):
        Views(name)


def test_a_name_that_is_nearly_right():
    with pytest.raises(CoviewsError, match="unknown view source 'recpie': did you mean 'recipe'"):
        Views("recpie")
    with pytest.raises(CoviewsError, match="is the file of a family of views, not of a policy"):
        coviews.load_policy("choice/views.yaml")


def test_sources_by_name_line_family_and_file(tmp_path):
    policy = coviews.Policy.untrained(coviews.space("autoaugment"), np.random.default_rng(0))
    policy.save(tmp_path / "p.safetensors")
    coviews.Family().write(tmp_path / "f.yaml", "made up")
    for source in ("random", "crop small, mirror", coviews.Family(), policy, str(tmp_path / "p.safetensors")):
        assert len(Views(source)(PIXELS)) == 2
    assert Views(str(tmp_path / "f.yaml")).placement == coviews.Family().placement
    with pytest.raises(CoviewsError, match="did you mean 'uniform'"):
        Views("unifrom")
    with pytest.raises(CoviewsError, match="need a view source"):
        Views(3)
    assert repr(Views("uniform", 32)) == "Views(Uniform, size=(32, 32))"


class Repeated(torch.utils.data.Dataset):
    def __init__(self, transform):
        self.transform = transform

    def __len__(self):
        return 6

    def __getitem__(self, index):
        return self.transform(PIXELS), index


def test_workers_and_epochs_make_different_views_of_one_image():
    views = pickle.loads(pickle.dumps(Views("uniform", size=8)))
    torch.manual_seed(0)
    loader = DataLoader(Repeated(views), batch_size=3, num_workers=2)
    made = torch.cat([x1.flatten(1) for _ in range(2) for (x1, _), _ in loader])
    assert len(made) == len(made.unique(dim=0)) == 12


def test_a_batch_has_views_plan_and_targets():
    views = Views("uniform")
    batch = views.collate([(PIXELS, 3, "a"), (PIXELS, 4, "b")])
    x1, x2 = batch
    assert x1.shape == x2.shape == (2, 3, 12, 10)
    assert batch.targets[0].tolist() == [3, 4]
    assert list(batch.targets[1]) == ["a", "b"]
    expected = coviews.to_tensors(coviews.make_views(np.stack([PIXELS] * 2), batch.plan, fill=(128,) * 3))
    assert torch.equal(x2, expected[1])
    assert batch.to("cpu").plan is batch.plan
    assert views.collate([PIXELS]).targets is None
    assert views.collate([{"img": PIXELS, "label": 5}]).targets["label"].tolist() == [5]
    assert repr(batch) == "ViewBatch(2 views, 2 x 3 x 12 x 10)"
    with pytest.raises(CoviewsError, match="must have one size"):
        views.collate([PIXELS, PIXELS[:5]])
    with pytest.raises(CoviewsError, match="has no image by the name"):
        views.collate([{"pixels": PIXELS}])


def test_a_new_source_makes_the_views_of_the_next_epoch():
    views = Views("uniform")
    loader = DataLoader([PIXELS] * 4, batch_size=2, num_workers=1, collate_fn=views.collate)
    assert {batch.plan.space.name for batch in loader} == {"all"}
    views.source = "trivialaugment"
    assert {batch.plan.space.name for batch in loader} == {"trivialaugment"}
