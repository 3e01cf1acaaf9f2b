"""The viewmaker in a training: it changes the views of every step, and learns from the same losses as the encoder."""

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor

from coviews.methods.viewmaker import Viewmaker, against
from coviews.ops.view_settings import ViewSettings
from coviews.runs.settings import PretrainSettings


class Viewmaking:
    """The network, its optimiser, and how normalised views become pixels.

    One backward pass gives the gradients of both: the encoder's lower the loss, the viewmaker's raise it.
    """

    def __init__(self, settings: PretrainSettings, channels: int, views: ViewSettings, fabric: Fabric) -> None:
        self.bare = Viewmaker(channels, settings.viewmaker_budget)
        optimizer = torch.optim.Adam(self.bare.parameters(), settings.viewmaker_lr)
        self.network, self.optimizer = fabric.setup(self.bare, optimizer)
        shape = (1, channels, 1, 1)
        self.mean = torch.tensor(views.mean, device=fabric.device).reshape(shape)
        self.std = torch.tensor(views.std, device=fabric.device).reshape(shape)

    def views(self, views: Sequence[Tensor]) -> list[Tensor]:
        """The views (n, C, H, W) with what the viewmaker adds to each."""
        made: list[Tensor] = []
        for _, group in itertools.groupby(views, lambda view: view.shape):
            some = list(group)
            pixels = torch.cat(some) * self.std + self.mean
            made += against((self.network(pixels) - self.mean) / self.std).chunk(len(some))
        return made

    def step(self) -> None:
        """Change the viewmaker by the gradients of the loss so far; they begin anew."""
        self.optimizer.step()
        self.optimizer.zero_grad()

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint holds of it."""
        return {"network": self.bare.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where the checkpoint was saved."""
        self.bare.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
