"""The terminal: progress of work that takes long, and options of the commands."""
