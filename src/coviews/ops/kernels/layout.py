"""Where a kernel finds its parameters: `p` is an array of SLOTS numbers.

Compiled kernels are cached on the disk until their own file changes. After a change here, in arithmetic.py, lookup.py,
memory.py or transpose.py, delete the cache (`*.nbi` and `*.nbc` in `__pycache__`).
"""

CHANNELS = 16  # at most

PARAMETERS = 6  # p[:6]: the operation's own parameters, from its row in the table
PLACE = 6  # p[6:8]: two random numbers in 0..1
FILL = 8  # p[8:24]: the fill colour, a value for each channel
OUTSIDE = FILL + CHANNELS  # p[24:40]: the colour outside the image, a value for each channel
SLOTS = OUTSIDE + CHANNELS
