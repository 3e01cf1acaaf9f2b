"""One training of a comparison, in a process of its own: train, or go on training, and judge.

Called as `python -m coviews.comparison.worker FOLDER PARENT`, with the settings and the options of the evaluation on
its standard input. It stops, and saves, where its parent is gone.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from coviews.boundary.json_text import parse_json
from coviews.boundary.schema import Schema
from coviews.errors import CoviewsError
from coviews.runs.settings import PretrainSettings
from coviews.runs.settings_file import parse_settings
from coviews.runs.view_names import SEARCHED_FIRST


class _Asked(Schema):
    settings: str
    evaluation: dict[str, Any]


def main(work: Callable[[Path, PretrainSettings, dict[str, Any]], None]) -> int:
    """Do one job; what is wrong is said in the last line of the log."""
    folder, parent = Path(sys.argv[1]), int(sys.argv[2])
    threading.Thread(target=_end_with, args=[parent], daemon=True).start()
    try:
        asked = parse_json(sys.stdin.buffer.read(), _Asked, "the comparison")
        work(folder, parse_settings(asked.settings, "the comparison"), asked.evaluation)
    except CoviewsError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        return 2
    except KeyboardInterrupt as stop:
        print(str(stop) or "stopped", file=sys.stderr, flush=True)
        return 128 + getattr(stop, "signal", signal.SIGINT)
    return 0


def train_and_judge(folder: Path, settings: PretrainSettings, evaluation: dict[str, Any]) -> None:
    """Begin a run or go on with it, and add its evaluation to it."""
    from coviews.evaluation.evaluate import evaluate

    begin_or_continue(folder, settings)
    print(evaluate(folder, progress=False, **evaluation), flush=True)


def begin_or_continue(folder: Path, settings: PretrainSettings) -> None:
    """Train, from the last checkpoint if there is one; a search before training is made first."""
    from coviews.training.pretrain import pretrain

    begun = (folder / "config.yaml").exists()
    if settings.views in SEARCHED_FIRST:
        from coviews.comparison.searches_first import search_first, with_views_of

        settings = with_views_of(folder, settings) if begun else search_first(settings, folder)
    if begun:
        pretrain(settings=settings, resume=folder)
    else:
        pretrain(settings=settings, out=folder)


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(train_and_judge))
