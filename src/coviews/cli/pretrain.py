"""`coviews pretrain`."""

from pathlib import Path
from typing import Annotated, Any

import tyro

from coviews.cli.settings import MethodName, SearchName, starting_settings
from coviews.console.options import Data, Int, Text
from coviews.errors import CoviewsError
from coviews.runs.settings import PretrainSettings
from coviews.runs.view_names import CHOOSE, CHOSEN_FIRST, POPULATION, SEARCHED_FIRST


def pretrain_command(
    settings: Annotated[PretrainSettings, tyro.conf.arg(name="")],
    *,
    method: MethodName = None,
    search: SearchName = None,
    preset: str | None = None,
    config: Path | None = None,
    resume: Path | None = None,
    auto_resume: bool = False,
    overwrite: bool = False,
    progress: bool = True,
    labels: Data = None,
    budget: str = "30m",
    pilot_epochs: Int = None,
    pilot_score: Text = None,
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
        auto_resume: Continue the run in --out if there is one, otherwise begin it: for jobs that are started again.
        overwrite: Replace a run that is in --out.
        progress: Show the progress.
        labels: A few labelled images, for --views choose: as for coviews choose.
        budget: The time that --views choose may take, such as 90s, 30m or 2h.
        pilot_epochs: Epochs of each pilot of --views selfrandaugment, selfaugment or population; by default a tenth of
            --epochs.
        pilot_score: What the pilots of --views population are judged by: rotation (the default, without labels) or knn.
    """
    if auto_resume:
        resume = _run_to_continue(settings, resume, overwrite)
    if labels is not None and (settings.views != CHOOSE or resume is not None):
        raise CoviewsError("--labels goes with --views choose: training itself needs none")
    if pilot_epochs is not None and (settings.views not in SEARCHED_FIRST or pilot_epochs < 1):
        raise CoviewsError(f"--pilot-epochs, a number from 1, goes with --views {' or '.join(SEARCHED_FIRST)}")
    if pilot_score is not None and settings.views != POPULATION:
        raise CoviewsError("--pilot-score goes with --views population")
    if settings.views in CHOSEN_FIRST and resume is None:
        pilots = {"epochs": pilot_epochs, **({"score": pilot_score} if pilot_score else {})}
        settings = _with_chosen_views(settings, labels, budget, pilots, overwrite, progress)
    from coviews.training.pretrain import pretrain as train

    train(settings=settings, resume=resume, overwrite=overwrite, progress=progress)


def _run_to_continue(settings: PretrainSettings, resume: Path | None, overwrite: bool) -> Path | None:
    """The run in --out, if there is one.

    Every process of a run looks for itself: none can write the run before all of them have begun.
    """
    if settings.out is None or resume is not None or overwrite or settings.views in CHOSEN_FIRST:
        raise CoviewsError(
            "--auto-resume needs --out, and does not go with --resume, --overwrite or views that are chosen first: "
            "run coviews choose before"
        )
    return settings.out if (settings.out / "config.yaml").exists() else None


def _with_chosen_views(
    settings: PretrainSettings,
    labels: str | None,
    budget: str,
    pilots: dict[str, Any],
    overwrite: bool,
    progress: bool,
) -> PretrainSettings:
    """The settings with views that are chosen first, in the run's folder."""
    from coviews.choosing.choose import choose
    from coviews.comparison.searches_first import search_first
    from coviews.runs.folder import CHOICE
    from coviews.training.lifecycle import default_folder

    s = settings
    out = s.out or default_folder(s)
    if (out / "config.yaml").exists() and not overwrite:
        raise CoviewsError(f"{out} holds a run: continue it with --resume {out}, choose another --out, or --overwrite")
    if s.views in SEARCHED_FIRST:
        return search_first(s, out, progress=progress, **pilots).replaced(out=out)
    choice = choose(
        s.data, labels=labels, budget=budget, matters=s.matters, ignores=s.ignores, forbid=s.forbid, cap=s.cap,
        keep=s.keep is None, channels=s.channels, seed=s.seed, data_root=s.data_root, cache=s.cache, out=out / CHOICE,
        progress=progress,
    )  # fmt: skip
    print(choice.decided.sentence)
    return s.replaced(views=str(choice.file), out=out)


starting_options = {"pretrain": starting_settings}
