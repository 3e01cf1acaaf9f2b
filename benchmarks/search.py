"""What a search costs: its time over that of the encoder passes it cannot do without.

passes: a search of 100 iterations scores 128 pairs each (32 subpolicies on four images): 25,600 images forward. The
bare passes are timed in the same run, in turn with the search's iterations, on batches of the same size. The parts are
drawing, making views, the encoder with its loss, and the update of the policy. The reference loss (five more batches)
counts as search.

table: a search by table has no passes of its own. Its cost is that of an epoch's fit from a full memory (50,000
pairs), of remembering every step, and of drawing from a queue of four of its policies beyond what drawing from the
prior costs, over an epoch of 5,000 images (training steps of the small encoder). Its losses are made up: a third of
their variance comes from the operations, as it does in training.

network: the policy network and PPO's update in NumPy (as they are) and in torch (network_torch.py), in a whole search
with the small encoder and alone, with a scorer that costs nothing. Iterations of both are timed in turn, with one
thread and with two; "guarded" is the twin whose own part runs on one thread, as NumPy's always does. Ratios above 1
mean that NumPy is faster.
"""

import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import nn

from coviews import (
    BoundedReward,
    LossTable,
    PolicyQueue,
    PPOSettings,
    ViewSettings,
    info_nce,
    load_images,
    make_encoder,
    to_tensors,
)
from coviews.encoders.frozen import evaluating
from coviews.methods.heads import make_projector
from coviews.methods.losses import chance_loss
from coviews.ops.space import STANDARD, space
from coviews.policies.fixed import Uniform
from coviews.policies.learned import Policy
from coviews.policies.subpolicy import Subpolicies
from coviews.searching.ppo import PPO, Scores
from coviews.searching.ppo_search import Scorer
from coviews.training.pair_losses import PairLosses, encoder_losses
from measure import options, versions, write
from network_torch import TorchPPO, check_twin

ITERATIONS = 100  # of a full search; fewer are timed where the encoder is large, and scaled
K = 10  # epochs between two searches
PARTS = ("passes", "table", "network")
UNIFORM = Uniform(space("autoaugment"), 2, 0.8)


