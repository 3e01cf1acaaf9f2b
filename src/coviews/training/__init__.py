"""Pretraining: the paper's algorithm and what it needs."""
