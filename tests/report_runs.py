"""Run directories as training leaves them, made in milliseconds: settings, metrics, policies, evaluations."""

import json
from pathlib import Path

import numpy as np

from coviews import Policy, PPOSettings, space
from coviews.runs.settings import PretrainSettings
from coviews.runs.settings_file import settings_yaml

HOSTILE = "</script><img src=x onerror=\"window.hacked=1\"><b>bold</b> & 'quoted'"


def settings(**changes) -> PretrainSettings:
    base = PretrainSettings(
        data="shapes:60", encoder="resnet8", epochs=6, warmup_epochs=2, knn_every=2, search=PPOSettings(every=2),
        views="coviews",
    )  # fmt: skip
    return base.replaced(**changes)


def make_run(path: Path, *, finished=True, policies=2, classes=("disc", "ring"), evaluated=True, **changes) -> Path:
    """A run of six epochs or so; its numbers are made up, its policies are true ones."""
    chosen = settings(out=path, **changes)
    (path / "policies").mkdir(parents=True)
    (path / "config.yaml").write_text(settings_yaml(chosen))
    rng = np.random.default_rng(0)
    lines = [
        {"kind": "start", "images": 60, "height": 32, "width": 32, "channels": 3, "classes": list(classes),
         "labelled": True, "broken": 1, "parameters": 1000, "looks_at": "60 training images, each by the others",
         "mean": [0.5] * 3, "std": [0.2] * 3},
        {"kind": "look", "epoch": 0, "knn": 20.0, "rankme": 9.0, "spread": 0.3, "time": {"seconds": 1.0}},
    ]  # fmt: skip
    at = [3 + 2 * i for i in range(policies)] if chosen.learns_views else []
    for epoch in range(1, max([6, *at]) + 1):
        if epoch in at:
            lines.append(_search(path, chosen.views, epoch, at, rng))
        times = {"seconds": 2.0, "images_per_second": 30.0, "waiting": 0.1}
        lines.append(
            {"kind": "epoch", "epoch": epoch, "loss": 5 - 0.1 * epoch, "lr": 0.01, "spread": 1.0, "time": times}
            | ({"kept": {"Hue": -0.1 + 0.1 * epoch, "position": 0.2}} if chosen.keep else {})
        )
        if epoch % 2 == 0:
            look = {"knn": 20.0 + epoch, "rankme": 9.0 + epoch, "spread": 0.5, "time": {"seconds": 1.0}}
            lines.append({"kind": "look", "epoch": epoch, **look})
    lines.append({"kind": "warning", "epoch": 4, "text": "the loss went up"})
    (path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    if evaluated:
        results = {
            "images": {"train": 40, "test": 20}, "quality": {"rankme": 9.5}, "classes": list(classes),
            "linear": {"accuracy": 0.75}, "knn": {"accuracy": 0.5}, "confusion": [[3, 1], [2, 4]],
            "per_class": [{"class": c, "images": 10, "linear": 0.7, "knn": None} for c in classes],
            "baselines": {"pixels": {"linear": {"accuracy": 0.25}, "knn": {"accuracy": 0.2}}},
            "finetune": {"10%": {"accuracy": 0.6, "images": 4}},
            "missing": [{"name": "paper", "reason": "it was not asked for"}],
        }  # fmt: skip
        line = {"time": "2024-05-01 10:00", "data": "shapes:60", "results": results}
        (path / "evaluations.jsonl").write_text(json.dumps(line) + "\n")
    if finished:
        (path / "encoder.safetensors").write_bytes(b"")
    return path


def _search(path: Path, kind: str, epoch: int, at: list[int], rng: np.random.Generator) -> dict:
    policy = Policy.untrained(space("autoaugment"), np.random.default_rng(epoch), kind=kind)
    policy.network.flat[:] += 0.15 * rng.standard_normal(policy.network.flat.shape)
    policy.save(path / "policies" / f"{epoch:04d}.safetensors")
    queue = [e for e in reversed(at) if e <= epoch][:4]
    weights = 0.6 * 0.4 ** np.arange(len(queue))
    traces = {name: rng.random(12).tolist() for name in ("reward", "over", "entropy", "kl")}
    return {
        "kind": "search", "epoch": epoch, "refused": None, "reference": 5.0, "chance": 5.5, "loss": 5.1, **traces,
        "queue": {"epochs": queue, "weights": (weights / weights.sum()).tolist()}, "time": {"seconds": 3.0},
    }  # fmt: skip
