"""Encoders: built, opened, fed with images, saved and exported."""
