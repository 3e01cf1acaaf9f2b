"""A batch of images and a plan become a batch of views: compiled, in threads."""

import functools
import itertools
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core.event import Listener, install_listener
from numba.extending import intrinsic
from numpy.typing import NDArray

from coviews.compat import cores
from coviews.errors import CoviewsError
from coviews.ops import resample
from coviews.ops.images import Images, check_images, value_limit
from coviews.ops.kernels import lookup
from coviews.ops.kernels.layout import CHANNELS, FILL, PARAMETERS, PLACE, SLOTS
from coviews.ops.operations import Op
from coviews.ops.placement import AREA, Placement
from coviews.ops.plan import Plan
from coviews.ops.python_operations import function_address, raise_failure
from coviews.ops.space import STANDARD, Space, space

BYTES = np.dtype(np.uint8)
CHAINS = lookup.FAST  # whether a chain of pointwise operations is one lookup

Fill = Sequence[int] | None


def make_views(
    images: Images,
    plan: Plan,
    *,
    fill: Fill = None,
    outside: Fill = None,
    threads: int | None = None,
    out: Images | None = None,
) -> Images:
    """Carry a plan out: (B, H, W, C) -> views (B, V, height, width, C). Nothing is drawn here.

    Args:
        images: (B, H, W) or (B, H, W, C) with 1 to 16 channels, uint8 or uint16.
        plan: what is done to each view, see `Plan.draw`; all views have one size.
        fill: the colour of a cutout, a value for each channel, best the data set's mean; grey if None.
        outside: the colour that rotations, shears and translations bring in from outside the image; black if None.
        threads: how many threads work; all cores if None. The result does not depend on it.
        out: where to write the views, to save the allocation.
    """
    if len(set(plan.sizes)) > 1:
        raise CoviewsError("the plan has views of several sizes: use make_view_groups")
    batch = check_images(images)
    b, h, w, _ = batch.shape
    if len(plan) != b:
        raise CoviewsError(f"a plan for {len(plan)} images, and {b} images: one for each is needed")
    if plan.image_size != (h, w):
        raise CoviewsError(f"the plan is for images of {plan.image_size} (height, width), and these have {(h, w)}")
    _check_fit(plan.space, plan.ops, batch)
    if threads is not None and threads < 1:
        raise CoviewsError(f"threads must be at least 1, not {threads}")
    views = _output(out, (b, plan.views, *plan.sizes[0], *images.shape[3:]), batch)
    items, space_ = b * plan.views, plan.space
    workers = max(1, min(threads or cores(), items))
    bounds = np.linspace(0, items, (4 * workers if workers > 1 else 1) + 1).astype(np.int64).tolist()
    task = functools.partial(
        _run, batch, views.reshape(items, -1), plan.ops.reshape(items, -1), plan.levels.reshape(items, -1),
        plan.spots.reshape(items, -1), plan.boxes.reshape(items, 4), _orientations(plan),
        space_.parameters(h, w), *_kernels(space_, batch.dtype), _LAYOUT, _colours(fill, outside, batch),
        space_.identity, plan.views, *plan.sizes[0], resample.rows_first((h, w), plan.sizes[0]),
    )  # fmt: skip
    parts = itertools.pairwise(bounds)  # each worker takes the next part when it is free

    def work() -> None:
        for first, last in parts:
            task(first, last)
            raise_failure()

    others = [_pool(workers).submit(work) for _ in range(workers - 1)]
    work()
    for other in others:
        if not other.cancel():  # if it has not started, no part is left for it
            other.result()
    return views


def make_view_groups(
    images: Images, plan: Plan, *, fill: Fill = None, outside: Fill = None, threads: int | None = None
) -> list[Images]:
    """Carry a plan of views of several sizes out: an array (B, V, height, width, C) for each run of views of one size.

    The arguments are those of `make_views`.
    """
    starts = [v for v in range(plan.views) if v == 0 or plan.sizes[v] != plan.sizes[v - 1]]
    ends = [*starts[1:], plan.views]
    return [
        make_views(images, plan.of_views(first, last), fill=fill, outside=outside, threads=threads)
        for first, last in zip(starts, ends, strict=True)
    ]


