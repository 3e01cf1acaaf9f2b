"""The options of `evaluate`."""

import math
import re
from dataclasses import dataclass
from typing import Annotated

import tyro

from coviews.console.options import Int, MaybePath, Text
from coviews.encoders.encoder_options import EncoderOptions
from coviews.errors import CoviewsError

K, TEMPERATURE = 200, 0.1  # of kNN, as in the paper


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(EncoderOptions):
    """How an encoder is evaluated."""

    labels: Text = None
    """A table (.csv or .tsv) with the columns file and label, for images without class folders: only the images that it
    labels are used. Files are looked for in the folder of the table, then in that of the images."""
    k: Int = None
    """Neighbours that vote in kNN, at most one for every 25 images to learn from; by default 200, or 20 where there are
    fewer than 5,000 images."""
    temperature: float = TEMPERATURE
    """Of their vote."""
    whole: bool = False
    """Also a linear probe that learns from whole images rather than from random crops."""
    paper: bool = False
    """The paper's linear probe as well (SGD, 100 epochs of crops, five heads): a hundred passes of the images."""
    finetune: Annotated[tuple[str | float, ...], tyro.conf.arg(metavar="SHARE [SHARE ...]")] = ()
    """Shares of the labels, such as 1% 10%, to fine-tune a copy of the encoder with."""
    baselines: bool = True
    """Measure the untrained encoder and raw pixels too."""
    seed: int = 0
    """For all that is drawn."""
    size: Int = None
    """The side of the images in pixels; by default that of the encoder's training, or their own."""
    subset: Text = None
    """Learn from a part: '10%' or a number of images; of a run's own data by default what the run took."""
    subset_seed: Int = None
    """Chooses the subset."""
    out: MaybePath = None
    """The file that the results are added to, one line of JSON; by default evaluations.jsonl in the run."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for share in self.finetune:
            fraction(share)
        if self.k is not None and self.k < 1:
            raise CoviewsError(f"k must be at least 1 neighbour, not {self.k}")
        if not 0 < self.temperature < math.inf:
            raise CoviewsError(f"the temperature must be above 0, not {self.temperature}")
        for name, least in (("seed", 0), ("size", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise CoviewsError(f"--{name.replace('_', '-')} must be {least} or more, not {value}")

    @property
    def fractions(self) -> tuple[float, ...]:
        """The shares of the labels for fine-tuning, as numbers in 0..1."""
        return tuple(fraction(share) for share in self.finetune)


def fraction(share: str | float) -> float:
    """1% or 0.01 as a number."""
    match = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*(%?)\s*", str(share), re.ASCII)
    if not match or not 0 < float(match[1]) <= (100 if match[2] else 1):
        raise CoviewsError(f"write a share of the labels as 1% or 0.01, not {share!r}")
    return float(match[1]) / (100 if match[2] else 1)