class Clock:
    """Notes the seconds of each call of whatever it wraps."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = defaultdict(list)

    def timed(self, name: str, call: Callable[..., object]) -> Callable[..., object]:
        def wrapped(*args: object, **kwargs: object) -> object:
            start = time.perf_counter()
            result = call(*args, **kwargs)
            self.seconds[name].append(time.perf_counter() - start)
            return result

        return wrapped


class Trainer:
    """An encoder and its training steps on batches of uniform views."""

    def __init__(self, name: str, images: np.ndarray, views: ViewSettings, generator: np.random.Generator) -> None:
        torch.manual_seed(0)
        backbone = make_encoder(name)
        self.encoder = nn.Sequential(backbone, make_projector(backbone.feature_count, 512, 128))
        self.optimizer = torch.optim.SGD(self.encoder.parameters(), 0.01, 0.9)
        self.images, self.views, self.generator = images[: PPOSettings().batch], views, generator

    def batch(self) -> list[torch.Tensor]:
        plan = self.views.plan(UNIFORM, len(self.images), self.images.shape[1:3], self.generator)
        return to_tensors(self.views.make(self.images, plan), self.views.mean, self.views.std)

    def train(self, pair: list[torch.Tensor]) -> None:
        loss = info_nce(self.encoder(pair[0]), self.encoder(pair[1])).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def make_scorer(losses, images, views, reward, settings: PPOSettings, generator: np.random.Generator) -> Scorer:
    pair_losses = PairLosses(losses, images, views)

    def on_images(subpolicies: Subpolicies) -> np.ndarray:
        return pair_losses(subpolicies, generator, settings.batch)

    return Scorer(on_images, reward, chance_loss(settings.batch), settings.images_each)


def measure(name: str, images: np.ndarray, iterations: int) -> dict[str, float]:
    """Seconds of each part of one iteration, of a bare pass, and of a training step on 128 pairs: medians."""
    settings, generator, clock = PPOSettings(), np.random.default_rng(0), Clock()
    views = ViewSettings.of(images)
    trainer = Trainer(name, images, views, generator)
    encoder, batch = trainer.encoder, trainer.batch
    policy = Policy.untrained(UNIFORM.space, generator, settings=settings.network)
    losses = clock.timed("encoder", encoder_losses(encoder, 0.5))
    reward = BoundedReward("ratio")  # an encoder that is hardly trained may be at chance, where the others refuse
    scorer = make_scorer(losses, images, views, reward, settings, generator)
    policy.network.sample = clock.timed("drawing", policy.network.sample)
    ppo = PPO(policy, clock.timed("score", scorer), generator, settings)

    for _ in range(20 if name == "resnet8" else 1):  # an encoder that tells some pairs from others
        trainer.train(batch())
    with evaluating(encoder), torch.inference_mode():
        scorer.measure_reference(UNIFORM.sample(settings.batch, generator))  # warm up
        clock.seconds.clear()
        iterate = clock.timed("iterations", iter(ppo).__next__)
        bare = clock.timed("bare", encoder)
        reference = clock.timed("reference", scorer.measure_reference)
        for _ in range(1 if iterations < 10 else settings.reference_batches):
            reference(UNIFORM.sample(settings.batch, generator))
        del clock.seconds["encoder"]
        for _ in range(iterations):
            iterate()
            bare(torch.cat(batch()))
    pairs = [batch() for _ in range(4)]
    step = clock.timed("training", trainer.train)
    for i in range(max(4, iterations // 4)):
        step(pairs[i % 4])
    s = {name: float(np.median(times)) for name, times in clock.seconds.items()}
    return {
        "reference": s["reference"] * settings.reference_batches / ITERATIONS,
        "drawing": s["drawing"],
        "views": s["score"] - s["encoder"],
        "encoder": s["encoder"],
        "update": s["iterations"] - s["score"] - s["drawing"],
        "bare": s["bare"],
        "training": s["training"],
    }


def measure_table(images: np.ndarray, rounds: int) -> dict[str, float]:
    """Shares of an epoch of 5,000 images, by medians; training steps of 128 pairs are timed in turn with the rest."""
    generator, prior, clock = np.random.default_rng(0), Uniform(space(STANDARD), 2, 0.8), Clock()
    trainer = Trainer("resnet8", images, ViewSettings(), generator)
    pair = trainer.batch()
    effects = 0.15 * generator.standard_normal(prior.space.values.shape)
    table, queue = LossTable(prior), PolicyQueue()
    add, fit = clock.timed("memory", table.add), clock.timed("fit", table.policy)
    step = clock.timed("training", trainer.train)
    for _ in range(50_000 // 128):
        applied = prior.sample(128, generator).applied(generator)
        add(applied, 4.4 + effects[applied.ops, applied.levels].sum((1, 2)) + 0.4 * generator.standard_normal(128))
    ours = clock.timed("ours", lambda: queue.sample(128, generator).applied(generator))
    theirs = clock.timed("theirs", lambda: prior.sample(128, generator).applied(generator))
    for _ in range(rounds):
        step(pair)
        queue.push(fit(generator))
        for _ in range(10):
            ours()
            theirs()
    s = {name: float(np.median(times)) for name, times in clock.seconds.items()}
    steps = 5_000 // 128
    extra = {"fit": s["fit"], "memory": steps * s["memory"], "drawing": steps * (s["ours"] - s["theirs"])}
    return {name: seconds / (steps * s["training"]) for name, seconds in extra.items()}


def measure_network(images: np.ndarray, iterations: int, threads: int) -> dict[str, float]:
    """Seconds of a search with the NumPy network and with its torch twin, and of the policy's part alone."""
    torch.set_num_threads(threads)
    settings, generator, clock = PPOSettings(), np.random.default_rng(0), Clock()
    views = ViewSettings.of(images, threads=threads)
    trainer = Trainer("resnet8", images, views, generator)
    policy = Policy.untrained(UNIFORM.space, generator, settings=settings.network)
    check_twin(policy, settings)
    for _ in range(20):
        trainer.train(trainer.batch())
    losses = encoder_losses(trainer.encoder, 0.5)
    scorer = make_scorer(losses, images, views, BoundedReward("ratio"), settings, generator)

    def free(subpolicies: Subpolicies) -> Scores:
        return Scores(generator.random(len(subpolicies)), np.zeros(len(subpolicies), bool))

    with evaluating(trainer.encoder):
        reference = clock.timed("reference", scorer.measure_reference)
        for _ in range(settings.reference_batches):
            reference(UNIFORM.sample(settings.batch, generator))
        for part, score in (("policy", free), ("search", scorer)):
            calls = []
            for name, kind in (("numpy", PPO), ("torch", TorchPPO), ("guarded", partial(TorchPPO, threads=1))):
                steps = iter(kind(policy.copy(), score, generator, settings))
                next(steps)  # warm up
                calls.append(clock.timed(f"{part} {name}", steps.__next__))
            for _ in range(iterations - 1):
                for call in calls:
                    call()
    s = {name: float(np.median(times)) * ITERATIONS for name, times in clock.seconds.items()}
    extra = s.pop("reference") * settings.reference_batches / ITERATIONS
    return {name: seconds + extra * name.startswith("search") for name, seconds in s.items()}


