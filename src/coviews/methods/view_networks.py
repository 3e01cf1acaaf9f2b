"""The networks that make views, by what `--views` calls them; and their file."""

from pathlib import Path
from typing import Annotated

import msgspec
import torch

from coviews.boundary.schema import Name, Schema
from coviews.boundary.weights import open_weights
from coviews.errors import CoviewsError, unknown
from coviews.methods.infomin_flow import InfoMinFlow
from coviews.methods.view_network import FORMAT, ViewNetwork
from coviews.methods.viewmaker import BUDGET, Viewmaker

VIEW_NETWORKS: dict[str, type[ViewNetwork]] = {network.name: network for network in (Viewmaker, InfoMinFlow)}
FILE = "viewmaker.safetensors"


def make_view_network(name: str, channels: int, budget: float = BUDGET) -> ViewNetwork:
    """The network of `--views NAME` for images of so many channels; the budget is the viewmaker's."""
    return Viewmaker(channels, budget) if name == Viewmaker.name else VIEW_NETWORKS[name](channels)


class _Description(Schema):
    """A network in its file."""

    format: int
    channels: Annotated[int, msgspec.Meta(ge=1, le=16)]
    width: Annotated[int, msgspec.Meta(ge=1, le=1024)]
    blocks: Annotated[int, msgspec.Meta(ge=0, le=64)]
    name: Name = Viewmaker.name  # the first network of this kind does not say it
    budget: Annotated[float, msgspec.Meta(ge=0, le=1)] | msgspec.UnsetType = msgspec.UNSET


def load_viewmaker(path: str | Path) -> ViewNetwork:
    """The network that made the views of a run (viewmaker, infomin-flow), in eval mode; nothing in it is executed.

    path: the run's folder, or its `viewmaker.safetensors`.
    """
    file = Path(path)
    file = file / FILE if file.is_dir() else file
    if not file.exists():
        names = " or ".join(VIEW_NETWORKS)
        raise CoviewsError(f"there is no viewmaker file {file}; a run with --views {names} has one when it has ended")
    with open_weights(file, "viewmaker file") as weights:
        weights.check_format(FORMAT)
        d = weights.description(_Description)
        if d.name not in VIEW_NETWORKS:
            raise unknown("network that makes views", d.name, VIEW_NETWORKS)
        budget = {} if d.budget is msgspec.UNSET else {"budget": d.budget}
        if ("budget" in VIEW_NETWORKS[d.name].options) != bool(budget):
            raise CoviewsError(f"its description is wrong: the budget of {d.name} is missing, or not its own")
        with torch.device("meta"):
            network: ViewNetwork = VIEW_NETWORKS[d.name](d.channels, width=d.width, blocks=d.blocks, **budget)
        shapes = {name: tuple(w.shape) for name, w in network.state_dict().items()}
        tensors = {name: torch.from_numpy(weights.array(name, shape)) for name, shape in shapes.items()}
    network.load_state_dict(tensors, assign=True)
    return network.eval()
