"""From settings to what a training works with: its final settings, devices, images and view source."""

import contextlib
import logging
import os
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch

from coviews.compat import cores
from coviews.data.cache import default_cache, memory_for_images
from coviews.data.colours import has_colour
from coviews.data.formats import held_out_split
from coviews.data.load import ImageSet, load_images
from coviews.data.near_constant import near_constant_note
from coviews.data.request import ImageRequest
from coviews.data.shown_channels import shown_channels
from coviews.data.splits import can_judge
from coviews.data.stream import SAMPLED, Stream, open_stream
from coviews.errors import CoviewsError, one_line
from coviews.ops.space import SERIES
from coviews.policies.factors import FAMILIES
from coviews.policies.limits import forbid_colour
from coviews.policies.subpolicy import ViewSource
from coviews.runs.folder import Run
from coviews.runs.presets import PRESETS
from coviews.runs.settings import AUTO, FROM_PYTHON, PretrainSettings
from coviews.runs.view_names import CHOSEN_FIRST, VIEWS
from coviews.training.precision import with_precision

if TYPE_CHECKING:
    from lightning_fabric import Fabric

CPU_SIZE, GPU_SIZE = 128, 224  # pixels of the longer side that larger images are scaled down to
STEPS = 3  # of an epoch: with fewer, a smaller batch is suggested
_SMALL_BATCH = 64  # images, for sets of a few hundred
_ADDRESSES = ("MASTER_ADDR", "SLURM_JOB_ID", "LSB_JOBID", "OMPI_COMM_WORLD_SIZE")  # of machines, by whoever starts us
_PER_CORE = 8  # processes, at most
_PATIENCE = 180.0  # seconds that all processes of a machine have to start in
BROKEN = 0.01  # a larger share of unreadable images ends the run before it begins


def final_settings(
    settings: PretrainSettings | None, resume: Path | None, changes: dict[str, Any], *, demo: bool
) -> PretrainSettings:
    """The settings of a run that starts, or of one that is continued, where only those of the machine may change.

    A run that is continued may get more epochs.
    """
    if resume is None:
        new = (settings or (PRESETS["demo"] if demo else PretrainSettings())).replaced(**changes)
        if new.views in CHOSEN_FIRST:
            raise CoviewsError(f"views={new.views!r} is for the command line: call {CHOSEN_FIRST[new.views]}")
        return for_this_machine(new)
    before = Run.open(resume, writes=False).settings
    now = (settings or before).replaced(**changes, out=resume)
    for name in ("max_side", "warmup_epochs", "forbid"):  # chosen by its machine, its first epochs, its images
        if getattr(now, name) is None:
            now = now.replaced(**{name: getattr(before, name)})
    if now.precision == AUTO:  # the machine that it began on has decided
        now = now.replaced(precision=before.precision)
    if now.space is None and before.space in ("channels", SERIES):  # the default for its images
        now = now.replaced(space=before.space)
    if now.flip is None and before.space == SERIES:
        now = now.replaced(flip=before.flip)
    for name, (old, new) in before.differences(now).items():
        if name == "epochs":
            if new > old:
                continue
            raise CoviewsError(f"the run {resume} has {old} epochs: more --epochs extend it, fewer are not possible")
        raise CoviewsError(
            f"the run {resume} has another {name} ({old!r}, not {new!r}): continue it as it is, or start a new one"
        )
    return now


def for_this_machine(settings: PretrainSettings) -> PretrainSettings:
    """The same with what this machine decides where nothing is chosen: the precision and the size of images."""
    return with_max_side(with_precision(settings))


def with_max_side(settings: PretrainSettings) -> PretrainSettings:
    """The same with the size that images have at most on this machine, unless a size is chosen."""
    s = settings
    if s.size is not None or s.max_side is not None:
        return s
    has_gpu = torch.cuda.is_available() or torch.backends.mps.is_available()
    on_gpu = s.accelerator in ("cuda", "mps") or (s.accelerator == "auto" and has_gpu)
    return s.replaced(max_side=GPU_SIZE if on_gpu else CPU_SIZE)


