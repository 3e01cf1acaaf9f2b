"""L-BFGS for smooth convex functions: torch's own takes a second to load, and more steps."""

from collections import deque
from collections.abc import Callable

import torch
from torch import Tensor

_MEMORY = 10  # steps that the curvature is learned from
_ENOUGH = 1e-4  # of what the slope promises, a step must gain
_NOISE = 1e-7  # of the value, that single precision may be wrong by


def minimise(
    function: Callable[[Tensor], tuple[float, Tensor]],
    start: Tensor,
    *,
    tolerance: float,
    as_share: bool = True,
    steps: int = 500,
) -> Tensor:
    """Where the function is least.

    Args:
        function: gives the value, which is never below 0, and the gradient. Its variables should be scaled so that
            the curvature is about 1 at most: then a full step is right from the start, and half the gradient's square
            tells how far it is to the minimum.
        start: where to begin.
        tolerance: about how far the value may be above the minimum.
        as_share: of the minimum, where it is below 1; a cross-entropy near 0 is as flat as it is low, so that
            its last digits take most of the steps.
        steps: give up after so many.
    """
    x = start
    value, gradient = function(x)
    pairs: deque[tuple[Tensor, Tensor, Tensor]] = deque(maxlen=_MEMORY)  # step, change of the gradient, 1 / product
    for _ in range(steps):
        if float(gradient.square().sum()) / 2 <= tolerance * min(1.0, value) ** (2 if as_share else 1):
            break
        direction = _direction(gradient, pairs)
        slope, length = float((gradient * direction).sum()), 1.0
        after, turned = function(x + direction)
        while not after <= value + _ENOUGH * length * slope + _NOISE * abs(value):
            length /= 2
            if length < 1e-6:  # nothing is left to gain in this precision
                return x
            after, turned = function(x + length * direction)
        step, change = length * direction, turned - gradient
        product = (step * change).sum()
        if product > 0:  # always so where the function is convex, but for rounding
            pairs.append((step, change, 1 / product))
        x, value, gradient = x + step, after, turned
    return x


def _direction(gradient: Tensor, pairs: deque[tuple[Tensor, Tensor, Tensor]]) -> Tensor:
    """Downhill, by the curvature that the last steps have seen (the two loops of Nocedal)."""
    q, weights = gradient.clone(), []
    for step, change, inverse in reversed(pairs):
        weights.append(inverse * (step * q).sum())
        q -= weights[-1] * change
    if pairs:
        _, change, inverse = pairs[-1]
        q /= inverse * torch.square(change).sum()
    for (step, change, inverse), weight in zip(pairs, reversed(weights), strict=True):
        q += (weight - inverse * (change * q).sum()) * step
    return -q
