"""A batch of images and their subpolicies become a batch of views: compiled, in threads, on uint8."""

import functools
import itertools
import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from coviews.errors import CoviewsError
from coviews.ops import resample
from coviews.ops.images import Images, check_images
from coviews.ops.kernels.layout import FILL, PARAMETERS, PLACE, SLOTS
from coviews.ops.space import SPACES, STANDARD, Space, space

if TYPE_CHECKING:
    from coviews.policies.subpolicy import Subpolicies

GREY = (128, 128, 128)
AREA = (0.2, 1.0)  # of a random crop, the least and the largest as shares of the image
RATIO = (3 / 4, 4 / 3)  # of its width to its height

_KERNEL = types.void(
    types.CPointer(types.uint8), types.CPointer(types.uint8), types.intp, types.intp, types.intp,
    types.CPointer(types.float64),
)  # fmt: skip


def make_views(
    images: Images,
    subpolicies: "Subpolicies",
    generator: np.random.Generator,
    *,
    crop: tuple[float, float] | None = AREA,
    ratio: tuple[float, float] = RATIO,
    flip: float = 0.5,
    fill: Sequence[int] = GREY,
    threads: int | None = None,
    out: Images | None = None,
    part: slice | None = None,
) -> Images:
    """Apply each image's subpolicies, then crop and flip: (B, H, W, C) uint8 -> views (B, V, H, W, C).

    Args:
        images: (B, H, W), (B, H, W, 1) or (B, H, W, 3), uint8.
        subpolicies: one for each image and view.
        generator: draws which steps are applied, the crops, the flips and where a cutout falls. The same
            state gives the same bytes, whatever the number of threads.
        crop: the least and largest area of the random crop, as shares of the image; None for no crop.
        ratio: the least and largest aspect of the crop.
        flip: the probability of a horizontal flip; 0 for none.
        fill: the colour of a cutout, best the data set's mean.
        threads: how many threads work; all cores if None.
        out: where to write the views, to save the allocation.
        part: which images of a larger batch these are; the subpolicies are those of the larger batch. Several
            processes that share a batch then make the same views as one process.
    """
    batch = check_images(images)
    b = len(batch)
    count = len(range(len(subpolicies))[part or slice(None)])
    if count != b:
        raise CoviewsError(f"{count} subpolicies for {b} images: one for each image is needed")
    views = _output(out, (b, subpolicies.views, *images.shape[1:]), batch)
    colour, settings = _colour(fill), _crop_settings(crop, ratio, flip)
    if threads is not None and threads < 1:
        raise CoviewsError(f"threads must be at least 1, not {threads}")
    applied = subpolicies.applied(generator)
    seeds = generator.integers(0, 2**64, (len(applied), applied.views), np.uint64)
    if part is not None:
        applied, seeds = applied[part], np.ascontiguousarray(seeds[part])
    _fill_views(views, batch, subpolicies.space, applied.ops, applied.levels, seeds, settings, colour, threads)
    return views


def random_crops(
    images: Images,
    generator: np.random.Generator,
    *,
    area: tuple[float, float] | None = AREA,
    flip: float = 0.0,
    views: int = 1,
) -> Images:
    """Crop and flip at random, without operations: (B, H, W, C) uint8 -> crops (B, V, H, W, C).

    Args:
        images: as for `make_views`.
        generator: draws the crops and flips.
        area: the least and largest area of a crop, as shares of the image; None for no crop.
        flip: the probability of a horizontal flip.
        views: crops of each image.
    """
    batch = check_images(images)
    crops = np.empty((len(batch), views, *images.shape[1:]), np.uint8)
    operations = space(STANDARD)
    identity = np.full((len(batch), views, 1), operations.identity, np.int16)
    identity.flags.writeable = False  # as the arrays of subpolicies: the loop is compiled for that
    seeds = generator.integers(0, 2**64, (len(batch), views), np.uint64)
    settings = _crop_settings(area, RATIO, flip)
    _fill_views(crops, batch, operations, identity, identity, seeds, settings, _colour(GREY), None)
    return crops


def _fill_views(
    views: Images,
    batch: Images,
    operations: Space,
    ops: NDArray[np.integer[Any]],
    levels: NDArray[np.integer[Any]],
    seeds: NDArray[np.uint64],
    settings: NDArray[np.float64],
    colour: NDArray[np.float64],
    threads: int | None,
) -> None:
    """Write the views (B, V, H, W, C), in threads.

    Args:
        operations: the space that ops are indices of.
        ops: (B, V, S), the steps of each view.
        levels: (B, V, S).
        seeds: (B, V), for what is drawn in a view: crop, flip, the place of a cutout.
        settings: of crop and flip.
        colour: of a cutout.
    """
    h, w = batch.shape[1:3]
    items = seeds.size
    workers = max(1, min(threads or _cores(), items))
    bounds = np.linspace(0, items, (4 * workers if workers > 1 else 1) + 1).astype(np.int64).tolist()
    _prepare()
    task = functools.partial(
        _run, batch, views.reshape(items, -1), ops.reshape(items, -1), levels.reshape(items, -1),
        operations.parameters(h, w), _addresses(operations), _address(resample.crop),
        _LAYOUT, seeds.reshape(-1), settings, colour, operations.identity, seeds.shape[1],
    )  # fmt: skip
    parts = itertools.pairwise(bounds)  # each worker takes the next part when it is free

    def work() -> None:
        for first, last in parts:
            task(first, last)

    others = [_pool(workers).submit(work) for _ in range(workers - 1)]
    work()
    for other in others:
        if not other.cancel():  # if it has not started, no part is left for it
            other.result()


