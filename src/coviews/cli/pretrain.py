"""`coviews pretrain`."""

from pathlib import Path
from typing import Annotated

import tyro

from coviews.cli.settings import MethodName, SearchName, starting_settings
from coviews.console.options import Data
from coviews.errors import CoviewsError
from coviews.runs.settings import CHOOSE, PretrainSettings


def pretrain_command(
    settings: Annotated[PretrainSettings, tyro.conf.arg(name="")],
    *,
    method: MethodName = None,
    search: SearchName = None,
    preset: str | None = None,
    config: Path | None = None,
    resume: Path | None = None,
    overwrite: bool = False,
    progress: bool = True,
    labels: Data = None,
    budget: str = "30m",
) -> None:
    """Train an encoder on images; no labels are needed.

    Args:
        settings: What is trained.
        method: How the encoder learns from the views.
        search: How views are learned.
        preset: Named settings, such as paper-cifar10 or demo; the other options change them.
        config: A YAML file of settings, such as a run's config.yaml; the other options change them.
        resume: The folder of a run to continue, exactly as if it had not been interrupted; with more --epochs, it is
            extended.
        overwrite: Replace a run that is in --out.
        progress: Show the progress.
        labels: A few labelled images, for --views choose: as for coviews choose.
        budget: The time that --views choose may take, such as 90s, 30m or 2h.
    """
    if settings.views == CHOOSE and resume is None:
        settings = _with_chosen_views(settings, labels, budget, overwrite, progress)
    elif labels is not None:
        raise CoviewsError("--labels goes with --views choose: training itself needs none")
    from coviews.training.pretrain import pretrain as train

    train(settings=settings, resume=resume, overwrite=overwrite, progress=progress)


def _with_chosen_views(
    settings: PretrainSettings, labels: str | None, budget: str, overwrite: bool, progress: bool
) -> PretrainSettings:
    """The settings with views that are chosen first, in the run's folder."""
    from coviews.choosing.choose import choose
    from coviews.runs.folder import CHOICE
    from coviews.training.lifecycle import default_folder

    s = settings
    out = s.out or default_folder(s)
    if (out / "config.yaml").exists() and not overwrite:
        raise CoviewsError(f"{out} holds a run: continue it with --resume {out}, choose another --out, or --overwrite")
    choice = choose(
        s.data, labels=labels, budget=budget, matters=s.matters, ignores=s.ignores, forbid=s.forbid, cap=s.cap,
        keep=s.keep is None, channels=s.channels, seed=s.seed, data_root=s.data_root, cache=s.cache, out=out / CHOICE,
        progress=progress,
    )  # fmt: skip
    print(choice.decided.sentence)
    return s.replaced(views=str(choice.file), out=out)


starting_options = {"pretrain": starting_settings}
