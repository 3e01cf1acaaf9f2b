"""Some of the run's images, and pairs of views that the first, a middle and the last policy make of them."""

import base64
import io
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coviews.data.imageset import varied
from coviews.data.load import ImageSet, load_images
from coviews.data.shown_channels import Shown, shown_channels, shown_text
from coviews.errors import CoviewsError
from coviews.methods.view_networks import VIEW_NETWORKS, load_viewmaker
from coviews.ops.engine import make_views
from coviews.ops.images import value_limit
from coviews.ops.plan import Plan
from coviews.ops.view_settings import outside_colour
from coviews.pictures.drawing import as_picture
from coviews.pictures.view_sheet import view_steps
from coviews.policies.factors import views_title
from coviews.policies.fixed import fitted_source
from coviews.policies.named import is_policy_file
from coviews.policies.queue import PolicyQueue
from coviews.policies.subpolicy import ViewSource
from coviews.report.record import RunRecord, number
from coviews.runs.settings import FROM_PYTHON, PretrainSettings

_SIDE = 160  # the largest side of a picture on the page
_LOADED = 64  # images of which some are shown
_LARGEST = 2**24  # pixels of an image that is shown
_PIXELS = 4 * _LARGEST  # of all images that are loaded
_BATCH = 32  # views that pass a network that makes views at once


@dataclass(frozen=True)
class Picture:
    """A picture, and the words below it: its name, or the operations applied to it."""

    uri: str
    width: int
    height: int
    small: bool  # its pixels should stay sharp when it is enlarged
    words: str


@dataclass(frozen=True)
class GalleryRow:
    """An image and, for each source of views, its pair of views."""

    image: Picture
    pairs: list[list[Picture]]


@dataclass(frozen=True)
class Gallery:
    """Rows of pictures, or the reason why there are none."""

    heads: list[str]
    rows: list[GalleryRow]
    missing: str = ""
    note: str = ""  # which channels are shown, where that does not go without saying


def make_gallery(run: RunRecord, count: int = 6, seed: int = 0, images: ImageSet | None = None) -> Gallery:
    """Draw views of some of the run's images.

    images: the run's, if they are in memory.
    """
    try:
        settings = readable_settings(run)
        loaded = gallery_images(run, settings, _LOADED, images)
        sources = _sources(run, settings, loaded)
        generator = np.random.default_rng(seed)
        shown = loaded.subset(varied(loaded, count, generator))
        names, channels = captions(shown), shown_channels(settings.show_channels, shown.images.shape[3])
        pairs = []  # of each source, for each image
        for source in sources.values():
            views, plan = make_pairs(run.path, shown.images, source, settings, loaded.mean, generator)
            pairs.append(pair_pictures(views, plan, channels))
    except (CoviewsError, OSError) as error:
        return Gallery([], [], f"No images are shown: {str(error).splitlines()[0]}")
    rows = [
        GalleryRow(picture(shown.images[i], names[i], channels), [of[i] for of in pairs]) for i in range(len(shown))
    ]
    return Gallery(list(sources), rows, note=shown_text(settings.show_channels, shown.images.shape[3]))


def readable_settings(run: RunRecord) -> PretrainSettings:
    """The run's settings; an error if this version cannot read them."""
    if run.settings is None:
        raise CoviewsError("the run's settings cannot be read")
    return run.settings


