"""`pretrain`: the paper's algorithm, from top to bottom.

warm up; then, every K epochs, search for a policy that is hard for the encoder as it is now, put it into the queue, and
train on the views that the queue makes. (By table, the policy follows from training's own losses before every epoch.)
"""

import contextlib
import itertools
import math
import re
import signal
import time
import warnings
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from coviews.console.progress import Display
from coviews.encoders.file import save_encoder
from coviews.encoders.frozen import evaluating
from coviews.encoders.method import build_method
from coviews.encoders.pixels import to_tensors
from coviews.errors import CoviewsError
from coviews.files.atomic import write_whole
from coviews.methods.gather import gathered
from coviews.methods.method import Method
from coviews.ops.view_settings import ViewSettings
from coviews.policies.learned import AnyPolicy, Policy, load_policy
from coviews.policies.queue import PolicyQueue
from coviews.policies.subpolicy import Subpolicies, ViewSource
from coviews.report.write import write_report
from coviews.runs.folder import Run
from coviews.runs.presets import PRESETS
from coviews.runs.settings import FROM_PYTHON, PretrainSettings, parse_settings
from coviews.searching.guards import objection
from coviews.searching.loss_table import LossTable
from coviews.searching.ppo import SearchStep
from coviews.training.batches import Batches
from coviews.training.clock import Laps
from coviews.training.journal import Journal
from coviews.training.monitor import Look
from coviews.training.search import search
from coviews.training.setup import fixed_source, load_data, make_fabric
from coviews.training.signals import Asked, Stopped, listening
from coviews.training.trackers import check_trackers

SEARCH, DROPOUT = 3, 4  # streams of random numbers, besides those of the batches
CHECK = 20  # steps from one look at the loss to the next: looking makes a GPU wait


@dataclass(frozen=True)
class Pretrained:
    """What a run leaves."""

    path: Path  # of the run directory
    encoder: nn.Module
    policy: AnyPolicy | None  # the newest that makes views
    quality: dict[str, float]  # the last look at the encoder: kNN accuracy in percent, RankMe
    seconds: dict[str, float]  # where the time went


def pretrain(
    data: Any = None,
    *,
    encoder: str | nn.Module | None = None,
    settings: PretrainSettings | None = None,
    resume: str | Path | None = None,
    overwrite: bool = False,
    progress: bool = True,
    **options: Any,
) -> Pretrained:
    """Train an encoder on images without labels, and learn the views on the way.

    Args:
        data: anything that `load_images` takes, a torch Dataset of images too; without it the built-in images are
            taken, with the small encoder (the settings "demo").
        encoder: a name, or a module of your own that gives a vector for each image.
        settings: what `options` change; the defaults of PretrainSettings if none.
        resume: the folder of a run to continue; nothing but where and how it is computed may be changed.
        overwrite: replace a run that is in `out`.
        progress: show what is going on.
        options: fields of `PretrainSettings`.
    """
    if isinstance(encoder, str):
        options["encoder"] = encoder
    elif encoder is not None:
        options["encoder"] = f"module {type(encoder).__name__}"
    if data is not None:
        options["data"] = _name(data)
    if resume is not None:
        before = Run.open(Path(resume), writes=False).settings
        chosen = (settings or before).replaced(**options, out=Path(resume))
        changed = before.differences(chosen)
        if changed:
            raise CoviewsError(
                f"the run {resume} has another {changed[0]} ({getattr(before, changed[0])!r}, not "
                f"{getattr(chosen, changed[0])!r}): continue it as it is, or start a new one"
            )
    else:
        default = PretrainSettings() if data is not None else PRESETS["demo"]
        chosen = (settings or default).replaced(**options)
    fabric = make_fabric(chosen)
    with torch.random.fork_rng(), Display(progress and fabric.is_global_zero) as display:
        module = encoder if isinstance(encoder, nn.Module) else None
        source = chosen.data if data is None or isinstance(data, str | Path) else data
        if isinstance(source, str) and source.startswith(FROM_PYTHON):
            raise CoviewsError(f"the run {resume} was made from {source}: give the same data again")
        folder = Path(resume) if resume is not None else None
        fresh = folder is None or not Run(folder).checkpoint.exists()
        start = chosen if fresh else chosen.replaced(init_from=None)  # its weights are in the checkpoint
        try:
            trainer = Trainer(start, fabric, display, source, module)
            trainer.settings = chosen
            try:
                trainer.open(folder, overwrite)
                with listening(trainer.asked):
                    return trainer.run_through()
            finally:
                trainer.close()
        except RuntimeError as error:
            if fabric.global_rank and "Connection closed" in str(error):
                raise SystemExit(2) from None  # the first process has ended, and has said why
            raise