def apply_op(
    image: Images,
    name: str,
    level: int = 0,
    *,
    space_name: str = STANDARD,
    place: tuple[float, float] = (0.5, 0.5),
    fill: Sequence[int] = GREY,
) -> Images:
    """Apply one operation to one image (H, W), (H, W, 1) or (H, W, 3), uint8.

    Args:
        image: the image; it is not changed.
        name: an operation of the space.
        level: 0..10; see `coviews.ops.space`.
        space_name: the space that says what the levels mean.
        place: where the middle of a cutout is, as shares of width and height.
        fill: the colour of a cutout.
    """
    operations = space(space_name)
    op = operations.index(name)
    if not isinstance(level, (int, np.integer)) or not 0 <= level < operations.levels:
        raise CoviewsError(f"the level of {name} must be 0..{operations.levels - 1}, not {level}")
    image = np.asarray(image)
    batch = check_images(image[None])
    h, w = batch.shape[1:3]
    slots = np.zeros(SLOTS)
    slots[:PARAMETERS] = operations.parameters(h, w)[op, level]
    slots[PLACE:FILL] = place
    slots[FILL:] = _colour(fill)
    _prepare()
    result = np.empty_like(batch)
    _call_one(batch, result, _address(operations.rows[op].kernel), slots)
    return result.reshape(image.shape)


def _output(out: Images | None, shape: tuple[int, ...], batch: Images) -> Images:
    if out is None:
        return np.empty(shape, np.uint8)
    if out.shape != shape or out.dtype != np.uint8 or not out.flags.c_contiguous or not out.flags.writeable:
        raise CoviewsError(
            f"out must be a writable, contiguous uint8 array of shape {shape}, not {out.dtype} {out.shape}"
        )
    if np.may_share_memory(out, batch):
        raise CoviewsError("out must not share its memory with the images")
    return out


def _colour(fill: Sequence[int]) -> NDArray[np.float64]:
    colour = np.asarray(fill, np.float64)
    if colour.shape != (3,) or not ((colour >= 0) & (colour <= 255) & (colour == np.floor(colour))).all():
        raise CoviewsError(f"fill must be three whole numbers of 0..255 (red, green, blue), not {fill}")
    return colour


def _crop_settings(crop: tuple[float, float] | None, ratio: tuple[float, float], flip: float) -> NDArray[np.float64]:
    if crop is not None and not 0 < crop[0] <= crop[1] <= 1:
        raise CoviewsError(f"the crop's area must be a range within 0..1, such as (0.2, 1), not {crop}")
    if not 0 < ratio[0] <= ratio[1]:
        raise CoviewsError(f"the crop's aspect must be a range such as (0.75, 1.33), not {ratio}")
    if not 0 <= flip <= 1:
        raise CoviewsError(f"the probability of a flip must be in 0..1, not {flip}")
    return np.array([*(crop or (0, 0)), *np.log(ratio), flip], np.float64)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, "views")


# ----------------------------------------------------------- kernels as C functions, and how to call them


# Numba caches compiled code on the disk until its own file changes, not until another one does. The positions of a
# kernel's parameters are defined in other files; so they are an argument of the functions that are compiled here.
_LAYOUT = (PARAMETERS, PLACE, FILL, SLOTS, resample.BOX, resample.FLIP, resample.CROP_SLOTS)


def _cached(compiler: Callable[..., Any], function: Callable[..., Any], **options: Any) -> Any:
    """Compile, and cache the result on the disk if a folder for it is writable (if not, set NUMBA_CACHE_DIR)."""
    try:
        return compiler(cache=True, **options)(function)
    except RuntimeError:  # no writable folder, or the function is in no file
        return compiler(**options)(function)


def _jit(function: Callable[..., Any]) -> Any:
    return _cached(numba.njit, function, nogil=True, error_model="numpy")


@functools.cache
def _compiled(kernel: Callable[..., None]) -> Any:
    return _cached(functools.partial(numba.cfunc, _KERNEL), kernel, error_model="numpy")


def _address(kernel: Callable[..., None]) -> int:
    return int(_compiled(kernel).address)


