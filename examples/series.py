"""Series instead of images: four classes of made-up sensor signals, views of series, and an encoder of series.

Takes less than a minute on one core. The same from the command line, once the series are in a file:

    coviews pretrain series:signals.npz --encoder series8 --views uniform --epochs 20
"""

import numpy as np

import coviews

CLASSES = ("rising", "falling", "beats", "double beats")


def signal(kind: str, generator: np.random.Generator) -> np.ndarray:
    """A series of 128 steps with two channels: a chirp, or beats as in an ECG, and the same a little later."""
    time, start, speed = np.linspace(0, 1, 144), generator.uniform(), generator.uniform(4, 7)
    chirp, beats = np.sin(2 * np.pi * (start + 3 * time + speed * time**2)), (time * speed + start) % 1
    values = chirp if kind == "rising" else chirp[::-1]
    if "beats" in kind:
        values = np.exp(-(((beats - 0.3) / 0.03) ** 2))
        values += (kind == "double beats") * 0.5 * np.exp(-(((beats - 0.5) / 0.04) ** 2))
    values = values + generator.normal(0, 0.1, values.shape)
    values = (values - values.mean()) / values.std()  # an encoder could tell series by their level and strength alone
    return np.stack([values[16:], values[:-16]], -1)


generator = np.random.default_rng(0)
labels = np.arange(800) % len(CLASSES)
values = np.stack([signal(CLASSES[label], generator) for label in labels]).astype(np.float32)  # (800, 128, 2)
series = coviews.Series(values, np.array(CLASSES)[labels])
for views in ("uniform", "coviews"):  # operations of series at random, and learned
    done = coviews.pretrain(
        series, encoder="series8", views=views, epochs=8, batch_size=128, lr=0.12, warmup_epochs=3, knn_every=8,
        report=False, out=f"runs/series-{views}", overwrite=True, progress=False,
    )  # fmt: skip
    print(f"{views}: kNN accuracy {done.quality['knn']:.1f} %")
    if done.policy is not None:
        print("\n".join(done.policy.sample(3, generator).texts()))
