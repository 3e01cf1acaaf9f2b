"""`coviews preview`: what views look like."""

import contextlib
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from numpy.typing import NDArray

from coviews.console.options import Number, Text, check_range
from coviews.data.colours import has_colour
from coviews.data.imageset import varied
from coviews.data.levels import MAX_PIXELS
from coviews.data.load import ImageSet, load_images
from coviews.data.shown_channels import shown_channels, shown_text
from coviews.errors import CoviewsError, unknown
from coviews.ops.engine import make_views
from coviews.ops.placement import Placement
from coviews.ops.plan import LARGEST_VIEW, Plan
from coviews.ops.space import STANDARD, standard_space
from coviews.ops.space import space as make_space
from coviews.ops.view_settings import OUTSIDE, outside_colour
from coviews.pictures.drawing import check_picture, save_picture
from coviews.pictures.view_sheet import contact_sheet
from coviews.policies.factors import FAMILIES, FamilySource
from coviews.policies.fixed import FIXED, ViewSourceKeywords, fitted_source, operations_left_out
from coviews.policies.limits import COLOUR_ONLY, forbid_colour, view_limits
from coviews.policies.named import named_source
from coviews.policies.subpolicy import ViewSource

_LONGEST_SIDE = 1024  # pixels of an image: a sheet shows no more
_NOTE = "Under each view is what was done to it, in this order. Crop: left, top, right and bottom, in pixels"
_LOADED = 128  # images to choose from: no need to decode a large folder
_LOADED_PIXELS = 1 << 26  # of these, at most, where there are more than are shown
_SHOWN_PIXELS = 1 << 28  # of the images that are shown, and of a pair of views of each


def _operations(default: str) -> str:
    """The hint in the help of an option that names a space: the operations of the default space."""
    return f"({STANDARD}: {', '.join(make_space(STANDARD).ops)})"


SpaceName = Annotated[str | None, tyro.conf.arg(metavar="STR", help_behavior_hint=_operations)]


