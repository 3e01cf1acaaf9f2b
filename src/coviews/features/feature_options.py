"""The options of `embed` and `neighbours`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from coviews.console.options import MaybePath, Text, check_range
from coviews.data.shown_channels import check_shown
from coviews.encoders.encoder_options import EncoderOptions
from coviews.errors import CoviewsError


@dataclass(frozen=True)
class EmbedOptions(EncoderOptions):
    """Which features `embed` computes, and what it writes."""

    out: MaybePath = None
    """The file to write, .npz or .parquet."""
    map: MaybePath = None
    """A picture to draw as well: a dot for each image, similar ones close to each other."""
    map_method: str = "pca"
    """How features become places on the map: pca, or umap (needs umap-learn)."""
    overwrite: bool = False
    """Replace a file that is there."""
    seed: int = 0
    """Chooses the images on the map if there are very many, and starts UMAP."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("seed", self.seed, 0, 2**32 - 1)


@dataclass(frozen=True)
class NeighboursOptions(EncoderOptions):
    """Which neighbours are shown, and among which images."""

    subset: Text = None
    """Look among a part only: '10%' or a number of images; by default what the run took, or all."""
    query: Annotated[tyro.conf.UseAppendAction[tuple[Path, ...]], tyro.conf.arg(metavar="IMAGE")] = ()
    """An image file or a folder of some; may be given several times. By default a few of the data at random."""
    out: MaybePath = None
    """Where to write the picture; its extension says which format. An older one is replaced."""
    count: int = 10
    """Neighbours of each."""
    show_channels: Text = None
    """The channels that the sheet shows as red, green and blue, such as 3,2,1; by default those of the run."""
    seed: int = 0
    """Chooses the images, if none are given."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("seed", self.seed, 0, 2**63)
        check_shown(self.show_channels)
        if self.count < 1:
            raise CoviewsError(f"--count must be at least 1 neighbour, not {self.count}")
