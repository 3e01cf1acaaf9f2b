"""The paper's search: every K epochs, PPO learns a policy network whose views are hard for the encoder as it is."""

import warnings
from collections import deque
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coviews.errors import CoviewsError
from coviews.ops.space import Space
from coviews.policies.fixed import Uniform
from coviews.policies.learned import AnyPolicy, Policy
from coviews.policies.subpolicy import Subpolicies, ViewSource
from coviews.searching.contract import Search, SearchContext, SearchReport
from coviews.searching.guards import easier_objection, loss_objection, over_objection
from coviews.searching.hardness_target import HardnessTarget
from coviews.searching.measures import SearchMeasure
from coviews.searching.ppo import PPO, PPOSettings, Scores, SearchStep
from coviews.searching.reward import NONE, BoundedReward

LEAST_ENTROPY = 0.25  # of the entropy that the policy began with: below it, it draws almost always the same

PairLosses = Callable[[Subpolicies], NDArray[np.float64]]  # the loss of each subpolicy's pair of views (n,)


class Scorer:
    """Gives subpolicies their rewards, from the losses of pairs and the reference loss."""

    def __init__(
        self,
        pair_losses: PairLosses,
        reward: BoundedReward,
        chance: float,
        images_each: int = 1,
        target: HardnessTarget | None = None,
    ) -> None:
        self.pair_losses, self.reward, self.chance, self.images_each = pair_losses, reward, chance, images_each
        self.target = target
        self.reference = float("nan")
        self.recent: deque[float] = deque(maxlen=10)  # mean losses of the last subpolicies that were scored

    def measure_reference(self, subpolicies: Subpolicies) -> float:
        """Set the loss that others are compared with: the mean over these subpolicies."""
        self.reference = float(self.pair_losses(subpolicies).mean())
        if not np.isfinite(self.reference):
            raise CoviewsError(f"the reference loss is {self.reference}: the encoder gives no usable loss")
        return self.reference

    def __call__(self, subpolicies: Subpolicies) -> Scores:
        """Score each subpolicy by its mean loss on `images_each` images."""
        indices = np.tile(np.arange(len(subpolicies)), self.images_each)
        losses = self.pair_losses(subpolicies[indices]).reshape(self.images_each, -1).mean(0)
        self.recent.append(float(losses.mean()))
        slope = 1.0
        if self.target is not None:
            self.target.steer(self.recent[-1], self.reference, self.chance)
            slope = self.target.slope
        rewards = self.reward(losses, self.reference, self.chance, slope)
        return Scores(rewards, self.reward.over(losses, self.reference, self.chance))


def learn_policy(
    pair_losses: PairLosses,
    *,
    generator: np.random.Generator,
    kind: str,
    space: Space,
    chance: float,
    settings: PPOSettings,
    source: ViewSource | None = None,
    start: Policy | None = None,
    on_step: Callable[[SearchStep], None] | None = None,
) -> Policy:
    """One search: learn a policy from the losses of pairs that it may ask for.

    Args:
        pair_losses: gives the loss of each subpolicy's pair of views.
        generator: every draw of the search comes from it.
        kind: `coviews` or `indepviews`.
        space: which operations there are.
        chance: the loss of unrelated views.
        settings: the search's figures.
        source: what training draws views from now; needed where the reference is `current`.
        start: a policy to go on from, with its kind, space and network; a new one if none.
        on_step: called after each iteration with its statistics.
    """
    s = settings
    s.check()
    policy = (
        start.copy()
        if start is not None
        else Policy.untrained(space, generator, kind=kind, steps=s.steps, p=s.p, settings=s.network)
    )
    target = HardnessTarget(s.hardness) if s.hardness is not None else None
    scorer = Scorer(pair_losses, s.reward, chance, s.images_each, target)
    reference = _reference_source(s, policy, source)
    scorer.measure_reference(reference.sample(s.reference_batches * s.batch, generator))
    _warn_of_reference(s.reward, scorer)
    ppo, history = PPO(policy, scorer, generator, s), []
    for step in ppo:
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
            **({} if s.hardness is None else {"target": s.hardness}),
            **({"unbounded": True} if s.reward.bound == NONE else {}),
            "stopped": ppo.stopped,
            "first": good[0] if good else None,
            "last": good[-1] if good else None,
        }
    )


