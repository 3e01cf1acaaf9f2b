"""The projectors and predictors that methods put on top of an encoder."""

from torch import nn


def make_projector(inputs: int, hidden: int = 2048, outputs: int = 2048) -> nn.Module:
    """Two layers, each with batch normalisation; the last one without scale and shift."""
    return nn.Sequential(
        nn.Linear(inputs, hidden, bias=False),
        nn.BatchNorm1d(hidden),
        nn.ReLU(inplace=True),
        nn.Linear(hidden, outputs, bias=False),
        nn.BatchNorm1d(outputs, affine=False),
    )


def make_predictor(size: int, hidden: int) -> nn.Module:
    """Two layers from a projection to the other view's projection; the last one free, without normalisation."""
    return nn.Sequential(
        nn.Linear(size, hidden, bias=False),
        nn.BatchNorm1d(hidden),
        nn.ReLU(inplace=True),
        nn.Linear(hidden, size),
    )


def make_bottleneck(inputs: int, hidden: int, outputs: int) -> nn.Module:
    """Three layers for DINO, of which the last one is narrow and free, without normalisation."""
    return nn.Sequential(
        nn.Linear(inputs, hidden, bias=False),
        nn.BatchNorm1d(hidden),
        nn.GELU(),
        nn.Linear(hidden, hidden, bias=False),
        nn.BatchNorm1d(hidden),
        nn.GELU(),
        nn.Linear(hidden, outputs),
    )


def make_expander(inputs: int, width: int) -> nn.Module:
    """Three wide layers for VICReg; the last one free: its loss is about the variances that BatchNorm would set."""
    return nn.Sequential(
        nn.Linear(inputs, width, bias=False),
        nn.BatchNorm1d(width),
        nn.ReLU(inplace=True),
        nn.Linear(width, width, bias=False),
        nn.BatchNorm1d(width),
        nn.ReLU(inplace=True),
        nn.Linear(width, width, bias=False),
    )