def random_crops(
    images: Images,
    generator: np.random.Generator,
    *,
    area: tuple[float, float] | None = AREA,
    flip: float = 0.0,
    views: int = 1,
) -> Images:
    """Crop and flip at random, without operations: (B, H, W, C) -> crops (B, V, H, W, C).

    Args:
        images: as for `make_views`.
        generator: draws the crops and flips.
        area: the least and largest area of a crop, as shares of the image; None for no crop.
        flip: the probability of a horizontal flip.
        views: crops of each image.
    """
    n, size = len(images), (images.shape[1], images.shape[2])
    placement = Placement("none" if area is None else "random", AREA if area is None else area, flip=flip)
    operations = space(STANDARD)
    identity = np.full((n, views, 1), operations.identity, np.int16)
    placed = placement.draw(n, views, 1, size, generator)
    return make_views(images, Plan(operations, size, identity, np.zeros_like(identity), *placed))


def _orientations(plan: Plan) -> NDArray[np.int8]:
    """(B * V, 3): both flips, and the quarter turns."""
    stacked = np.stack([plan.flips.astype(np.int8), plan.vertical_flips.astype(np.int8), plan.turns], -1)
    return stacked.reshape(-1, 3)


def apply_op(
    image: Images,
    name: str,
    level: int = 0,
    *,
    space_name: str = STANDARD,
    place: tuple[float, float] = (0.5, 0.5),
    fill: Fill = None,
    outside: Fill = None,
) -> Images:
    """Apply one operation to one image (H, W) or (H, W, C), uint8 or uint16.

    Args:
        image: the image; it is not changed.
        name: an operation of the space.
        level: 0..10; see `coviews.ops.space`.
        space_name: the space that says what the levels mean.
        place: where the middle of a cutout is, as shares of width and height.
        fill: the colour of a cutout; grey if None.
        outside: the colour outside the image; black if None.
    """
    operations = space(space_name)
    op = operations.index(name)
    if not isinstance(level, (int, np.integer)) or not 0 <= level < operations.levels:
        raise CoviewsError(f"the level of {name} must be 0..{operations.levels - 1}, not {level}")
    image = np.asarray(image)
    batch = check_images(image[None])
    _check_fit(operations, op, batch)
    h, w = batch.shape[1:3]
    slots = np.zeros(SLOTS)
    slots[:PARAMETERS] = operations.parameters(h, w)[op, level]
    slots[PLACE:FILL] = place
    slots[FILL:] = _colours(fill, outside, batch)
    result = np.empty_like(batch)
    _call_one(batch, result, _kernels(operations, batch.dtype)[0][op], slots)
    raise_failure()
    return result.reshape(image.shape)


def _check_fit(operations: Space, used: NDArray[np.int16] | int, batch: Images) -> None:
    """Raise an error if one of the operations that are used (indices) does not fit the images."""
    c = batch.shape[3]
    if operations.fitting(c, batch.dtype) is operations:
        return
    unfit = operations.unfit(c, batch.dtype)
    if names := [name for name in unfit if np.any(np.equal(used, operations.index(name)))]:
        raise CoviewsError(
            f"{', '.join(names)}: not for {batch.dtype} images with C = {c}; draw from the space 'channels', or "
            f"from Space.fitting({c}, {batch.dtype.name!r})"
        )


def _output(out: Images | None, shape: tuple[int, ...], batch: Images) -> Images:
    if out is None:
        return np.empty(shape, batch.dtype)
    if out.shape != shape or out.dtype != batch.dtype or not out.flags.c_contiguous or not out.flags.writeable:
        raise CoviewsError(
            f"out must be a writable, contiguous {batch.dtype} array of shape {shape}, not {out.dtype} {out.shape}"
        )
    if np.may_share_memory(out, batch):
        raise CoviewsError("out must not share its memory with the images")
    return out


