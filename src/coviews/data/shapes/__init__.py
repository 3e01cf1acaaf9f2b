"""The built-in images."""