def report_passes(images: np.ndarray, quick: bool) -> dict[str, float]:
    counts = {"resnet8": 20, "resnet18": 3} if quick else {"resnet8": 100, "resnet18": 20}
    figures: dict[str, float] = {}
    table = Table("part of the search", *counts, title="share of the time of the bare encoder passes")
    shares, parts = {}, ("reference", "drawing", "views", "encoder", "update")
    for name, iterations in counts.items():
        t = measure(name, images, iterations)
        shares[name] = {part: t[part] / t["bare"] for part in parts}
        total = sum(t[part] for part in parts)
        short = {"resnet8": "small"}.get(name, name)
        figures[f"total_over_forward_{short}"] = total / t["bare"]
        steps = {"cifar10": 50_000 / 128, "5000": 5_000 / 128}  # training steps of 128 pairs in an epoch
        suffix = "" if short == "small" else f"_{short}"
        figures |= {f"overhead_{k}{suffix}": total * ITERATIONS / (K * n * t["training"]) for k, n in steps.items()}
    for part in parts:
        table.add_row(part, *(f"{shares[name][part]:.3f}" for name in counts))
    table.add_section()
    table.add_row("total", *(f"{sum(shares[name].values()):.3f}" for name in counts))
    Console(width=100).print(table)
    return figures


def report_table(images: np.ndarray, quick: bool) -> dict[str, float]:
    shares = measure_table(images, 15 if quick else 60)
    text = ", ".join(f"{name} {share:.2%}" for name, share in shares.items())
    print(f"search by table, share of an epoch of 5,000 images with resnet8: {text}")
    return {"table_share_of_epoch": sum(shares.values())}


def report_network(images: np.ndarray, quick: bool) -> dict[str, float]:
    figures: dict[str, float] = {}
    systems = ("numpy", "torch", "guarded")
    table = Table("seconds of 100 iterations", *systems, "torch/numpy", "guarded/numpy", title="the policy network")
    before = torch.get_num_threads()
    for threads in (1, 2):
        s = measure_network(images, 20 if quick else ITERATIONS, threads)
        for part in ("search", "policy"):
            ratios = {name: s[f"{part} {name}"] / s[f"{part} numpy"] for name in systems[1:]}
            suffix = "1thread" if threads == 1 else f"{threads}threads"
            figures |= {f"{part}_{name}_over_numpy_{suffix}": ratio for name, ratio in ratios.items()}
            cells = [s[f"{part} {name}"] for name in systems] + list(ratios.values())
            table.add_row(f"{part}, threads: {threads}", *(f"{cell:.2f}" for cell in cells))
    torch.set_num_threads(before)
    Console(width=100).print(table)
    return figures


def main() -> None:
    asked = options(__doc__, PARTS)
    images = load_images("shapes:5000").images
    reports = {"passes": report_passes, "table": report_table, "network": report_network}
    figures: dict[str, float] = {}
    for part in [asked.part] if asked.part else PARTS:
        figures |= reports[part](images, asked.quick)
    print(f"two cores: {torch.get_num_threads()} threads; {ITERATIONS} iterations of 128 every {K} epochs")
    print(versions("coviews", "numpy", "numba", "torch"))
    for key, value in figures.items():
        print(f"  {key}: {value:.4g}")
    write(asked.json, figures)


if __name__ == "__main__":
    main()
