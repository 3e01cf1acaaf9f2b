"""SelfAugment: subpolicies whose views are hard to match but keep what the encoder knows of up and down.

Reed et al., SelfAugment: Automatic Augmentation Policies for Self-Supervised Learning, CVPR 2021. As in Fast
AutoAugment, no encoder is trained with the policies that are tried. The images are divided into five folds. For each
fold, an encoder is trained with plain crops on the others, and then judges policies by their views of the fold. A trial
is five subpolicies of two operations; a search by Parzen estimators makes 200 of them, and the ten with the lowest

    L_rot / mean L_rot - L_ICL / mean L_ICL

are kept: L_rot is the loss of a linear probe for quarter turns, L_ICL that of contrastive learning (the paper's
minimax). All is done twice, so that the policy has 500 subpolicies.

Where the paper or its code is silent, or we do otherwise: encoders have a tenth of the epochs of the training; the
means are those of plain views of the images that are held out, over all folds; the probe is fitted, without gradient
descent, to plain views of up to 2,000 images that the encoder has seen; a trial sees up to 1,000 images of its fold;
InfoNCE is that of the training's method, in batches of its size; equal subpolicies are kept once. The paper's search
for a base augmentation is left out: it is always a random crop with a flip, as in the authors' code for this step.
"""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from coviews.boundary.json_text import read_json
from coviews.boundary.schema import Name, Schema
from coviews.comparison.held_out_losses import HeldOutLosses, PolicyLosses
from coviews.comparison.pilot_folder import PilotFolder
from coviews.console.progress import Display
from coviews.data.load import ImageSet
from coviews.encoders.method import build_method
from coviews.errors import CoviewsError
from coviews.files.atomic import write_whole
from coviews.methods.method import Method
from coviews.ops.space import Space
from coviews.ops.view_settings import ViewSettings, outside_colour
from coviews.policies.fixed import fitted_source
from coviews.policies.json_policies import range_space
from coviews.policies.listed import ListedPolicy, ListedStep
from coviews.runs.folder import Run
from coviews.runs.settings import PretrainSettings
from coviews.searching.parzen import Trial, propose
from coviews.training.pretrain import pretrain
from coviews.training.setup import fitting_batch, make_fabric, name_of_data
from coviews.training.signals import Stopped, StopRequest, listening

FOLDS, REPEATS, TRIALS, BEST = 5, 2, 200, 10
SUBPOLICIES, STEPS = 5, 2  # of a trial
MOST_IMAGES = 1000  # of a fold, in a trial
POLICY = "policy.json"
FOLD, SEARCH = 9, 10  # streams of random numbers
_SAVE_EVERY = 10  # trials


@dataclass(frozen=True)
class SelfAugmentChoice:
    """What the search found."""

    settings: PretrainSettings
    """The settings with the policy."""
    policy: ListedPolicy
    file: Path
    """Where the policy is."""
    plain: PolicyLosses
    """The mean losses of plain crops and flips."""
    best: PolicyLosses
    """The mean losses of the trials that are kept."""

    @property
    def sentence(self) -> str:
        """For a reader."""
        return (
            f"SelfAugment kept {len(self.policy.subpolicies)} subpolicies ({self.file}): with them the rotation loss "
            f"is {self.best.rotation:.2f} (plain crops {self.plain.rotation:.2f}), the contrastive loss "
            f"{self.best.contrast:.2f} ({self.plain.contrast:.2f})."
        )