@functools.cache
def _prepare() -> None:
    """Compile everything or load it from the cache, with a message if that takes more than a second."""

    def announce() -> None:
        print("coviews: compiling the image kernels, once on this machine ...", file=sys.stderr, flush=True)

    timer = threading.Timer(1.0, announce)
    timer.daemon = True
    timer.start()
    try:
        pixel, view, crop = np.zeros((1, 1, 1, 3), np.uint8), np.zeros((1, 3), np.uint8), _address(resample.crop)
        for operations in map(space, SPACES):
            identity = np.full((1, 1), operations.identity, np.int16)
            identity.flags.writeable = False  # as the arrays of subpolicies are
            _run(
                pixel, view, identity, identity, operations.parameters(1, 1), _addresses(operations),
                crop, _LAYOUT, np.zeros(1, np.uint64), np.zeros(5), np.zeros(3), operations.identity, 1, 0, 1,
            )  # fmt: skip
        _call_one(pixel, pixel.copy(), crop, np.zeros(SLOTS))
    finally:
        timer.cancel()


@functools.cache
def _addresses(operations: Space) -> NDArray[np.int64]:
    return np.array([_address(row.kernel) for row in operations.rows], np.int64)


def _call_kernel(typingctx: Any, address: Any, src: Any, dst: Any, h: Any, w: Any, c: Any, p: Any) -> Any:
    """Call the kernel at an address, with the addresses of its images and parameters."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kinds = [context.get_value_type(t) for t in _KERNEL.args]
        kernel = builder.inttoptr(args[0], ir.FunctionType(ir.VoidType(), kinds).as_pointer())
        values = [builder.inttoptr(a, t) if t.is_pointer else a for a, t in zip(args[1:], kinds, strict=True)]
        builder.call(kernel, values)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 7), generate


_call: Any = intrinsic(_call_kernel)


@_jit
def _call_one(image, out, address, slots):  # type: ignore[no-untyped-def]
    _, h, w, c = image.shape
    _call(address, image.ctypes.data, out.ctypes.data, h, w, c, slots.ctypes.data)


@_jit
def _run(  # type: ignore[no-untyped-def]
    images, views, ops, levels, parameters, addresses, crop, layout, seeds, settings, fill, identity, per_image,
    first, last,
):  # fmt: skip
    """Make the views `first` to `last` - 1 of all views of all images."""
    _, h, w, c = images.shape
    size = h * w * c
    cropped, flip = settings[1] > 0, settings[4]
    count, place, colour, slot_count, box_start, box_flip, box_count = layout
    scratch = np.empty((2, size), np.uint8)
    slots = np.zeros(slot_count)
    slots[colour:] = fill
    box = np.zeros(box_count)
    for item in range(first, last):
        source = images.ctypes.data + (item // per_image) * size
        out = views.ctypes.data + item * views.shape[1]
        mirrored = _uniform(seeds[item], 0) < flip
        free = 0  # the half of the scratch that the next step may write to
        steps = 0
        for step in range(ops.shape[1]):
            if ops[item, step] != identity:
                steps = step + 1
        for step in range(steps):
            op = ops[item, step]
            if op == identity:
                continue
            for i in range(count):
                slots[i] = parameters[op, levels[item, step], i]
            slots[place] = _uniform(seeds[item], 64 + 2 * step)
            slots[place + 1] = _uniform(seeds[item], 65 + 2 * step)
            final = step == steps - 1 and not cropped and not mirrored
            target = out if final else scratch.ctypes.data + free * size
            free = 1 - free
            _call(addresses[op], source, target, h, w, c, slots.ctypes.data)
            source = target
        if cropped or mirrored:
            left, top, right, bottom = _choose_crop(seeds[item], h, w, settings)
            box[box_start], box[box_start + 1] = left, top
            box[box_start + 2], box[box_start + 3] = right, bottom
            box[box_flip] = mirrored
            _call(crop, source, out, h, w, c, box.ctypes.data)
        elif source != out:
            _call(addresses[identity], source, out, h, w, c, slots.ctypes.data)


@numba.njit
def _choose_crop(seed, h, w, settings):  # type: ignore[no-untyped-def]
    """A box (left, top, right, bottom) of random area and aspect; in the middle if ten draws do not fit."""
    area_low, area_high, ratio_low, ratio_high = settings[0], settings[1], settings[2], settings[3]
    left, top, cw, ch = 0, 0, w, h
    if area_high > 0:
        cw, ch = 0, 0
        for attempt in range(10):
            area = h * w * (area_low + (area_high - area_low) * _uniform(seed, 4 + 2 * attempt))
            aspect = np.exp(ratio_low + (ratio_high - ratio_low) * _uniform(seed, 5 + 2 * attempt))
            cw, ch = round(np.sqrt(area * aspect)), round(np.sqrt(area / aspect))
            if 0 < cw <= w and 0 < ch <= h:
                left = int(_uniform(seed, 1) * (w - cw + 1))
                top = int(_uniform(seed, 2) * (h - ch + 1))
                break
        else:
            cw = max(1, min(w, round(h * np.exp(ratio_high))))
            ch = max(1, min(h, round(w / np.exp(ratio_low))))
            left, top = (w - cw) // 2, (h - ch) // 2
    return left, top, left + cw, top + ch


@numba.njit
def _uniform(seed, index):  # type: ignore[no-untyped-def]
    """The number `index`, in 0..1, of the random stream of a seed (splitmix64)."""
    z = seed + np.uint64(index + 1) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return np.float64(z >> np.uint64(11)) * (1.0 / 9007199254740992.0)
