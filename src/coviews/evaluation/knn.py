"""Exact nearest neighbours by cosine similarity, and the weighted vote of their labels."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from coviews.encoders.features import Features, check_features
from coviews.errors import CoviewsError
from coviews.evaluation.labels import Labels, accuracy, check_label_array
from coviews.evaluation.options import TEMPERATURE, K

FEW = 20  # neighbours that vote in a small bank
SHARE = 25  # usable_k: one neighbour for so many images in the bank
_CHUNK = 1 << 23  # similarities that are in memory at once


def usable_k(k: int | None, n: int) -> int:
    """The neighbours that vote in a bank of n images: k, but at most one in 25 of them, and at least one.

    Without k, the paper's 200 from 5,000 images on, and 20 below: more would reach far beyond an image's own class.
    """
    if k is None:
        k = FEW if n < SHARE * K else K
    if k < 1:
        raise CoviewsError(f"k must be at least 1 neighbour, not {k}")
    return max(1, min(k, n // SHARE))


def knn_predict(
    bank: Features,
    bank_labels: Labels,
    queries: Features,
    *,
    k: int = K,
    temperature: float = TEMPERATURE,
    classes: int | None = None,
    leave_one_out: bool = False,
) -> Labels:
    """The class of each query (M,): its k nearest in the bank vote with weight exp(similarity / temperature).

    Args:
        bank: features (N, D) of images whose labels are known.
        bank_labels: (N,), 0..classes - 1.
        queries: features (M, D).
        k: how many neighbours vote; see `usable_k` for small banks.
        temperature: the smaller, the more the nearest ones count.
        classes: how many there are; by default the largest label plus one.
        leave_one_out: the queries are the bank itself, and no image is its own neighbour.
    """
    labels = torch.from_numpy(check_label_array(bank_labels, len(bank), classes, "bank"))
    count = classes or int(labels.max()) + 1
    if not 0 < temperature < float("inf"):
        raise CoviewsError(f"the temperature must be above 0, not {temperature}")
    predictions = []
    for similarities, indices in _nearest_parts(bank, queries, k, leave_one_out):
        # the nearest has weight 1: the vote is the same, and a low temperature does not overflow
        weights = ((similarities - similarities[:, :1]) / temperature).exp()  # (m, k)
        votes = torch.zeros(len(weights), count).scatter_add_(1, labels[indices], weights)  # (m, classes)
        predictions.append(votes.argmax(1))  # of equal votes the lowest class
    return torch.cat(predictions).numpy()


def knn_accuracy(
    bank: Features, bank_labels: Labels, queries: Features, query_labels: Labels, **settings: Any
) -> float:
    """The share of queries that `knn_predict` gets right; those of an unknown class, -1, are left out."""
    return accuracy(query_labels, knn_predict(bank, bank_labels, queries, **settings))


def nearest(
    bank: Features, queries: Features, k: int, *, leave_one_out: bool = False
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The k nearest of the bank for each query, nearest first: their indices (M, k) and cosine similarities (M, k)."""
    parts = list(_nearest_parts(bank, queries, k, leave_one_out))
    return torch.cat([i for _, i in parts]).numpy(), torch.cat([s for s, _ in parts]).numpy()


def _nearest_parts(bank: Features, queries: Features, k: int, leave_one_out: bool) -> Iterator[tuple[Tensor, Tensor]]:
    """Similarities (m, k) and indices (m, k), for one chunk of the queries after the other."""
    b = F.normalize(torch.from_numpy(check_features(bank, "features of the bank")), dim=1)  # (N, D)
    q = b if queries is bank else F.normalize(torch.from_numpy(check_features(queries, "features")), dim=1)  # (M, D)
    if q.shape[1] != b.shape[1]:
        raise CoviewsError(f"the bank has {b.shape[1]} features an image, the queries {q.shape[1]}")
    if leave_one_out and len(q) != len(b):
        raise CoviewsError(f"leave_one_out needs the bank as queries: {len(b)} images, not {len(q)}")
    most = len(b) - leave_one_out
    if not 1 <= k <= most:
        raise CoviewsError(f"k must be 1 to {most}, the images in the bank, not {k}: take usable_k(k, {most})")
    rows = max(1, _CHUNK // len(b))
    for start in range(0, len(q), rows):
        similarities = q[start : start + rows] @ b.T  # (m, N)
        if leave_one_out:
            own = torch.arange(len(similarities))
            similarities[own, start + own] = -torch.inf
        yield similarities.topk(k, dim=1)
