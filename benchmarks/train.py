"""What training costs beside the encoder's step: images per second of `pretrain` over those of the bare step.

Bare: forward, loss, backward and update of the same method, in the precision that is the default on this machine, on
views that were made beforehand. `pretrain`: whole epochs of it with the default views, drawn, made, moved and
normalised; as "learned views", drawn from a queue of four policies. lightly: its SimCLR with its own transform
(torchvision's operations), loss and projector on the same encoder, images, batch and cores, images in memory, in 32
bits as in its own example, with the number of loader processes that serves it best; and the same in our precision.
It is compared with the recipe, which is what it trains; the default has a keeping head besides.
`step_speedup`: the bare step in 32 bits over that in the default precision. All in one process, in turn, each the best
of short rounds.

Then the time of an epoch of hard views of each kind, and of the keeping head, over that of the recipe.
"""

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from coviews.compat import import_torchvision
from coviews.console.progress import Display
from coviews.encoders.pixels import to_tensors
from coviews.ops.space import space
from coviews.policies.learned import Policy
from coviews.runs.settings import PretrainSettings
from coviews.searching.ppo import PPOSettings
from coviews.training.lifecycle import begin
from coviews.training.pretrain import train_epoch
from coviews.training.setup import for_this_machine, make_fabric
from coviews.training.state import Training
from measure import options, versions, write

BATCH = 128
# what is timed: the encoder, the side of the images, and the steps in a round
SIZES = {"resnet8": ("resnet8", 32, 5), "resnet18": ("resnet18", 32, 1), "resnet18_96": ("resnet18", 96, 1)}
T = TypeVar("T")
LEARNED: dict[str, Any] = {"views": "coviews", "space": "autoaugment", "search": PPOSettings()}
_HARD: dict[str, Any] = {"views": "hardviews", "hard_source": "recipe"}
# what is compared with the recipe
COSTLIER: dict[str, dict[str, Any]] = {
    "keep": {"views": "recipe-keep"},
    "hardviews": _HARD,  # the default: by crops alone
    "hardviews_keep": {**_HARD, "hard_source": "recipe-keep"},
    "hardviews_crops_half": {**_HARD, "hard_views": 3, "hard_scale": 0.5},
    "hardviews_half": {**_HARD, "hard_crops": 0, "hard_views": 4, "hard_scale": 0.5},
    "hardviews_full": {**_HARD, "hard_crops": 0, "hard_views": 4},
}


@contextlib.contextmanager
def training_of(encoder: str, images: int, **changes: Any) -> Iterator[Training]:
    settings = PretrainSettings(
        data=f"shapes:{images}", encoder=encoder, batch_size=BATCH, tensorboard=False, accelerator="cpu",
        save_every=1e6,
    ).replaced(**changes)  # fmt: skip
    settings = for_this_machine(settings)
    with tempfile.TemporaryDirectory() as folder:
        training = Training(settings, make_fabric(settings), Display(False), settings.data, None)
        training.settings = settings.replaced(out=Path(folder) / "run")
        begin(training, None, False)
        for seed in range(4 if settings.learns_views else 0):
            training.queue.push(Policy.untrained(space("autoaugment"), np.random.default_rng(seed)))
        yield training
        training.close()


def bare_steps(training: Training, steps: int) -> Callable[[], object]:
    """As many optimiser steps as are asked for, on views that lie ready."""
    b, keeping = training.batches, training.keeping
    pairs = []
    for step, groups, plan in b.epoch(training.source, 1, ahead=0):
        views = [x for some in groups for x in to_tensors(some, training.views.mean, training.views.std)]
        pairs.append((views, plan))
        if step + 1 == steps:
            break

    def run() -> None:
        training.start_epoch()
        for pair, plan in pairs:
            losses = training.method(pair)
            loss = losses.each.mean()
            training.fabric.backward(loss + keeping.loss(losses, plan) if keeping else loss)
            training.change_weights(losses, 0.01)

    return run


def epoch(training: Training) -> Callable[[], object]:
    def run() -> None:
        training.step, training.total = 0, 0.0
        train_epoch(training)
        training.epoch += 1

    return run


def lightly_epoch(training: Training, workers: int, *, mixed: bool = False) -> Callable[[], object]:
    """An epoch as lightly's own example of SimCLR writes it; mixed: in our precision instead of 32 bits."""
    import_torchvision()
    from lightly.loss import NTXentLoss
    from lightly.models.modules import SimCLRProjectionHead
    from lightly.transforms import SimCLRTransform
    from PIL import Image

    from coviews import make_encoder

    transform = SimCLRTransform(input_size=training.images.images.shape[1], gaussian_blur=0.0)
    pictures = [Image.fromarray(image) for image in training.images.images]

    class Pictures(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return len(pictures)

        def __getitem__(self, i: int) -> list[torch.Tensor]:
            return transform(pictures[i])

    encoder = make_encoder(training.settings.encoder, training.images.images.shape[1:3])
    features = encoder.feature_count
    head = SimCLRProjectionHead(features, features, features)
    criterion = NTXentLoss(temperature=0.5)
    optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], 0.03, 0.9, weight_decay=5e-4)
    loader = torch.utils.data.DataLoader(
        Pictures(), BATCH, shuffle=True, drop_last=True, num_workers=workers, persistent_workers=workers > 0
    )

    def run() -> None:
        for x0, x1 in loader:
            with training.fabric.autocast() if mixed else contextlib.nullcontext():
                loss = criterion(head(encoder(x0).flatten(1)), head(encoder(x1).flatten(1)))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    return run