def without_colour(settings: PretrainSettings, images: ImageSet) -> PretrainSettings:
    """The same without operations that change only colours, where images are grey."""
    s = settings
    if not (s.views in VIEWS or s.views in FAMILIES) or has_colour(images):
        return s
    try:
        return s.replaced(forbid=forbid_colour(s.forbid))
    except CoviewsError:  # nothing else would be left to these views, or they are to change colours
        return s


def without_mirror(settings: PretrainSettings, images: ImageSet) -> PretrainSettings:
    """The same without mirror images, if none are asked for and the images are series: time runs in one direction."""
    is_series = images.images.shape[1] == 1
    return settings.replaced(flip=0.0) if is_series and settings.flip is None else settings


def name_of_data(data: Any) -> str:
    """What the settings call the data; a path that looks like the name of a data set stays a path."""
    if isinstance(data, Path):
        return str(data) if data.is_absolute() else f"./{data}"
    return data if isinstance(data, str) else f"{FROM_PYTHON}{type(data).__name__}"


def make_fabric(settings: PretrainSettings) -> "Fabric":
    """The devices, with one process for each."""
    from lightning_fabric import Fabric  # late: who only builds a method does not wait for it
    from lightning_fabric.utilities.exceptions import MisconfigurationException

    s = settings
    devices, nodes = s.devices, s.num_nodes
    if "TORCHELASTIC_RUN_ID" in os.environ:  # torchrun has made the processes
        try:
            devices = int(os.environ["LOCAL_WORLD_SIZE"])
            nodes = int(os.environ["WORLD_SIZE"]) // devices
        except (KeyError, ValueError, ZeroDivisionError) as error:
            raise CoviewsError(
                "TORCHELASTIC_RUN_ID is set, but LOCAL_WORLD_SIZE and WORLD_SIZE are no numbers of processes: "
                "start it with torchrun, or unset it"
            ) from error
    elif nodes > 1 and not any(name in os.environ for name in _ADDRESSES):
        raise CoviewsError(
            f"--num-nodes {nodes}: nobody says where the other machines are; start it with torchrun or srun on each of "
            "them, or set MASTER_ADDR, MASTER_PORT and NODE_RANK there"
        )
    many = devices * nodes > 1
    if s.batch_size % (devices * nodes):
        raise CoviewsError(f"--batch-size {s.batch_size} cannot be shared evenly among {devices * nodes} processes")
    most = _PER_CORE * cores()
    if devices > most and s.accelerator in ("cpu", "auto") and not torch.cuda.is_available():
        raise CoviewsError(f"--devices {devices} are more processes than the {most} that this machine can run at once")
    logging.getLogger("lightning_fabric.utilities.rank_zero").setLevel(logging.WARNING)  # the journal says the same
    warnings.filterwarnings("ignore", message="Grad strides do not match bucket view strides")
    try:
        fabric = Fabric(
            accelerator=s.accelerator, devices=devices, num_nodes=nodes, precision=cast(Any, s.precision),
            strategy="ddp" if many else "auto",
        )  # fmt: skip
        if many:
            with _starting(fabric, devices, nodes):
                fabric.launch()
    except (MisconfigurationException, RuntimeError, ValueError) as error:
        raise CoviewsError(f"cannot use --accelerator {s.accelerator} --devices {s.devices}: {error}") from error
    return fabric


@contextlib.contextmanager
def _starting(fabric: "Fabric", devices: int, nodes: int) -> Iterator[None]:
    """End this process with an error if the processes of this machine do not find each other in time."""

    def give_up() -> None:  # whoever waits in torch cannot be interrupted
        print(
            f"error: {devices} processes did not start within {_PATIENCE:.0f} seconds: give fewer --devices",
            file=sys.stderr, flush=True,
        )  # fmt: skip
        for process in getattr(fabric._strategy.launcher, "procs", ()):
            process.kill()
        os._exit(2)

    timer = threading.Timer(_PATIENCE, give_up)
    timer.daemon = True
    if nodes == 1:  # other machines may be started by hand
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def load_data(settings: PretrainSettings, data: Any, ranks: int, progress: bool) -> tuple[ImageSet, ImageSet | None]:
    """The training images, and the test images if there are any."""
    s, where = settings, _where(settings, ranks, progress)
    images = load_images(
        data, size=s.size, channels=s.channels, subset=s.subset, subset_seed=s.subset_seed, max_broken=BROKEN,
        depth=s.depth, max_side=s.max_side, **where,
    )  # fmt: skip
    _check_data(s, images, len(images))
    return images, _test_images(s, data, images, where)