def gallery_images(run: RunRecord, settings: PretrainSettings, limit: int, images: ImageSet | None = None) -> ImageSet:
    """At most `limit` of the run's images, spread evenly over all; `images` are the run's, if they are in memory."""
    if images is not None:
        return load_images(images, limit=limit)
    if settings.data.startswith(FROM_PYTHON):
        raise CoviewsError("they were given from Python, and the run does not keep them")
    sides = number(run.start, "height"), number(run.start, "width")
    size = (int(sides[0]), int(sides[1])) if sides[0] and sides[1] else settings.size
    if isinstance(size, tuple):
        if size[0] * size[1] > _LARGEST:
            raise CoviewsError(f"images of {size[0]:.3g} x {size[1]:.3g} pixels are too large for a page")
        limit = min(limit, _PIXELS // max(1, size[0] * size[1]))
    channels = number(run.start, "channels") or settings.channels
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the run itself warned about its images
        return load_images(
            settings.data, size=size, channels=int(channels) if channels else None, subset=settings.subset,
            subset_seed=settings.subset_seed, root=settings.data_root, cache=settings.cache, limit=limit,
            frames=settings.frames, depth=settings.depth, values=run.start.get("values"),
            max_pixels=settings.max_pixels,
        )  # fmt: skip


def newest_source(run: RunRecord, settings: PretrainSettings, images: ImageSet) -> tuple[str, ViewSource]:
    """The name and the source of the views of the last epoch; `images` are some of the run's."""
    if not settings.learns_views or not run.alike:
        return list(_sources(run, settings, images).items())[-1]
    queue = PolicyQueue(settings.queue_size, settings.queue_p)
    for epoch in sorted(run.alike):
        queue.push(run.alike[epoch])
    count = len(queue)
    return f"the queue of the {count} newest policies" if count > 1 else "the newest policy", queue


def make_pairs(
    folder: Path,
    images: NDArray[Any],
    source: ViewSource,
    settings: PretrainSettings,
    fill: tuple[int, ...],
    generator: np.random.Generator,
) -> tuple[NDArray[Any], Plan]:
    """The first two views of each image, as in the run of this folder (N, 2, H, W, C), and what was done to them."""
    height, width = images.shape[1:3]
    plan = Plan.draw(source, len(images), (height, width), generator, settings.placement).of_views(0, 2)
    if settings.view_sizes:
        plan = plan.at_size(settings.view_sizes[0])
    views = make_views(images, plan, fill=fill, outside=outside_colour(images, settings.fill))
    if settings.views in VIEW_NETWORKS:
        views = _changed_by_network(folder, views, int(generator.integers(2**63)))
    return views, plan


def _changed_by_network(folder: Path, views: NDArray[Any], seed: int) -> NDArray[Any]:
    """The views (N, V, H, W, C) as the run's network changes them."""
    import torch

    network, most = load_viewmaker(folder), value_limit(views)
    flat = views.reshape(-1, *views.shape[2:])
    index = torch.arange(views.shape[1]).repeat(len(views))
    parts = []
    with torch.no_grad():
        noise = torch.Generator().manual_seed(seed)
        for start in range(0, len(flat), _BATCH):
            some = slice(start, start + _BATCH)
            pixels = torch.from_numpy(flat[some].astype(np.float32) / most).permute(0, 3, 1, 2)
            parts.append(network(pixels, noise, index[some]).clamp(0, 1).permute(0, 2, 3, 1).numpy())
    return np.rint(np.concatenate(parts) * most).astype(views.dtype).reshape(views.shape)


def pair_pictures(views: NDArray[Any], plan: Plan, shown: Shown | None = None) -> list[list[Picture]]:
    """Each pair of views (N, 2, H, W, C) as pictures, with the operations that were applied to them."""
    lines = [" | ".join(text.split(" | ")[:2]) for text in plan.texts()]
    return [
        [picture(view, ", ".join(steps), shown) for view, steps in zip(pair, view_steps(line), strict=True)]
        for pair, line in zip(views, lines, strict=True)
    ]


def captions(images: ImageSet) -> list[str]:
    """The name of each image: its class, or its file."""
    if images.labels is not None and images.classes is not None:
        return [images.classes[label] for label in images.labels]
    return [str(name) for name in images.names] if images.names else ["image"] * len(images)


def _sources(run: RunRecord, settings: PretrainSettings, images: ImageSet) -> dict[str, ViewSource]:
    """The sources of the views that are shown, by their headings."""
    channels, pixels = images.images.shape[3], images.images.dtype
    if settings.learns_views:
        epochs = sorted(run.policies)
        if not epochs:
            first = fitted_source(settings.first_source(), channels, pixels)
            return {f"{settings.search.first_source} views of the warm-up": first}
        shown = sorted({epochs[0], epochs[len(epochs) // 2], epochs[-1]})
        return {f"policy of epoch {epoch}": run.policies[epoch] for epoch in shown}
    if is_policy_file(settings.views):
        given = fitted_source(settings.named_source(settings.views), channels, pixels)
        return {"views of the policy that was given": given}
    name = settings.base_views
    source = fitted_source(settings.named_source(name), channels, pixels)
    more = {
        "hardviews": ", of which hardviews chooses",
        "viewmaker": ", changed by the viewmaker",
        "infomin-flow": ", whose channels infomin-flow shares out",
    }
    return {f"{views_title(name)}{more.get(settings.views, '')}": source}


def picture(pixels: NDArray[Any], words: str, shown: Shown | None = None) -> Picture:
    """An image (H, W, C) as the page shows it."""
    image = as_picture(pixels, shown)
    image.thumbnail((_SIDE, _SIDE))
    small = max(image.size) <= 96
    content = io.BytesIO()
    image.save(content, "PNG" if small else "JPEG", **({} if small else {"quality": 85}))
    code = base64.b64encode(content.getvalue()).decode()
    return Picture(f"data:image/{'png' if small else 'jpeg'};base64,{code}", *image.size, small, words)
