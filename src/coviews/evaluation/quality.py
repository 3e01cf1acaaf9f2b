"""How good features are, measured without labels."""

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from coviews.encoders.features import Features, check_features
from coviews.errors import CoviewsError

EXACT = 5000  # images up to which uniformity takes every pair

_EPSILON = 1e-7
_CHUNK = 1 << 22  # distances that are in memory at once


def rankme(features: Features) -> float:
    """The effective rank: exp of the entropy of the singular values, as shares of their sum (Garrido et al., 2023)."""
    x = torch.from_numpy(check_features(features, "features")).double()
    gram = x.T @ x if x.shape[0] >= x.shape[1] else x @ x.T  # the smaller one has the same singular values
    values = torch.linalg.eigvalsh(gram).clamp_min(0).sqrt()
    shares = values / values.sum().clamp_min(1e-300) + _EPSILON
    return float((-(shares * shares.log()).sum()).exp())


def feature_spread(features: Features) -> float:
    """The mean standard deviation of normalised features, times the root of their number: 1 spread, 0 collapsed."""
    z = _on_sphere(features)
    return float(z.std(0, correction=0).mean()) * z.shape[1] ** 0.5


def alignment(z1: Features, z2: Features) -> float:
    """The mean squared distance of the normalised features of two views of the same images."""
    a, b = _on_sphere(z1), _on_sphere(z2)
    if a.shape != b.shape:
        raise CoviewsError(f"the two views must be of the same images, but are {tuple(a.shape)} and {tuple(b.shape)}")
    return float((a - b).square().sum(1).mean())


def uniformity(features: Features, *, t: float = 2.0, seed: int = 0, most: int = EXACT) -> float:
    """The log of the mean of exp(-t d^2) over all pairs of normalised features.

    Args:
        features: (N, D), at least two.
        t: how fast the weight of a pair falls with its distance.
        seed: chooses the images where there are more than `most`.
        most: images up to which every pair counts.
    """
    z = _on_sphere(features)
    n = len(z)
    if n < 2:
        raise CoviewsError("uniformity needs the features of two images at least")
    if n > most:
        z, n = z[np.sort(np.random.default_rng(seed).choice(n, most, replace=False))], most
    total = 0.0
    for start in range(0, n, max(1, _CHUNK // n)):
        part = z[start : start + max(1, _CHUNK // n)]
        distances = (2 - 2 * part @ z.T).clamp_min(0)  # (m, N), squared
        own = torch.arange(len(part))
        distances[own, start + own] = torch.inf
        total += float((-t * distances).exp().sum(dtype=torch.float64))
    return float(np.log(max(total, 1e-300) / (n * (n - 1))))


def _on_sphere(features: Features) -> Tensor:
    return F.normalize(torch.from_numpy(check_features(features, "features")), dim=1)
