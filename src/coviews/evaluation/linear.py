"""Linear probes: logistic regression on stored features, fitted in seconds, and the paper's protocol."""

import math
import statistics
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from coviews.console.progress import shown
from coviews.encoders.features import Features, check_features, feature_batches
from coviews.encoders.frozen import device_of
from coviews.errors import CoviewsError
from coviews.evaluation.crop_model import CropModel
from coviews.evaluation.labels import Labels, accuracy, balanced_parts, check_label_array
from coviews.ops.engine import AREA, random_crops
from coviews.ops.images import Images

# From strong to weak, each fit starts from the one before; the search ends where the held-out loss falls no more.
STRENGTHS = (1.0, 0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5, 1e-6)
GAIN = 1e-3  # nats that a weaker one must gain: where classes are far apart, the loss falls for ever without use
PLAIN = 0.1  # where there are too few images to hold some out
FEWEST = 20
TRIALS = 5_000  # images fitted for each strength at least: of small sets, several tenths are held out in turn

LIGHT = 3e-3  # for crops: the paper's probe has no penalty, but without one the fit may not converge
ENOUGH, MOST = 16_000, 10  # crops that are learned from, if the images allow it; and of one image

_SMALL = 1 << 17  # numbers in a training set up to which double precision costs nothing: there fits are hardest
_SEARCH, _FINAL = 1e-5, 1e-6  # how far above the least loss a fit may end: in nats, and as a share


@dataclass(frozen=True, eq=False)
class FastProbe:
    """A linear classifier of features, and its predictions for the test set."""

    weight: NDArray[np.float32]  # (C, D), of the features as they are
    bias: NDArray[np.float32]  # (C,)
    strength: float  # of the penalty on the weights of standardised features
    predictions: Labels  # (M,)
    accuracy: float | None  # without test labels none

    def scores(self, features: Features) -> NDArray[np.float32]:
        """The logit of each class (N, C)."""
        return check_features(features, "features") @ self.weight.T + self.bias


def fast_probe(
    train_features: Features,
    train_labels: Labels,
    test_features: Features,
    test_labels: Labels | None = None,
    *,
    classes: int,
    seed: int = 0,
    strengths: Sequence[float] = STRENGTHS,
) -> FastProbe:
    """Multinomial logistic regression on standardised features, fitted until it has converged.

    The loss is the mean cross-entropy plus strength / 2 times the squared weights (not the biases); the strength is
    the one with the least loss on a tenth of the training images that is held out (of fewer than 5,000 images, on
    several such tenths), and with it all of them are fitted again.

    Args:
        train_features: (N, D).
        train_labels: (N,), 0..classes - 1.
        test_features: (M, D).
        test_labels: (M,), -1 for those that do not count.
        classes: how many there are.
        seed: chooses what is held out.
        strengths: to choose from, in falling order.
    """
    train = torch.from_numpy(check_features(train_features, "training features"))
    labels = check_label_array(train_labels, len(train), classes, "training")
    if train.shape[1] != np.shape(test_features)[-1]:
        raise CoviewsError(f"training has {train.shape[1]} features an image, the test {np.shape(test_features)[-1]}")
    if classes < 2 or not len(strengths) or min(strengths) <= 0:
        raise CoviewsError(f"a probe needs two classes and strengths above 0, not {classes} and {strengths}")
    spread, mean = torch.std_mean(train, 0, correction=0)
    scale = torch.where(spread > 1e-5 * mean.abs(), 1 / spread, 0)  # a constant feature says nothing
    rotated = _rotated((train - mean) * scale)
    problem = _Problem(rotated.x, rotated.curvature / classes, torch.from_numpy(labels), classes)
    strength, start = _choose(problem, labels, strengths, np.random.default_rng(seed))
    fitted = problem.fit(strength, start, final=True)
    weight = fitted[:, :-1] @ rotated.basis.T * scale  # (C, D)
    bias = fitted[:, -1].double() - weight.double() @ mean.double()
    probe = FastProbe(weight.numpy(), bias.float().numpy(), strength, np.empty(0, np.int64), None)
    predictions = probe.scores(test_features).argmax(1)
    share = None if test_labels is None else accuracy(test_labels, predictions)
    return FastProbe(probe.weight, probe.bias, strength, predictions, share)


