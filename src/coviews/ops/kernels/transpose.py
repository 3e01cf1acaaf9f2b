"""Rows become columns: 16 x 16 bytes at a time.

Kernels inline it: after a change here, delete the cache of compiled kernels (see layout.py).
"""

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from coviews.ops.kernels.memory import LINE, prefetch

TILE = 16  # bytes a side of what is transposed at once


@njit
def transpose(source, y, x, rows, columns, out, top):
    """out[top + j, i] = source[y + i, x + j] for all i below `rows` and j below `columns`."""
    if rows < TILE or columns < TILE or source.itemsize != 1:
        for j in range(columns):
            for i in range(rows):
                out[top + j, i] = source[y + i, x + j]
        return
    width, out_width = source.shape[1], out.shape[1]
    begin, out_begin = source.ctypes.data + y * width + x, out.ctypes.data + top * out_width
    for tile_y in range(0, rows, TILE):
        i = min(tile_y, rows - TILE)  # the last tile overlaps the one before
        for tile_x in range(0, columns, TILE):
            j = min(tile_x, columns - TILE)
            if tile_x % LINE == 0:  # the rows below are fetched from memory meanwhile
                for row in range(i + TILE, i + 2 * TILE):
                    prefetch(begin + row * width + j)
            _transpose_tile(begin + i * width + j, width, out_begin + j * out_width + i, out_width)


def _transposed_tile(typingctx, source, width, out, out_width):
    """16 x 16 bytes at an address are written with rows and columns exchanged; four times, rows are interleaved."""

    def generate(context, builder, signature, args):
        row = ir.VectorType(ir.IntType(8), TILE)

        def pointer(address, stride, i):
            offset = builder.mul(stride, ir.Constant(stride.type, i))
            return builder.inttoptr(builder.add(address, offset), row.as_pointer())

        def interleaved(one, other, first):
            pairs = [ir.Constant(ir.IntType(32), v) for i in range(first, first + TILE // 2) for v in (i, TILE + i)]
            mask = ir.Constant(ir.VectorType(ir.IntType(32), TILE), pairs)
            return builder.shuffle_vector(one, other, mask)

        rows = [builder.load(pointer(args[0], args[1], i), align=1) for i in range(TILE)]
        for _ in range(4):
            halves = zip(rows[: TILE // 2], rows[TILE // 2 :], strict=True)
            rows = [interleaved(a, b, first) for a, b in halves for first in (0, TILE // 2)]
        for i, value in enumerate(rows):
            builder.store(value, pointer(args[2], args[3], i), align=1)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 4), generate


_transpose_tile: Any = intrinsic(_transposed_tile)
