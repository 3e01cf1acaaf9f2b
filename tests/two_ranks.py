"""A run on one process or on two that share each batch: `two_ranks.py DEVICES FOLDER METHOD [VIEWS [SEARCH [STREAM]]]`.

Views that are not learned are trained on with the keeping head, and with gradients of three batches averaged.
"""

import sys
from pathlib import Path

import torch
from torch import nn

import coviews.methods.method
from coviews import pretrain
from coviews.searching.known import SEARCHES
from small_runs import BY_TABLE, SMALL, trust_young_encoders


def encoder() -> nn.Module:
    """One whose normalisation does not depend on the batch."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1), nn.GroupNorm(4, 16), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.GroupNorm(4, 32),
        nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    )  # fmt: skip


def projector(inputs: int, hidden: int, outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, hidden), nn.LayerNorm(hidden), nn.ReLU(), nn.Linear(hidden, outputs))


if __name__ == "__main__":
    devices, folder, method = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    views = sys.argv[4] if len(sys.argv) > 4 else "coviews"
    torch.set_num_threads(1)
    coviews.methods.method.make_projector = projector
    for kind in SEARCHES.values():
        kind.objection = staticmethod(lambda policy: None)
    trust_young_encoders()
    torch.manual_seed(0)
    run = folder / f"{method}-{devices}"
    search = BY_TABLE if sys.argv[5:] == ["table"] else SMALL.search
    stream = {"data": sys.argv[6], "stream": True, "stream_buffer": 48, "cache": folder} if len(sys.argv) > 6 else {}
    settings = SMALL.replaced(
        search=search,
        method=method,
        **({"bank": 128} if method == "moco" else {}),
        views=views,
        keep=0.0 if views in ("coviews", "infomin-flow") else 5.0,
        **({} if views == "coviews" else {"batch_size": 16, "accumulate": 3}),
        infomin_labels=30 if views == "infomin-flow" else 0,
        devices=devices,
        out=run,
        save_every=0,
        lr=0.3,
        precision="32-true",  # one process and two are compared closely
        **stream,
    )
    done = pretrain(encoder=encoder(), settings=settings, progress=False)
    rank = torch.distributed.get_rank() if devices > 1 else 0
    if done.policy is not None:
        done.policy.save(folder / f"{method}-{devices}-rank-{rank}.safetensors")
