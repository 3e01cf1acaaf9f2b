"""`LearnViews`: a Lightning callback that learns the views while `trainer.fit` trains."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from coviews.errors import CoviewsError
from coviews.policies.fixed import fitted_source
from coviews.policies.subpolicy import ViewSource
from coviews.policies.tilted import Effects, Tilt, TiltedPolicy
from coviews.searching.loss_table import LossTable, TableSettings
from coviews.searching.table_search import TableSearch
from coviews.transforms.views import ViewBatch, Views

try:
    from lightning.pytorch import Callback
except ImportError:
    try:
        from pytorch_lightning import Callback
    except ImportError as error:
        raise CoviewsError("LearnViews needs Lightning: pip install lightning") from error


class LearnViews(Callback):
    """Learns from the losses of training which views are hard, and makes the next epoch's views harder.

        views = Views("uniform", size=32)
        loader = DataLoader(dataset, batch_size=256, collate_fn=views.collate)
        Trainer(callbacks=[LearnViews(views)]).fit(module, loader)

    `training_step` gets a `ViewBatch` (`x1, x2 = batch`) and returns `{"loss": losses.mean(), "losses": losses}` with a
    loss for each pair. The table of losses and the policy are in Lightning's checkpoints. With several devices each
    process learns from its own losses, and a checkpoint has what the first one learned.

    Args:
        views: whose `collate` makes the batches; its source is the prior, and is replaced by what is learned.
        warmup_epochs: with the views of the prior.
        kind: `coviews`, pairs are chosen, or `indepviews`, each view on its own.
        settings: how the table is fitted, and how far the policy goes.
        chance: the loss of views that lost their image; by default that of InfoNCE in the batch.
        seed: of what is drawn to fit the policies.
    """

    def __init__(
        self,
        views: Views,
        *,
        warmup_epochs: int = 4,
        kind: str = "coviews",
        settings: TableSettings | None = None,
        chance: float | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if settings is not None and settings.crops:
            raise CoviewsError("LearnViews does not choose crops: leave out TableSettings(crops=True)")
        self.views, self.prior, self.warmup_epochs, self.seed = views, views.source, warmup_epochs, seed
        self._options: dict[str, Any] = {"kind": kind, "settings": settings, "chance": chance}
        LossTable(self.prior, **self._options)  # an error now rather than after the first step
        self._images: tuple[int, str] | None = None  # channels and type of the images, known from the first batch
        self.table: LossTable | None = None
        self.policy: TiltedPolicy | None = None  # the last one that makes views

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Refuse workers that would go on making the first views."""
        if getattr(trainer.train_dataloader, "persistent_workers", False):
            raise CoviewsError("LearnViews cannot reach workers that live on: leave out persistent_workers=True")

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Learn the views of this epoch."""
        if self.table is None or trainer.current_epoch < self.warmup_epochs:
            return
        policy = self.table.policy(np.random.default_rng([self.seed, trainer.current_epoch]))
        if TableSearch.objection(policy) is None:
            self.policy = self.views.source = policy
        self.log("hardness of views", policy.statistics["hardness"])

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Remember what was done to each pair, and its loss."""
        if not isinstance(batch, ViewBatch):
            raise CoviewsError(f"LearnViews needs DataLoader(collate_fn=views.collate), not {type(batch).__name__}")
        if not isinstance(outputs, Mapping) or "losses" not in outputs:
            raise CoviewsError(
                'LearnViews needs the loss of each pair: let training_step return {"loss": losses.mean(), '
                '"losses": losses}'
            )
        if self.table is None:
            self._start(batch.views[0].shape[1], batch.dtype.name)
            assert self.table is not None
        self.table.add(batch.plan, outputs["losses"])

    def state_dict(self) -> dict[str, Any]:
        """The table and the policy: numbers and tensors."""
        if self.table is None or self._images is None:
            return {}
        policy = {} if self.policy is None else _policy_state(self.policy)
        return {"images": list(self._images), "table": self.table.state_dict(), "policy": policy}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on with the table and the views of a checkpoint."""
        if not state_dict:
            return
        prior = self._start(*state_dict["images"])
        assert self.table is not None
        self.table.load_state_dict(state_dict["table"])
        if state_dict["policy"]:
            self.policy = self.views.source = _policy(prior, self.table.kind, state_dict["policy"])

    def _start(self, channels: int, dtype: str) -> ViewSource:
        """A table for such images; gives its prior."""
        self._images = (channels, dtype)
        prior = fitted_source(self.prior, channels, np.dtype(dtype))
        self.table = LossTable(prior, **self._options)
        return prior


def _policy_state(policy: TiltedPolicy) -> dict[str, Any]:
    tilt, effects = policy.tilt, policy.effects
    return {
        "steps": torch.from_numpy(effects.steps.copy()), "pairs": torch.from_numpy(effects.pairs.copy()),
        "constant": effects.constant, "tilt": [tilt.rise, tilt.fall, tilt.bound, tilt.top], "keep": policy.keep,
        "accepted": policy.accepted,
    }  # fmt: skip


def _policy(prior: ViewSource, kind: str, state: dict[str, Any]) -> TiltedPolicy:
    effects = Effects(state["steps"].numpy(), state["pairs"].numpy(), state["constant"])
    return TiltedPolicy(prior, kind, effects, Tilt(*state["tilt"]), state["keep"], state["accepted"])
