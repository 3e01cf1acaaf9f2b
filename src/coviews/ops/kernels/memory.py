"""Single instructions on memory, by address.

Kernels inline them: after a change here, delete the cache of compiled kernels (see layout.py).
"""

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

LINE = 64  # bytes that are fetched from memory at once


@njit
def prefetch_all(a):
    """Ask for a whole array, in order, before it is read in another order: in order, memory is much faster."""
    for offset in range(0, a.size * a.itemsize, LINE):
        prefetch(a.ctypes.data + offset)


def _prefetched(typingctx, address):
    """Ask for the bytes at an address, which are read soon; where there are none, nothing happens."""

    def generate(context, builder, signature, args):
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        # for reading, to be kept in all caches, data
        builder.call(function, [builder.inttoptr(args[0], byte), *(ir.Constant(number, n) for n in (0, 3, 1))])
        return context.get_dummy_value()

    return types.void(types.intp), generate


prefetch: Any = intrinsic(_prefetched)


def _copied4(typingctx, source, target):
    """Copy four bytes from one address to another."""

    def generate(context, builder, signature, args):
        source, target = (builder.inttoptr(address, ir.IntType(32).as_pointer()) for address in args)
        builder.store(builder.load(source, align=1), target, align=1)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp), generate


copy4: Any = intrinsic(_copied4)
