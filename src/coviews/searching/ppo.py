"""PPO: how a policy learns, given no more than a function that scores subpolicies."""

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coviews.errors import CoviewsError, unknown
from coviews.policies.blas_threads import one_blas_thread
from coviews.policies.learned import Policy
from coviews.policies.lstm import Array
from coviews.policies.network import NetworkSettings
from coviews.policies.subpolicy import Subpolicies
from coviews.searching.reward import BoundedReward
from coviews.searching.settings import SearchSettings

REFERENCES = ("uniform", "current")
_MOST_PAIRS = 10_000_000  # that are drawn at once
_MOST = {"iterations": 10_000, "epochs": 100}  # the paper has 100 and 4
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8  # of Adam
CONSTANT = 1e-6  # a spread of rewards below this share of their size is rounding, not a signal


@dataclass(frozen=True, kw_only=True)
class PPOSettings(SearchSettings):
    """Every figure of the paper's search; the defaults are those of docs/search-study.md."""

    name: ClassVar[str] = "ppo"

    every: int = 10
    """K, the epochs from one search to the next."""
    warm_start: bool = False
    """Each search goes on from the last policy instead of starting anew."""
    iterations: int = 100
    samples: int = 32
    """Subpolicies that are drawn and scored in an iteration."""
    epochs: int = 4
    """Passes over them in an iteration."""
    minibatch: int = 16
    """Samples in a gradient step."""
    learning_rate: float = 1e-3
    """Of Adam."""
    clip: float = 0.2
    """A sample stops pulling once its probability has changed by this share, for better or worse."""
    entropy: float = 0.12
    """The weight of the policy's entropy, a mean over the steps."""
    gradient_clip: float | None = None
    """The greatest norm of a gradient."""
    reference: str = "uniform"
    """Whose loss counts as 1: `uniform`, the untrained policy under the current encoder, or `current`, the source
    that training uses now (the paper's way)."""
    reference_batches: int = 5
    """Batches that the reference loss is the mean of."""
    batch: int = 128
    """Pairs that are scored together: the negatives of each other."""
    images_each: int = 4
    """Images that a subpolicy is scored on, by its mean loss: one pair's depends more on its image than on what was
    done to it (1 in the paper)."""
    hardness: float | None = None
    """How much harder than the reference the views shall be: the share of the way from its loss to that of views that
    lost their image, such as 0.1; the slope of the reward follows. None for no such target, as in the paper: then views
    may end easier than the reference while many of its own are over the bound."""
    network: NetworkSettings = field(default_factory=NetworkSettings)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_counts(
            every=1, iterations=1, samples=2, epochs=1, minibatch=1, batch=2, images_each=1, reference_batches=1
        )
        for name, most in _MOST.items():
            if getattr(self, name) > most:
                raise CoviewsError(f"PPO's {name} must be at most {most:,}, not {getattr(self, name):,}")
        for name, pairs in (
            ("samples on images_each images", self.samples * self.images_each),
            ("reference_batches of batch pairs", self.reference_batches * self.batch),
        ):
            if pairs > _MOST_PAIRS:
                raise CoviewsError(f"PPO's {name} are {pairs:,} pairs, more than {_MOST_PAIRS:,}")
        if self.reference not in REFERENCES:
            raise unknown("reference", self.reference, REFERENCES)
        if self.minibatch > self.samples:
            raise CoviewsError(f"PPO's minibatch of {self.minibatch} is more than its {self.samples} samples")
        for name in ("learning_rate", "clip", "gradient_clip"):
            value = getattr(self, name)
            if not (value is None and name == "gradient_clip") and not 0 < value < math.inf:
                raise CoviewsError(f"PPO's {name} must be above 0, not {value!r}")
        if self.hardness is not None and not -1 < self.hardness < 1:
            raise CoviewsError(
                f"PPO's hardness must be between -1 and 1 (the loss of views that lost their image), not "
                f"{self.hardness!r}"
            )
        if not 0 <= self.entropy < math.inf:
            raise CoviewsError(f"PPO's weight of the entropy must be 0 or more, not {self.entropy!r}")

    def check(self) -> None:
        """An error if what is drawn in an iteration cannot be scored in whole batches."""
        if self.samples * self.images_each % self.batch:
            raise CoviewsError(
                f"PPO's {self.samples} samples on {self.images_each} images each are no whole number of batches "
                f"of {self.batch}"
            )

    @classmethod
    def paper(cls) -> "PPOSettings":
        """The paper's search."""
        return cls(
            samples=128, learning_rate=5e-5, entropy=0.05, network=NetworkSettings.paper(),
            reward=BoundedReward("ratio"), reference="current", images_each=1, reference_batches=20,
        )  # fmt: skip

    def due(self, epochs_since_warmup: int) -> bool:
        """Every K epochs."""
        return epochs_since_warmup >= 0 and epochs_since_warmup % self.every == 0

    @property
    def images_needed(self) -> int:
        """A batch."""
        return self.batch

    @property
    def encoder_passes(self) -> int:
        """Two views of every pair that is scored."""
        return 2 * (self.iterations * self.samples * self.images_each + self.reference_batches * self.batch)


