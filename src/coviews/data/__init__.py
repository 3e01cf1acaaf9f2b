"""Where images come from: folders, files, arrays and the built-in set."""
