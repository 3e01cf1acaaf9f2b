"""`pretrain`: the paper's algorithm, from top to bottom.

Warm up; then, every K epochs, search for a policy whose views are hard for the encoder as it is now, put it into the
queue, and train on the views that the queue makes.
"""

import warnings
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import torch
from torch import Tensor, nn

from coviews.console.option_types import PretrainKeywords
from coviews.console.progress import Display
from coviews.encoders.frozen import seed_generators
from coviews.encoders.pixels import to_tensors
from coviews.errors import CoviewsError
from coviews.ops.plan import Plan
from coviews.runs.folder import Run
from coviews.runs.settings import FROM_PYTHON, PretrainSettings
from coviews.searching.contract import Search
from coviews.training.lifecycle import Pretrained, begin, finish
from coviews.training.monitor import embedding_spread
from coviews.training.schedule import learning_rate
from coviews.training.setup import final_settings, make_fabric, name_of_data
from coviews.training.signals import listening
from coviews.training.state import Training

DROPOUT = 4  # a stream of random numbers, besides those of the batches and the search
CHECK_EVERY = 20  # steps from one reading of the loss to the next on a GPU, which has to wait for it


def pretrain(
    data: Any = None,
    *,
    encoder: str | nn.Module | None = None,
    settings: PretrainSettings | None = None,
    resume: str | Path | None = None,
    overwrite: bool = False,
    progress: bool = True,
    **options: Unpack[PretrainKeywords],
) -> Pretrained:
    """Train an encoder on images, without labels.

    Args:
        data: anything that `load_images` takes, a torch Dataset of images too; without it the built-in images are
            taken, with the small encoder (the settings "demo").
        encoder: a name, or a module of your own that gives a vector for each image.
        settings: what `options` change; the defaults of PretrainSettings if none.
        resume: the folder of a run to continue; only where and how it is computed may be changed, and more `epochs`.
        overwrite: replace a run that is in `out`.
        progress: show what is going on.
        options: fields of `PretrainSettings`, and options of the method.
    """
    module = encoder if isinstance(encoder, nn.Module) else None
    changes: dict[str, Any] = {**options}
    if encoder is not None:
        changes["encoder"] = encoder if isinstance(encoder, str) else f"module {type(encoder).__name__}"
    if data is not None:
        changes["data"] = name_of_data(data)
    folder = Path(resume) if resume is not None else None
    settings = final_settings(settings, folder, changes, demo=data is None)
    fabric = make_fabric(settings)
    with torch.random.fork_rng(), Display(progress and fabric.is_global_zero) as display:
        images = settings.data if data is None or isinstance(data, str | Path) else data
        if isinstance(images, str) and images.startswith(FROM_PYTHON):
            raise CoviewsError(f"the run {resume} was made from {images}: give the same data again")
        has_checkpoint = folder is not None and Run(folder).checkpoint.exists()
        # where there is a checkpoint, the weights are in it
        start = settings.replaced(init_from=None) if has_checkpoint else settings
        try:
            training = Training(start, fabric, display, images, module, resumed=folder is not None)
            training.settings = training.settings.replaced(init_from=settings.init_from)
            try:
                begin(training, folder, overwrite)
                with listening(training.stop_request, display.line):
                    train(training)
                    return finish(training)
            finally:
                training.close()
        except RuntimeError as error:
            if fabric.global_rank and "Connection closed" in str(error):
                raise SystemExit(2) from None  # the first process has ended, and has said why
            raise


def train(t: Training, until: int | None = None) -> None:
    """The algorithm, from wherever the training is to its end, or to that of the epoch `until`."""
    s, last = t.settings, t.settings.epochs if until is None else until
    t.clock()
    if s.knn_every and t.epoch == 1 and t.step == 0 and not t.quality:
        measure_quality(t, 0)
    while t.epoch <= last:
        if t.search is not None and s.searches_at(t.epoch) and t.searched < t.epoch:
            search_policy(t, t.search)
        train_epoch(t)
        if s.knn_every and (t.epoch % s.knn_every == 0 or t.epoch == s.epochs):
            measure_quality(t, t.epoch)
        keep = t.epoch if s.keep_every and t.epoch % s.keep_every == 0 else None
        t.epoch, t.step, t.total = t.epoch + 1, 0, 0.0
        if t.ranks.any(t.save_due) or keep or t.epoch > last:
            t.save(keep)
        t.stop_if_asked()