def stream_data(settings: PretrainSettings, data: Any, ranks: int, progress: bool) -> tuple[Stream, ImageSet | None]:
    """The training images as a stream, and some of the test images if there are any."""
    s, where = settings, _where(settings, ranks, progress)
    size = None if s.size is None else (s.size, s.size)
    request = ImageRequest(
        size=size, channels=s.channels, limit=None, subset=s.subset, subset_seed=s.subset_seed, max_broken=BROKEN,
        depth=s.depth, max_side=s.max_side, stream=True, **{**where, "cache": s.cache or default_cache()},
    )  # fmt: skip
    stream = open_stream(data, request, s.stream_buffer, s.threads)
    for note in request.notes:
        warnings.warn(one_line(note), stacklevel=2)
    for remark in stream.sample.remarks if progress else ():
        print(one_line(remark), file=sys.stderr, flush=True)
    _check_data(s, stream.sample, len(stream))
    return stream, _test_images(s, data, stream.sample, {**where, "limit": SAMPLED})


def _where(settings: PretrainSettings, ranks: int, progress: bool) -> dict[str, Any]:
    """Where images are found and kept, and how files are read."""
    s, free = settings, memory_for_images()
    return {
        "root": s.data_root, "download": s.download, "cache": s.cache, "progress": progress, "frames": s.frames,
        "memory": None if free is None else free // ranks, "max_pixels": s.max_pixels,
    }  # fmt: skip


def _test_images(settings: PretrainSettings, data: Any, images: ImageSet, where: dict[str, Any]) -> ImageSet | None:
    """The images that are given to judge by, or that lie beside the training images."""
    s = settings
    beside = held_out_split(data) if s.test_data is None and images.labels is not None else None
    test_data = s.test_data if beside is None else beside
    if test_data is None:
        return None
    if images.labels is None:
        raise CoviewsError(f"--test-data needs training images with labels, and {s.data} has none")
    _, height, width, channels = images.images.shape
    test = load_images(
        test_data, size=(height, width), channels=channels, max_broken=BROKEN, depth=images.depth,
        values=images.values, **where,
    )  # fmt: skip
    if beside is not None:
        return test if can_judge(test, images) else None
    if test.labels is None:
        raise CoviewsError(f"--test-data {s.test_data} has no labels")
    return test


def _check_data(settings: PretrainSettings, images: ImageSet, count: int) -> None:
    """Errors and warnings about the images, or about a sample of `count` images."""
    shown_channels(settings.show_channels, images.images.shape[3])  # an error now rather than in the report
    note = near_constant_note(images)
    if note is not None:
        warnings.warn(note, stacklevel=3)
    if count < settings.batch_size:
        do = f"give --batch-size {fitting_batch(count)}" if count > 1 else "training needs more"
        raise CoviewsError(
            f"{settings.data} has {count} image{'s' if count > 1 else ''}, fewer than a batch of "
            f"{settings.batch_size}: {do}"
        )
    if count < settings.batch_size * settings.accumulate:
        raise CoviewsError(
            f"{settings.accumulate} batches of {settings.batch_size} are more than the {count} images of "
            f"{settings.data}: choose a smaller --accumulate"
        )
    if settings.learns_views and count < settings.search.images_needed:
        raise CoviewsError(
            f"a search needs {settings.search.images_needed} images, and {settings.data} has {count}: "
            "give --search.batch and --search.samples smaller ones"
        )


def fitting_batch(images: int) -> int:
    """A batch size for few images, with which an epoch has three steps or more: a power of two."""
    return int(2 ** (min(max(images // STEPS, 2), _SMALL_BATCH).bit_length() - 1))


def first_source(settings: PretrainSettings) -> ViewSource:
    """Who makes the views from the first epoch on: until a policy is learned, or all the time."""
    s = settings
    if s.learns_views:
        return s.first_source()
    if s.views == "hardviews":
        return s.named_source(s.hard_source, views=s.hard_crops or s.hard_views)
    return s.named_source(s.base_views, views=s.view_count)
