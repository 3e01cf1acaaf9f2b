"""One pilot, in a process of its own: a short training, and what its encoder shows without labels.

Called as `python -m coviews.choosing.pilot_worker FOLDER PARENT`, as the worker of a comparison is.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from coviews.choosing.signals import signals
from coviews.comparison.worker import begin_or_continue, main
from coviews.data.load import load_images
from coviews.encoders.features import features
from coviews.encoders.images import normalisation
from coviews.encoders.open import open_encoder
from coviews.files.atomic import write_whole
from coviews.ops.images import Images
from coviews.runs.settings import PretrainSettings

SIGNALS = "signals.json"  # in the folder of the run: there, the pilot is done


def train_and_look(folder: Path, settings: PretrainSettings, options: dict[str, Any]) -> None:
    """Begin a pilot or go on with it, and write the signals of its encoder."""
    begin_or_continue(folder, settings)
    s = settings
    images = load_images(
        s.data, size=s.size, channels=s.channels, subset=s.subset, subset_seed=s.subset_seed, root=s.data_root,
        cache=s.cache,
    )  # fmt: skip
    model = open_encoder(folder)
    mean, std = normalisation(model, images)

    def encode(some: Images) -> Any:
        return features(model.encoder, some, mean, std)

    values = signals(encode, np.asarray(images.images), np.random.default_rng(options["seed"]))
    write_whole(folder / SIGNALS, json.dumps(values).encode())


if __name__ == "__main__":
    sys.exit(main(train_and_look))
