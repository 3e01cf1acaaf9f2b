"""Where images come from: folders, lists, archives, arrays, data sets and the built-in set."""