class Scores(NamedTuple):
    """What the scorer says of n subpolicies."""

    rewards: NDArray[np.floating]  # (n,)
    over: NDArray[np.bool_]  # (n,), whether the loss was over the reward's bound


@dataclass(frozen=True)
class SearchStep:
    """What one iteration did."""

    iteration: int  # from 1
    reward: float  # mean over the samples
    reward_std: float
    over: float  # share of the samples over the reward's bound
    entropy: float  # of the policy that drew the samples
    kl: float = 0.0  # from that policy to the updated one, estimated on the samples
    clipped: float = 0.0  # share of the samples whose probability ended up beyond the clip
    skipped: str | None = None  # why the policy was left as it was, if it was


class PPO:
    """Iterate over it, and `policy` improves in place.

    Schulman et al., Proximal Policy Optimization Algorithms, 2017; without a critic, as in the paper of CoViews.
    """

    def __init__(
        self,
        policy: Policy,
        score: Callable[[Subpolicies], Scores],
        generator: np.random.Generator,
        settings: PPOSettings | None = None,
    ) -> None:
        self.policy, self.score, self.generator = policy, score, generator
        self.settings = settings or PPOSettings()
        self.iteration = 0
        self.stopped: str | None = None  # why the search ended early, if it did
        self._adam = _Adam(policy.network.flat, self.settings.learning_rate)
        self._warned = False

    def __iter__(self) -> Iterator[SearchStep]:
        s = self.settings
        while self.iteration < s.iterations and self.stopped is None:
            if s.hardness is not None:  # ever smaller steps settle at the target, where full ones would pass it
                self._adam.learning_rate = s.learning_rate * (1 - self.iteration / s.iterations)
            drawn = self.policy.sample(s.samples, self.generator)
            rewards, over = self._scores(drawn)
            self.iteration += 1
            with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):  # both are looked for
                step = self._update(drawn, rewards, over)
            yield step

    def _update(self, drawn: Subpolicies, rewards: NDArray[np.float64], over: NDArray[np.bool_]) -> SearchStep:
        """Move the policy towards what was rewarded."""
        s, network = self.settings, self.policy.network
        old = network.evaluate(drawn.ops, drawn.levels)
        mean, std = float(rewards.mean()), float(rewards.std())
        step = SearchStep(self.iteration, mean, std, float(over.mean()), float(old.entropy.mean()))
        bad = len(rewards) - np.isfinite(rewards).sum()
        if bad:
            return self._stop(step, f"{bad} of {len(rewards)} rewards are not finite")
        if std <= CONSTANT * np.abs(rewards).max():
            return self._skip(step)

        advantage = ((rewards - mean) / std).astype(network.flat.dtype)
        before = network.flat.copy()
        for _ in range(s.epochs):
            order = self.generator.permutation(s.samples)
            for start in range(0, s.samples, s.minibatch):
                batch = order[start : start + s.minibatch]
                self._learn(drawn.ops[batch], drawn.levels[batch], old.log_prob[batch], advantage[batch])

        new = network.evaluate(drawn.ops, drawn.levels)
        change = (new.log_prob - old.log_prob).astype(np.float64)
        ratio = np.exp(change)
        kl = float((ratio - 1 - change).mean())
        if not (math.isfinite(kl) and np.isfinite(network.flat).all()):
            network.flat[:] = before
            return self._stop(step, "the update made the policy's weights infinite; try a lower learning rate")
        return replace(step, kl=kl, clipped=float((np.abs(ratio - 1) > s.clip).mean()))

    def _learn(self, ops: NDArray[np.integer], levels: NDArray[np.integer], old: Array, advantage: Array) -> None:
        """One gradient step on loss = -mean(min(ratio * advantage, clip(ratio) * advantage)) - c * mean(entropy)."""
        s, n = self.settings, len(ops)
        now = self.policy.network.evaluate(ops, levels)
        ratio = np.exp(now.log_prob - old)
        # the derivative by log_prob: that of the ratio is the ratio, and that of a clipped ratio is zero
        clipped = np.where(advantage > 0, ratio > 1 + s.clip, ratio < 1 - s.clip)
        gradient = now.gradient(np.where(clipped, 0.0, -ratio * advantage / n), -s.entropy / n)
        if s.gradient_clip is not None:
            gradient *= min(1.0, s.gradient_clip / max(float(np.linalg.norm(gradient)), 1e-12))
        self._adam.step(gradient)

    def _scores(self, drawn: Subpolicies) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        scores = self.score(drawn)
        rewards, over = np.asarray(scores[0], np.float64), np.asarray(scores[1], bool)
        if rewards.shape != (len(drawn),) or over.shape != (len(drawn),):
            raise CoviewsError(
                f"the scorer must give one reward and one flag for each of {len(drawn)} subpolicies, "
                f"not {rewards.shape} and {over.shape}"
            )
        return rewards, over

    def _skip(self, step: SearchStep) -> SearchStep:
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"search iteration {step.iteration}: all {self.settings.samples} rewards are {step.reward:.6g}, from "
                "which nothing can be learned.\nIf it stays so, the loss does not depend on the views.",
                stacklevel=4,
            )
        return replace(step, skipped="constant reward")

    def _stop(self, step: SearchStep, reason: str) -> SearchStep:
        self.stopped = reason
        warnings.warn(
            f"search iteration {step.iteration}: {reason}.\nThe search ends here, with the policy as it was before.",
            stacklevel=4,
        )
        return replace(step, skipped=reason)


class _Adam:
    """The optimiser with its usual constants; it changes the weights in place."""

    def __init__(self, weights: Array, learning_rate: float) -> None:
        self.weights, self.learning_rate = weights, learning_rate
        # decayed sums, not means: the factors between the two are numbers and go into the step
        self.sum, self.sum_of_squares = np.zeros((2, len(weights)), weights.dtype)
        self.steps = 0

    def step(self, gradient: Array) -> None:
        """One step against the gradient."""
        self.steps += 1
        self.sum *= BETA1
        self.sum += gradient
        squares = gradient * gradient
        self.sum_of_squares *= BETA2
        self.sum_of_squares += squares
        mean = (1 - BETA1) / (1 - BETA1**self.steps)
        root_mean = math.sqrt((1 - BETA2) / (1 - BETA2**self.steps))
        move = np.sqrt(self.sum_of_squares, out=squares)
        move += EPSILON / root_mean
        np.divide(self.sum, move, out=move)
        move *= self.learning_rate * mean / root_mean
        self.weights -= move