class PPOSearch(Search):
    """CoViews and IndepViews as the paper has them: a policy network trained by PPO with the bounded reward."""

    settings_type = PPOSettings
    measures = (
        SearchMeasure(
            "reward",
            "Reward in the search",
            "The reward is high for hard pairs, and low for pairs over the bound, which have lost what is in the "
            "image.",
            "reward",
        ),
        SearchMeasure(
            "over",
            "Share of pairs over the bound",
            "Pairs over the bound have lost what is in the image.",
            "over the bound",
            percent=True,
        ),
        SearchMeasure(
            "entropy",
            "Entropy of the policy in the search",
            "The lower the entropy, the fewer operations the policy prefers.",
            "entropy in nats",
        ),
    )

    def __init__(self, settings: PPOSettings, context: SearchContext) -> None:
        self.settings, self.context = settings, context
        self._history: list[SearchStep] = []
        self._policy: Policy | None = None  # the last one

    def before_epoch(self, epoch: int) -> Policy:
        """A policy for the encoder as it is now."""
        s, context = self.settings, self.context
        generator = context.generator(epoch)
        self._history = []

        def on_step(step: SearchStep) -> None:
            self._history.append(step)
            text = f"reward {step.reward:.3f} · over the bound {step.over:.0%} · entropy {step.entropy:.2f}"
            context.progress(step.iteration, s.iterations, text)

        newest = _newest(context.current_source()) if s.warm_start else None
        self._policy = learn_policy(
            lambda subpolicies: context.score(subpolicies, generator, s.batch), generator=generator,
            kind=context.kind, space=context.space, chance=context.chance(s.batch), settings=s,
            source=context.current_source(), start=newest, on_step=on_step,
        )  # fmt: skip
        return self._policy

    @staticmethod
    def objection(policy: AnyPolicy) -> str | None:
        """A search that ended early, destroyed views, or always the same views."""
        statistics = policy.statistics
        if statistics["stopped"]:
            return f"its search ended early: {statistics['stopped']}"
        if statistics["loss"] is None or statistics["last"] is None:
            return "its search learned nothing"
        first, last = statistics["first"]["entropy"], statistics["last"]["entropy"]
        same = f"it draws almost always the same (entropy {last:.2f}, at first {first:.2f})"
        return (
            over_objection(statistics)
            or (same if last < LEAST_ENTROPY * first else None)
            or (None if statistics.get("unbounded") else loss_objection(statistics))
            or easier_objection(statistics)
        )

    def report(self) -> SearchReport:
        """The course of the last search."""
        assert self._policy is not None
        first, last, statistics = self._history[0], self._history[-1], self._policy.statistics
        metrics: dict[str, Any] = {
            **{name: statistics[name] for name in ("reference", "chance", "loss", "target") if name in statistics},
            **{name: [getattr(step, name) for step in self._history] for name in ("reward", "over", "entropy", "kl")},
        }
        return SearchReport(
            metrics,
            {"reward": last.reward, "over the bound": last.over, "entropy": last.entropy},
            "searched",
            f"reward {first.reward:.3f} -> {last.reward:.3f} · over the bound {last.over:.0%} · "
            f"entropy {first.entropy:.2f} -> {last.entropy:.2f}",
            timed=True,
        )


def _newest(source: ViewSource) -> Policy | None:
    """The newest policy of the queue that makes the views, if there is one that PPO can go on from."""
    policies = getattr(source, "policies", ())
    return policies[0] if policies and isinstance(policies[0], Policy) else None


def _reference_source(settings: PPOSettings, policy: Policy, source: ViewSource | None) -> ViewSource:
    if settings.reference == "uniform":
        return Uniform(policy.space, policy.steps, policy.p, policy.views)
    if source is None:
        raise CoviewsError("the reference 'current' needs the source that training uses now: give source=...")
    return source


def _warn_of_reference(reward: BoundedReward, scorer: Scorer) -> None:
    if reward.empty(scorer.reference, scorer.chance):
        warnings.warn(reward.empty_message(scorer.reference, scorer.chance), stacklevel=4)
    elif scorer.reference >= scorer.chance and reward.bound != NONE:
        warnings.warn(
            f"the loss of ordinary views is {scorer.reference:.4g}, that of views that lost their image "
            f"{scorer.chance:.4g}: the encoder tells no pair from another yet.\n"
            "The search will prefer easy views. Train longer before the first search.",
            stacklevel=4,
        )
