"""`coviews pretrain`."""

from pathlib import Path
from typing import Annotated

import tyro

from coviews.cli.settings import MethodName, SearchName, starting_settings
from coviews.runs.settings import PretrainSettings


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
) -> None:
    """Train an encoder on images without labels, and learn the views on the way.

    Args:
        settings: What is trained.
        method: What learns from the views.
        search: How views are learned.
        preset: Named settings, such as paper-cifar10 or demo; the other options change them.
        config: A YAML file of settings, such as a run's config.yaml; the other options change them.
        resume: The folder of a run to continue, exactly as if it had not been interrupted.
        overwrite: Replace a run that is in --out.
        progress: Show what is going on.
    """
    from coviews.training.pretrain import pretrain as train

    train(settings=settings, resume=resume, overwrite=overwrite, progress=progress)


starting_options = {"pretrain": starting_settings}
