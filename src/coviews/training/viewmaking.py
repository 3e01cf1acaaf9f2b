"""A network that makes views in a training: it changes those of every step, and learns from the encoder's losses."""

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor

from coviews.methods.view_network import against
from coviews.methods.view_networks import make_view_network
from coviews.ops.view_settings import ViewSettings
from coviews.runs.settings import PretrainSettings
from coviews.training.kept_classes import KeptClasses


class Viewmaking:
    """The network, its optimiser, and how normalised views become pixels.

    One backward pass gives the gradients of both: the encoder's lower the loss, the network's raise it.
    """

    def __init__(
        self,
        settings: PretrainSettings,
        channels: int,
        views: ViewSettings,
        fabric: Fabric,
        classes: KeptClasses | None = None,
    ) -> None:
        self.bare = make_view_network(settings.views, channels, settings.viewmaker_budget)
        self.classes = classes
        learned = [*self.bare.parameters(), *(classes.classifiers.parameters() if classes else ())]
        optimizer = torch.optim.Adam(learned, settings.viewmaker_lr)
        self.network, self.optimizer = fabric.setup(self.bare, optimizer)
        if classes is not None:
            classes.set_up(fabric)
        shape = (1, channels, 1, 1)
        self.mean = torch.tensor(views.mean, device=fabric.device).reshape(shape)
        self.std = torch.tensor(views.std, device=fabric.device).reshape(shape)

    def views(self, views: Sequence[Tensor], epoch: int, step: int) -> list[Tensor]:
        """The views (n, C, H, W) of a step as the network changes each."""
        made: list[Tensor] = []
        for _, group in itertools.groupby(views, lambda view: view.shape):
            some = list(group)
            pixels = torch.cat(some) * self.std + self.mean
            first, n = len(made), len(some[0])
            index = torch.arange(first, first + len(some), device=pixels.device).repeat_interleave(n)
            changed = self.network(pixels, index=index)
            if self.classes is not None:
                changed = self.classes.kept(changed, index, epoch, step)
            made += against((changed - self.mean) / self.std).chunk(len(some))
        return made

    def step(self) -> None:
        """Change the network by the gradients of the loss so far; they begin anew."""
        self.optimizer.step()
        self.optimizer.zero_grad()

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint holds of it."""
        classes = {"classes": self.classes.bare.state_dict()} if self.classes else {}
        return {"network": self.bare.state_dict(), "optimizer": self.optimizer.state_dict(), **classes}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where the checkpoint was saved."""
        self.bare.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.classes is not None:
            self.classes.bare.load_state_dict(state["classes"])
