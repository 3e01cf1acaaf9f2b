"""How fast views are made: RandAugment (N=2, M=9) here and in the libraries people use, in one run.

All work on the same images, one thread each. Ours and torchvision's are the same operations to the byte;
kornia's and albumentations' are their own versions of them. "view" adds the random resized crop and the flip.
Torchvision works on Pillow images that exist already: decoding and conversion are not counted against it.
Two more pieces of work are compared with torchvision alone: the random resized crop and flip of images of 500 pixels
to views of 224, without operations, and four pointwise operations in a row at 224 pixels, without crop and flip.
"""

import subprocess
import sys
import time
from collections.abc import Callable

import cv2
import kornia
import numpy as np
import torch
from PIL import Image
from rich.console import Console
from rich.table import Table

from coviews import Placement, Plan, Subpolicies, make_views, space, view_source
from coviews.compat import import_torchvision
from measure import options, seconds, versions, write

import_torchvision()
import albumentations as A  # noqa: E402
from torchvision.transforms import v2  # noqa: E402
from torchvision.transforms.v2 import functional as F  # noqa: E402

COUNTS = {32: 512, 96: 128, 224: 32}
WHOLE = Placement("none", flip=0)


def pictures(n: int, size: int) -> np.ndarray:
    """Smooth random images with some noise: every operation has something to do."""
    rng = np.random.default_rng(0)
    field = np.cumsum(np.cumsum(rng.normal(0, 1, (n, size, size, 3)), 1), 2)
    field -= field.min((1, 2, 3), keepdims=True)
    field *= 255 / field.max((1, 2, 3), keepdims=True)
    return np.clip(field + rng.normal(0, 4, field.shape), 0, 255).astype(np.uint8)


def albumentations_randaugment() -> A.Compose:
    """Albumentations has no RandAugment: two of its own fourteen operations at about the same strength."""
    m = 9 / 30
    scale = (1 - 0.9 * m, 1 + 0.9 * m)
    degrees = float(np.degrees(np.arctan(0.3 * m)))
    ops = [
        A.NoOp(p=1),
        A.Affine(shear={"x": (-degrees, degrees), "y": 0}, interpolation=cv2.INTER_NEAREST, p=1),
        A.Affine(shear={"x": 0, "y": (-degrees, degrees)}, interpolation=cv2.INTER_NEAREST, p=1),
        A.Affine(translate_percent={"x": 0.45 * m, "y": 0}, interpolation=cv2.INTER_NEAREST, p=1),
        A.Affine(translate_percent={"x": 0, "y": 0.45 * m}, interpolation=cv2.INTER_NEAREST, p=1),
        A.Affine(rotate=(-30 * m, 30 * m), interpolation=cv2.INTER_NEAREST, p=1),
        A.ColorJitter(scale, (1, 1), (1, 1), (0, 0), p=1),
        A.ColorJitter((1, 1), scale, (1, 1), (0, 0), p=1),
        A.ColorJitter((1, 1), (1, 1), scale, (0, 0), p=1),
        A.Sharpen(p=1),
        A.Posterize(num_bits=7, p=1),
        A.Solarize(p=1),
        A.AutoContrast(p=1),
        A.Equalize(p=1),
    ]
    return A.Compose([A.SomeOf(ops, n=2, replace=True, p=1)])


def systems(images: np.ndarray) -> dict[str, Callable[[], object]]:
    """What is timed, each on all images."""
    n, size = images.shape[:2]
    pillow = [Image.fromarray(i) for i in images]
    floats = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255
    out, copy = np.empty_like(images)[:, None], np.empty_like(images)
    source, generator = view_source("randaugment", magnitude=9, views=1), np.random.default_rng(0)
    theirs = v2.RandAugment(num_ops=2, magnitude=9)
    their_view = v2.Compose([theirs, v2.RandomResizedCrop(size, (0.2, 1)), v2.RandomHorizontalFlip()])
    batchwise = kornia.augmentation.auto.RandAugment(n=2, m=9)
    single = albumentations_randaugment()

    def ours(placement: Placement) -> None:
        make_views(images, Plan.draw(source, n, images.shape[1:3], generator, placement), threads=1, out=out)

    return {
        "ours": lambda: ours(WHOLE),
        "torchvision v2 on Pillow": lambda: [theirs(p) for p in pillow],
        "kornia on the batch": lambda: batchwise(floats),
        "albumentations": lambda: [single(image=i) for i in images],
        "a plain copy of the batch": lambda: np.copyto(copy, images),
        "ours, view": lambda: ours(Placement()),
        "torchvision, view": lambda: [their_view(p) for p in pillow],
    }


def threads(images: np.ndarray) -> dict[str, Callable[[], object]]:
    """A training step's views (two each, crop and flip) with one thread and with two."""
    source = view_source("randaugment", magnitude=9)
    plan = Plan.draw(source, len(images), images.shape[1:3], np.random.default_rng(0))
    out = np.empty((len(images), 2, *images.shape[1:]), np.uint8)
    return {
        "1": lambda: make_views(images, plan, threads=1, out=out),
        "2": lambda: make_views(images, plan, threads=2, out=out),
    }


