"""The pixel work: each kernel reads one uint8 image and writes another, with the same bytes as Pillow.

Every kernel has the signature `(src, dst, h, w, c, p)`: pointers to two images of h x w pixels with c channels (1 or
3), and a pointer to its parameters (layout.py). A kernel is a plain Python function that numba can compile; the engine
compiles it to a C function and calls it by its address, so the table of operations is a table of addresses and no
kernel needs to know the others.

Arithmetic has the width that Pillow uses (mostly single precision) where a byte could depend on it.
"""
