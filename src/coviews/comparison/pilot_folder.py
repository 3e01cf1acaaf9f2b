"""The folder of a search before training: one process at work, one set of settings, and a signal that stops it."""

import contextlib
import dataclasses
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from coviews.boundary.json_text import read_json
from coviews.boundary.schema import Schema
from coviews.comparison.search_time import timed_search
from coviews.data.load import ImageSet
from coviews.errors import CoviewsError
from coviews.files.atomic import remove_partial, write_whole, writing
from coviews.files.lock import lock_folder
from coviews.runs.settings import FROM_PYTHON, PretrainSettings
from coviews.runs.settings_file import parse_settings, settings_yaml
from coviews.training.setup import for_this_machine, load_data, without_colour
from coviews.training.signals import Stopped

_FILE = "search.json"
_SHARE = 10  # pilots have so many times fewer epochs than the training


class _Search(Schema):
    """What is searched for, and how."""

    kind: str
    settings: str
    figures: dict[str, int | float | str]
    images: list[float]


@dataclasses.dataclass(frozen=True, eq=False)
class PilotFolder:
    """A folder that is locked for one search, with the images and settings that its pilots share."""

    path: Path
    settings: PretrainSettings  # of the pilots: plain crops and flips
    images: ImageSet

    @classmethod
    @contextlib.contextmanager
    def opened(
        cls, kind: str, settings: PretrainSettings, out: str | Path, epochs: int | None,
        figures: Mapping[str, int | float | str], progress: bool, *, turned: bool = True,
    ) -> Iterator["PilotFolder"]:  # fmt: skip
        """Begin a search, or go on with one; an error if another one is in the folder.

        Args:
            kind: the name of the search.
            settings: of the training that is to follow.
            out: the folder.
            epochs: of each pilot; by default a tenth of those of the training.
            figures: by which the search could differ from another one.
            progress: show the loading of images.
            turned: whether pilots are judged by quarter turns, which need square views.
        """
        if settings.data.startswith(FROM_PYTHON):
            raise CoviewsError(f"{kind} needs data by name: a folder, a file or a known set")
        pilots = pilot_settings(settings, "cropflip", epochs).replaced(
            keep=0.0, keep_every=0, devices=1, num_nodes=1, views_global=2, views_local=0
        )
        if turned and (pilots.placement.quarter_turns or pilots.placement.flip_vertical):
            raise CoviewsError(
                f"{kind} judges by quarter turns, and --quarter-turns or --flip-vertical turn the views: it is for "
                "images that have an up"
            )
        pilots = for_this_machine(pilots)
        images, _ = load_data(pilots, pilots.data, 1, progress)
        _, height, width, channels = images.images.shape
        view_height, view_width = pilots.view_sizes[0] if pilots.view_sizes else (height, width)
        if turned and view_height != view_width:
            raise CoviewsError(f"{kind} needs square images: the shape of others gives a quarter turn away")
        # the images are loaded now; what chose them must not choose once more
        pilots = without_colour(pilots, images).for_images(channels, images.images.dtype)
        pilots = pilots.replaced(subset=None, test_data=None)
        folder = Path(out)
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        with lock_folder(folder):
            remove_partial(folder)
            facts = [*images.images.shape, *images.mean]
            _claim(folder / _FILE, _Search(kind, settings_yaml(pilots), dict(figures), [float(x) for x in facts]))
            with _going_on(), timed_search(folder):
                yield cls(folder, pilots, images)


def pilot_epochs(settings: PretrainSettings) -> int:
    """Epochs of the pilots of a training, where no number is given: a tenth of its own."""
    return max(1, settings.epochs // _SHARE)


def pilot_settings(settings: PretrainSettings, views: str, epochs: int | None) -> PretrainSettings:
    """The settings of pilots: the training's, but with these views, few epochs, and without what only people read."""
    return settings.replaced(
        views=views, epochs=epochs or pilot_epochs(settings), out=None, knn_every=0, report=False, tensorboard=False,
        wandb=False, trackio=False,
    )  # fmt: skip


def _claim(file: Path, search: _Search) -> None:
    """Note what is searched for in a folder; an error if it is for another search."""
    if not file.exists():
        content = {name: getattr(search, name) for name in search.__struct_fields__}
        write_whole(file, (json.dumps(content, indent=1) + "\n").encode())
        return
    there = read_json(file, _Search, "search")
    differing = parse_settings(there.settings, str(file)).differences(parse_settings(search.settings, str(file)))
    same = (there.kind, there.figures, there.images) == (search.kind, search.figures, search.images)
    if differing or not same:
        what = next(iter(differing), "images or figures")
        raise CoviewsError(f"{file.parent} holds a search with another {what}: choose another --out")


@contextlib.contextmanager
def _going_on() -> Iterator[None]:
    """Where a pilot is stopped by a signal, say how the search goes on."""
    try:
        yield
    except Stopped as stop:
        raise Stopped("stopped; the same command goes on from here", stop.signal) from stop
