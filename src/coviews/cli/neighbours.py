"""`coviews neighbours`: images and their nearest neighbours, on a sheet."""

from pathlib import Path
from typing import Annotated

import tyro

import coviews
from coviews.console.options import Data, Source
from coviews.features.feature_options import NeighboursOptions

DEFAULTS = NeighboursOptions(out=Path("neighbours.png"))


def neighbours_command(
    run: Source,
    *,
    data: Data = None,
    options: Annotated[NeighboursOptions, tyro.conf.arg(name="")] = DEFAULTS,
) -> None:
    """Draw images with the images that the encoder finds most similar.

    Args:
        run: The folder of a run, finished or not; or an encoder from elsewhere, as for evaluate.
        data: Among which images to look, as for pretrain; by default those of the run.
        options: Which neighbours, and what is written.
    """
    result = coviews.neighbours(run, data, options=options)
    count = len(result.queries)
    images = "1 image with its" if count == 1 else f"{count} images, each with its"
    print(f"wrote {options.out}: {images} {options.count} nearest of {len(result.images):,}")
