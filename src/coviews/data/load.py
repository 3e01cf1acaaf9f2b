"""`load_images`: images of any format as one array."""

import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from coviews.data.arrays import ArrayImages, load_arrays
from coviews.data.cache import default_cache
from coviews.data.decode import decode_images
from coviews.data.formats import open_data
from coviews.data.image_files import ImageFiles
from coviews.data.imageset import ImageSet
from coviews.data.levels import MAX_PIXELS, ValueRange
from coviews.data.request import ImageRequest, checked_size
from coviews.errors import CoviewsError, one_line

if TYPE_CHECKING:
    from torch.utils.data import Dataset

__all__ = ["ImageSet", "load_images"]


def load_images(
    data: "str | os.PathLike[str] | NDArray[Any] | ImageSet | Dataset[Any] | Sequence[Any]",
    *,
    size: int | tuple[int, int] | None = None,
    channels: int | None = None,
    depth: int | None = None,
    values: ValueRange | None = None,
    frames: str | None = None,
    limit: int | None = None,
    subset: str | int | float | None = None,
    subset_seed: int = 0,
    root: str | os.PathLike[str] = "data",
    download: bool = False,
    max_broken: float = 1.0,
    cache: str | os.PathLike[str] | None = None,
    memory: int | None = None,
    max_pixels: int = MAX_PIXELS,
    max_side: int | None = None,
    progress: bool = False,
) -> ImageSet:
    """Load images of any format into one array.

    Args:
        data: a folder of image files in any nesting (its sub folders are the classes, if there are several
            and every image is in one), an image file, a list of files (.txt, .csv, .tsv), a .npy or .npz file,
            TinyImageNet's folder or archive; an array (N, H, W) or (N, H, W, C), a torch data set of
            images; or a name: "shapes" (built in; "shapes:2000" for 2000 images), "cifar10", "cifar100", "svhn",
            "stl10", "tinyimagenet"; by default the train split, another one as "cifar10:test", "stl10:unlabeled",
            "svhn:train+extra". A name is never a path: for a folder of that name write "./cifar10".
        size: the side of the images, or (height, width); by default their own, or the most common one.
        channels: 1 for grey, 3 for colour; by default grey only if all images are grey. Images with other channels,
            up to 16, keep them.
        depth: 8 or 16, the bits of a level of images that are deeper than 8 bits; by default 16.
        values: for each channel the values that become the lowest and the highest level of such images, as in the
            `values` of an ImageSet; by default 0.1 % of the pixels of a sample are below, and 0.1 % above.
        frames: how a file with several pages is read: "channels" for all pages as channels of one image, "middle" for
            the middle page, "each" for each page as an image. By default channels if the file says that they are
            such, or else the middle page.
        limit: load at most this many images, spread evenly over the data (or over the subset).
        subset: load a part, 5000 or "10%"; equally many images of each class if labels are known.
        subset_seed: the same seed gives the same subset.
        root: the folder of the known data sets, also for downloads.
        download: download a known data set that is not in the root.
        max_broken: the largest share of broken images that is skipped with a warning; more are an error. Of 20
            images or more, one may always be broken unless this is 0. By default it is an error only if no image
            is readable, which suits a first look; 0.01 suits training.
        cache: the folder for decoded images that do not fit into memory; by default `coviews` in the user's
            cache folder.
        memory: the largest array in bytes that is held in memory; by default half of the free memory.
        max_pixels: the pixels of an image file; a JPEG file with more is decoded at a half, a quarter or an eighth of
            its sides, any other file with more is skipped as broken.
        max_side: without a size, larger images are reduced to this many pixels of their longer side.
        progress: show a progress bar if it takes long, and what was chosen in reading the images.
    """
    request = ImageRequest(
        size=checked_size(size),
        channels=channels,
        limit=limit,
        subset=subset,
        subset_seed=subset_seed,
        root=Path(os.path.expanduser(root)),
        download=download,
        max_broken=max_broken,
        cache=default_cache() if cache is None else Path(os.path.expanduser(cache)),
        memory=memory,
        progress=progress,
        depth=depth,
        values=values,
        frames=frames,
        max_pixels=max_pixels,
        max_side=max_side,
    )
    try:
        source = open_data(data, request)
        if frames == "each" and isinstance(source, ImageFiles):
            source = source.each_page(request.title("counting pages"))
        images = load_arrays(source, request) if isinstance(source, ArrayImages) else decode_images(source, request)
    except MemoryError as error:
        raise CoviewsError(f"not enough memory: {error}; choose a smaller size, or fewer by a limit") from error
    for note in request.notes:
        warnings.warn(one_line(note), stacklevel=2)
    if progress:
        for remark in images.remarks:
            print(one_line(remark), file=sys.stderr, flush=True)
    return images