def search_policy(t: Training, search: Search) -> None:
    """Learn a policy for the encoder as it is now, and put it into the queue if it is sound."""
    before = t.clock.seconds["search"]
    t.ranks.share_buffers()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        policy = t.ranks.same(search.before_epoch(t.epoch))
    for warning in caught:
        t.journal.warn(t.epoch, str(warning.message))
    if policy is None:
        t.searched = t.epoch
        return
    objection = search.objection(policy)
    t.adopt(policy, objection)
    t.clock("search")
    seconds = t.clock.seconds["search"] - before
    report = search.report()
    t.journal.search(t.epoch, policy, report, objection, t.queue, t.queued, seconds)
    if t.settings.search.encoder_passes:
        t.save()  # it took long: a kill should not cost it


def train_epoch(t: Training) -> None:
    """One epoch of contrastive learning."""
    s, b = t.settings, t.batches
    # beside an encoder on the CPU, views made ahead would only take its cores; and there, reading the loss is free
    ahead, check_every = (0, 1) if t.fabric.device.type == "cpu" else (2, CHECK_EVERY)
    observed: list[tuple[Plan, Tensor, Tensor]] = []  # since the loss was last read
    first = t.step
    t.start_epoch()
    for step, groups, plan in b.epoch(t.source, t.epoch, first, ahead=ahead):
        t.clock("waiting for views")
        drawn = np.random.SeedSequence([s.seed, DROPOUT, t.epoch, step, b.rank]).generate_state(1, np.uint64)[0]
        seed_generators(int(drawn >> 1), t.fabric.device)  # for encoders that drop parts, and noise
        tensors = [x for views in groups for x in to_tensors(views, t.views.mean, t.views.std, t.fabric.device)]
        tensors, plan = t.harder(tensors, plan)
        changes = (step + 1) % s.accumulate == 0
        with t.fabric.no_backward_sync(t.method, enabled=not changes):
            losses = t.method(tensors)  # called by another name, it would not have the run's precision
            loss = losses.each.mean()
            t.fabric.backward((loss + t.keeping.loss(losses, plan) if t.keeping else loss) / s.accumulate)
        if changes:
            rate = learning_rate(s, (t.epoch - 1) * b.steps + step, b.steps)
            t.change_weights(losses, rate)
        observed.append((plan, losses.each.detach(), loss.detach()))
        t.step = step + 1
        t.clock("training")
        alone_and_asked = b.ranks == 1 and (t.stop_request or t.save_due)
        if changes and (len(observed) >= check_every or t.step == b.steps or alone_and_asked):
            mean = read_losses(t, observed)
            t.journal.step(t.epoch, t.step, b.steps, mean, t.clock.pace((t.step - first) * b.size))
            t.clock("training")
            if t.step < b.steps:
                t.stop_if_asked()
                if t.ranks.any(t.save_due):
                    t.save()
    pace = t.clock.pace((t.step - first) * b.size)
    kept = t.keeping.end_epoch() if t.keeping else {}
    t.journal.epoch(t.epoch, t.total / b.steps, rate, embedding_spread(losses.embedding), pace, kept)


def read_losses(t: Training, observed: list[tuple[Plan, Tensor, Tensor]]) -> float:
    """Add the losses of the last steps to the epoch's, tell them to the search, and give their mean; empties the list.

    They are added one by one: the sum must not depend on how often they are read.
    """
    values = torch.stack([loss for _, _, loss in observed]).tolist()
    for value in values:
        t.total += value
    mean = sum(values) / len(values)
    t.check(mean)
    if t.listeners:
        each = torch.stack([each for _, each, _ in observed]).float().cpu()
        for (plan, _, _), losses in zip(observed, each, strict=True):
            t.tell_listeners(plan, losses)
    observed.clear()
    return mean


def measure_quality(t: Training, epoch: int) -> None:
    """Measure how good the encoder is."""
    if t.fabric.is_global_zero:
        t.display.update(f"epoch {epoch}: looking at the encoder", 0, 1, "")
        t.quality = t.monitor(t.bare.encoder, t.fabric.device)
    t.quality = t.ranks.same(t.quality)
    t.journal.look(epoch, t.quality, t.clock("looking"))
    t.untrained = t.quality if epoch == 0 else t.untrained
