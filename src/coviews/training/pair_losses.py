"""The losses of pairs of views on random images: what a search asks of an encoder."""

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from coviews.errors import CoviewsError
from coviews.ops.images import Images, check_images
from coviews.ops.view_settings import ViewSettings
from coviews.policies.subpolicy import Subpolicies

if TYPE_CHECKING:
    from torch import Tensor, nn

TensorLosses = Callable[["Tensor", "Tensor"], "Tensor"]  # two views (N, C, H, W) each -> a loss for each pair (N,)


class PairLosses:
    """Draws images, makes their views and gives the loss of each pair; nothing of the encoder or method changes.

    Args:
        losses: the loss of each pair of two batches of views.
        images: (N, H, W, C) in uint8 or uint16, from which each batch is drawn.
        views: crop, flip, fill colour and normalisation.
        device: where the encoder is.
    """

    def __init__(
        self, losses: TensorLosses, images: Images, views: ViewSettings | None = None, device: Any = "cpu"
    ) -> None:
        self.losses, self.images = losses, check_images(images)
        self.views, self.device = views or ViewSettings(), device

    def __call__(self, subpolicies: Subpolicies, generator: np.random.Generator, batch: int) -> NDArray[np.float64]:
        """The loss of each subpolicy's pair of views among the others of its batch (n,)."""
        if len(self.images) < batch:
            raise CoviewsError(
                f"the search scores batches of {batch} images, but there are {len(self.images)}: "
                "give it more images or a smaller batch"
            )
        if len(subpolicies) % batch:
            raise CoviewsError(f"{len(subpolicies)} subpolicies are no whole number of batches of {batch}")
        starts = range(0, len(subpolicies), batch)
        return np.concatenate([self._batch_losses(subpolicies[s : s + batch], generator) for s in starts])

    def _batch_losses(self, subpolicies: Subpolicies, generator: np.random.Generator) -> NDArray[np.float64]:
        import torch

        from coviews.encoders.pixels import to_tensors

        v, n = self.views, len(subpolicies)
        indices = generator.choice(len(self.images), n, replace=False, shuffle=False)
        views = v.make(self.images[indices], v.plan(subpolicies, n, self.images.shape[1:3], generator))
        with torch.no_grad():  # not inference mode: what an encoder keeps of a pass stays usable
            tensors = to_tensors(views, v.mean, v.std, self.device)
            pairs = [self.losses(a, b) for a, b in itertools.combinations(tensors, 2)]
            losses = torch.stack(pairs).mean(0).cpu().double().numpy()
        if losses.shape != (n,):
            raise CoviewsError(f"the loss must be one number for each of {n} pairs, not {losses.shape}")
        return losses


def encoder_losses(encoder: "nn.Module", temperature: float) -> TensorLosses:
    """InfoNCE of an encoder's output, both views in one pass."""
    import torch

    from coviews.encoders.architectures import described
    from coviews.methods.losses import info_nce

    def losses(x1: "Tensor", x2: "Tensor") -> "Tensor":
        output = encoder(torch.cat([x1, x2]))
        if not isinstance(output, torch.Tensor):
            raise CoviewsError(f"the encoder must give a vector for each image, but gives {described(output)}")
        z1, z2 = output.flatten(1).float().chunk(2)
        return info_nce(z1, z2, temperature)

    return losses
