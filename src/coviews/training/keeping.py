"""The keeping head in a training: what it predicts, its loss, and how much the encoder can still tell."""

from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor

from coviews.errors import CoviewsError
from coviews.methods.gather import gathered
from coviews.methods.keeping import KeepingHead, KeepSettings, squared_errors
from coviews.methods.method import Losses
from coviews.ops.plan import Plan
from coviews.policies.differences import StandardDifferences

REFERENCE = 4096  # images of the plan by which differences are standardised
FEWEST = 10  # differences: of fewer, each counts as much as of so many, or their steps would be too large


class Keeping:
    """The head, and the sums of this epoch that say how well it predicts.

    Args:
        settings: the head's weight and what it predicts.
        features: how many numbers the encoder gives for each view.
        reference: a plan of the views at the start, by which differences are standardised.
    """

    def __init__(self, settings: KeepSettings, features: int, reference: Plan) -> None:
        self.differences = StandardDifferences(reference, settings.groups)
        if not self.differences.each:
            raise CoviewsError(
                f"--keep-what {settings.what}: the two views of an image do not differ in that; leave out --keep, or "
                "give --keep-what all"
            )
        self.head: Any = KeepingHead(features, [d.group for d in self.differences.each], settings.weight)
        self.sums = torch.zeros(2, len(self.differences.each))  # of squared errors, and of squared differences

    def set_up(self, fabric: Fabric) -> None:
        """Move the head to the run's device, and share its gradients among the processes."""
        self.fabric, self.bare = fabric, self.head
        self.head = fabric.setup_module(self.head)
        self.sums = self.sums.to(fabric.device)

    def loss(self, losses: Losses, plan: Plan) -> Tensor:
        """The mean squared error of this process's pairs, over all differences; adds to the epoch's sums.

        Args:
            losses: those of the method, with the features of the views.
            plan: of the whole batch; the first two views count.
        """
        if losses.features is None:
            raise CoviewsError("--keep needs a method whose losses give the features of the views")
        n = len(plan) // self.fabric.world_size
        mine = plan[self.fabric.global_rank * n : (self.fabric.global_rank + 1) * n]
        differences = torch.from_numpy(self.differences.of(mine)).to(self.fabric.device)
        errors = squared_errors(self.head(losses.features[: 2 * n]), differences)  # (D,)
        with torch.no_grad():
            sums = torch.stack([errors, differences.square().mean(0)])
            self.sums += gathered(sums[None]).mean(0)
        return errors.sum() / max(len(errors), FEWEST)

    def end_epoch(self) -> dict[str, float]:
        """The share of each difference's variance that was predicted in this epoch; begins a new one."""
        errors, squares = self.sums.double().cpu()
        self.sums.zero_()
        names = [d.name for d in self.differences.each]
        shares: dict[str, float] = {}
        for name in dict.fromkeys(names):
            own = torch.tensor([n == name for n in names])
            shares[name] = float(1 - errors[own].sum() / squares[own].sum().clamp(min=1e-12))
        return shares

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint holds of it."""
        return {"head": self.bare.state_dict(), "sums": self.sums}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where the checkpoint was saved."""
        self.bare.load_state_dict(state["head"])
        self.sums.copy_(state["sums"])
