"""The encoder of a run, and the method that trains it, from the run's settings."""

import torch
from torch import nn

from coviews.data.cache import in_words, memory_for_images
from coviews.data.load import ImageSet
from coviews.encoders.architectures import WEIGHT_COPIES, check_encoder, make_encoder
from coviews.encoders.initial import start_from
from coviews.encoders.small_maps import compute_small_maps_in_full
from coviews.encoders.step_memory import check_step_memory
from coviews.encoders.weight_gradients import multiply_for_weight_gradients
from coviews.errors import CoviewsError
from coviews.methods.known import make_method
from coviews.methods.method import Method
from coviews.runs.settings import PretrainSettings


def build_method(
    settings: PretrainSettings, images: ImageSet, module: nn.Module | None, *, trains: bool = False
) -> Method:
    """The encoder and the method that trains it; trains: an error if a step of training does not fit into memory."""
    s, (_, height, width, channels) = settings, images.images.shape
    encoder = module if module is not None else make_encoder(s.encoder, (height, width), channels)
    any_size = module is None and not s.encoder.startswith("timm/")
    if trains and any_size:  # before anything is computed at the views' size
        _check_step(s, encoder, (height, width), channels, any_size=True)
    features = check_encoder(encoder, (height, width), channels, s.encoder)
    sizes = {*s.view_sizes, *s.local_sizes((height, width))}
    if s.views == "hardviews":
        sizes.add(compared_size(s.view_sizes[0] if s.view_sizes else (height, width), s.hard_scale))
    for size in sizes - {(height, width)}:
        check_encoder(encoder, size, channels, s.encoder)
    if trains and module is None and not any_size:
        _check_step(s, encoder, (height, width), channels, any_size=False)
    if s.init_from is not None:
        start_from(s.init_from, encoder, s.encoder, (height, width), channels, download=s.download)
    _check_memory(s, features)
    method = make_method(s.method, encoder, features, seed=s.seed)
    if s.precision == "bf16-mixed":
        compute_small_maps_in_full(method)
        if module is None:  # a user's own layers keep their class
            multiply_for_weight_gradients(method)
    return method


def _check_step(
    settings: PretrainSettings, encoder: nn.Module, size: tuple[int, int], channels: int, *, any_size: bool
) -> None:
    """An error if a step of training does not fit into memory."""
    s = settings
    if s.accelerator != "cpu" and (torch.cuda.is_available() or torch.backends.mps.is_available()):
        return
    sizes = [*[s.view_sizes[0] if s.view_sizes else size] * s.views_global, *s.local_sizes(size)]
    here = -(-s.batch_size // s.num_nodes)  # of the pairs of a batch: each machine has its share, and its memory
    check_step_memory(encoder, sizes, here, channels, mixed=s.precision == "bf16-mixed", any_size=any_size)


def _check_memory(settings: PretrainSettings, features: int) -> None:
    """An error, before memory is allocated, if the method's own parameters do not fit into it."""
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        outline = make_method(settings.method, nn.Identity(), features, seed=settings.seed)
    count = sum(t.numel() for t in (*outline.parameters(), *outline.buffers()))
    need, memory = 4 * WEIGHT_COPIES * count, memory_for_images()
    if memory is not None and need > memory:
        raise CoviewsError(
            f"{settings.method.name} with these options has {count:,} parameters besides the encoder, which need "
            f"{in_words(need)} of memory, and {in_words(memory)} are free: give a smaller --projector"
        )


def compared_size(view_size: tuple[int, int], scale: float) -> tuple[int, int]:
    """The height and width at which hard views of this height and width are compared."""
    height, width = (max(1, round(scale * side)) for side in view_size)
    return height, width
