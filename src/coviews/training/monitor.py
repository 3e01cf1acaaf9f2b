"""How good the encoder is while it trains: kNN accuracy where there are labels, RankMe always, a collapse noticed."""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from coviews.data.load import ImageSet
from coviews.encoders.features import Features, features
from coviews.evaluation.knn import knn_accuracy, nearest, usable_k
from coviews.evaluation.labels import match_classes
from coviews.evaluation.quality import feature_spread, rankme

MOST_IMAGES = 5000  # in a look: it must cost little
QUERIES, NEIGHBOURS = 500, 10  # images whose neighbours are compared from look to look, and how many
COLLAPSED = 0.05  # spread of the normalised features, 1 where they point in all directions
ONE_DIRECTION = 1.5  # RankMe of features that are all multiples of one vector is 1


class Monitor:
    """Judges an encoder on some of the training images, or with them on test images."""

    def __init__(
        self, images: ImageSet, test: ImageSet | None, mean: tuple[float, ...], std: tuple[float, ...], seed: int
    ) -> None:
        generator = np.random.default_rng(seed)
        self.mean, self.std = mean, std
        self.neighbours: NDArray[np.int64] | None = None  # (queries, k), at the last look
        self.train, self.labels = _some(images, generator)
        self.test: NDArray[np.uint8] | None = None
        if test is not None:
            if test.labels is None or images.labels is None or images.classes is None or test.classes is None:
                raise ValueError("both sets need labels")
            self.test, test_labels = _some(test, generator)
            assert test_labels is not None
            self.test_labels = match_classes(images.classes, test.classes, test_labels)

    def __call__(self, encoder: nn.Module, device: Any) -> dict[str, float]:
        """RankMe and the spread of the features; kNN in percent where there are labels."""
        bank = features(encoder, self.train, self.mean, self.std, device=device)
        quality = {"rankme": rankme(bank), "spread": feature_spread(bank)}
        quality |= self._agreement(bank)
        if self.labels is None:
            return quality
        if self.test is None:
            k = usable_k(None, len(bank) - 1)
            accuracy = knn_accuracy(bank, self.labels, bank, self.labels, k=k, leave_one_out=True)
        else:
            queries = features(encoder, self.test, self.mean, self.std, device=device)
            k = usable_k(None, len(bank))
            accuracy = knn_accuracy(bank, self.labels, queries, self.test_labels, k=k)
        return {"knn": 100 * accuracy, **quality}

    def restore(self, neighbours: Any) -> None:
        """Go on from the neighbours at the last look, as a checkpoint has them; None if there were none."""
        if neighbours is not None and (neighbours.ndim != 2 or neighbours.dtype != torch.int64):
            raise ValueError("its neighbours at the last look are not rows of indices")
        self.neighbours = None if neighbours is None else neighbours.numpy()

    def _agreement(self, bank: Features) -> dict[str, float]:
        """The share of the nearest neighbours of some images that are those of the look before; none at the first."""
        k = min(NEIGHBOURS, len(bank) - 2)
        if k < 1:
            return {}
        before, queries = self.neighbours, bank[:QUERIES]
        indices, _ = nearest(bank, queries, k + 1)
        others = indices != np.arange(len(queries))[:, None]
        others &= np.cumsum(others, axis=1) <= k  # of equal images, another one may be the first
        self.neighbours = indices[others].reshape(len(queries), k)
        if before is None or before.shape != self.neighbours.shape:
            return {}
        common = (before[:, :, None] == self.neighbours[:, None, :]).any(2)
        return {"agreement": float(common.mean())}

    @property
    def images_judged(self) -> str:
        """Which images are judged."""
        if self.test is not None:
            return f"{len(self.test):,} test images by {len(self.train):,} training images"
        return f"{len(self.train):,} training images, each by the others"


def _some(images: ImageSet, generator: np.random.Generator) -> tuple[NDArray[np.uint8], NDArray[np.int64] | None]:
    if len(images) <= MOST_IMAGES:
        return images.images, images.labels
    indices = np.sort(generator.choice(len(images), MOST_IMAGES, replace=False))
    return images.images[indices], None if images.labels is None else images.labels[indices]


def embedding_spread(embedding: Tensor) -> float:
    """Of unit vectors: about 1 where they point in all directions, 0 where all are the same."""
    return float(embedding.std(0).mean() * math.sqrt(embedding.shape[1]))


def collapse_warning(spread: float, rank: float = math.inf) -> str | None:
    """What to say of embeddings or features whose spread is tiny, or whose RankMe is about 1."""
    if spread < COLLAPSED:
        values = f"spread {spread:.2g}, 1 is good"
    elif rank < ONE_DIRECTION:
        values = f"RankMe {rank:.2g}, the features have one direction"
    else:
        return None
    return (
        f"the representation has collapsed: all images look alike to the encoder ({values}). "
        "Try a lower --lr, a larger --batch-size or milder views."
    )