def self_augment(
    settings: PretrainSettings,
    out: str | Path,
    *,
    epochs: int | None = None,
    folds: int = FOLDS,
    trials: int = TRIALS,
    repeats: int = REPEATS,
    best: int = BEST,
    progress: bool = True,
) -> SelfAugmentChoice:
    """Search for a policy without labels, by SelfAugment's minimax objective.

    Called again with the same folder it goes on where it was; the same seed gives the same policy.

    Args:
        settings: of the training that is to follow; its `space` has the operations, AutoAugment's by default.
        out: the folder for the encoders of the folds, the trials and the policy.
        epochs: of each encoder; by default a tenth of those of the training.
        folds: parts of the images, and encoders.
        trials: of each search.
        repeats: searches in each fold.
        best: trials of each search that are kept.
        progress: show what is going on.
    """
    if folds < 2 or repeats < 1 or not 1 <= best <= trials:
        raise CoviewsError("SelfAugment needs two folds or more, one search or more, and 1 to all of its trials kept")
    figures = {"folds": folds, "trials": trials, "repeats": repeats, "best": best}
    with PilotFolder.opened("SelfAugment", settings, out, epochs, figures, progress) as folder:
        search = _Search(folder, trials)
        with Display(progress) as display:
            display.line(
                f"SelfAugment: {folds} encoders of {folder.settings.epochs} epochs, then {repeats * folds} searches of "
                f"{trials} trials, in {folder.path}"
            )
        judges = [search.judge(fold, held_out, progress) for fold, held_out in enumerate(_folds(folder, folds))]
        plain = _mean([judge(search.plain) for judge in judges])
        kept: list[_Judged] = []
        with Display(progress) as display:
            for number in range(repeats * folds):
                repeat, fold = divmod(number, folds)
                title = f"SelfAugment: search {number + 1} of {repeats * folds}"
                judged = search.trials(repeat, fold, judges[fold], plain, display, title)
                kept += sorted(judged, key=lambda trial: trial.score(plain))[:best]  # stable: of equals the earlier
    subpolicies = dict.fromkeys(tuple(ListedStep(*step) for step in row) for trial in kept for row in trial.subpolicies)
    policy = ListedPolicy(tuple(subpolicies), space=search.space)
    losses = _mean([PolicyLosses(trial.rotation, trial.contrast) for trial in kept])
    file = Path(out) / POLICY
    described = {"plain_losses": dataclasses.asdict(plain), "losses": dataclasses.asdict(losses)}
    policy.save(file, {"search": "SelfAugment", "seed": settings.seed, **figures, **described})
    return SelfAugmentChoice(settings.replaced(views=str(file)), policy, file, plain, losses)


_Row = Annotated[list[tuple[Name, float, float]], msgspec.Meta(min_length=1)]


class _Judged(Schema):
    """A trial, and its losses."""

    subpolicies: list[_Row]
    rotation: float
    contrast: float

    def score(self, plain: PolicyLosses) -> float:
        """The objective, which is to be low."""
        return self.rotation / max(plain.rotation, 1e-6) - self.contrast / max(plain.contrast, 1e-6)


