"""A training in memory: its parts, where it is, and how that is saved and restored."""

import contextlib
import dataclasses
import math
import signal
import time
import warnings
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from coviews.console.progress import Display
from coviews.data.stream import Stream
from coviews.encoders.method import build_method
from coviews.errors import CoviewsError
from coviews.methods.method import Losses, Method
from coviews.methods.view_networks import VIEW_NETWORKS
from coviews.ops.plan import Plan
from coviews.ops.space import space
from coviews.ops.view_settings import ViewSettings, outside_colour
from coviews.policies.fixed import fitted_source, operations_left_out
from coviews.policies.learned import AnyPolicy, load_policy
from coviews.policies.queue import PolicyQueue
from coviews.policies.schedule import Schedule
from coviews.policies.subpolicy import ViewSource
from coviews.runs.folder import Run
from coviews.runs.settings import PretrainSettings
from coviews.runs.settings_file import parse_settings, settings_yaml
from coviews.searching.contract import Search, SearchContext
from coviews.searching.known import make_search
from coviews.training.batches import Batches
from coviews.training.clock import Clock
from coviews.training.hard_views import HardViews
from coviews.training.journal import Journal
from coviews.training.keeping import REFERENCE, Keeping
from coviews.training.kept_classes import KeptClasses
from coviews.training.monitor import Monitor
from coviews.training.optimizers import make_optimizer, restore_optimizer
from coviews.training.pair_losses import PairLosses
from coviews.training.ranks import Ranks
from coviews.training.setup import first_source, load_data, stream_data, without_colour, without_mirror
from coviews.training.signals import Stopped, StopRequest
from coviews.training.viewmaking import Viewmaking

SEARCH, KEEPING = 3, 5  # streams of random numbers, besides those of the batches and of dropout

# where the training is; in a checkpoint by these names
_POSITION = ("epoch", "step", "total", "searched", "queued", "quality", "untrained")


