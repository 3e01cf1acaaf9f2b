"""Where images come from: the table of formats, their sources, and loading them as one array."""
