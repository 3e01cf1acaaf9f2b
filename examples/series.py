"""Series instead of images: four classes of made-up sensor signals, views of series, and an encoder of series.

Takes less than a minute on one core. The same from the command line, once the series are in a file:

    coviews pretrain series:signals.npz --encoder series8 --views uniform --epochs 20
    coviews evaluate RUN
"""

import numpy as np

import coviews

LENGTH = 128
CLASSES = ("rising", "falling", "beats", "double beats")


def signal(kind: str, generator: np.random.Generator) -> np.ndarray:
    """Two channels of one series: a chirp, or beats as in an ECG; the second channel is the first one, delayed."""
    time = np.linspace(0, 1, LENGTH + 16)
    start = generator.uniform(0, 1)
    if kind in ("rising", "falling"):
        low, high = generator.uniform(2, 4), generator.uniform(12, 18)
        chirp = np.sin(2 * np.pi * (start + low * time + (high - low) * time**2 / 2))
        values = chirp if kind == "rising" else chirp[::-1]
    else:
        beats = (time * generator.uniform(4, 7) + start) % 1
        values = np.exp(-(((beats - 0.3) / 0.03) ** 2))
        if kind == "double beats":
            values = values + 0.5 * np.exp(-(((beats - 0.5) / 0.04) ** 2))
    values = generator.uniform(0.5, 2) * values + generator.normal(0, 0.1, values.shape) + generator.uniform(-1, 1)
    values = (values - values.mean()) / values.std()  # an encoder could tell series by their level and strength alone
    return np.stack([values[16:], values[:-16]], -1)


generator = np.random.default_rng(0)
labels = np.arange(800) % len(CLASSES)
values = np.stack([signal(CLASSES[label], generator) for label in labels]).astype(np.float32)  # (800, 128, 2)
series = coviews.Series(values, np.array(CLASSES)[labels])

accuracies = {}
for views in ("uniform", "coviews"):  # operations of series at random, and learned
    done = coviews.pretrain(
        series,
        encoder="series8",
        views=views,
        epochs=8,
        batch_size=128,
        lr=0.12,
        warmup_epochs=3,
        knn_every=8,
        report=False,
        tensorboard=False,
        out=f"runs/series-{views}",
        overwrite=True,
        progress=False,
    )
    accuracies[views] = done.quality["knn"]
    print(f"{views}: kNN accuracy {accuracies[views]:.1f} %")
    if done.policy is not None:
        print("\n".join(done.policy.sample(3, generator).texts()))
