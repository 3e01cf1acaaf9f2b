"""What can be done to an image: the table of operations, their kernels, and the engine."""