def preview_command(
    data: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="[DATA]")] = "shapes",
    *,
    views: str = "recipe",
    out: Path = Path("sheet.png"),
    rows: int = 6,
    pairs: int = 3,
    seed: int = 0,
    size: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None,
    depth: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None,
    frames: Annotated[str | None, tyro.conf.arg(metavar="STR")] = None,
    max_pixels: int = MAX_PIXELS,
    show_channels: Annotated[str | None, tyro.conf.arg(metavar="STR")] = None,
    space: SpaceName = None,
    magnitude: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None,
    crop: Text = None,
    crop_area: Annotated[tuple[float, float] | None, tyro.conf.arg(metavar="LOW HIGH")] = None,
    flip: Number = None,
    flip_vertical: Number = None,
    quarter_turns: Number = None,
    matters: Text = None,
    ignores: Text = None,
    forbid: Text = None,
    cap: Text = None,
    fill: str = "black",
    view_size: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None,
) -> None:
    """Draw views of your images on a sheet, with what was done to each.

    Args:
        data: A folder of images, an image file, or 'shapes' (built in; 'shapes:2000' for as many).
        views: How views are made: a family of views (recipe, cropflip, a line such as 'crop small, mirror, light', or
            its file, .yaml), random, uniform, randaugment, trivialaugment, autoaugment:cifar10 or
            fast-autoaugment:cifar10 (or svhn, imagenet), simclr, infomin, or the file of a policy (.safetensors,
            .json).
        out: Where to write the picture; its extension says which format. An older one is replaced.
        rows: How many images to show.
        pairs: How many pairs of views to show of each.
        seed: Chooses the images and everything that is drawn.
        size: The side of the images in pixels, if not their own.
        depth: Bits of a level of images that have more than 8: 16 (the default) or 8.
        frames: How files of several pages are read: channels, middle or each.
        max_pixels: Pixels of an image file: a larger JPEG file is decoded reduced, any other larger file is skipped.
        show_channels: The channels to show as red, green and blue, such as 3,2,1, or one; by default the first three.
        space: The operations of random and uniform views: all (the default), channels (the default for images that are
            not grey or coloured of 8 bits), autoaugment (the paper's), simclr or simclr-wide.
        magnitude: RandAugment's magnitude, 0 to 30.
        crop: How parts are cut out of the image, after the operations: random, joint or none.
        crop_area: The least and largest area of such a part, as shares.
        flip: The probability that a view is mirrored left to right.
        flip_vertical: The probability that a view is turned upside down by a mirror.
        quarter_turns: The probability that a view is turned by 90, 180 or 270 degrees.
        matters: What views must not change, as for pretrain: colour, orientation, brightness, detail, position, ...
        ignores: What a family of views must change, named as for --matters.
        forbid: Operations that never occur, such as Invert,Solarize.
        cap: Operations with the strongest value that may occur, such as Rotate=10,Brightness=1.2.
        fill: The colour outside the image, as for pretrain: black, mean or border.
        view_size: The side of the views in pixels, if not that of the images.
    """
    check_range("rows", rows, 1, 100)
    check_range("pairs", pairs, 1, 20)
    check_range("seed", seed, 0, 2**63)
    for name, side in {"size": size, "view-size": view_size}.items():
        if side is not None:
            check_range(name, side, 1, LARGEST_VIEW)
    if fill not in OUTSIDE:
        raise unknown("fill", fill, OUTSIDE)
    limits = view_limits(matters, ignores, forbid, cap)
    source = limits.source(_source(views, magnitude, space))
    choices: dict[str, Any] = {
        "crop": crop, "area": crop_area, "flip": flip, "flip_vertical": flip_vertical, "quarter_turns": quarter_turns
    }  # fmt: skip
    family = source.family if isinstance(source, FamilySource) else None
    limits.check(views, family, choices)
    default = Placement() if family is None else family.placement
    placement = replace(default, **{name: value for name, value in choices.items() if value is not None})
    placement = limits.placement(placement)
    limits.check_family(source, placement)
    check_picture(out)
    loaded = _LOADED if not size else min(_LOADED, _LOADED_PIXELS // size**2)
    images = load_images(
        data, size=size, limit=max(loaded, rows), depth=depth, frames=frames, max_pixels=max_pixels,
        max_side=_LONGEST_SIDE, progress=True,
    )  # fmt: skip
    (height, width, channels), pixels = images.images.shape[1:], images.images.dtype
    if height == 1 and flip is None:  # a series, as in pretrain
        placement = replace(placement, flip=0.0)
    if rows * (height * width + 2 * (view_size**2 if view_size else height * width)) > _SHOWN_PIXELS:
        raise CoviewsError(
            f"{rows} images of {height} x {width} are too many for a sheet: give fewer --rows, or a smaller --size"
        )
    shown, shown_note = shown_channels(show_channels, channels), shown_text(show_channels, channels)
    if space is None and views in ("random", "uniform"):
        source = limits.source(_source(views, magnitude, standard_space(channels, pixels, height)))
    if (views in FIXED or views in FAMILIES) and not has_colour(images):
        with contextlib.suppress(CoviewsError):  # nothing else would be left, or views are to change colours
            grey = view_limits(matters, ignores, forbid_colour(forbid), cap)
            grey.check(views, family, choices)
            source = grey.source(source)
            print(f"the images are grey: their views never have {', '.join(COLOUR_ONLY)}", file=sys.stderr)
    given, source = source, fitted_source(source, channels, pixels)
    if left_out := operations_left_out(given, source):
        print(f"left out, because such images do not allow them: {', '.join(left_out)}", file=sys.stderr)
    generator = np.random.default_rng(seed)
    indices = varied(images, rows, generator)
    outside = outside_colour(images.images, fill)

    def draw(batch: NDArray[Any]) -> tuple[NDArray[Any], Plan]:
        height, width = batch.shape[1:3]
        plan = Plan.draw(source, len(batch), (height, width), generator, placement)
        if view_size is not None:
            plan = plan.at_size((view_size, view_size))
        return make_views(batch, plan, fill=images.mean, outside=outside), plan

    strength = "" if magnitude is None else f" (magnitude {magnitude})"
    sheet = contact_sheet(
        images.images[indices],
        draw,
        pairs=pairs,
        title=f"{Path(*Path(data).parts[-2:])} · {Path(views).name}{strength}",
        note="; ".join(filter(None, (_NOTE, shown_note))),
        captions=_captions(images, indices),
        shown=shown,
    )
    save_picture(sheet, out)
    print(f"wrote {out}: {views} views of {len(indices)} image{'s' if len(indices) > 1 else ''}")


def _source(views: str, magnitude: int | None, space: str | None) -> ViewSource:
    options: ViewSourceKeywords = {}
    named_source(views)  # an unknown name is the first error to report
    if magnitude is not None:
        if views != "randaugment":
            raise CoviewsError(f"--magnitude is an option of --views randaugment, not of {views!r}")
        options["magnitude"] = magnitude
    if space is not None:
        if views not in ("random", "uniform"):
            raise CoviewsError(f"--space is an option of --views random and uniform, not of {views!r}")
        options["space_name"] = space
    return named_source(views, **options)


def _captions(images: ImageSet, indices: NDArray[np.int64]) -> list[str]:
    if images.labels is not None and images.classes is not None:
        return [images.classes[label] for label in images.labels[indices]]
    return [Path(images.names[i]).name for i in indices] if images.names else [""] * len(indices)