def crop_probe(
    crops: CropModel,
    train_features: Features,
    train_labels: Labels,
    test_features: Features,
    test_labels: Labels | None = None,
    *,
    classes: int,
    seed: int = 0,
) -> FastProbe:
    """`fast_probe` of features as random crops of the training images have them: close to the paper's probe.

    Args:
        crops: what crops do to features; about 16,000 are drawn from it, one to ten of each image.
        train_features: (N, D), of the whole images; see `fast_probe` for the rest.
        seed: for what is drawn.
    """
    features = check_features(train_features, "training features")
    labels = check_label_array(train_labels, len(features), classes, "training")
    generator, n = np.random.default_rng([seed, 2]), len(features)
    copies = max(1, min(MOST, round(ENOUGH / n)))
    drawn = np.empty((copies, *features.shape), np.float32)
    for part in drawn:
        part[:] = crops.draw(features, generator)
    labels = np.tile(labels, copies)
    return fast_probe(
        drawn.reshape(copies * n, -1), labels, test_features, test_labels, classes=classes, strengths=[LIGHT]
    )


@dataclass(frozen=True, eq=False)
class _Rotated:
    x: Tensor  # (N, R + 1), features along their principal axes, and a column of ones
    basis: Tensor  # (D, R), the axes
    curvature: Tensor  # (R + 1,), the mean square of each column


def _rotated(x: Tensor) -> _Rotated:
    """Rotate to the principal axes: there the loss has almost no mixed curvature, and one scale for each is enough."""
    n, d = x.shape
    within = None
    if d > n:  # the best weights lie in the span of the images
        within, r = torch.linalg.qr(x.T)
        x = r.T  # (N, N)
    values, axes = torch.linalg.eigh(x.T @ x / n)
    basis = axes if within is None else within @ axes
    one = torch.ones(1)
    return _Rotated(torch.cat([x @ axes, one.expand(n, 1)], 1), basis, torch.cat([values.clamp_min(0), one]))


@dataclass(frozen=True, eq=False)
class _Problem:
    x: Tensor  # (N, R + 1)
    curvature: Tensor  # (R + 1,), of the loss where nothing is learned yet
    labels: Tensor  # (N,)
    classes: int

    def rows(self, mask: NDArray[np.bool_]) -> "_Problem":
        return _Problem(self.x[mask], self.curvature, self.labels[mask], self.classes)

    def fit(self, strength: float, start: Tensor | None, *, final: bool) -> Tensor:
        """The best weights (C, R + 1), to the last digits only if they are final."""
        penalty = torch.full_like(self.curvature, strength)
        penalty[-1] = 0
        scale = (self.curvature + penalty).rsqrt()  # of the weights: with it the curvature is about 1
        dtype = torch.float64 if self.x.numel() <= _SMALL else torch.float32
        x, penalty = (self.x * scale).to(dtype), (penalty * scale**2).to(dtype)
        targets = F.one_hot(self.labels, self.classes).T.to(dtype)  # (C, N): classes first is four times as fast
        n = len(x)

        def loss(weights: Tensor) -> tuple[float, Tensor]:
            logs = (weights @ x.T).log_softmax(0)
            value = -(logs * targets).sum() / n + (penalty * weights.square()).sum() / 2
            return float(value), (logs.exp() - targets) @ x / n + penalty * weights

        begin = torch.zeros(self.classes, x.shape[1]) if start is None else start / scale
        best = _minimise(loss, begin.to(dtype), tolerance=_FINAL if final else _SEARCH, as_share=final)
        return best.float() * scale

    def loss(self, weights: Tensor) -> float:
        """The mean cross-entropy."""
        return float(F.cross_entropy(self.x @ weights.T, self.labels))