class Trainer:
    """A run in memory: what `train` moves, and what a checkpoint holds."""

    def __init__(
        self,
        settings: PretrainSettings,
        fabric: Fabric,
        display: Display,
        data: Any,
        module: nn.Module | None,
    ) -> None:
        self.settings, self.fabric, self.display, self.module = settings, fabric, display, module
        self.asked = Asked()
        self.closing = contextlib.ExitStack()  # what is to be let go of at the end
        with fabric.rank_zero_first(local=True):  # one process downloads or fills the cache, the others find it there
            shown = fabric.is_global_zero and display.enabled
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                self.images, self.test = load_data(settings, data, fabric.world_size, shown)
        self.said = [str(warning.message) for warning in said]  # told when there is a run to keep it with
        area = settings.crop_area if settings.crop else None
        flip = 0.5 if settings.flip else 0.0
        self.views = ViewSettings.of(self.images.images, crop=area, flip=flip, threads=settings.threads)
        self.batches = Batches(
            self.images.images, settings.batch_size, settings.seed, self.views, fabric.global_rank, fabric.world_size
        )
        self.look_at = Look(self.images, self.test, self.views.mean, self.views.std, settings.seed)

        torch.manual_seed(settings.seed)  # of this process alone: pretrain gives the old state back
        self.bare: Method = build_method(settings, self.images, module)
        trained = [p for p in self.bare.parameters() if p.requires_grad]
        optimizer = torch.optim.SGD(
            trained, settings.lr, momentum=settings.sgd_momentum, weight_decay=settings.weight_decay
        )
        if fabric.world_size > 1 and fabric.device.type == "cuda":
            self.bare = nn.SyncBatchNorm.convert_sync_batchnorm(self.bare)
        self.method, self.optimizer = fabric.setup(self.bare, optimizer)
        self.method.mark_forward_method("losses")

        self.queue = PolicyQueue(settings.queue_size, settings.queue_p)
        self.warmup = settings.first_source()
        self.table = self._table() if settings.by_table else None
        self.fixed = fixed_source(settings)
        self.epoch, self.step = 1, 0  # the next step to be done
        self.searched = 0  # the last epoch before which a search was made
        self.queued: list[int] = []  # the epochs of the policies in the queue, the newest first
        self.total = 0.0  # of this epoch's losses
        self.quality: dict[str, float] = {}
        self.untrained: dict[str, float] = {}  # the first look
        self.laps, self.saved = Laps(), time.perf_counter()

    @property
    def source(self) -> ViewSource:
        """Who makes the views now."""
        return self.fixed or (self.queue if len(self.queue) else self.warmup)

    # ------------------------------------------------------------------------------------------ the algorithm

    def run_through(self) -> Pretrained:
        """From wherever the run is to its end."""
        s = self.settings
        self.laps()
        if s.knn_every and self.epoch == 1 and self.step == 0 and not self.quality:
            self.look(0)
        while self.epoch <= s.epochs:
            if s.searches_at(self.epoch) and self.searched < self.epoch:
                self.search() if self.table is None else self.fit(self.table)
            self.train()
            if s.knn_every and (self.epoch % s.knn_every == 0 or self.epoch == s.epochs):
                self.look(self.epoch)
            keep = self.epoch if s.keep_every and self.epoch % s.keep_every == 0 else None
            self.epoch, self.step, self.total = self.epoch + 1, 0, 0.0
            if self.agreed(self.due) or keep or self.epoch > s.epochs:
                self.save(keep)
            self.stop_if_asked()
        return self.finish()

    def search(self) -> None:
        """Learn a policy for the encoder as it is now, and put it into the queue if it is sound."""
        s, epoch, spent = self.settings, self.epoch, 0.0
        history: list[SearchStep] = []
        start = self.queue.policies[0] if len(self.queue) else None
        self.share_buffers()

        def on_step(step: SearchStep) -> None:
            nonlocal spent
            history.append(step)
            spent += self.laps("search")
            self.journal.search_step(epoch, step)
            self.stop_if_asked()  # the search will be made anew

        with evaluating(self.bare), self.fabric.autocast(), warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            policy = search(
                self.images.images,
                losses=self.pair_losses,
                generator=np.random.default_rng([s.seed, SEARCH, epoch]),
                kind=s.views,
                source=self.source,
                settings=s.search,
                space_name=s.space_name,
                start=start if s.warm_start and isinstance(start, Policy) else None,
                views=self.views,
                chance=self.bare.chance(s.search.batch),
                device=self.fabric.device,
                on_step=on_step,
            )
        policy.network.flat[:] = self.fabric.broadcast(policy.network.flat)
        refused = self.adopt(policy, said)
        self.journal.search(epoch, policy, history, refused, self.queue, self.queued, spent + self.laps("search"))
        self.save()

    def fit(self, table: LossTable) -> None:
        """Learn a policy from what training has seen, and put it into the queue if it is sound."""
        epoch = self.epoch
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            policy = table.policy(np.random.default_rng([self.settings.seed, SEARCH, epoch]))
        policy = self.fabric.broadcast(policy)  # to the last bit the same on all
        refused = self.adopt(policy, said)
        self.journal.fit(epoch, policy, refused, self.queue, self.queued, self.laps("search"))

    def adopt(self, policy: AnyPolicy, said: list[warnings.WarningMessage]) -> str | None:
        """Keep a policy and let it make views; or the reason why not."""
        epoch = self.epoch
        for warning in said:
            self.journal.warn(epoch, str(warning.message))
        refused = objection(policy)
        if refused is None:
            self.run.save_policy(epoch, policy)
            self.queue.push(policy)
            self.queued = [epoch, *self.queued][: self.settings.queue_size]
        else:
            first = f"{self.settings.prior if self.table is not None else 'random'}"
            kept = f"that of epoch {self.queued[0]} stays" if self.queued else f"views stay {first}"
            self.journal.warn(epoch, f"the policy searched for before epoch {epoch} is not used: {refused}; {kept}")
        self.searched = epoch
        return refused

    def train(self) -> None:
        """One epoch of contrastive learning."""
        s, b = self.settings, self.batches
        # beside an encoder on the CPU, views made ahead would only take its cores; and there, looking is free
        ahead, check = (0, 1) if self.fabric.device.type == "cpu" else (2, CHECK)
        recent: list[Tensor] = []
        seen: list[tuple[Subpolicies, Tensor]] = []  # what the table has not been told yet
        first = self.step
        self.laps.start_epoch()
        self.method.train()
        for step, views, done in b.epoch(self.source, self.epoch, first, ahead=ahead):
            self.laps("waiting for views")
            torch.manual_seed(_seed(s.seed, DROPOUT, self.epoch, step, b.rank))  # for encoders that drop parts
            tensors = to_tensors(views, self.views.mean, self.views.std, self.fabric.device)
            x1, x2 = tensors if len(tensors) == 2 else self.hardest(tensors)
            rate = learning_rate(s, (self.epoch - 1) * b.steps + step, b.steps)
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            losses = self.method.losses(x1, x2)
            loss = losses.each.mean()
            self.optimizer.zero_grad()
            self.fabric.backward(loss)
            self.optimizer.step()
            self.bare.after_step(losses)

            recent.append(loss.detach())
            if self.table is not None:
                seen.append((done, losses.each.detach()))
            self.step = step + 1
            self.laps("training")
            if len(recent) == check or self.step == b.steps or (b.ranks == 1 and (self.asked or self.due)):
                values = torch.stack(recent).tolist()
                recent.clear()
                for value in values:  # one by one: the sum does not depend on when somebody looked
                    self.total += value
                mean = sum(values) / len(values)
                self.check(mean)
                self.remember(seen)
                self.journal.step(self.epoch, self.step, b.steps, mean, self.laps.pace((self.step - first) * b.size))
                self.laps("training")
                if self.step < b.steps:
                    self.stop_if_asked()
                    if self.agreed(self.due):
                        self.save()
        pace = self.laps.pace((self.step - first) * b.size)
        self.journal.epoch(self.epoch, self.total / b.steps, rate, _spread(losses.embedding), pace)

    def remember(self, seen: list[tuple[Subpolicies, Tensor]]) -> None:
        """Tell the table what was done to every pair of the last steps, and its loss; `seen` is emptied."""
        if self.table is not None:
            for (done, _), losses in zip(seen, torch.stack([each for _, each in seen]).float().cpu(), strict=True):
                self.table.add(done, losses)
            seen.clear()

    def hardest(self, views: list[Tensor]) -> tuple[Tensor, Tensor]:
        """Of several views of each image, the pair with the highest loss."""
        b = self.batches
        self.share_buffers()
        mine = slice(b.rank * len(views[0]), (b.rank + 1) * len(views[0]))
        with evaluating(self.bare), self.fabric.autocast():
            each = zip(*(e.chunk(len(views)) for e in self.bare.embed(torch.cat(views))), strict=True)
            embedded = [tuple(gathered(e) for e in view) for view in each]
            pairs = list(itertools.combinations(range(len(views)), 2))
            losses = torch.stack([self.bare.compare(embedded[i], embedded[j])[mine] for i, j in pairs])  # (P, n)
        chosen = torch.tensor(pairs, device=losses.device)[losses.argmax(0)]  # (n, 2)
        every, stacked = torch.arange(len(chosen), device=losses.device), torch.stack(views)  # (V, n, C, H, W)
        return stacked[chosen[:, 0], every], stacked[chosen[:, 1], every]

    def pair_losses(self, x1: Tensor, x2: Tensor) -> Tensor:
        """The loss of each pair of a search's batch, the encoder's work shared among the ranks."""
        b = self.batches
        if len(x1) % b.ranks:  # it cannot be shared evenly
            halves = [e.chunk(2) for e in self.bare.embed(torch.cat([x1, x2]))]
            return self.fabric.broadcast(self.bare.compare(*zip(*halves, strict=True)))
        share = len(x1) // b.ranks
        mine = slice(b.rank * share, (b.rank + 1) * share)
        halves = [e.chunk(2) for e in self.bare.embed(torch.cat([x1[mine], x2[mine]]))]
        one, two = (tuple(gathered(half[i]) for half in halves) for i in (0, 1))
        return self.fabric.broadcast(self.bare.compare(one, two))  # to the last bit the same on all

    def share_buffers(self) -> None:
        """All ranks have the first one's BatchNorm statistics, which are those of the checkpoint."""
        if self.batches.ranks > 1:
            for buffer in self.bare.buffers():
                torch.distributed.broadcast(buffer, 0)

    # -------------------------------------------------------------------------------- watching, saving, stopping

    def look(self, epoch: int) -> None:
        """How good is the encoder?"""
        if self.fabric.is_global_zero:
            self.display.update(f"epoch {epoch}: looking at the encoder", 0, 1, "")
            self.quality = self.look_at(self.bare.encoder, self.fabric.device)
        self.quality = self.fabric.broadcast(self.quality)
        self.journal.look(epoch, self.quality, self.laps("looking"))
        self.untrained = self.quality if epoch == 0 else self.untrained

    def check(self, loss: float) -> None:
        """A loss that is no number ends the run; the last checkpoint is from before it."""
        if not math.isfinite(loss):
            kept = f"The checkpoint from before is kept: {self.run.checkpoint}" if self.run.checkpoint.exists() else ""
            raise CoviewsError(
                f"the loss is {loss} in epoch {self.epoch}, up to step {self.step} of {self.batches.steps}: the "
                f"training diverged. Start anew with a lower --lr (now {self.settings.lr:g}). {kept}".rstrip()
            )

    @property
    def due(self) -> bool:
        """Whether it is time for a checkpoint."""
        return time.perf_counter() - self.saved >= self.settings.save_every

    def agreed(self, flag: bool) -> bool:
        """Whether any rank says so: all must do the same."""
        if self.batches.ranks == 1:
            return flag
        flags = torch.tensor([float(flag)], device=self.fabric.device)
        return bool(gathered(flags).any())

    def stop_if_asked(self) -> None:
        """Save and end the run where a signal asked for it."""
        if self.agreed(bool(self.asked)):
            self.save()
            how = f"stopped in epoch {self.epoch}; continue with: coviews pretrain --resume {self.run.path}"
            raise Stopped(how, self.asked.signal or signal.SIGTERM)

    def open(self, resume: Path | None, overwrite: bool) -> None:
        """Make the run's folder, or go on from its checkpoint."""
        s, writes, state = self.settings, self.fabric.is_global_zero, None
        check_trackers(s)
        if resume is None:
            path = s.out or Path("runs") / f"{_short(s.data)}-{_short(s.views)}-{datetime.now():%Y%m%d-%H%M%S}"
            self.run = Run.create(self.fabric.broadcast(path), s, overwrite=overwrite, writes=writes)
            self.closing.callback(self.run.close)
            self.fabric.barrier()
        else:
            self.run = Run.open(resume, writes=writes)
            self.closing.callback(self.run.close)
            state = self.run.load()
            if state is not None:
                self.restore(state)
            self.run.start_metrics(state["metrics"] if state else 0)  # drops lines: not before all is known to fit
        self.journal = Journal(s, self.run, self.display, from_epoch=self.epoch if resume else 0)
        self.closing.callback(self.journal.close)
        if resume is not None:
            where = f"epoch {self.epoch}, step {self.step}" if self.epoch <= s.epochs else "its end"
            self.display.line(f"continuing {resume} at {where}")
        if state is None:
            parameters = sum(p.numel() for p in self.bare.encoder.parameters())
            self.journal.start(self.images, self.views, parameters, self.batches.steps, self.look_at.what, self.said)
            if self.images.broken and writes:
                lines = "".join(f"{name}\t{why}\n" for name, why in self.images.broken)
                write_whole(self.run.path / "broken.txt", lines.encode(errors="replace"))

    @property
    def data_seen(self) -> list[Any]:
        """What the images are known by: the run can go on only with the same."""
        return [*self.images.images.shape, *self.views.mean, *self.views.std]

    def save(self, keep: int | None = None) -> None:
        """Write the checkpoint: all that the rest of the run depends on."""
        self.laps("training")
        if not all(bool(torch.isfinite(p).all()) for p in self.bare.parameters()):
            self.check(math.nan)
        self.laps("saving")
        self.run.save(
            {
                "settings": self.settings.to_yaml(),
                "data": self.data_seen,
                "epoch": self.epoch,
                "step": self.step,
                "total": self.total,
                "searched": self.searched,
                "queued": self.queued,
                "quality": self.quality,
                "untrained": self.untrained,
                "seconds": self.laps.seconds,
                "method": self.bare.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "precision": self.fabric._precision.state_dict(),  # the scale of half-precision gradients
                "table": self._table_state(),
            },
            keep,
        )
        self.laps("saving")
        self.saved = time.perf_counter()

    def restore(self, state: dict[str, Any]) -> None:
        """Be where the checkpoint was saved."""
        try:
            other = parse_settings(state["settings"], str(self.run.checkpoint)).differences(self.settings)
            if other:
                raise ValueError(f"it is of a run with another {other[0]}")
            if state["data"] != self.data_seen:
                raise ValueError("the images are not those that it was trained on: some were added, removed or changed")
            self.bare.load_state_dict(state["method"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.fabric._precision.load_state_dict(state["precision"])
            for name in ("epoch", "step", "total", "searched", "queued", "quality", "untrained"):
                setattr(self, name, state[name])
            self.laps.seconds.update(state["seconds"])
            if self.table is not None:
                self.table.load_state_dict(state["table"])
        except (KeyError, RuntimeError, TypeError, ValueError) as error:
            why = " ".join(str(error).split())[:200]
            raise CoviewsError(f"the checkpoint {self.run.checkpoint} does not fit this run: {why}") from error
        for epoch in reversed(self.queued):
            self.queue.push(load_policy(self.run.policy_path(epoch)))

    def _table(self) -> LossTable:
        s = self.settings
        return LossTable(
            self.warmup, kind=s.views, settings=s.search.table, reward=s.search.reward,
            chance=self.bare.chance(s.batch_size),
        )  # fmt: skip

    def _table_state(self) -> dict[str, Any] | None:
        if self.table is None:
            return None
        state = self.table.state_dict()
        return {k: torch.from_numpy(v) if isinstance(v, np.ndarray) else v for k, v in state.items()}

    def finish(self) -> Pretrained:
        """Write the encoder, and tell what came out."""
        s, (_, height, width, channels) = self.settings, self.images.images.shape
        if self.run.writes:
            save_encoder(
                self.run.encoder,
                self.bare.encoder,
                name=None if self.module is not None else s.encoder,
                image_size=(height, width),
                channels=channels,
                mean=self.views.mean,
                std=self.views.std,
            )
            if s.report:
                self.display.update("writing the report", 0, 1, "")
                try:
                    write_report(self.run.path, images=self.images, method=self.bare)
                except CoviewsError as error:  # the encoder is what matters
                    self.display.line(f"warning: no report: {error}")
        policy = self.run.policy_path(self.queued[0]) if self.queued else None
        seconds = self.laps.seconds
        self.journal.end(seconds, self.quality, self.untrained, self.look_at.what, policy, self.module is not None)
        self.fabric.barrier()
        newest = self.queue.policies[0] if len(self.queue) else None
        return Pretrained(self.run.path, self.bare.encoder, newest, self.quality, dict(seconds))

    def close(self) -> None:
        """Let go of the files."""
        self.closing.close()


def learning_rate(settings: PretrainSettings, step: int, steps: int) -> float:
    """At a step counted through the whole run: a linear rise, then a cosine to zero."""
    total, peak = settings.epochs * steps, settings.lr * settings.batch_size / 256
    rise = min(settings.lr_warmup_epochs, settings.epochs / 10) * steps
    if step < rise:
        return peak * (step + 1) / (rise + 1)
    return peak * (1 + math.cos(math.pi * (step - rise) / (total - rise))) / 2


def _name(data: Any) -> str:
    """What the settings call the data; a path that looks like the name of a data set stays a path."""
    if isinstance(data, Path):
        return str(data) if data.is_absolute() else f"./{data}"
    return data if isinstance(data, str) else f"{FROM_PYTHON}{type(data).__name__}"


def _spread(embedding: Tensor) -> float:
    """Of unit vectors: about 1 where they point in all directions, 0 where all are the same."""
    return float(embedding.std(0).mean() * math.sqrt(embedding.shape[1]))


def _seed(*numbers: int) -> int:
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)


def _short(name: str) -> str:
    return re.sub(r"[^\w%+-]+", "-", Path(name).stem if "/" in name else name).strip("-") or "run"
