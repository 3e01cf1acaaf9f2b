"""Public data sets by name."""
