"""A run on the disk: its settings, its presets and its folder."""
