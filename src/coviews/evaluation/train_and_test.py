"""The data of an evaluation: which images are learned from and which are judged, loaded and compared."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coviews.data.formats import held_out_split
from coviews.data.image_files import ImageFiles
from coviews.data.lists import TABLES, labelled_images
from coviews.data.load import ImageSet, load_images
from coviews.data.splits import can_judge
from coviews.encoders.images import ELSEWHERE, own_data
from coviews.encoders.open import OpenedEncoder
from coviews.errors import CoviewsError
from coviews.evaluation.options import EvaluateOptions
from coviews.ops.images import Images
from coviews.runs.settings import FROM_PYTHON, PretrainSettings

_COMPARED = 1 << 31  # bytes of images up to which test images are looked for among the training images


@dataclass(frozen=True)
class TrainAndTest:
    """Where the images to learn from and the images to judge come from."""

    data: Any
    test_data: Any
    subset: str | int | None
    subset_seed: int
    of_run: bool  # the data are the run's own
    beside: bool = False  # the images to judge were found beside the others: used if their labels fit

    def load(
        self, size: int | tuple[int, int] | None, channels: int | None, **where: Any
    ) -> tuple[ImageSet, ImageSet | None]:
        """The images; `where` goes to `load_images`."""
        try:
            train = load_images(
                self.data, size=size, channels=channels, subset=self.subset, subset_seed=self.subset_seed, **where
            )
        except CoviewsError as error:
            if not self.of_run:
                raise
            raise CoviewsError(f"cannot load the data of the run: {error}; {ELSEWHERE}") from error
        if self.test_data is None:
            return train, None
        _, height, width, channels = train.images.shape
        where |= {"depth": train.depth, "values": train.values or where.get("values")}  # test images as training images
        test = load_images(self.test_data, size=(height, width), channels=channels, **where)
        return train, None if self.beside and not can_judge(test, train) else test


def choose_data(
    model: OpenedEncoder, settings: PretrainSettings | None, data: Any, test_data: Any, options: EvaluateOptions
) -> TrainAndTest:
    """The data that are asked for; without `data`, what the run was trained on and judged by."""
    of_run = data is None
    subset, subset_seed = options.subset, options.subset_seed
    if of_run:
        data = own_data(model)
        assert settings is not None
        test_data = settings.test_data if test_data is None else test_data
        subset = settings.subset if subset is None else subset
        subset_seed = settings.subset_seed if subset_seed is None else subset_seed
    if options.labels is not None:
        table = Path(options.labels).expanduser()
        if table.suffix.lower() not in TABLES:
            raise CoviewsError(f"--labels {table} is no table (.csv or .tsv) with the columns file and label")
        data, of_run = labelled_images(table, str(data), options.frames), False
    split = held_out_split(data) if test_data is None else None
    return TrainAndTest(
        data, test_data if split is None else split, subset, subset_seed or 0, of_run, beside=split is not None
    )


def shared_images(train: ImageSet, test: ImageSet | None) -> int:
    """How many test images are among the training images; 0 where there are too many to look."""
    if test is None or train.images.nbytes + test.images.nbytes > _COMPARED:
        return 0
    known = set(_digests(train.images))
    return sum(digest in known for digest in _digests(test.images))


def shared_text(shared: int, tested: int) -> str:
    """What is said of test images that are among the training images; empty if there are none."""
    if not shared:
        return ""
    return (
        f"{shared:,} of {tested:,} test images are among the training images, to the last pixel: accuracies will be "
        "too high"
    )


def data_label(data: Any) -> str:
    """How records call the data: by path or name, or by type if they are from Python."""
    if isinstance(data, ImageFiles):
        return data.where
    return str(data) if isinstance(data, str | Path) else f"{FROM_PYTHON}{type(data).__name__}"


def _digests(images: Images) -> list[bytes]:
    return [hashlib.blake2b(image.tobytes(), digest_size=16).digest() for image in images]
