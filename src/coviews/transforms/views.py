"""`Views`: the views of an image, for the `transform` of any data set, or of a whole batch, as its `collate_fn`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import default_collate, get_worker_info

from coviews.data.levels import MOST_CHANNELS
from coviews.data.request import checked_size
from coviews.encoders.pixels import to_tensors
from coviews.errors import CoviewsError
from coviews.ops.engine import make_views
from coviews.ops.generators import numpy_generator
from coviews.ops.images import Images, value_limit
from coviews.ops.placement import Placement
from coviews.ops.plan import Plan, Size
from coviews.policies.factors import Family, FamilySource
from coviews.policies.fixed import fitted_source
from coviews.policies.named import named_source
from coviews.policies.subpolicy import ViewSource
from coviews.transforms.pixels import image_levels

_IMAGE_KEYS = ("image", "img", "pixel_values")  # of the image in an item that is a dictionary


class ViewBatch:
    """The views of a batch of images, what was done to each, and the rest of their items.

    `x1, x2 = batch` are its views, tensors (B, C, H, W); `table.add(batch.plan, losses)` tells a `LossTable` of it.
    """

    def __init__(self, views: list[Tensor], plan: Plan, targets: Any, dtype: np.dtype[Any]) -> None:
        self.views, self.plan, self.targets = views, plan, targets
        self.dtype = dtype  # of the images: uint8 or uint16

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.views)

    def __len__(self) -> int:
        """The number of views."""
        return len(self.views)

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.views[0].shape))
        return f"ViewBatch({len(self)} views, {shape})"

    def to(self, device: torch.device | str, non_blocking: bool = False) -> "ViewBatch":
        """The same with its tensors on a device."""
        moved = _each_tensor((self.views, self.targets), lambda t: t.to(device, non_blocking=non_blocking))
        return ViewBatch(moved[0], self.plan, moved[1], self.dtype)

    def pin_memory(self) -> "ViewBatch":
        """The same in pinned memory; a DataLoader asks for it."""
        pinned = _each_tensor((self.views, self.targets), Tensor.pin_memory)
        return ViewBatch(pinned[0], self.plan, pinned[1], self.dtype)


class Views:
    """A transform that gives the views of an image as a list of normalised tensors (C, H, W).

        dataset = ImageFolder("my/images", transform=Views("recipe", size=96))  # views are made in the workers
        loader = DataLoader(dataset, collate_fn=Views("recipe", size=96).collate)  # a whole batch at once

    It can be pickled. All that is drawn follows from torch's own generator, which DataLoader seeds differently in each
    worker and epoch.

    Args:
        source: a view source, a family of views, or what `pretrain --views` takes: a name such as `recipe` or
            `uniform`, a line of factors, the file of a policy (.safetensors, .json) or of a family (.yaml).
        size: the side of the views in pixels, or height and width; by default that of the image.
        placement: how views are cropped, flipped and turned; by default as the family says.
        mean: of each channel in 0..1, for the normalisation, and as the colour of cutouts.
        std: the standard deviation of each channel.
        threads: that make the views of a batch outside of workers; all cores if None.
    """

    def __init__(
        self,
        source: "str | ViewSource | Family" = "recipe",
        size: int | Size | None = None,
        *,
        placement: Placement | None = None,
        mean: Sequence[float] = (0.5,) * MOST_CHANNELS,
        std: Sequence[float] = (0.25,) * MOST_CHANNELS,
        threads: int | None = None,
    ) -> None:
        self.source = source  # its setter opens what is named
        family = self.source.family if isinstance(self.source, FamilySource) else None
        self.placement = placement or (Placement() if family is None else family.placement)
        self.size = checked_size(size)
        self.mean, self.std, self.threads = tuple(mean), tuple(std), threads

    def __repr__(self) -> str:
        size = "" if self.size is None else f", size={self.size}"
        return f"Views({type(self.source).__name__}{size})"

    @property
    def source(self) -> ViewSource:
        """What draws the views; a new one is used from the next batch on, in workers from the next epoch on."""
        return self._source

    @source.setter
    def source(self, source: "str | ViewSource | Family") -> None:
        if isinstance(source, str):
            source = named_source(source)
        elif isinstance(source, Family):
            source = source.source()
        if not hasattr(source, "sample"):
            raise CoviewsError(f"views need a view source, or the name or file of one, not {type(source).__name__}")
        self._source: ViewSource = source
        self._fitted: dict[tuple[int, np.dtype[Any]], ViewSource] = {}

    def fitted(self, channels: int, dtype: np.dtype[Any]) -> ViewSource:
        """The source without operations that such images do not allow."""
        key = (channels, dtype)
        if key not in self._fitted:
            self._fitted[key] = fitted_source(self.source, channels, dtype)
        return self._fitted[key]

    def __call__(self, image: Any) -> list[Tensor]:
        """The views of a Pillow image, an array (H, W, C) or a tensor (C, H, W)."""
        tensors, _ = self._make(image_levels(image)[None], threads=1)
        return [tensor[0] for tensor in tensors]

    def collate(self, items: Sequence[Any]) -> ViewBatch:
        """The views of a whole batch, for `DataLoader(collate_fn=...)`.

        Args:
            items: images; tuples that begin with the image; or dictionaries with it as `image` or `img`. What else
                they hold becomes the `targets` of the batch, collated as DataLoader does.
        """
        images, rest = zip(*map(_image_and_rest, items), strict=True)
        levels = [image_levels(image) for image in images]
        if len(shapes := {array.shape for array in levels}) > 1:
            raise CoviewsError(
                f"the images of a batch must have one size, not {' and '.join(map(str, sorted(shapes)[:2]))}: resize "
                "them in the data set, or give it Views(...) as its transform"
            )
        tensors, plan = self._make(np.stack(levels), threads=1 if get_worker_info() else self.threads)
        targets = None if rest[0] is None else default_collate(list(rest))
        return ViewBatch(tensors, plan, targets, levels[0].dtype)

    def _make(self, images: Images, threads: int | None) -> tuple[list[Tensor], Plan]:
        b, height, width, channels = images.shape
        generator = numpy_generator(torch.default_generator)
        source = self.fitted(channels, images.dtype)
        plan = Plan.draw(source, b, (height, width), generator, self.placement)
        if self.size is not None:
            plan = plan.at_size(self.size)
        fill = tuple(round(value_limit(images) * m) for m in self.mean[:channels])
        views = make_views(images, plan, fill=fill if len(fill) == channels else None, threads=threads)
        return to_tensors(views, self.mean, self.std), plan


def _image_and_rest(item: Any) -> tuple[Any, Any]:
    if isinstance(item, Mapping):
        key = next((key for key in _IMAGE_KEYS if key in item), None)
        if key is None:
            raise CoviewsError(f"an item has no image by the name {' or '.join(_IMAGE_KEYS)}, but {', '.join(item)}")
        return item[key], {name: value for name, value in item.items() if name != key} or None
    if isinstance(item, tuple | list):
        image, *rest = item
        return image, (rest[0] if len(rest) == 1 else rest) if rest else None
    return item, None


def _each_tensor(value: Any, change: Any) -> Any:
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, Mapping):
        return {name: _each_tensor(part, change) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_each_tensor(part, change) for part in value]
    return value