def _colours(fill: Fill, outside: Fill, batch: Images) -> NDArray[np.float64]:
    """The colour of a cutout and that outside the image, for each of the most channels there can be."""
    c, limit = batch.shape[3], value_limit(batch)
    grey, slots = np.full(c, (limit + 1) // 2), np.zeros((2, CHANNELS))
    for row, name, given, default in ((0, "fill", fill, grey), (1, "outside", outside, np.zeros(c))):
        colour = np.asarray(default if given is None else given, np.float64)
        whole = (colour >= 0) & (colour <= limit) & (colour == np.floor(colour))
        if colour.shape not in [(c,)] + [(3,)] * (c == 1) or not whole.all():  # grey may be given as a colour
            raise CoviewsError(f"{name} must be {c} whole numbers of 0..{limit}, one for each channel, not {given}")
        slots[row, : len(colour)] = colour
    return slots.reshape(-1)


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, "views")


# ----------------------------------------------------------- kernels as C functions, and how to call them


# Numba caches compiled code on the disk until its own file changes, not until another one does. The positions of a
# kernel's parameters are defined in other files; so they are an argument of the functions that are compiled here.
_LAYOUT = (
    PARAMETERS, PLACE, FILL, SLOTS, resample.BOX, resample.HEIGHT, resample.WIDTH, resample.FLIP,
    resample.FLIP_VERTICAL, resample.TURNS, resample.ROWS_FIRST, resample.PLACE_SLOTS,
)  # fmt: skip


def _cached(compiler: Callable[..., Any], function: Callable[..., Any], **options: Any) -> Any:
    """Compile, and cache the result on the disk if a folder for it is writable (if not, set NUMBA_CACHE_DIR)."""
    try:
        return compiler(cache=True, **options)(function)
    except RuntimeError:  # no writable folder, or the function is in no file
        return compiler(**options)(function)


def _jit(function: Callable[..., Any]) -> Any:
    return _cached(numba.njit, function, nogil=True, error_model="numpy")


def _signature(dtype: np.dtype[Any]) -> Any:
    """The types of a kernel's arguments (src, dst, h, w, c, p)."""
    image = types.CPointer(getattr(types, dtype.name))
    return types.void(image, image, types.intp, types.intp, types.intp, types.CPointer(types.float64))


@functools.cache
def _compiled(kernel: Callable[..., None], dtype: np.dtype[Any]) -> Any:
    return _cached(functools.partial(numba.cfunc, _signature(dtype)), kernel, error_model="numpy")


def _row_address(row: Op, dtype: np.dtype[Any]) -> int:
    return _address(row.kernel, dtype) if row.function is None else function_address(row, dtype)


def _address(kernel: Callable[..., None], dtype: np.dtype[Any] = BYTES) -> int:
    return int(_compiled(kernel, dtype).address)


@functools.cache
def _kernels(operations: Space, dtype: np.dtype[Any]) -> tuple[Any, ...]:
    """Addresses of the kernels and of those that write tables, which operations are pointwise, lookup and crop.

    All is loaded from the disk or compiled; if compiling takes more than a second, a message says so. An operation
    that is pointwise or has a table, and the pointwise ones after it, are one lookup.
    """
    announcement = _Announcement()
    with install_listener("numba:run_pass", announcement):
        chains = CHAINS and dtype == BYTES
        rows = [row if row.fits(1, dtype) else None for row in operations.rows]
        addresses = np.array([_row_address(row, dtype) if row else 0 for row in rows], np.int64)
        tables = np.array([_address(row.table) if chains and row and row.table else 0 for row in rows], np.int64)
        pointwise = np.array([chains and row.pointwise for row in operations.rows])
        kernels = addresses, tables, pointwise, _address(lookup.look_up), _address(resample.place, dtype)
        pixel, view, box = np.zeros((1, 1, 1, 3), dtype), np.zeros((1, 3), dtype), np.array([[0, 0, 1, 1]], np.int32)
        identity, spots = np.full((1, 1), operations.identity, np.int16), np.zeros((1, 2))
        for array in (identity, spots, box):
            array.flags.writeable = False  # as the arrays of a plan are
        _run(
            pixel, view, identity, identity, spots, box, np.zeros((1, 3), np.int8), np.zeros((1, 1, PARAMETERS)),
            *kernels, _LAYOUT, np.zeros(2 * CHANNELS), operations.identity, 1, 1, 1, False, 0, 1,
        )  # fmt: skip
        _call_one(pixel, pixel.copy(), addresses[operations.identity], np.zeros(SLOTS))
    announcement.timer.cancel()
    return kernels


