"""Tables of 256 bytes for each channel: what a chain of pointwise operations does to every byte, in one pass.

Processors with AVX-512 VBMI look up 64 bytes at once, which is faster than most arithmetic; `FAST` says whether this
one does. On others, a lookup takes longer than several simple operations, so the engine applies one after the other.
"""

from typing import Any

import numba
import numpy as np
from llvmlite import binding, ir
from numba import carray, njit, types
from numba.extending import intrinsic

u8 = np.uint8
LANES = 64  # bytes in a vector
BLOCK = 3 * LANES  # a whole number of pixels of one and of three channels

_config: Any = numba.config  # numba can be told to compile for another processor
FAST = not (_config.CPU_NAME or _config.CPU_FEATURES) and bool(binding.get_host_cpu_features().get("avx512vbmi"))


def look_up(src, dst, h, w, c, p):
    """Each byte becomes the entry of its channel's table; `p` points to the c tables."""
    tables = carray(p, (c, 32)).view(u8)  # 32 numbers of 8 bytes each
    replace(carray(src, h * w * c), carray(dst, h * w * c), tables)


@njit
def replace(a, b, tables):
    """`look_up` for flat arrays."""
    c = tables.shape[0]
    same = True
    for k in range(1, c):
        same = same and _equal(tables[0], tables[k])
    n = a.size
    if FAST and n >= BLOCK and (same or c == 3):
        for block in range(0, n, BLOCK):
            i = min(block, n - BLOCK)  # the last block overlaps the one before
            if same:
                _look_up_block(a.ctypes.data + i, b.ctypes.data + i, tables.ctypes.data)
            else:
                _look_up_block3(a.ctypes.data + i, b.ctypes.data + i, tables.ctypes.data)
    elif c == 3:
        red, green, blue = tables[0], tables[1], tables[2]
        for i in range(0, n, 3):
            b[i] = red[a[i]]
            b[i + 1] = green[a[i + 1]]
            b[i + 2] = blue[a[i + 2]]
    else:
        for i in range(0, n, c):
            for k in range(c):
                b[i + k] = tables[k, a[i + k]]


@njit
def _equal(one, other):
    different = u8(0)
    for v in range(256):
        different |= one[v] ^ other[v]
    return different == 0


def _block_lookup(channels: int) -> Any:
    """A function that looks up BLOCK bytes, given the addresses of source, target and tables."""

    def typed(typingctx, source, target, tables):
        def generate(context, builder, signature, args):
            if not FAST:  # never called, and other processors have no such instruction
                return context.get_dummy_value()
            row, bits = ir.VectorType(ir.IntType(8), LANES), ir.VectorType(ir.IntType(1), LANES)
            name = "llvm.x86.avx512.vpermi2var.qi.512"  # (a, i, b): the bytes i of the 128 in a and b
            permute = builder.module.globals.get(name) or ir.Function(
                builder.module, ir.FunctionType(row, [row] * 3), name
            )

            def pointer(address, offset):
                return builder.inttoptr(builder.add(address, ir.Constant(address.type, offset)), row.as_pointer())

            def half(k, first, indices):
                parts = [builder.load(pointer(args[2], 256 * k + first + LANES * i), align=1) for i in range(2)]
                return builder.call(permute, [parts[0], indices, parts[1]])

            for start in range(0, BLOCK, LANES):
                values = builder.load(pointer(args[0], start), align=1)
                large = builder.icmp_signed("<", values, ir.Constant(row, [0] * LANES))  # 128 and above
                result = None
                for k in range(channels):
                    found = builder.select(large, half(k, 128, values), half(k, 0, values))
                    mine = ir.Constant(bits, [(start + i) % channels == k for i in range(LANES)])
                    result = builder.select(mine, found, result) if result else found
                builder.store(result, pointer(args[1], start), align=1)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 3), generate

    return intrinsic(typed)


_look_up_block: Any = _block_lookup(1)
_look_up_block3: Any = _block_lookup(3)
