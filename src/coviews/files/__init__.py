"""Files on the disk: written whole or not at all, and folders that one process works in."""