def _folds(folder: PilotFolder, count: int) -> list[NDArray[np.int64]]:
    """The indices of the images of each fold, in a random order."""
    images, batch = folder.images, folder.settings.batch_size
    least = len(images) - -(-len(images) // count)
    if least < batch * folder.settings.accumulate:
        raise CoviewsError(
            f"SelfAugment trains on all folds but one, which are {least} images here, fewer than a batch of {batch}: "
            f"give --batch-size {fitting_batch(least)}"
        )
    order = np.random.default_rng([folder.settings.seed, FOLD]).permutation(len(images))
    return [order[i::count] for i in range(count)]


def _trained(path: Path, settings: PretrainSettings, images: ImageSet, progress: bool) -> Method:
    """An encoder with its projector, trained on some images with plain crops, as far as it was not."""
    settings, run = settings.replaced(data=name_of_data(images)), Run(path, writes=False)
    if not run.encoder.exists():
        if (path / "config.yaml").exists():
            pretrain(images, settings=settings, resume=path, progress=progress)
        else:
            pretrain(images, settings=settings.replaced(out=path), progress=progress)
    method = build_method(settings.replaced(init_from=None), images, None)
    state = run.load()
    if state is None:
        raise CoviewsError(f"the run {path} has no checkpoint: remove it, and the same command trains it again")
    method.load_state_dict(state["method"])
    return method.to(make_fabric(settings).device)


class _Search:
    """What all searches share."""

    def __init__(self, folder: PilotFolder, count: int) -> None:
        s, images = folder.settings, folder.images.images
        self.folder, self.count = folder, count
        self.fits = images.shape[3], images.dtype
        self.space: Space = range_space(s.space)  # whole: the limits hold for the training, too
        self.ops = [op for op in s.limits.space(self.space, clip=True).fitting(*self.fits).ops if op != "Identity"]
        if not self.ops:
            raise CoviewsError("--matters and --forbid leave no operation to search for: allow some")
        self.views = ViewSettings.of(
            images, placement=s.placement, sizes=s.view_sizes, threads=s.threads, outside=outside_colour(images, s.fill)
        )
        self.plain = fitted_source(s.named_source("cropflip"), *self.fits)

    def judge(self, fold: int, held_out: NDArray[np.int64], progress: bool) -> HeldOutLosses:
        """Who judges the policies of a fold: an encoder that was trained on the others."""
        s, images = self.folder.settings, self.folder.images
        seen = images.subset(np.setdiff1d(np.arange(len(images)), held_out))
        method = _trained(self.folder.path / "folds" / str(fold), s, seen, progress)
        some = images.images[held_out[:MOST_IMAGES]]
        return HeldOutLosses(method, seen.images, some, self.views, self.plain, s.batch_size, s.seed + fold)

    def trials(
        self, repeat: int, fold: int, judge: HeldOutLosses, plain: PolicyLosses, display: Display, title: str
    ) -> list[_Judged]:
        """All trials of a search, from where an earlier call was stopped."""
        file, s, request = self.folder.path / f"trials-{repeat}-{fold}.json", self.folder.settings, StopRequest()
        judged = read_json(file, list[_Judged], "trials") if file.exists() else []
        made = [_trial(trial, self.ops) for trial in judged]
        with listening(request, display.line):
            while len(judged) < self.count:
                generator = np.random.default_rng([s.seed, SEARCH, repeat, fold, len(judged)])
                scores = [trial.score(plain) for trial in judged]
                made.append(propose(made, scores, generator, choices=len(self.ops), shape=(SUBPOLICIES, STEPS)))
                rows = _rows(made[-1], self.ops)
                policy = ListedPolicy(tuple(tuple(ListedStep(*step) for step in row) for row in rows), space=self.space)
                losses = judge(fitted_source(s.limits.source(policy), *self.fits))
                judged.append(_Judged(rows, losses.rotation, losses.contrast))
                display.update(title, len(judged), self.count, f"{len(judged)} of {self.count} trials")
                if request or len(judged) % _SAVE_EVERY == 0 or len(judged) == self.count:
                    content = json.dumps(msgspec.to_builtins(judged))
                    write_whole(file, content.encode())
                if request:
                    assert request.signal is not None
                    raise Stopped("", request.signal)
        best = min(trial.score(plain) for trial in judged)
        display.line(f"{title}: best of {len(judged)} trials {best:.3f} (plain crops 0.000)", always=False)
        return judged


def _rows(trial: Trial, ops: list[str]) -> list[_Row]:
    """A trial with the names of operations."""
    numbers = (trial.ops.tolist(), trial.probabilities.tolist(), trial.levels.tolist())
    return [[(ops[o], p, k) for o, p, k in zip(*row, strict=True)] for row in zip(*numbers, strict=True)]


def _trial(judged: _Judged, ops: list[str]) -> Trial:
    """The inverse of `_rows`."""
    rows = judged.subpolicies
    if {op for row in rows for op, _, _ in row} - {*ops} or {len(row) for row in rows} != {STEPS}:
        raise CoviewsError("the trials in this folder are of another search: choose another --out")
    indices = np.array([[ops.index(op) for op, _, _ in row] for row in rows])
    return Trial(indices, *(np.array([[step[i] for step in row] for row in rows]) for i in (1, 2)))


def _mean(losses: list[PolicyLosses]) -> PolicyLosses:
    rows = np.array([(each.rotation, each.contrast) for each in losses]).mean(0).tolist()
    return PolicyLosses(*rows)