def times_over_recipe(rounds: int, steps: int) -> dict[str, float]:
    """The time of an epoch of hard views of each kind, and of the keeping head, over that of the recipe."""
    with contextlib.ExitStack() as stack:
        kinds = {"recipe": {"views": "recipe"}, **COSTLIER}
        started = {name: training_of("resnet8", steps * BATCH, **changes) for name, changes in kinds.items()}
        t = seconds({name: epoch(stack.enter_context(one)) for name, one in started.items()}, rounds)
    return {f"time_over_recipe_{name}": over(t, name, "recipe") for name in COSTLIER}


def best_of(systems: dict[T, Callable[[], object]]) -> T:
    """The name of the fastest of several, by one call of each after another one."""
    t = seconds(systems, 1)
    return min(t, key=lambda name: t[name][0])


def over(times: dict[T, list[float]], one: T, other: T) -> float:
    """The time of one over that of another, each the best of all rounds, in which nothing else took its cores."""
    return min(times[one]) / min(times[other])


def seconds(systems: dict[T, Callable[[], object]], rounds: int) -> dict[T, list[float]]:
    """Of one call of each in every round, taken in turn."""
    times: dict[T, list[float]] = {name: [] for name in systems}
    for call in systems.values():
        call()  # warm up
    for _ in range(rounds):
        for name, call in systems.items():
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    return times


def main() -> None:
    asked = options(__doc__)
    figures: dict[str, float] = {}
    table = Table("", "images/s over the bare step's", "share of its time that is not the bare step's")
    rounds_of = {"resnet8": 8 if asked.quick else 25}
    for name, (encoder, side, steps) in SIZES.items():
        images, rounds = steps * BATCH, rounds_of.get(name, 2 if asked.quick else 5)
        with contextlib.ExitStack() as stack:
            training = stack.enter_context(training_of(encoder, images, size=side))
            plain = stack.enter_context(training_of(encoder, images, size=side, views="recipe"))
            learned = stack.enter_context(training_of(encoder, images, size=side, **LEARNED))
            full = stack.enter_context(training_of(encoder, images, size=side, precision="32-true"))
            lightly = {n: lightly_epoch(training, n) for n in (0, 1, 2)}
            # beside a larger encoder the loaders have less to do, and choosing would take long
            best = best_of(lightly) if encoder == "resnet8" else 0
            systems = {
                "bare": bare_steps(training, steps), "bare, 32 bits": bare_steps(full, steps),
                "pretrain": epoch(training), "pretrain, learned views": epoch(learned),
                "pretrain, recipe": epoch(plain), f"lightly, {best} loader processes": lightly[best],
                "lightly, our precision": lightly_epoch(training, best, mixed=True),
            }  # fmt: skip
            t = seconds(systems, rounds)
        for system in t:
            rate = over(t, "bare", system)
            table.add_row(f"{name}: {system}", f"{rate:.3f}", f"{1 - rate:.1%}")
        theirs = f"lightly, {best} loader processes"
        figures |= {
            f"pretrain_over_bare_{name}": over(t, "bare", "pretrain"),
            f"pretrain_over_lightly_{name}": over(t, theirs, "pretrain, recipe"),
            f"pretrain_over_lightly_same_precision_{name}": over(t, "lightly, our precision", "pretrain, recipe"),
            f"pretrain_default_over_lightly_{name}": over(t, theirs, "pretrain"),
            f"pretrain_learned_over_bare_{name}": over(t, "bare", "pretrain, learned views"),
            f"step_speedup_{name}": over(t, "bare, 32 bits", "bare"),
            f"views_share_pretrain_{name}": max(0.0, 1 - over(t, "bare", "pretrain")),
        }
        if encoder == "resnet8":  # of its own step, which is that in 32 bits
            figures["views_share_lightly_resnet8"] = 1 - over(t, "bare, 32 bits", theirs)
    figures |= times_over_recipe(rounds_of["resnet8"], SIZES["resnet8"][2])
    Console(width=110).print(table)
    print(f"{torch.get_num_threads()} threads, batches of {BATCH} pairs, {training.settings.precision} precision")
    print(versions("coviews", "numpy", "numba", "torch", "torchvision", "lightly"))
    for key, value in figures.items():
        print(f"  {key}: {value:.4g}")
    write(asked.json, figures)


if __name__ == "__main__":
    main()