def crops(images: np.ndarray) -> dict[str, Callable[[], object]]:
    """Random parts of large images, resampled to 224 pixels and mirrored; no operations.

    Both draw anew for each image, and both cut out the same boxes: the boxes decide how much work there is.
    """
    n, size = len(images), images.shape[1:3]
    identity = Subpolicies.from_texts(["Identity"] * n, space("all"))
    pillow = [Image.fromarray(i) for i in images]
    theirs, out = v2.RandomResizedCrop(224, (0.2, 1)), np.empty((n, 1, 224, 224, 3), np.uint8)

    def draw() -> Plan:
        return Plan.draw(identity, n, size, np.random.default_rng(0), sizes=((224, 224),))

    fixed = draw()
    boxes, flips = fixed.boxes[:, 0].tolist(), fixed.flips[:, 0].tolist()

    def torchvision() -> None:
        for p, (left, top, right, bottom), flip in zip(pillow, boxes, flips, strict=True):
            theirs.make_params([p])
            view = F.resized_crop(p, top, left, bottom - top, right - left, [224, 224])
            if flip:
                F.horizontal_flip(view)

    return {
        "ours, 500 to 224": lambda: make_views(images, draw(), threads=1, out=out),
        "torchvision, 500 to 224": torchvision,
    }


def chains(images: np.ndarray) -> dict[str, Callable[[], object]]:
    """Brightness, solarize, posterize and invert, in a row."""
    n, generator = len(images), np.random.default_rng(0)
    chain = Subpolicies.from_texts(["Brightness 1.36, Solarize 128, Posterize 5 bits, Invert"] * n, space("all", 41))
    pillow, out = [Image.fromarray(i) for i in images], np.empty_like(images)[:, None]

    def ours() -> None:
        make_views(images, Plan.draw(chain, n, images.shape[1:3], generator, WHOLE), threads=1, out=out)

    def theirs() -> None:
        for p in pillow:
            F.invert(F.posterize(F.solarize(F.adjust_brightness(p, 1.36), 128), 5))

    return {"ours, four pointwise": ours, "torchvision, four pointwise": theirs}


def second_process() -> float:
    """Seconds from the start of a process to its first views, once the kernels are on the disk."""
    code = (
        "import numpy as np, coviews; g = np.random.default_rng(0); x = np.zeros((64, 32, 32, 3), np.uint8);"
        "coviews.make_views(x, coviews.Plan.draw(coviews.view_source('random'), 64, (32, 32), g))"
    )
    times = []
    for _ in range(4):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        times.append(time.perf_counter() - start)
    return min(times[1:])


def main() -> None:
    asked = options(__doc__)
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    rounds, least = (12, 0.02) if asked.quick else (50, 0.05)
    figures: dict[str, float] = {}
    table = Table("pixels", "system", "images/s", "ours is ... times as fast", title="RandAugment, one thread")
    for size, n in COUNTS.items():
        images = pictures(n, size)
        took = seconds(systems(images), rounds, least)
        for name, t in took.items():
            base = took["ours, view"] if "view" in name else took["ours"]
            table.add_row(str(size), name, f"{n / t:,.0f}", f"{t / base:.3g}")
        both = seconds(threads(images), 80, 0.01)  # short rounds: both cores are seldom free for long
        for name, t in both.items():
            table.add_row(str(size), f"two views, threads: {name}", f"{n / t:,.0f}", "")
        table.add_section()
        figures |= {
            f"ratio_torchvision_{size}": took["torchvision v2 on Pillow"] / took["ours"],
            f"ratio_torchvision_view_{size}": took["torchvision, view"] / took["ours, view"],
            f"ratio_kornia_{size}": took["kornia on the batch"] / took["ours"],
            f"ratio_albumentations_{size}": took["albumentations"] / took["ours"],
            f"threads_2_over_1_{size}": both["1"] / both["2"],
            f"ratio_copy_limit_{size}": took["a plain copy of the batch"] / took["ours"],
        }
    for key, make, n, size in (
        ("ratio_torchvision_view_224_from_500", crops, 16, 500),
        ("ratio_pointwise_chain_224", chains, 32, 224),
    ):
        took = seconds(make(pictures(n, size)), rounds, least)
        ours, theirs = took.values()
        for name, t in took.items():
            table.add_row(str(size), name, f"{n / t:,.0f}", f"{t / ours:.3g}")
        table.add_section()
        figures[key] = theirs / ours
    figures["seconds_to_first_views"] = second_process()
    figures["threads_2_over_1"] = figures["threads_2_over_1_32"]
    Console(width=100).print(table)
    print("the copy limit is the share of our time that a plain copy of the batch would take")
    print(versions("coviews", "numba", "numpy", "pillow", "torch", "torchvision", "kornia", "albumentations"))
    for name, value in figures.items():
        print(f"  {name}: {value:.3g}")
    write(asked.json, figures)


if __name__ == "__main__":
    main()
