"""PPO: how a policy learns, given only a function that scores subpolicies."""

import copy
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coviews.errors import CoviewsError
from coviews.policies.learned import Policy
from coviews.policies.subpolicy import Subpolicies
from coviews.search.adam import Adam

CONSTANT = 1e-6  # a spread of rewards below this share of their size is rounding, not a signal


@dataclass(frozen=True)
class PPOSettings:
    """Every figure of the paper's table."""

    iterations: int = 100
    samples: int = 128
    """Subpolicies drawn and scored in an iteration."""
    epochs: int = 4
    """Passes over the samples in an iteration."""
    minibatch: int = 16
    learning_rate: float = 3e-4
    clip: float = 0.2
    """How far the probability of a sample may move from what it was when drawn: 1 - clip .. 1 + clip."""
    entropy: float = 0.05
    """The weight of the entropy, a mean over the steps."""
    gradient_clip: float | None = None
    """The longest gradient, by its norm."""

    def __post_init__(self) -> None:
        for name, least in (("iterations", 1), ("samples", 2), ("epochs", 1), ("minibatch", 1)):
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise CoviewsError(f"PPO's {name} must be a whole number from {least}, not {value!r}")

    @classmethod
    def paper(cls) -> "PPOSettings":
        """The paper's table."""
        return cls(learning_rate=5e-5)


class Scores(NamedTuple):
    """What the scorer says of n subpolicies."""

    rewards: NDArray[np.floating]  # (n,)
    over: NDArray[np.bool_]  # (n,), whether the loss is over the reward's bound


@dataclass(frozen=True)
class SearchStep:
    """What happened in one iteration."""

    iteration: int
    reward: float
    reward_std: float
    over: float
    entropy: float
    kl: float
    clipped: float
    skipped: str | None = None


class PPO:
    def __init__(self, policy, score, generator, settings=None):
        self.policy, self.score, self.generator = policy, score, generator
        self.settings = settings or PPOSettings()
        self.adam = Adam(policy.network.flat, self.settings.learning_rate)
        self.iteration = 0

    def __iter__(self) -> Iterator[SearchStep]:
        while self.iteration < self.settings.iterations:
            yield self.step()

    def step(self) -> SearchStep:
        s, network = self.settings, self.policy.network
        drawn = self.policy.sample(s.samples, self.generator)
        rewards, over = self.score(drawn)
        rewards = np.asarray(rewards, np.float64)
        old = network.evaluate(drawn.ops, drawn.levels)
        std = rewards.std()
        self.iteration += 1
        if std <= CONSTANT * np.abs(rewards).max():
            return SearchStep(self.iteration, rewards.mean(), std, over.mean(), old.entropy.mean(), 0, 0, "constant")
        advantage = (rewards - rewards.mean()) / std
        for _ in range(s.epochs):
            order = self.generator.permutation(s.samples)
            for start in range(0, s.samples, s.minibatch):
                self._update(drawn, order[start : start + s.minibatch], old.log_prob, advantage)
        new = network.evaluate(drawn.ops, drawn.levels)
        change = (new.log_prob - old.log_prob).astype(np.float64)
        ratio = np.exp(change)
        return SearchStep(self.iteration, rewards.mean(), std, over.mean(), old.entropy.mean(), (ratio - 1 - change).mean(), (np.abs(ratio - 1) > s.clip).mean())

    def _update(self, drawn, index, old, advantage):
        s = self.settings
        now = self.policy.network.evaluate(drawn.ops[index], drawn.levels[index])
        ratio = np.exp(now.log_prob - old[index])
        gain = ratio * advantage[index]
        a = advantage[index]
        held = np.where(a > 0, ratio > 1 + s.clip, ratio < 1 - s.clip)
        n = len(index)
        gradient = now.gradient(np.where(held, 0.0, -gain / n), -s.entropy / n)
        if s.gradient_clip:
            gradient *= min(1.0, s.gradient_clip / (np.linalg.norm(gradient) + 1e-12))
        self.adam.step(gradient)
