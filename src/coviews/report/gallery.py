"""The user's own images, and pairs of views that the first, a middle and the last policy make of them."""

import base64
import io
import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from coviews.config import PretrainSettings
from coviews.data.load import ImageSet, load_images
from coviews.errors import CoviewsError
from coviews.ops.engine import make_views
from coviews.policies.fixed import view_source
from coviews.policies.learned import load_policy
from coviews.policies.subpolicy import ViewSource
from coviews.report.record import RunRecord, number
from coviews.report.sheet import view_steps

_SIDE = 160  # the largest side of a picture on the page
_LOADED = 64  # images of which some are shown


@dataclass(frozen=True)
class Picture:
    """A picture with what was done to it."""

    uri: str
    width: int
    height: int
    small: bool  # its pixels should stay sharp when it is enlarged
    words: str


@dataclass(frozen=True)
class Row:
    """An image and, for each source of views, its pair of views."""

    image: Picture
    pairs: list[list[Picture]]


@dataclass(frozen=True)
class Gallery:
    """Rows of pictures, or the reason why there are none."""

    heads: list[str]
    rows: list[Row]
    missing: str = ""


def gallery(run: RunRecord, count: int = 6, seed: int = 0) -> Gallery:
    """Draw views of some of the run's images."""
    settings = run.settings
    if settings is None:
        return Gallery([], [], "No images are shown: the run's settings cannot be read.")
    if settings.data.startswith("python: "):
        return Gallery([], [], "No images are shown: they were given from Python, and the run does not keep them.")
    try:
        images = _load(run, settings)
        sources = _sources(run, settings)
        generator = np.random.default_rng(seed)
        shown = images.subset(_chosen(images, count, generator))
        words = _captions(shown)
        made = []
        for source in sources.values():
            done = source.sample(len(shown), generator).applied(generator)
            area, flip = settings.crop_area if settings.crop else None, 0.5 if settings.flip else 0.0
            views = make_views(shown.images, done, generator, crop=area, flip=flip, fill=images.mean)
            made.append([
                [_picture(view, ", ".join(steps)) for view, steps in zip(two, view_steps(line), strict=True)]
                for two, line in zip(views[:, :2], [" | ".join(t.split(" | ")[:2]) for t in done.texts()], strict=True)
            ])  # fmt: skip
    except (CoviewsError, OSError) as error:
        return Gallery([], [], f"No images are shown: {str(error).splitlines()[0]}")
    rows = [Row(_picture(shown.images[i], words[i]), [pairs[i] for pairs in made]) for i in range(len(shown))]
    return Gallery(list(sources), rows)


def _load(run: RunRecord, settings: PretrainSettings) -> ImageSet:
    sides = number(run.start, "height"), number(run.start, "width")
    size = (int(sides[0]), int(sides[1])) if sides[0] and sides[1] else settings.size
    channels = number(run.start, "channels") or settings.channels
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the run itself told what is wrong with its images
        return load_images(
            settings.data, size=size, channels=int(channels) if channels else None, subset=settings.subset,
            subset_seed=settings.subset_seed, root=settings.data_root, cache=settings.cache, limit=_LOADED,
        )  # fmt: skip


def _sources(run: RunRecord, settings: PretrainSettings) -> dict[str, ViewSource]:
    """Who makes the views, by a heading."""
    if settings.learns_views:
        epochs = sorted(run.policies)
        if not epochs:
            name = settings.prior if settings.by_table else "random"
            return {f"{name} views of the warm-up": settings.first_source()}
        chosen = sorted({epochs[0], epochs[len(epochs) // 2], epochs[-1]})
        return {f"policy of epoch {epoch}": run.policies[epoch] for epoch in chosen}
    if settings.views.endswith(".safetensors"):
        return {"views of the policy that was given": load_policy(settings.views)}
    if settings.views == "hardviews":
        return {f"{settings.hard_source} views, of which hardviews chooses": view_source(settings.hard_source)}
    options = {"magnitude": settings.magnitude} if settings.views == "randaugment" else {}
    return {f"{settings.views} views": view_source(settings.views, **options)}


def _chosen(images: ImageSet, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Some images, of as many classes as there can be."""
    order = generator.permutation(len(images))
    if images.labels is not None:
        labels = images.labels[order]
        turn = np.array([(labels[:i] == label).sum() for i, label in enumerate(labels)])
        order = order[np.argsort(turn, kind="stable")]
    return order[:count]


def _captions(images: ImageSet) -> list[str]:
    if images.labels is not None and images.classes is not None:
        return [images.classes[label] for label in images.labels]
    return [str(name) for name in images.names] if images.names else ["image"] * len(images)


def _picture(pixels: NDArray[np.uint8], words: str) -> Picture:
    image = Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)
    image.thumbnail((_SIDE, _SIDE))
    small = max(image.size) <= 96
    kept = io.BytesIO()
    image.save(kept, "PNG" if small else "JPEG", **({} if small else {"quality": 85}))
    code = base64.b64encode(kept.getvalue()).decode()
    return Picture(f"data:image/{'png' if small else 'jpeg'};base64,{code}", *image.size, small, words)
