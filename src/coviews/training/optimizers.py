"""What changes the weights: SGD, LARS for large batches, or AdamW."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from coviews.runs.settings import PretrainSettings


def make_optimizer(settings: PretrainSettings, trained: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """The optimiser that the settings name.

    LARS and AdamW do not decay biases and the weights of normalisation layers, which are those with one dimension.
    """
    s, parameters = settings, list(trained)
    if s.optimizer == "sgd":
        return torch.optim.SGD(parameters, s.base_lr, momentum=s.sgd_momentum, weight_decay=s.base_decay)
    matrices = {"params": [p for p in parameters if p.ndim > 1], "weight_decay": s.base_decay}
    vectors = {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0}
    groups: list[dict[str, Any]] = [group for group in (matrices, vectors) if group["params"]]
    if s.optimizer == "adamw":
        return torch.optim.AdamW(groups, s.base_lr)
    return LARS([{**group, "adapts": group is matrices} for group in groups], s.base_lr, momentum=s.sgd_momentum)


# what each optimiser keeps of every weight
_KEPT = {"SGD": {"momentum_buffer"}, "AdamW": {"step", "exp_avg", "exp_avg_sq"}, "LARS": {"velocity"}}


def restore_optimizer(optimizer: Any, saved: dict[str, Any]) -> None:
    """Give an optimiser what it kept of each weight; its options follow from the settings, whatever was saved.

    Args:
        optimizer: as Lightning Fabric wraps it.
        saved: its state dict, from a checkpoint.
    """
    optimizer.load_state_dict({**optimizer.state_dict(), "state": saved["state"]})
    bare = optimizer.optimizer
    for weights, values in bare.state.items():
        fits = all(v is None or (isinstance(v, Tensor) and v.shape in (weights.shape, ())) for v in values.values())
        if not fits or set(values) != _KEPT[type(bare).__name__]:
            raise ValueError(f"what {type(bare).__name__} kept of a weight of {tuple(weights.shape)} does not fit it")


class LARS(torch.optim.Optimizer):
    """SGD whose step is, in each layer, in proportion to the layer's weights: for batches of thousands of images.

    You et al., Large Batch Training of Convolutional Networks, 2017; with momentum as in SimCLR, where the learning
    rate stands within it.

    Args:
        parameters: those to be trained, or groups of them; a group with `adapts` False is trained by plain SGD.
        lr: the learning rate.
        momentum: the share of the last step in the next.
        weight_decay: is added to the gradient before the norms are compared.
        trust: the norm of a layer's step over that of its weights, at a learning rate of 1.
    """

    def __init__(
        self, parameters: Any, lr: float, *, momentum: float = 0.9, weight_decay: float = 0.0, trust: float = 0.001
    ) -> None:
        defaults = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "trust": trust, "adapts": True}
        super().__init__(parameters, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step; nothing waits for the device."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for weights in group["params"]:
                if weights.grad is None:
                    continue
                change = weights.grad.add(weights, alpha=group["weight_decay"])
                if group["adapts"]:
                    change.mul_(_trust_ratio(weights, change, group["trust"]))
                state = self.state[weights]
                if "velocity" not in state:
                    state["velocity"] = torch.zeros_like(weights)
                state["velocity"].mul_(group["momentum"]).add_(change, alpha=group["lr"])
                weights.sub_(state["velocity"])
        return loss


def _trust_ratio(weights: Tensor, change: Tensor, trust: float) -> Tensor:
    """What the change is multiplied with: 1 where the weights or the change are all zero."""
    weight_norm, change_norm = weights.norm(), change.norm()
    both = (weight_norm > 0) & (change_norm > 0)
    return torch.where(both, trust * weight_norm / change_norm, torch.ones_like(weight_norm))