def _choose(
    problem: _Problem, labels: Labels, strengths: Sequence[float], generator: np.random.Generator
) -> tuple[float, Tensor | None]:
    """The strength with the least loss on the images that are held out, and the weights of its fit."""
    if len(strengths) == 1 or len(labels) < FEWEST:
        return (strengths[0] if len(strengths) == 1 else PLAIN), None
    tenth = balanced_parts(labels, 10, generator)
    trials = range(min(10, -(-TRIALS // len(labels))))
    splits = [(problem.rows(tenth != i), problem.rows(tenth == i)) for i in trials]
    weights: list[Tensor | None] = [None for _ in splits]
    best, least = (strengths[0], weights[0]), math.inf
    for strength in strengths:
        fitted = [fit.fit(strength, start, final=False) for (fit, _), start in zip(splits, weights, strict=True)]
        loss = statistics.fmean(held_out.loss(w) for (_, held_out), w in zip(splits, fitted, strict=True))
        if not loss < least - GAIN:
            break
        best, least, weights = (strength, fitted[0]), loss, [*fitted]
    return best


def _minimise(
    function: Callable[[Tensor], tuple[float, Tensor]], start: Tensor, *, tolerance: float, as_share: bool
) -> Tensor:
    """Where a smooth convex function is least, by L-BFGS.

    Args:
        function: gives the value, which is never below 0, and the gradient. Its variables are scaled so that the
            curvature is about 1 at most: half the gradient's square tells how far it is to the minimum.
        start: where to begin.
        tolerance: about how far the value may be above the minimum.
        as_share: of the minimum, where it is below 1; a cross-entropy near 0 is as flat as it is low, so that
            its last digits take most of the steps.
    """
    from scipy.optimize import minimize  # a third of a second, so only where it is needed

    value, gradient = initial = function(start)
    scale = float(gradient.norm())  # scipy's first step has length 1: in these variables that is a full step

    def converged() -> bool:
        return float(gradient.square().sum()) / 2 <= tolerance * min(1.0, value) ** (2 if as_share else 1)

    def evaluate_at(x: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        nonlocal value, gradient
        known = np.array_equal(x, first)
        value, gradient = initial if known else function(_as_tensor(x * scale, start))
        return value, gradient.numpy().ravel().astype(np.float64) * scale

    def stop(intermediate_result: object) -> None:
        if converged():
            raise StopIteration

    if converged():
        return start
    first = start.numpy().ravel().astype(np.float64) / scale
    options = {"maxiter": 500, "ftol": 0, "gtol": 0}
    best = minimize(evaluate_at, first, jac=True, method="L-BFGS-B", callback=stop, options=options).x
    return _as_tensor(best * scale, start)


def _as_tensor(x: NDArray[np.float64], like: Tensor) -> Tensor:
    return torch.from_numpy(x).to(like.dtype).view(like.shape)


# ------------------------------------------------------------------------------ the paper's protocol


class Diverged(CoviewsError):
    """Training ended in numbers that are not finite."""


@dataclass(frozen=True)
class PaperProbe:
    """The accuracies of several heads on the test set."""

    accuracies: tuple[float, ...]  # of each head
    mean: float
    std: float  # of the heads alone (n - 1); pretraining seeds vary more
    loss: float  # of training, in the last epoch


def paper_probe(
    encoder: nn.Module,
    train_images: Images,
    train_labels: Labels,
    test_images: Images,
    test_labels: Labels,
    mean: Sequence[float],
    std: Sequence[float],
    *,
    classes: int,
    seed: int = 0,
    heads: int = 5,
    epochs: int = 100,
    lr: float = 30.0,
    batch: int = 256,
    momentum: float = 0.9,
    crop: tuple[float, float] | None = AREA,
    unit: bool = True,
    encoder_batch: int = 256,
    device: torch.device | str | None = None,
    progress: bool = False,
) -> PaperProbe:
    """SGD on the features of randomly cropped images, cosine schedule, no weight decay; the encoder stays frozen.

    The heads differ in their initial weights and in the order of the images; they share each epoch's crops, so that
    an epoch costs one pass of the encoder.

    Args:
        encoder: the frozen one; see `features` for it, the images, mean and std.
        train_labels: (N,), 0..classes - 1.
        test_labels: (M,), -1 for those that do not count.
        classes: how many there are.
        seed: for the heads and the crops.
        unit: features of length 1. The paper does not say, but its step of 30 asks for it: without, on a `resnet8`
            whose features are 14 long, the loss ends above 30, where 2.3 is chance.
        encoder_batch: images that pass the encoder at once; it changes nothing but the crops that are drawn.
    """
    labels = torch.from_numpy(check_label_array(train_labels, len(train_images), classes, "training"))
    if min(heads, epochs, batch) < 1 or not 0 < lr < math.inf:
        raise CoviewsError("a probe needs a head, an epoch, a batch of one image or more, and a step above 0")
    where = device_of(encoder, device)
    labels = labels.to(where)
    crops = np.random.default_rng([seed, 0])
    orders = [np.random.default_rng([seed, 1, head]) for head in range(heads)]

    def features(images: Images, cropped: bool) -> Tensor:
        change = (lambda part: random_crops(part, crops, area=crop)[:, 0]) if cropped and crop else None
        parts = feature_batches(encoder, images, mean, std, batch=encoder_batch, device=where, change=change)
        z = torch.cat(list(parts))
        return F.normalize(z, dim=1) if unit else z  # (N, D)

    weights = velocity = torch.empty(0)  # (heads, C, D + 1): the last column is the bias
    loss = math.inf
    for epoch in shown(range(epochs), "the paper's probe" if progress else "", epochs):
        x = F.pad(features(train_images, cropped=True), (0, 1), value=1.0)  # (N, D + 1)
        if not epoch:
            initial = np.stack([order.normal(0, 0.01, (classes, x.shape[1])) for order in orders])
            initial[..., -1] = 0
            weights = torch.from_numpy(initial).float().to(where)
            velocity = torch.zeros_like(weights)
        step = lr * (1 + math.cos(math.pi * epoch / epochs)) / 2
        order = torch.from_numpy(np.stack([g.permutation(len(x)) for g in orders])).to(where)  # (heads, N)
        total = torch.zeros((), device=where)
        for indices in order.split(batch, 1):  # (heads, B)
            inputs = x[indices]  # (heads, B, D + 1)
            logs = (weights @ inputs.mT).log_softmax(1)  # (heads, C, B)
            targets = F.one_hot(labels[indices], classes).mT.float()
            total -= (logs * targets).sum() / heads
            velocity = momentum * velocity + (logs.exp() - targets) @ inputs / indices.shape[1]
            weights = weights - step * velocity
        loss = float(total) / len(x)
        if not math.isfinite(loss):
            raise Diverged(f"the paper's probe diverged: its loss is {loss}; try unit=True, or a smaller lr than {lr}")
    if loss > math.log(classes):
        warnings.warn(
            f"the paper's probe has not settled: its loss is {loss:.3g} in the last epoch, {math.log(classes):.3g} is "
            "chance. The features tell little about the classes, or the steps are too large for them",
            stacklevel=2,
        )
    x = F.pad(features(test_images, cropped=False), (0, 1), value=1.0)
    predictions = (weights @ x.T).argmax(1).cpu().numpy()  # (heads, M)
    shares = tuple(accuracy(test_labels, p) for p in predictions)
    return PaperProbe(shares, statistics.mean(shares), statistics.stdev(shares) if heads > 1 else 0.0, loss)
