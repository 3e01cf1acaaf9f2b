"""What training on learned views costs: images per second of `pretrain` over those of the bare encoder step.

Bare: forward, loss, backward and update of the same method on views that were made beforehand. `pretrain`: whole
epochs of it, views drawn from a queue of four policies, made, moved and normalised. lightly: its SimCLR with
its own transform (torchvision's operations), loss and projector on the same encoder, images, batch and cores, images
in memory, with the number of loader processes that serves it best. All in one process, in turn, medians of rounds.

Then the time of an epoch of hard views of each kind, and of the keeping head, over that of the recipe.
"""

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

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
from coviews.training.setup import make_fabric
from coviews.training.state import Training
from measure import options, versions, write

BATCH = 128
# what is compared with the recipe
COSTLIER: dict[str, dict[str, Any]] = {
    "keep": {"views": "recipe", "keep": 5.0},
    "hardviews": {"views": "hardviews", "hard_source": "recipe"},
    "hardviews_half": {"views": "hardviews", "hard_source": "recipe", "hard_scale": 0.5},
    "hardviews_crops": {"views": "hardviews", "hard_source": "recipe", "hard_crops": 8, "hard_views": 2},
    "hardviews_crops_half": {
        "views": "hardviews", "hard_source": "recipe", "hard_crops": 8, "hard_views": 3, "hard_scale": 0.5
    },
}  # fmt: skip


@contextlib.contextmanager
def training_of(encoder: str, images: int, **changes: Any) -> Iterator[Training]:
    settings = PretrainSettings(
        data=f"shapes:{images}", encoder=encoder, batch_size=BATCH, tensorboard=False, accelerator="cpu",
        save_every=1e6, space="autoaugment", search=PPOSettings(),
        views="coviews",
    ).replaced(**changes)  # fmt: skip
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
    b = training.batches
    pairs = []
    for step, groups, _ in b.epoch(training.source, 1, ahead=0):
        pairs.append([x for views in groups for x in to_tensors(views, training.views.mean, training.views.std)])
        if step + 1 == steps:
            break

    def run() -> None:
        training.bare.train()
        for pair in pairs:
            losses = training.bare.losses(pair)
            training.optimizer.zero_grad()
            losses.each.mean().backward()
            training.optimizer.step()
            training.bare.after_step(losses)

    return run


def epoch(training: Training) -> Callable[[], object]:
    def run() -> None:
        training.step, training.total = 0, 0.0
        train_epoch(training)
        training.epoch += 1

    return run


def lightly_epoch(training: Training, workers: int) -> Callable[[], object]:
    """An epoch as lightly's own example of SimCLR writes it."""
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

    encoder = make_encoder(training.settings.encoder)
    features = encoder.feature_count
    head = SimCLRProjectionHead(features, features, features)
    criterion = NTXentLoss(temperature=0.5)
    optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], 0.03, 0.9, weight_decay=5e-4)
    loader = torch.utils.data.DataLoader(
        Pictures(), BATCH, shuffle=True, drop_last=True, num_workers=workers, persistent_workers=workers > 0
    )

    def run() -> None:
        for x0, x1 in loader:
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
        t = medians({name: epoch(stack.enter_context(one)) for name, one in started.items()}, rounds)
    return {f"time_over_recipe_{name}": t[name] / t["recipe"] for name in COSTLIER}


def best_of(systems: dict[str, Callable[[], object]]) -> dict[str, Callable[[], object]]:
    """The fastest of several, by one call of each after another one."""
    t = medians(systems, 1)
    name = min(t, key=t.__getitem__)
    return {name: systems[name]}


def medians(systems: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Seconds of one call of each, taken in turn."""
    times: dict[str, list[float]] = {name: [] for name in systems}
    for call in systems.values():
        call()  # warm up
    for _ in range(rounds):
        for name, call in systems.items():
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    return {name: float(np.median(t)) for name, t in times.items()}


def main() -> None:
    asked = options(__doc__)
    figures: dict[str, float] = {}
    table = Table("", "images/s over the bare step's", "share of its time that is not the bare step's")
    plans = {"resnet8": (3 if asked.quick else 9, 20), "resnet18": (1 if asked.quick else 3, 2)}
    for encoder, (rounds, steps) in plans.items():
        with training_of(encoder, steps * BATCH) as training:
            systems = {"bare": bare_steps(training, steps), "pretrain": epoch(training)}
            if encoder == "resnet8":
                systems |= best_of({f"lightly, {n} loader processes": lightly_epoch(training, n) for n in (0, 1, 2)})
            t = medians(systems, rounds)
        figures[f"pretrain_over_bare_{encoder}"] = t["bare"] / t["pretrain"]
        for name in t:
            table.add_row(f"{encoder}: {name}", f"{t['bare'] / t[name]:.3f}", f"{1 - t['bare'] / t[name]:.1%}")
        if encoder == "resnet8":
            best = min(seconds for name, seconds in t.items() if name.startswith("lightly"))
            figures["pretrain_over_lightly_resnet8"] = best / t["pretrain"]
            figures["views_share_pretrain_resnet8"] = max(0.0, 1 - t["bare"] / t["pretrain"])
            figures["views_share_lightly_resnet8"] = 1 - t["bare"] / best
    figures |= times_over_recipe(*plans["resnet8"])
    Console(width=110).print(table)
    print(f"{torch.get_num_threads()} threads, batches of {BATCH} pairs at 32 pixels")
    print(versions("coviews", "numpy", "numba", "torch", "torchvision", "lightly"))
    for key, value in figures.items():
        print(f"  {key}: {value:.4g}")
    write(asked.json, figures)


if __name__ == "__main__":
    main()
