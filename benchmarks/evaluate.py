"""What judging an encoder costs: features, kNN and the linear probe over the bare forward passes.

10,000 built-in images at 32 pixels, 8,000 to learn from and 2,000 to judge, and a `resnet8` that was trained on some
of them for a moment. Bare: the encoder in eval mode on tensors that lie ready, in batches of 256. Evaluation: the bytes
of the same images are made tensors, passed, and their features kept; then the 200 nearest neighbours of each of the
2,000 vote; then two crops of 500 images are made and passed, and the logistic regression learns from what they do to
the features. lightly: its kNN of the same features. All in one process, in turn, medians of rounds.
"""

import tempfile
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import coviews
from coviews.compat import import_torchvision
from coviews.encoders.features import features
from coviews.encoders.pixels import to_tensors
from coviews.evaluation.crop_model import CropModel
from coviews.evaluation.knn import knn_predict
from coviews.evaluation.linear import crop_probe
from coviews.ops.engine import random_crops
from coviews.ops.images import channel_statistics
from measure import options, versions, write
from train import medians

TRAIN, TEST, BATCH, K, CROPPED = 8_000, 2_000, 256, 200, 500


def trained_encoder(epochs: int) -> torch.nn.Module:
    """Features that mean something: how long a probe takes depends on them."""
    with tempfile.TemporaryDirectory() as folder:
        return coviews.pretrain(
            "shapes:2560", encoder="resnet8", views="simclr", epochs=epochs, batch_size=128, lr=0.12, knn_every=0,
            tensorboard=False, accelerator="cpu", out=Path(folder) / "run", progress=False,
        ).encoder.eval()  # fmt: skip


def lightlys_knn(bank: np.ndarray, labels: np.ndarray, queries: np.ndarray, classes: int) -> torch.Tensor:
    """As lightly's own benchmarks call it: normalised features, batch by batch."""
    from lightly.utils.benchmarking import knn_predict as theirs

    stored = torch.nn.functional.normalize(torch.from_numpy(bank), dim=1).T.contiguous()  # (D, N)
    known, found = torch.from_numpy(labels), []
    for part in torch.from_numpy(queries).split(BATCH):
        asked = torch.nn.functional.normalize(part, dim=1)
        found.append(theirs(asked, stored, known, num_classes=classes, knn_k=K, knn_t=0.1)[:, 0])
    return torch.cat(found)


def main() -> None:
    asked = options(__doc__)
    import_torchvision()  # lightly imports it
    encoder = trained_encoder(2 if asked.quick else 8)
    data = coviews.load_images(f"shapes:{TRAIN + TEST}")
    assert data.labels is not None
    assert data.classes is not None
    classes, labels = len(data.classes), data.labels
    chosen = np.random.default_rng(0).permutation(TRAIN + TEST)
    images, labels = data.images[chosen], labels[chosen]
    mean, std = channel_statistics(images)
    ready = [to_tensors(images[i : i + BATCH, None], mean, std)[0] for i in range(0, len(images), BATCH)]

    def passes() -> None:
        with torch.no_grad():
            for part in ready:
                encoder(part)

    def both() -> tuple[np.ndarray, np.ndarray]:
        return features(encoder, images[:TRAIN], mean, std), features(encoder, images[TRAIN:], mean, std)

    bank, queries = both()

    def knn() -> np.ndarray:
        return knn_predict(bank, labels[:TRAIN], queries, k=K, classes=classes)

    def crop_model() -> CropModel:
        crops = random_crops(images[:CROPPED], np.random.default_rng(0), views=2)
        taken = [features(encoder, crops[:, i], mean, std) for i in (0, 1)]
        return CropModel.fit(np.tile(bank[:CROPPED], (2, 1)), np.concatenate(taken))

    def probe() -> np.ndarray:
        return crop_probe(crop_model(), bank, labels[:TRAIN], queries, classes=classes).predictions

    def everything() -> None:
        both()
        knn()
        probe()

    def theirs() -> torch.Tensor:
        return lightlys_knn(bank, labels[:TRAIN], queries, classes)

    systems = {
        "bare forward passes": passes, "features, kNN and probe": everything, "features": both, "kNN": knn,
        "kNN of lightly": theirs, "crops of 500": crop_model, "linear probe with its crops": probe,
    }  # fmt: skip
    t = medians(systems, 3 if asked.quick else 15)
    table = Table("", "over the bare forward passes")
    for name, seconds in t.items():
        table.add_row(name, f"{seconds / t['bare forward passes']:.3f}")
    Console(width=100).print(table)
    figures = {
        "evaluate_over_forward": t["features, kNN and probe"] / t["bare forward passes"],
        "knn_over_lightly": t["kNN"] / t["kNN of lightly"],
        "knn_agrees_with_lightly": float((knn() == theirs().numpy()).mean()),
    }
    print(f"{torch.get_num_threads()} threads, {TRAIN:,} + {TEST:,} images at 32 pixels, resnet8, k = {K}")
    right = {name: (call() == labels[TRAIN:]).mean() for name, call in (("kNN", knn), ("linear probe", probe))}
    print("accuracy: " + ", ".join(f"{name} {share:.1%}" for name, share in right.items()))
    print(versions("coviews", "numpy", "torch", "lightly"))
    for key, value in figures.items():
        print(f"  {key}: {value:.4g}")
    write(asked.json, figures)


if __name__ == "__main__":
    main()
