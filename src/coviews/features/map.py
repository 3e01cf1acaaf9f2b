"""Features as points in a plane: by their principal components, or by UMAP."""

import importlib.util
import warnings

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from coviews.console.progress import waiting
from coviews.encoders.features import Features
from coviews.errors import CoviewsError, unknown
from coviews.pictures.map_picture import draw_map

MAP_METHODS = ("pca", "umap")
MAP_POINTS = 10_000  # more hide each other, and UMAP takes long

Points = NDArray[np.float64]  # (N, 2)


def check_map(method: str) -> None:
    """Raise an error if the method does not exist, or its package is not installed."""
    if method not in MAP_METHODS:
        raise unknown("map method", method, MAP_METHODS)
    if method == "umap" and importlib.util.find_spec("umap") is None:
        raise CoviewsError("--map-method umap needs umap-learn: pip install 'coviews[map]', or take pca")


def feature_map(
    features: Features,
    labels: NDArray[np.int64] | None,
    classes: tuple[str, ...] | None,
    *,
    method: str = "pca",
    title: str = "",
    of: int | None = None,
    seed: int = 0,
    progress: bool = False,
) -> Image.Image:
    """A picture with a dot for each image; near ones have similar features.

    Args:
        features: (N, D); only their directions count, as for the neighbours.
        labels: (N,), indices into classes, which give the dots their colours.
        classes: their names.
        method: "pca" or "umap".
        title: the first line.
        of: the number of all images, if not all are shown.
        seed: of UMAP; the same seed gives the same map.
        progress: show a spinner if it takes long.
    """
    check_map(method)
    if method == "pca":
        points, shares = principal_components(unit_length(features))
        how = "the principal components of its features"
        axes = tuple(
            f"{which} principal component ({100 * share:.0f} % of the variance)"
            for which, share in zip(("first", "second"), shares, strict=True)
        )
    else:
        how = "UMAP of its features"
        with waiting("UMAP" if progress else ""):
            points, axes = umap_points(features, seed), ("", "")
    shown = f"{len(points):,} of {of:,} images" if of and of > len(points) else f"{len(points):,} images"
    note = f"a dot for each of {shown}, placed by {how}; what lies close is alike to the encoder"
    return draw_map(points, labels, classes, title=title, note=note, axes=(axes[0], axes[1]), seed=seed)


def unit_length(features: Features) -> NDArray[np.float64]:
    """Every vector divided by its length."""
    wide = features.astype(np.float64)
    return wide / np.maximum(np.linalg.norm(wide, axis=1, keepdims=True), 1e-12)


def principal_components(values: NDArray[np.float64]) -> tuple[Points, tuple[float, float]]:
    """The coordinates of each row along the two directions of largest variance, and their shares of the variance."""
    centred = values - values.mean(0)
    variances, directions = np.linalg.eigh(centred.T @ centred / len(centred))  # rising
    axes = directions[:, ::-1][:, :2]
    axes = axes * np.sign(axes[np.abs(axes).argmax(0), np.arange(axes.shape[1])])  # the sign is arbitrary: fix it
    points = np.zeros((len(values), 2))
    points[:, : axes.shape[1]] = centred @ axes
    total = max(float(variances.sum()), 1e-12)
    first, second = ([*(max(float(v), 0.0) / total for v in variances[::-1][:2]), 0.0])[:2]
    return points, (first, second)


def umap_points(features: Features, seed: int) -> Points:
    """Points that are close if their images are near neighbours by cosine similarity."""
    if len(features) < 4:
        raise CoviewsError(f"UMAP needs at least 4 images, not {len(features)}: take --map-method pca")
    import umap

    start, _ = principal_components(unit_length(features))  # keeps distant clusters in place
    start = 10 * start / max(float(np.abs(start).max()), 1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # UMAP warns that a seed means one thread
        reducer = umap.UMAP(
            n_neighbors=min(15, len(features) - 1), metric="cosine", random_state=seed, init=start.astype(np.float32)
        )  # fmt: skip
        return np.asarray(reducer.fit_transform(features), np.float64)
