"""The built-in images of shapes: outlines, patterns, and the scenes drawn from them."""