class Training:
    """All that a training consists of: what the algorithm in `pretrain` works on, and what a checkpoint holds."""

    run: Run
    journal: Journal

    def __init__(
        self, settings: PretrainSettings, fabric: Fabric, display: Display, data: Any, module: nn.Module | None,
        *, resumed: bool = False,
    ) -> None:  # fmt: skip
        self.fabric, self.display, self.module = fabric, display, module
        self.stream: Stream | None = None
        self.stop_request = StopRequest()
        self.closing = contextlib.ExitStack()  # what is to be closed at the end
        with fabric.rank_zero_first(local=True):  # one process downloads or fills the cache, the others find it there
            show = fabric.is_global_zero and display.enabled
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                if settings.stream:  # what needs all images takes the stream's sample
                    stream, self.test = stream_data(settings, data, fabric.world_size, show)
                    self.stream, self.images = stream, stream.sample
                    self.closing.callback(stream.close)
                else:
                    self.images, self.test = load_data(settings, data, fabric.world_size, show)
        self.loading_warnings = [str(warning.message) for warning in caught]  # kept until there is a run to tell them
        _, height, width, channels = self.images.images.shape
        pixels = self.images.images.dtype
        if not resumed:  # a run goes on as it began
            settings = without_mirror(without_colour(settings, self.images), self.images)
        self.settings = settings = settings.for_images(channels, pixels, height)
        given_source = first_source(settings)
        self.first_source = fitted_source(given_source, channels, pixels)
        self.views = ViewSettings.of(
            self.images.images, placement=settings.placement, sizes=settings.view_sizes, threads=settings.threads,
            outside=outside_colour(self.images.images, settings.fill),
        )  # fmt: skip
        local = dataclasses.replace(
            self.views, placement=settings.local_placement, sizes=settings.local_sizes((height, width))
        )
        trained_on = self.images.images if self.stream is None else self.stream
        self.batches = Batches(
            trained_on, settings.batch_size, settings.seed, self.views, fabric.global_rank, fabric.world_size,
            local if local.sizes else None, settings.accumulate,
        )  # fmt: skip
        self.monitor = Monitor(self.images, self.test, self.views.mean, self.views.std, settings.seed)

        torch.manual_seed(settings.seed)  # of this process alone: pretrain gives the old state back
        self.bare: Method = build_method(settings, self.images, module, trains=True)
        self.keeping = self._make_keeping() if settings.keeping.weight else None
        trained = [p for p in self.bare.parameters() if p.requires_grad]
        trained += self.keeping.head.parameters() if self.keeping else []
        optimizer = make_optimizer(settings, trained)
        if fabric.world_size > 1 and fabric.device.type == "cuda":
            self.bare = nn.SyncBatchNorm.convert_sync_batchnorm(self.bare)
        self.method, self.optimizer = fabric.setup(self.bare, optimizer)
        if self.keeping is not None:
            self.keeping.set_up(fabric)
        self.ranks = Ranks(fabric, self.bare)
        if self.ranks.any(self.ranks.same(settings.precision) != settings.precision):
            raise CoviewsError("the machines of this run would choose different precisions: give --precision 32-true")
        changes = settings.views in VIEW_NETWORKS
        classes = KeptClasses(settings, self.images, self.batches) if settings.infomin_labels else None
        self.viewmaking = Viewmaking(settings, channels, self.views, fabric, classes) if changes else None

        self.queue = PolicyQueue(settings.queue_size, settings.queue_p)
        self.left_out = operations_left_out(given_source, self.first_source)
        self.search_space = settings.limits.space(space(settings.space_name)).fitting(channels, pixels)
        self.search = self._make_search() if settings.learns_views else None
        self.hard_views = HardViews(settings, self.ranks) if settings.views == "hardviews" else None

        self.epoch, self.step = 1, 0  # the next step to be done
        self.total = 0.0  # of this epoch's losses
        self.searched = 0  # the last epoch before which a search was made
        self.queued: list[int] = []  # the epochs of the policies in the queue, the newest first
        self.quality: dict[str, float] = {}  # the last look at the encoder
        self.untrained: dict[str, float] = {}  # the first look
        self.clock, self.saved = Clock(), time.perf_counter()

    def _make_keeping(self) -> Keeping:
        s, many = self.settings, dataclasses.replace(self.batches, size=REFERENCE)
        reference = many.plan(self.first_source, np.random.default_rng([s.seed, KEEPING]))
        return Keeping(s.keeping, self.bare.feature_count, reference)

    def _make_search(self) -> Search:
        s = self.settings
        score = PairLosses(self.ranks.pair_losses, self.images.images, self.views, self.fabric.device)
        context = SearchContext(
            kind=s.views, space=self.search_space, first_source=self.first_source,
            current_source=lambda: self.source, generator=lambda epoch: np.random.default_rng([s.seed, SEARCH, epoch]),
            score=score, chance=self.bare.chance, batch_size=s.batch_size, progress=self._search_progress,
            placement=s.placement,
        )  # fmt: skip
        return make_search(s.search, context)

    def _search_progress(self, done: int, total: int, text: str) -> None:
        self.clock("search")
        self.journal.search_progress(self.epoch, done, total, text)
        self.stop_if_asked()  # the search will be made anew

    @property
    def source(self) -> ViewSource:
        """What makes the views now."""
        if self.hard_views is not None:
            return self.hard_views.source(self.first_source)
        if isinstance(self.first_source, Schedule):
            return self.first_source.at((self.epoch - 1) / self.settings.epochs)
        return self.queue if len(self.queue) else self.first_source

    def start_epoch(self) -> None:
        """Make ready for the steps of an epoch, or for the rest of them."""
        self.clock.start_epoch()
        self.method.train()
        if self.hard_views is not None and self.step == 0:
            self.hard_views.before_epoch()

    def harder(self, views: list[Tensor], plan: Plan) -> tuple[list[Tensor], Plan]:
        """What is trained on: the views, the hardest pair of each image, or the views as a network changes them."""
        if self.hard_views is not None:
            return self.hard_views.pair(views, plan)
        return (views if self.viewmaking is None else self.viewmaking.views(views, self.epoch, self.step)), plan

    def change_weights(self, losses: Losses, rate: float) -> None:
        """One step of the optimisers, and of what follows the encoder, by the gradients so far; they begin anew."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.bare.after_step(losses)
        if self.viewmaking is not None:
            self.viewmaking.step()

    @property
    def listeners(self) -> list[Search | HardViews]:
        """Who learns from the losses of training."""
        search, hard = self.search, self.hard_views
        reads = self.settings.search.reads_training_losses
        return [*([search] if search and reads else []), *([hard] if hard and hard.crops else [])]

    def tell_listeners(self, plan: Plan, losses: Tensor) -> None:
        """Tell those who learn from training what was done to a batch, and the loss of each image (N,)."""
        for listener in self.listeners:
            listener.observe(plan, losses)

    def adopt(self, policy: AnyPolicy, objection: str | None) -> None:
        """Keep a policy and let it make views, unless there is an objection."""
        epoch = self.searched = self.epoch
        if objection is None:
            self.run.save_policy(epoch, policy)
            self.queue.push(policy)
            self.queued = [epoch, *self.queued][: self.settings.queue_size]
            return
        first = self.settings.search.first_source
        now = f"that of epoch {self.queued[0]} stays" if self.queued else f"views stay {first}"
        self.journal.warn(epoch, f"the policy searched for before epoch {epoch} is not used: {objection}; {now}")

    # ------------------------------------------------------------------------------------ stopping and saving

    def check(self, loss: float) -> None:
        """A loss that is no number ends the run; the last checkpoint is from before it."""
        if not math.isfinite(loss):
            kept = f"The checkpoint from before is kept: {self.run.checkpoint}" if self.run.checkpoint.exists() else ""
            raise CoviewsError(
                f"the loss is {loss} in epoch {self.epoch}, up to step {self.step} of {self.batches.steps}: the "
                f"training diverged. Start anew with a lower --lr (now {self.settings.base_lr:g}). {kept}".rstrip()
            )

    @property
    def save_due(self) -> bool:
        """Whether it is time for a checkpoint."""
        return time.perf_counter() - self.saved >= self.settings.save_every

    def stop_if_asked(self) -> None:
        """Save and end the run where a signal asked for it."""
        if self.ranks.any(bool(self.stop_request)):
            self.save()
            message = f"stopped in epoch {self.epoch}; continue with: coviews pretrain --resume {self.run.path}"
            raise Stopped(message, self.stop_request.signal or signal.SIGTERM)

    def save(self, keep: int | None = None) -> None:
        """Write the checkpoint, all that the rest of the run depends on; for good as that of the epoch `keep`."""
        self.clock("training")
        if not all(bool(torch.isfinite(p).all()) for p in self.bare.parameters()):
            self.check(math.nan)
        self.clock("saving")
        self.run.save(
            {
                "settings": settings_yaml(self.settings),
                "data": self._fingerprint,
                **{name: getattr(self, name) for name in _POSITION},
                "seconds": self.clock.seconds,
                "method": self.bare.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "precision": self.fabric._precision.state_dict(),  # the scale of half-precision gradients
                "search": _tensors(self.search.state_dict() if self.search else {}),
                "looks": _tensors({"neighbours": self.monitor.neighbours}),
                **({"keeping": self.keeping.state_dict()} if self.keeping else {}),
                **({"viewmaker": self.viewmaking.state_dict()} if self.viewmaking else {}),
                **({"hard views": _tensors(hard)} if (hard := self._hard_state) else {}),
                **({"broken": self.share_broken()} if self.stream is not None else {}),
            },
            keep,
        )
        self.clock("saving")
        self.saved = time.perf_counter()

    def restore(self, state: dict[str, Any]) -> None:
        """Continue where the checkpoint was saved."""
        try:
            other = parse_settings(state["settings"], str(self.run.checkpoint)).differences(self.settings)
            other.pop("epochs", None)  # of a run that is extended
            if other:
                raise ValueError(f"it is of a run with another {next(iter(other))}")
            if state["data"] != self._fingerprint:
                raise ValueError("the images are not those that it was trained on: some were added, removed or changed")
            self.bare.load_state_dict(state["method"])
            restore_optimizer(self.optimizer, state["optimizer"])
            self.fabric._precision.load_state_dict(state["precision"])
            for name in _POSITION:
                setattr(self, name, state[name])
            self.clock.seconds.update(state["seconds"])
            self.monitor.restore(state.get("looks", {}).get("neighbours"))  # version 0.1.0 kept none
            if self.search is not None:
                self.search.load_state_dict(state["search"])
            if self.keeping is not None:
                self.keeping.load_state_dict(state["keeping"])
            if self.viewmaking is not None:
                self.viewmaking.load_state_dict(state["viewmaker"])
            if self.hard_views is not None:
                self.hard_views.load_state_dict(state.get("hard views", {}))
            if self.stream is not None:
                for index, name, why in state["broken"]:
                    self.stream.broken[int(index)] = (str(name), str(why))
        except Exception as error:  # torch and NumPy raise anything for values that do not fit
            why = " ".join(str(error).split())[:200]
            raise CoviewsError(f"the checkpoint {self.run.checkpoint} does not fit this run: {why}") from error
        for epoch in reversed(self.queued):
            self.queue.push(load_policy(self.run.policy_path(epoch)))

    def share_broken(self) -> list[tuple[int, str, str]]:
        """Tell all processes which images of the stream each could not read: their indices, names, and why."""
        assert self.stream is not None
        for broken in self.ranks.all_of(dict(self.stream.broken)):
            self.stream.broken.update(broken)
        return [(index, *broken) for index, broken in sorted(dict(self.stream.broken).items())]

    @property
    def _hard_state(self) -> dict[str, Any]:
        return self.hard_views.state_dict() if self.hard_views else {}

    @property
    def _fingerprint(self) -> list[Any]:
        """What the images are known by: the run can go on only with the same."""
        return [*self.batches.images.shape, *self.views.mean, *self.views.std]

    def close(self) -> None:
        """Close the files."""
        self.closing.close()


def _tensors(state: dict[str, Any]) -> dict[str, Any]:
    """The same with tensors for arrays, as a checkpoint has them."""
    return {k: torch.from_numpy(v) if isinstance(v, np.ndarray) else v for k, v in state.items()}
