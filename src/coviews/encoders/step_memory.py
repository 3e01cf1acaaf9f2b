"""The memory that a step of training needs, known before any is trained."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from coviews.compat import free_memory
from coviews.data.cache import in_words
from coviews.encoders.frozen import device_of, in_eval_mode
from coviews.errors import CoviewsError

Size = tuple[int, int]  # height and width

_TRIED = 64  # pixels of a side: what an encoder keeps of larger views grows with their area
_LEAST_BATCH = 8  # images that are worth naming
_GRADIENTS = 1.25  # over what is kept for the backward pass: the gradients that are passed on, and buffers


def check_step_memory(
    encoder: nn.Module, sizes: Sequence[Size], batch: int, channels: int, *, mixed: bool, any_size: bool
) -> None:
    """An error if a step of training needs more memory than is free.

    Args:
        encoder: on the CPU; it is not changed.
        sizes: of the views of an image.
        batch: images in a step.
        channels: of the images.
        mixed: computed in bfloat16 where that is possible.
        any_size: the encoder takes views of other sizes too, and what it needs grows with their area.
    """
    each = {size: _kept_bytes(encoder, size, channels, mixed, any_size) for size in set(sizes)}
    need, free = round(_GRADIENTS * batch * sum(each[size] for size in sizes)), free_memory()
    if free is None or need <= free:
        return
    (height, width), count = max(sizes, key=lambda size: each[size]), len(sizes)
    fitting = int(batch * free / need)
    smaller = f"--batch-size {fitting}, " if fitting >= _LEAST_BATCH else ""
    raise CoviewsError(
        f"a step on {count} x {batch:,} views of up to {height:,} x {width:,} pixels needs about {in_words(need)} of "
        f"memory, and {in_words(free)} are free: give {smaller}a smaller --size or --view-size"
    )


def _kept_bytes(encoder: nn.Module, size: Size, channels: int, mixed: bool, any_size: bool) -> float:
    """What the backward pass of one view needs from its forward pass."""
    tried = (min(size[0], _TRIED), min(size[1], _TRIED)) if any_size else size
    two, four = (_kept_of(encoder, torch.zeros(n, channels, *tried), mixed) for n in (2, 4))  # with weights in bfloat16
    return (four - two) / 2 * (size[0] * size[1]) / (tried[0] * tried[1])


def _kept_of(encoder: nn.Module, views: Tensor, mixed: bool) -> int:
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor.detach()  # holds its memory; a layer's own output would hold the layer, and it the output

    hooks: Any = torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor)
    views = views.to(device_of(encoder), memory_format=torch.channels_last)
    with in_eval_mode(encoder), torch.enable_grad(), hooks:  # BatchNorm's statistics must not change
        with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
            output = encoder(views)  # holds all that was kept, so that no two of them have one address
        del output
    return sum(kept.values())
