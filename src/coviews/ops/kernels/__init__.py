"""The pixel work: each kernel reads one image and writes another; 8-bit images have the same bytes as Pillow's.

Every kernel has the signature `(src, dst, h, w, c, p)`: pointers to two images of h x w pixels with c channels (1 to
16), and a pointer to its parameters (layout.py). A kernel is a plain Python function that numba can compile; the engine
compiles it to a C function, one for uint8 and one for uint16 images, and calls it by its address, so the table of
operations is a table of addresses and no kernel needs to know the others.

Arithmetic has the width that Pillow uses (mostly single precision) where a byte could depend on it. What Pillow does
not have, images of 16 bits and of other than one or three channels, follows by the same formula.
"""
