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

K, TEMPERATURE = 200, 0.1  # the paper's

SHARE = 25  # usable_k: one neighbour for so many images in the bank
_CHUNK = 1 << 23  # similarities that are held at once


def usable_k(k: int, n: int) -> int:
    """As many neighbours as a bank of n images bears: k, but at most one in 25 of them, and at least one.

    So 200 from 5,000 images on, and 40 of 1,000: more would reach far beyond an image's own class.
    """
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
        classes: how many there are; by default as many as the labels tell.
        leave_one_out: the queries are the bank itself, and no image is its own neighbour.
    """
    labels = torch.from_numpy(check_label_array(bank_labels, len(bank), classes, "bank"))
    count = classes or int(labels.max()) + 1
    if not 0 < temperature < float("inf"):
        raise CoviewsError(f"the temperature must be above 0, not {temperature}")
    found = []
    for similarities, indices in _nearest_parts(bank, queries, k, leave_one_out):
        # the nearest has weight 1: the vote is the same, and a low temperature does not overflow
        weights = ((similarities - similarities[:, :1]) / temperature).exp()  # (m, k)
        votes = torch.zeros(len(weights), count).scatter_add_(1, labels[indices], weights)  # (m, classes)
        found.append(votes.argmax(1))  # of equal votes the lowest class
    return torch.cat(found).numpy()


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
    """Similarities (m, k) and indices (m, k) of some queries after the other."""
    stored = F.normalize(torch.from_numpy(check_features(bank, "features of the bank")), dim=1)
    asked = stored if queries is bank else F.normalize(torch.from_numpy(check_features(queries, "features")), dim=1)
    if asked.shape[1] != stored.shape[1]:
        raise CoviewsError(f"the bank has {stored.shape[1]} features an image, the queries {asked.shape[1]}")
    if leave_one_out and len(asked) != len(stored):
        raise CoviewsError(f"leave_one_out needs the bank as queries: {len(stored)} images, not {len(asked)}")
    most = len(stored) - leave_one_out
    if not 1 <= k <= most:
        raise CoviewsError(f"k must be 1 to {most}, the images in the bank, not {k}: take usable_k(k, {most})")
    rows = max(1, _CHUNK // len(stored))
    for start in range(0, len(asked), rows):
        similarities = asked[start : start + rows] @ stored.T  # (m, N)
        if leave_one_out:
            own = torch.arange(len(similarities))
            similarities[own, start + own] = -torch.inf
        yield similarities.topk(k, dim=1)