class _Announcement(Listener):
    """Says that kernels are compiled once the compiler has worked for a second; loading them starts no compiler."""

    def __init__(self) -> None:
        self.timer = threading.Timer(1.0, self._say)
        self.timer.daemon = True

    def on_start(self, event: Any) -> None:
        """A step of the compiler begins."""
        if self.timer.ident is None:
            self.timer.start()

    def on_end(self, event: Any) -> None:
        """A step of the compiler has ended."""

    def _say(self) -> None:
        print("coviews: compiling image operations, for their first use here ...", file=sys.stderr, flush=True)


def _call_kernel(typingctx: Any, address: Any, src: Any, dst: Any, h: Any, w: Any, c: Any, p: Any) -> Any:
    """Call the kernel at an address, with the addresses of its images and parameters."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kinds = [context.get_value_type(t) for t in _signature(BYTES).args]  # pointers are alike
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
    images, views, ops, levels, spots, boxes, orientations, parameters, addresses, tables, pointwise, look_up, place,
    layout, fill, identity, per_image, height, width, rows_first, first, last,
):  # fmt: skip
    """Make the views `first` to `last` - 1 of all views of all images."""
    _, h, w, c = images.shape
    size = h * w * c * images.itemsize
    count, spot, colour, slot_count = layout[:4]
    box_start, view_height, view_width, flip, flip_vertical, turn, order, box_count = layout[4:]
    scratch, table = np.empty((2, size), np.uint8), np.empty((2, c * 256), np.uint8)
    unchanged = np.empty((c, 256), np.uint8)
    unchanged[:] = np.arange(256)
    active = np.empty(ops.shape[1], np.intp)  # the steps that do something
    slots = np.zeros(slot_count)
    slots[colour:] = fill
    box = np.zeros(box_count)
    box[view_height], box[view_width], box[order] = height, width, rows_first
    for item in range(first, last):
        source = images.ctypes.data + (item // per_image) * size
        out = views.ctypes.data + item * views.shape[1] * views.itemsize
        left, top, right, bottom = boxes[item, 0], boxes[item, 1], boxes[item, 2], boxes[item, 3]
        placed = height != h or width != w or left != 0 or top != 0 or right != w or bottom != h
        for i in range(3):
            placed = placed or orientations[item, i] != 0
        steps = 0
        for step in range(ops.shape[1]):
            if ops[item, step] != identity:
                active[steps] = step
                steps += 1
        free = 0  # the half of the scratch that the next step may write to
        first_of_chain = 0
        while first_of_chain < steps:
            op = ops[item, active[first_of_chain]]
            end = first_of_chain + 1
            while (pointwise[op] or tables[op] != 0) and end < steps and pointwise[ops[item, active[end]]]:
                end += 1
            target = out if end == steps and not placed else scratch.ctypes.data + free * size
            by_table = tables[op] != 0 or end > first_of_chain + 1
            for i in range(end - first_of_chain):
                step = active[first_of_chain + i]
                op = ops[item, step]
                for k in range(count):
                    slots[k] = parameters[op, levels[item, step], k]
                slots[spot], slots[spot + 1] = spots[item, 2 * step], spots[item, 2 * step + 1]
                result = table[i % 2].ctypes.data
                if not by_table:
                    _call(addresses[op], source, target, h, w, c, slots.ctypes.data)
                elif i == 0 and tables[op] != 0:
                    _call(tables[op], source, result, h, w, c, slots.ctypes.data)
                else:  # a table is an image of 256 pixels to a pointwise operation
                    before = table[1 - i % 2].ctypes.data if i > 0 else unchanged.ctypes.data
                    _call(addresses[op], before, result, 1, 256, c, slots.ctypes.data)
            if by_table:
                _call(look_up, source, target, h, w, c, result)
            free = 1 - free
            source = target
            first_of_chain = end
        if placed:
            box[box_start], box[box_start + 1], box[box_start + 2], box[box_start + 3] = left, top, right, bottom
            box[flip], box[flip_vertical], box[turn] = (
                orientations[item, 0],
                orientations[item, 1],
                orientations[item, 2],
            )
            _call(place, source, out, h, w, c, box.ctypes.data)
        elif source != out:
            _call(addresses[identity], source, out, h, w, c, slots.ctypes.data)
