"""How a run begins, and how it ends."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from torch import nn

from coviews.compat import keep_freed_memory, return_freed_memory
from coviews.data.imageset import Broken
from coviews.encoders.file import save_encoder
from coviews.errors import CoviewsError
from coviews.files.atomic import write_whole
from coviews.policies.learned import AnyPolicy
from coviews.report.write import write_report
from coviews.runs.folder import Run
from coviews.runs.settings import PretrainSettings
from coviews.runs.settings_file import settings_yaml
from coviews.training.check import check
from coviews.training.estimate import estimate_text, expected_seconds, trial_pace
from coviews.training.journal import Journal
from coviews.training.schedule import learning_rate
from coviews.training.state import Training
from coviews.training.trackers import check_trackers

SHORT = 60  # seconds up to which nobody asks how long a run will take


@dataclass(frozen=True)
class Pretrained:
    """What a run leaves."""

    path: Path  # of the run directory
    encoder: nn.Module
    policy: AnyPolicy | None  # the newest that makes views
    quality: dict[str, float]  # the last look at the encoder: kNN accuracy in percent, RankMe
    seconds: dict[str, float]  # where the time went

    def __repr__(self) -> str:
        quality = "".join(f", {name} {value:.3g}" for name, value in self.quality.items())
        return f"Pretrained({type(self.encoder).__name__}, in {self.path}{quality})"


def begin(t: Training, resume: Path | None, overwrite: bool) -> None:
    """Make the run's folder, or go on from its checkpoint."""
    s, writes, state = t.settings, t.fabric.is_global_zero, None
    check_trackers(s)
    if resume is None:
        path = s.out or default_folder(s)
        t.run = Run.create(t.ranks.same(path), s, overwrite=overwrite, writes=writes)
        t.closing.callback(t.run.close)
        t.fabric.barrier()
    else:
        t.run = Run.open(resume, writes=writes)
        t.closing.callback(t.run.close)
        state = t.run.load()
        if state is not None:
            t.restore(state)
        t.run.start_metrics(state["metrics"] if state else 0)  # drops lines: not before all is known to fit
    if t.fabric.device.type == "cpu" and t.stream is None:  # a stream is for those who have little memory
        keep_freed_memory()
        t.closing.callback(return_freed_memory)
    t.journal = Journal(s, t.run, t.display, from_epoch=t.epoch if resume else 0)
    t.closing.callback(t.journal.close)
    if resume is not None:
        where = f"epoch {t.epoch}, step {t.step}" if t.epoch <= s.epochs else "its end"
        t.display.line(f"continuing {resume} at {where}")
        _extend(t)
    if state is None:
        parameters = sum(p.numel() for p in t.bare.encoder.parameters())
        t.journal.start(
            t.images,
            t.views,
            parameters,
            t.batches.steps,
            t.monitor.images_judged,
            t.loading_warnings,
            t.left_out,
            None if t.stream is None else len(t.stream),
        )
        if t.images.broken and writes:
            _write_broken(t.run, t.images.broken)
        _say_estimate(t)


def _write_broken(run: Run, broken: Iterable[Broken]) -> None:
    lines = "".join(f"{name}\t{why}\n" for name, why in broken)
    write_whole(run.path / "broken.txt", lines.encode(errors="replace"))


def _extend(t: Training) -> None:
    """Note that a run gets more epochs than it had, and say what becomes of its learning rate."""
    s, before = t.settings, t.run.settings
    if s.epochs <= before.epochs:
        return
    steps, done = t.batches.steps, (t.epoch - 1) * t.batches.steps + t.step
    rate, old_rate = learning_rate(s, done, steps), learning_rate(before, min(done, before.epochs * steps), steps)
    t.journal.extension(t.epoch, before.epochs, rate, old_rate)
    if t.run.writes:
        t.run.encoder.unlink(missing_ok=True)  # its weights are in the checkpoint, and the run is unfinished
        write_whole(t.run.path / "config.yaml", settings_yaml(s).encode())


def _say_estimate(t: Training) -> None:
    """How long the run will take, from one trial step; on the CPU, where that may be very long."""
    if not t.display.enabled or t.fabric.device.type != "cpu" or t.ranks.count > 1:
        return
    t.display.update("trying one step", 0, 1, "")
    try:
        pace = trial_pace(t.settings, t.images, t.bare)
    except Exception:  # a module of the user's may not allow a copy; no estimate is worth an error
        return
    seconds = expected_seconds(t.settings, pace, len(t.batches.images), 0 if t.test is None else len(t.test))
    if seconds >= SHORT:
        t.display.line(estimate_text(t.settings, t.images, seconds))


def finish(t: Training) -> Pretrained:
    """Write the encoder and the report, and tell what came out."""
    s, (_, height, width, channels) = t.settings, t.images.images.shape
    if t.stream is not None:
        t.share_broken()
        if t.run.writes and (text := t.stream.broken_text()) is not None:
            t.display.line(f"warning: {text}")
            _write_broken(t.run, dict.fromkeys((*t.images.broken, *t.stream.broken_by_name())))
    if t.run.writes:
        save_encoder(
            t.run.encoder,
            t.bare.encoder,
            name=None if t.module is not None else s.encoder,
            image_size=(height, width),
            channels=channels,
            mean=t.views.mean,
            std=t.views.std,
            depth=t.images.depth,
            values=t.images.values,
        )
        if t.viewmaking is not None:
            t.viewmaking.bare.save(t.run.viewmaker)
        if s.knn_every:
            t.display.update("checking the encoder", 0, 1, "")
            t.display.line(check(t.run.path, t.images, encoder=t.bare.encoder, progress=False).sentence)
        if s.report:
            t.display.update("writing the report", 0, 1, "")
            try:
                write_report(t.run.path, images=t.images, method=t.bare)
            except CoviewsError as error:  # the encoder is what matters
                t.display.line(f"warning: no report: {error}")
    policy = t.run.policy_path(t.queued[0]) if t.queued else None
    seconds = t.clock.seconds
    t.journal.end(seconds, t.quality, t.untrained, t.monitor.images_judged, policy, t.module is not None)
    t.fabric.barrier()
    newest = t.queue.policies[0] if len(t.queue) else None
    return Pretrained(t.run.path, t.bare.encoder, newest, t.quality, dict(seconds))


def default_folder(settings: PretrainSettings) -> Path:
    """Where a run is, if its settings do not say it; another one each second."""
    return Path("runs") / f"{_short(settings.data)}-{_short(settings.views)}-{datetime.now():%Y%m%d-%H%M%S}"


def _short(name: str) -> str:
    return re.sub(r"[^\w%+-]+", "-", Path(name).stem if "/" in name else name).strip("-") or "run"
