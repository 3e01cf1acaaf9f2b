"""`search`: what the trainer, and anyone with a loop of their own, calls every K epochs."""

import warnings
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from coviews.console.progress import shown
from coviews.errors import CoviewsError
from coviews.ops.images import Images
from coviews.ops.space import STANDARD, space
from coviews.ops.view_settings import ViewSettings
from coviews.policies.fixed import Uniform
from coviews.policies.learned import Policy
from coviews.policies.subpolicy import ViewSource
from coviews.searching.ppo import PPO, SearchStep
from coviews.searching.settings import SearchSettings
from coviews.training.scorer import Losses, Scorer, encoder_losses

if TYPE_CHECKING:
    from torch import nn


def search(
    images: Images,
    encoder: "nn.Module | None" = None,
    *,
    generator: np.random.Generator,
    losses: Losses | None = None,
    kind: str | None = None,
    source: ViewSource | None = None,
    settings: SearchSettings | None = None,
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
        images: (N, H, W, C) uint8, at least a batch of them.
        encoder: a module that gives a vector for each image; its loss is InfoNCE in batches of 128 pairs.
        generator: every draw comes from it; the same state gives the same policy.
        losses: instead of an encoder, a function of two batches of views that gives a loss for each pair. It must
            change nothing, and what it calls should be in eval mode.
        kind: `coviews` (the default), the second view is drawn knowing the first, or `indepviews`.
        source: what training draws views from now; needed where the reference is `current`.
        settings: the search's figures.
        space_name: which operations there are.
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

    made = settings or SearchSettings()
    if made.by == "table":
        raise CoviewsError("a search by table needs no encoder: hand your losses to coviews.LossTable")
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
    policy = (
        start.copy()
        if start is not None
        else Policy.untrained(
            space(space_name), generator, kind=kind or "coviews", steps=made.steps, p=made.p, settings=made.network
        )
    )
    scorer = Scorer(
        losses, images, made.reward, generator, batch=made.batch, images_each=made.images_each, chance=chance,
        views=views, device=device or "cpu",
    )  # fmt: skip
    with evaluating(encoder):
        scorer.measure_reference(_reference(made, policy, source), made.reference_batches)
        if made.reward.empty(scorer.reference, scorer.chance):
            warnings.warn(made.reward.empty_message(scorer.reference, scorer.chance), stacklevel=2)
        elif scorer.reference >= scorer.chance:
            warnings.warn(
                f"the loss of ordinary views is {scorer.reference:.4g}, that of views that lost their image "
                f"{scorer.chance:.4g}: the encoder tells no pair from another yet.\n"
                "The search will prefer easy views. Train longer before the first search.",
                stacklevel=2,
            )
        ppo, history = PPO(policy, scorer, generator, made.ppo), []
        for step in shown(ppo, "search" if progress else "", made.ppo.iterations, _figures):
            history.append(step)
            if on_step is not None:
                on_step(step)
    good = [asdict(step) for step in history if step.skipped is None]
    return policy.with_statistics(
        {
            "reference": scorer.reference,
            "chance": scorer.chance,
            "loss": float(np.mean(scorer.recent)) if np.isfinite(scorer.recent).all() else None,
            "over": float(np.mean([step["over"] for step in good[-10:]])) if good else None,
            "iterations": len(history),
            "stopped": ppo.stopped,
            "first": good[0] if good else None,
            "last": good[-1] if good else None,
        }
    )


def _reference(settings: SearchSettings, policy: Policy, source: ViewSource | None) -> ViewSource:
    if settings.reference == "uniform":
        return Uniform(policy.space, policy.steps, policy.p, policy.views)
    if source is None:
        raise CoviewsError("the reference 'current' needs the source that training uses now: give source=...")
    return source


def _figures(step: SearchStep) -> str:
    return f"reward {step.reward:.3f}, over the bound {step.over:.0%}, entropy {step.entropy:.2f}"
