"""`coviews embed`: the features of images as a file."""

from pathlib import Path
from typing import Annotated

import tyro

import coviews
from coviews.console.options import Data, Source
from coviews.features.feature_options import EmbedOptions

DEFAULTS = EmbedOptions(out=Path("features.npz"))


def embed_command(
    run: Source,
    *,
    data: Data = None,
    options: Annotated[EmbedOptions, tyro.conf.arg(name="")] = DEFAULTS,
) -> None:
    """Write the features of images to a file, with their names and labels.

    If interrupted, the same command continues.

    Args:
        run: The folder of a run, finished or not; or an encoder from elsewhere, as for evaluate.
        data: Images, as for pretrain; by default those of the run.
        options: Which features, and what is written.
    """
    embedding = coviews.embed(run, data, options=options)
    columns = (("names", embedding.names), ("labels", embedding.labels))
    known = " and ".join(name for name, values in columns if values is not None)
    count, width = embedding.shape
    print(f"wrote {options.out}: {count:,} images, {width:,} features each{f', with {known}' if known else ''}")
    if options.map is not None:
        print(f"wrote {options.map}")
