"""How hard subpolicies are for an encoder: images, engine, loss and reward joined into `score`."""

import itertools
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from coviews.errors import CoviewsError
from coviews.ops.engine import make_views
from coviews.ops.images import Images, check_images
from coviews.ops.view_settings import ViewSettings
from coviews.policies.subpolicy import Subpolicies, ViewSource
from coviews.searching.ppo import Scores
from coviews.searching.reward import BoundedReward

if TYPE_CHECKING:
    from torch import Tensor, nn

Losses = Callable[["Tensor", "Tensor"], "Tensor"]  # two views (N, C, H, W) each -> a loss for each pair (N,)


class Scorer:
    """`scorer(subpolicies) -> Scores` on random images; nothing of the encoder or the method changes."""

    def __init__(
        self,
        losses: Losses,
        images: Images,
        reward: BoundedReward,
        generator: np.random.Generator,
        *,
        batch: int = 128,
        images_each: int = 1,
        chance: float | None = None,
        views: ViewSettings | None = None,
        device: Any = "cpu",
    ) -> None:
        from coviews.methods.losses import chance_loss

        self.images = check_images(images)
        if batch < 2 or images_each < 1:
            raise CoviewsError(
                f"batches of two pairs or more are needed, and one image each, not {batch}, {images_each}"
            )
        if len(self.images) < batch:
            raise CoviewsError(
                f"the search scores batches of {batch} images, but there are {len(self.images)}: "
                "give it more images or a smaller batch"
            )
        self.losses, self.reward, self.generator = losses, reward, generator
        self.batch, self.images_each, self.device = batch, images_each, device
        self.chance = chance_loss(batch) if chance is None else chance
        self.views = views or ViewSettings()
        self.reference = float("nan")
        self.recent: deque[float] = deque(maxlen=10)  # mean losses of the last subpolicies that were scored

    def measure_reference(self, source: ViewSource, batches: int) -> float:
        """Set the loss that others are compared with: the mean of a view source over fresh batches."""
        drawn = source.sample(batches * self.batch, self.generator)
        self.reference = float(self.pair_losses(drawn).mean())
        if not np.isfinite(self.reference):
            raise CoviewsError(f"the reference loss is {self.reference}: the encoder gives no usable loss")
        return self.reference

    def __call__(self, subpolicies: Subpolicies) -> Scores:
        """Score each subpolicy by its mean loss on `images_each` images."""
        every = np.tile(np.arange(len(subpolicies)), self.images_each)
        losses = self.pair_losses(subpolicies[every]).reshape(self.images_each, -1).mean(0)
        self.recent.append(float(losses.mean()))
        rewards = self.reward(losses, self.reference, self.chance)
        return Scores(rewards, self.reward.over(losses, self.reference, self.chance))

    def pair_losses(self, subpolicies: Subpolicies) -> NDArray[np.float64]:
        """The loss of each subpolicy's pair of views among the others of its batch (n,)."""
        if len(subpolicies) % self.batch:
            raise CoviewsError(f"{len(subpolicies)} subpolicies are no whole number of batches of {self.batch}")
        starts = range(0, len(subpolicies), self.batch)
        return np.concatenate([self._batch_losses(subpolicies[s : s + self.batch]) for s in starts])

    def _batch_losses(self, subpolicies: Subpolicies) -> NDArray[np.float64]:
        import torch

        from coviews.encoders.pixels import to_tensors

        v = self.views
        chosen = self.generator.choice(len(self.images), self.batch, replace=False, shuffle=False)
        views = make_views(
            self.images[chosen], subpolicies, self.generator, crop=v.crop, flip=v.flip, fill=v.fill, threads=v.threads
        )
        with torch.no_grad():  # not inference mode: what an encoder keeps of a pass stays usable
            tensors = to_tensors(views, v.mean, v.std, self.device)
            pairs = [self.losses(a, b) for a, b in itertools.combinations(tensors, 2)]
            found = torch.stack(pairs).mean(0).cpu().double().numpy()
        if found.shape != (self.batch,):
            raise CoviewsError(f"the loss must be one number for each of {self.batch} pairs, not {found.shape}")
        return found


def encoder_losses(encoder: "nn.Module", temperature: float) -> Losses:
    """InfoNCE of an encoder's output, both views in one pass."""
    import torch

    from coviews.methods.losses import info_nce

    def losses(x1: "Tensor", x2: "Tensor") -> "Tensor":
        z1, z2 = encoder(torch.cat([x1, x2])).flatten(1).float().chunk(2)
        return info_nce(z1, z2, temperature)

    return losses
