"""`search`: learn a policy for an encoder as it is now, in a training loop of your own."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from coviews.console.progress import LateBar
from coviews.errors import CoviewsError
from coviews.ops.generators import AnyGenerator, numpy_generator
from coviews.ops.images import Images
from coviews.ops.space import STANDARD, space
from coviews.ops.view_settings import ViewSettings
from coviews.policies.learned import Policy
from coviews.policies.subpolicy import ViewSource
from coviews.searching.ppo import PPOSettings, SearchStep
from coviews.searching.ppo_search import learn_policy
from coviews.training.pair_losses import PairLosses, TensorLosses, encoder_losses

if TYPE_CHECKING:
    from torch import nn


def search(
    images: Images,
    encoder: "nn.Module | None" = None,
    *,
    generator: AnyGenerator,
    losses: TensorLosses | None = None,
    kind: str | None = None,
    source: ViewSource | None = None,
    settings: PPOSettings | None = None,
    space_name: str = STANDARD,
    start: Policy | None = None,
    views: ViewSettings | None = None,
    temperature: float = 0.5,
    chance: float | None = None,
    device: Any = None,
    progress: bool = False,
    on_step: Callable[[SearchStep], None] | None = None,
) -> Policy:
    """Learn a policy for the encoder as it is now; nothing of the encoder changes.

    Args:
        images: (N, H, W, C) in uint8 or uint16, at least a batch of them.
        encoder: a module that gives a vector for each image; its loss is InfoNCE in batches of 128 pairs.
        generator: every draw comes from it; the same state gives the same policy.
        losses: instead of an encoder, a function of two batches of views that gives a loss for each pair. It must
            change nothing, and what it calls should be in eval mode.
        kind: `coviews` (the default), the second view is drawn knowing the first, or `indepviews`.
        source: what training draws views from now; needed where the reference is `current`.
        settings: the search's figures.
        space_name: which operations there are; those that do not fit the images are left out.
        start: a policy to go on from (warm start), with its kind, space and network; a new one if none.
        views: crop, flip, fill colour and normalisation, as in training; by default those of `make_views` and
            `to_tensors`.
        temperature: of the encoder's InfoNCE.
        chance: the loss of views that lost their image, where `losses` is not InfoNCE in the batch.
        device: where the encoder is; by default where its first parameter is.
        progress: show a progress bar.
        on_step: called after each iteration with its statistics.
    """
    from coviews.encoders.frozen import evaluating  # here, as it brings torch
    from coviews.methods.losses import chance_loss

    draws = numpy_generator(generator)
    settings = PPOSettings() if settings is None else settings
    if not isinstance(settings, PPOSettings):
        raise CoviewsError(
            f"coviews.search takes PPOSettings, not {type(settings).__name__}: a search by table needs no encoder, "
            "hand your losses to coviews.LossTable"
        )
    if (encoder is None) == (losses is None):
        raise CoviewsError("search needs either an encoder or a loss function, and not both")
    if not 0 < temperature < float("inf"):
        raise CoviewsError(f"the temperature must be above 0, not {temperature}")
    if start is not None and kind not in (None, start.kind):
        raise CoviewsError(f"the policy to start from is of the kind {start.kind!r}, not {kind!r}")
    if losses is None:
        assert encoder is not None
        losses = encoder_losses(encoder, temperature)
        if device is None:
            device = next((p.device for p in encoder.parameters()), "cpu")
    pair_losses = PairLosses(losses, images, views, device or "cpu")
    with evaluating(encoder), LateBar("search" if progress else "", settings.iterations) as bar:

        def step_done(step: SearchStep) -> None:
            text = f"reward {step.reward:.3f}, over the bound {step.over:.0%}, entropy {step.entropy:.2f}"
            bar.advance(1, text)
            if on_step is not None:
                on_step(step)

        return learn_policy(
            lambda subpolicies: pair_losses(subpolicies, draws, settings.batch), generator=draws,
            kind=kind or "coviews",
            space=space(space_name).fitting(pair_losses.images.shape[3], pair_losses.images.dtype),
            chance=chance_loss(settings.batch) if chance is None else chance, settings=settings, source=source,
            start=start, on_step=step_done,
        )  # fmt: skip
