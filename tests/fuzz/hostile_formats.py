"""The formats that are read from outside: a valid example of each, and what a user does with such a file.

A format is a folder with whole files, made by the project's own writers; a case copies it, damages one of the files,
and makes one of the calls.
"""

import contextlib
import io
import json
import pickle
import shutil
import tarfile
import time
import warnings
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import torch
from PIL import Image

import coviews
import coviews.features.parts
from coviews import pretrain
from coviews.cli import main
from coviews.comparison.compare import protocol
from coviews.comparison.options import CompareOptions
from coviews.comparison.results import Result, Results
from coviews.comparison.workers import Workers
from coviews.data.request import ImageRequest
from coviews.data.stream import open_stream
from coviews.methods.infomin_flow import InfoMinFlow
from coviews.methods.viewmaker import Viewmaker
from coviews.policies.listed import ListedPolicy, ListedStep
from coviews.policies.named import named_source
from coviews.policies.schedule import Schedule, ScheduledOperation, Stage
from coviews.runs.settings_file import read_settings, settings_yaml
from coviews.training.pair_losses import PairLosses
from small_runs import BY_TABLE, SMALL, trust_young_encoders

DATA = "shapes:32"
LISTED = ListedPolicy(
    ((ListedStep("Rotate", 0.5, 0.2), ListedStep("Contrast", 1.0, 1.0)), (ListedStep("Invert", 0.1, 0.0),))
)
SCHEDULE = Schedule(
    tuple(Stage(i + 1, (ScheduledOperation("Solarize", 5, i), ScheduledOperation("Cutout", 9, 9))) for i in (0, 1))
)
RUN = SMALL.replaced(
    data=DATA, epochs=2, batch_size=16, warmup_epochs=1, knn_every=1, threads=1, search=BY_TABLE, precision="32-true"
)
Call = Callable[[Path], object]
_LONG_STEP = 3.0  # seconds of work from one step of a training to the next, after which the rest is known


@dataclass(frozen=True)
class Format:
    """What is read, and by which calls."""

    make: Callable[[Path], None]  # writes the whole files into a folder
    files: Mapping[str, str]  # patterns of those that are damaged, and how: a name in MUTATIONS
    calls: Mapping[str, Call]  # what a user does with the folder, by name


class Enough(BaseException):
    """The training has begun: the input was accepted, and all that follows would only take long."""


def run_command(*words: object) -> int:
    """The exit code of a command; its messages go to the standard error."""
    return main([str(word) for word in words])


def stop_trainings_early() -> None:
    """Let every training, search and comparison end soon after it has begun."""

    def limited(owner: Any, name: str, most: int) -> None:
        old, count, before = getattr(owner, name), 0, time.process_time()

        def new(*args: Any, **kwargs: Any) -> Any:
            nonlocal count, before
            count += 1
            now = time.process_time()
            if count > most or (count > 1 and now - before > _LONG_STEP):
                count = 0
                raise Enough
            before = now
            return old(*args, **kwargs)

        setattr(owner, name, new)

    limited(torch.optim.SGD, "step", 3)
    limited(PairLosses, "_batch_losses", 3)
    Workers._start = _enough


def _enough(*_: Any) -> None:
    raise Enough


# ---------------------------------------------------------------------------------------------- runs and policies


def trained(examples: Path, name: str) -> Path:
    """One of the runs that several formats and commands need; trained when it is first asked for."""
    if not (examples / name).exists():
        trust_young_encoders()
        changes: dict[str, Any] = {"other": {"crop": "joint", "views": "indepviews"}}.get(name, {})
        pretrain(settings=RUN.replaced(out=examples / name, **changes), progress=False)
    return examples / name


def _run(examples: Path, *, finished: bool = True) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        shutil.copytree(trained(examples, "run"), folder / "run")
        if not finished:
            (folder / "run" / "encoder.safetensors").unlink()

    return make


def _report(folder: Path) -> object:
    return run_command("report", folder / "run", "--out", folder / "page.html")


def _check(folder: Path) -> object:
    return run_command("check", folder / "run")


def _export_for_the_hub(folder: Path) -> object:
    return run_command("export", folder / "run", "--format", "huggingface", "--out", folder / "hub")


def _resume(folder: Path) -> object:
    return run_command("pretrain", "--resume", folder / "run", "--no-progress")


def _embed(source: str, *more: str) -> Call:
    return lambda folder: run_command(
        "embed", folder / source, "--data", "shapes:8", "--out", folder / "features.npz", "--no-progress", *more
    )


def _preview(*words: str, views: str | None = None) -> Call:
    def call(folder: Path) -> object:
        data = [folder / word for word in words] or [DATA]
        chosen = [] if views is None else ["--views", folder / views]
        return run_command("preview", *data, *chosen, "--out", folder / "sheet.png", "--rows", 2, "--pairs", 1)

    return call


def _load_policy(folder: Path) -> object:
    policy = coviews.load_policy(folder / "policy.safetensors")
    policy.sample(4, np.random.default_rng(0))
    return repr(policy)


def _policy_of(examples: Path, run: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        source = sorted((trained(examples, run) / "policies").glob("*.safetensors"))[0]
        shutil.copy(source, folder / "policy.safetensors")

    return make


def _untrained_policy(folder: Path) -> None:
    policy = coviews.Policy.untrained(coviews.space("autoaugment"), np.random.default_rng(0), kind="coviews")
    policy.save(folder / "policy.safetensors")


def _json_policy(policy: ListedPolicy | Schedule) -> Callable[[Path], None]:
    return lambda folder: policy.save(folder / "policy.json", {"search": "example", "scores": [0.5, 0.25]})


def _draw_json_policy(folder: Path) -> object:
    return named_source(str(folder / "policy.json")).sample(4, np.random.default_rng(0)).texts()


def _encoder(examples: Path) -> Callable[[Path], None]:
    return lambda folder: shutil.copy(trained(examples, "run") / "encoder.safetensors", folder)


def _state_dict(folder: Path) -> None:
    torch.save(coviews.make_encoder("resnet8", 16, 3).state_dict(), folder / "weights.pt")


# ---------------------------------------------------------------------------------------------- settings and results


def _config(folder: Path) -> None:
    (folder / "config.yaml").write_text(settings_yaml(RUN))


def _read_config(folder: Path) -> object:
    return read_settings(folder / "config.yaml")


def _pretrain_with_config(folder: Path) -> object:
    """With an encoder that is soon trained: a file without settings means the default one."""
    files = ("--config", folder / "config.yaml", "--out", folder / "out")
    return run_command("pretrain", *files, "--encoder", "resnet8", "--no-progress")


def _variants(folder: Path) -> None:
    (folder / "variants.yaml").write_text(
        "mild: {views: simclr, flip: 0.5}\n"
        "learned:\n  views: coviews\n  search: {name: ppo, iterations: 3, reward: {threshold: 1.5}}\n"
        "slow:\n  views: random\n  lr: 0.01\n  crop_area: [0.2, 1.0]\n"
    )


def _compare_variants(folder: Path) -> object:
    return coviews.compare(
        settings=RUN, variants=folder / "variants.yaml", seeds=1, out=folder / "out", dry_run=True, progress=False
    )


def _family(folder: Path) -> None:
    coviews.Family(colour=False).write(folder / "views.yaml", "A family.")


def _results(folder: Path) -> None:
    variants = {views: RUN.replaced(views=views, seed=0, out=None) for views in ("uniform", "random")}
    evaluation = protocol(CompareOptions().k, paper=False)
    runs = [
        Result(
            views, seed, {"linear": 50.0 + seed, "knn": 45.0}, {"rankme": 50.0}, {"linear": 30.0, "knn": 25.0},
            [[0, 1.0, 25.0], [2, 9.0, 45.0]], 10.0, 2.0, [80, 20], "coviews 0",
        )
        for views in variants
        for seed in range(2)
    ]  # fmt: skip
    (folder / "out").mkdir()
    Results(variants, evaluation, runs).save(folder / "out" / "results.json")


def _compare(folder: Path) -> object:
    comparison = coviews.compare(settings=RUN, views=["uniform", "random"], seeds=2, out=folder / "out", progress=False)
    return repr(comparison)


def _evaluations(examples: Path) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        _run(examples)(folder)
        results = {
            "images": {"train": 40, "test": 20}, "quality": {"rankme": 9.5}, "classes": ["a", "b"],
            "linear": {"accuracy": 0.75}, "knn": {"accuracy": 0.5}, "confusion": [[3, 1], [2, 4]],
            "per_class": [{"class": c, "images": 10, "linear": 0.7, "knn": None} for c in "ab"],
            "baselines": {"pixels": {"linear": {"accuracy": 0.25}, "knn": {"accuracy": 0.2}}},
            "finetune": {"10%": {"accuracy": 0.6, "images": 4}}, "missing": [{"name": "paper", "reason": "not asked"}],
        }  # fmt: skip
        line = {"time": "2024-05-01 10:00", "data": "shapes:60", "test_data": None, "results": results}
        line = json.dumps(line) + "\n"
        (folder / "run" / "evaluations.jsonl").write_text(line * 2)

    return make


def _checked_run(examples: Path) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        _run(examples)(folder)
        content = {"verdict": "healthy", "sentence": "Looks healthy.", "signals": {"spread": 0.9, "rankme": 20.5}}
        (folder / "run" / "check.json").write_text(json.dumps(content))

    return make


def _choice(folder: Path) -> None:
    _picture_folder(folder / "images", 40)
    (folder / "labels.csv").write_text(
        "file,label\n" + "".join(f"{i % 2}/{i:02d}.png,{'ab'[i % 2]}\n" for i in range(20))
    )
    np.save(folder / "labels.npy", np.arange(40) % 2)
    start, Workers._start = Workers._start, _enough
    with contextlib.suppress(Enough):  # when the pilots begin, their plan is written
        _choose(folder)
    Workers._start = start


_CHOOSE = {
    "size": 16,
    "pilots": 4,
    "epochs": 1,
    "jobs": 1,
    "progress": False,
    "matters": "tilt,blur,cutout,turns,light",
}


def _choose(folder: Path) -> object:
    return coviews.choose(folder / "images", out=folder / "choice", labels="none", **_CHOOSE)


def _choose_labelled(name: str) -> Call:
    return lambda folder: coviews.choose(
        folder / "images", out=folder / "x", labels=str(folder / name), dry_run=True, **_CHOOSE
    )


def _json_forms(folder: Path) -> None:
    source, generator = coviews.view_source("random"), np.random.default_rng(0)
    (folder / "plan.json").write_text(coviews.Plan.draw(source, 2, (8, 8), generator).to_json())
    (folder / "subpolicies.json").write_text(source.sample(2, generator).to_json())


# ---------------------------------------------------------------------------------------------- images


def _picture_folder(folder: Path, count: int) -> None:
    generator = np.random.default_rng(0)
    for i in range(count):
        path = folder / str(i % 2) / f"{i:02d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(generator.integers(0, 256, (12, 14, 3), np.uint8)).save(path)


def _pictures(folder: Path) -> None:
    """One image of each kind that is read, and two that stay whole."""
    _picture_folder(folder / "images", 2)
    generator = np.random.default_rng(1)
    rgb, deep = generator.integers(0, 256, (12, 14, 3), np.uint8), generator.integers(0, 60_000, (12, 14), np.uint16)
    target = folder / "images" / "0"
    for suffix in ("png", "jpg", "gif", "bmp", "webp", "tif", "ppm"):
        Image.fromarray(rgb).save(target / f"x.{suffix}")
    Image.fromarray(deep).save(target / "deep.png")
    import tifffile

    tifffile.imwrite(target / "pages.tif", np.stack([deep] * 3), photometric="minisblack")
    tifffile.imwrite(target / "packed.tif", deep, compression="zlib", predictor=True, tile=(16, 16))
    tifffile.imwrite(target / "float.tif", deep.astype(np.float32))
    _dicom(target / "scan.dcm", deep)


def _dicom(path: Path, levels: np.ndarray) -> None:
    from pydicom.dataset import FileDataset, FileMetaDataset
    from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian

    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID = CTImageStorage, "1.2.3"
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    content = FileDataset(str(path), {}, file_meta=meta, preamble=b"\0" * 128)
    content.SOPClassUID, content.SOPInstanceUID = CTImageStorage, "1.2.3"
    content.Rows, content.Columns = levels.shape
    content.SamplesPerPixel, content.PhotometricInterpretation = 1, "MONOCHROME2"
    content.BitsAllocated = content.BitsStored = 16
    content.HighBit, content.PixelRepresentation = 15, 0
    content.RescaleSlope, content.RescaleIntercept = 2, -1024
    content.PixelData = levels.tobytes()
    content.save_as(path, enforce_file_format=True)


_PICTURES = (
    "x.png", "x.jpg", "x.gif", "x.bmp", "x.webp", "x.tif", "x.ppm", "deep.png", "pages.tif", "packed.tif", "float.tif",
    "scan.dcm",
)  # fmt: skip


def _load(name: str, **options: Any) -> Call:
    return lambda folder: coviews.load_images(folder / name, **options)


def _load_stored(folder: Path) -> object:
    return coviews.load_images(folder / "images", size=8, memory=0, cache=folder / "cache").images[:2].sum()


def _stored(folder: Path) -> None:
    _picture_folder(folder / "images", 12)
    with warnings.catch_warnings():  # of memory that is too small
        warnings.simplefilter("ignore")
        _load_stored(folder)


def _arrays(folder: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (8, 8, 8, 3), np.uint8)
    np.save(folder / "images.npy", images)
    np.save(folder / "floats.npy", images[..., 0] / 255)
    np.savez_compressed(folder / "images.npz", images=images, labels=np.arange(8) % 2)


def _lists(folder: Path) -> None:
    _picture_folder(folder, 6)
    rows = [f"{i % 2}/{i:02d}.png" for i in range(6)]
    (folder / "list.csv").write_text("path,label\n" + "".join(f"{r},{'ab'[i % 2]}\n" for i, r in enumerate(rows)))
    (folder / "list.tsv").write_text("".join(f"{r}\t{i % 2}\n" for i, r in enumerate(rows)))
    (folder / "list.txt").write_text("# files\n" + "".join(f"{r}\n" for r in rows))


def _known_sets(folder: Path) -> None:
    """CIFAR-10, SVHN and TinyImageNet with a few images, as their authors publish them; and a shard of WebDataset."""
    from scipy.io import savemat

    generator = np.random.default_rng(0)
    cifar = folder / "cifar-10-batches-py"
    cifar.mkdir()
    batch = {b"data": generator.integers(0, 256, (4, 3072), np.uint8), b"labels": [0, 1, 0, 1]}
    for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
        (cifar / name).write_bytes(pickle.dumps(batch, 2))
    (cifar / "batches.meta").write_bytes(pickle.dumps({b"label_names": [b"a", b"b"]}, 2))
    digits = {"X": generator.integers(0, 256, (32, 32, 3, 4), np.uint8), "y": np.array([[1], [2], [10], [1]])}
    savemat(folder / "train_32x32.mat", digits, do_compression=True)
    file = io.BytesIO()
    Image.fromarray(generator.integers(0, 256, (16, 16, 3), np.uint8)).save(file, "JPEG")
    with tarfile.open(folder / "shard.tar", "w") as shard:
        for name, content in (("0.jpg", file.getvalue()), ("0.cls", b"3"), ("1.jpg", file.getvalue()), ("1.cls", b"4")):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            shard.addfile(entry, io.BytesIO(content))
    rows = [{"image": {"bytes": file.getvalue(), "path": f"{i}.jpg"}, "label": i % 2} for i in range(6)]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "rows.parquet", row_group_size=3)
    with zipfile.ZipFile(folder / "tiny.zip", "w") as archive:
        archive.writestr("tiny-imagenet-200/wnids.txt", "n1\nn2\n")
        for name in ("n1", "n2"):
            archive.writestr(f"tiny-imagenet-200/train/{name}/images/0.JPEG", file.getvalue())


def _stream(name: str) -> Call:
    def read(folder: Path) -> object:
        request = ImageRequest(
            (16, 16), None, None, None, 0, Path("data"), download=False, max_broken=0.9, cache=folder / "cache",
            memory=None, progress=False, stream=True,
        )  # fmt: skip
        stream = open_stream(str(folder / name), request, buffer=4)
        images = stream[np.arange(len(stream))]
        stream.close()
        return images

    return read


def _load_known(name: str) -> Call:
    return lambda folder: coviews.load_images(name, root=folder, size=16)


def _parts(examples: Path) -> Callable[[Path], None]:
    """What a kill left of `embed`."""

    def make(folder: Path) -> None:
        _encoder(examples)(folder)
        removes = coviews.features.parts.FeatureParts.remove
        coviews.features.parts.FeatureParts.remove = lambda self: None
        _embed("encoder.safetensors")(folder)
        coviews.features.parts.FeatureParts.remove = removes
        (folder / "features.npz").unlink()

    return make


def formats(examples: Path) -> dict[str, Format]:
    """All formats; `examples` is a folder for the runs that they need."""
    policy_calls = {"load": _load_policy, "preview": _preview(views="policy.safetensors")}
    policy = {"policy.safetensors": "safetensors"}
    json_policy_calls = {"draw": _draw_json_policy, "preview": _preview(views="policy.json")}
    run_calls = {"report": _report, "embed": _embed("run"), "resume": _resume}
    return {
        "policy": Format(_untrained_policy, policy, policy_calls),
        "table-policy": Format(_policy_of(examples, "run"), policy, policy_calls),
        "placed-policy": Format(_policy_of(examples, "other"), policy, policy_calls),
        "listed-policy": Format(_json_policy(LISTED), {"policy.json": "json"}, json_policy_calls),
        "schedule": Format(_json_policy(SCHEDULE), {"policy.json": "json"}, json_policy_calls),
        "policy-of-run": Format(
            _run(examples), {"run/policies/0002.safetensors": "safetensors"}, {"report": _report, "resume": _resume}
        ),
        "encoder": Format(
            _encoder(examples),
            {"encoder.safetensors": "safetensors"},
            {
                "load": lambda folder: coviews.load_encoder(folder / "encoder.safetensors"),
                "embed": _embed("encoder.safetensors"),
                "export": lambda folder: run_command(
                    "export", folder / "encoder.safetensors", "--format", "state-dict", "--out", folder / "x.pt"
                ),
            },
        ),
        "infomin-flow": Format(
            lambda folder: InfoMinFlow(3, width=2, blocks=1).save(folder / "viewmaker.safetensors"),
            {"viewmaker.safetensors": "safetensors"},
            {"load": lambda folder: coviews.load_viewmaker(folder)(torch.rand(1, 3, 8, 8))},
        ),
        "viewmaker": Format(
            lambda folder: Viewmaker(3, width=2, blocks=1).save(folder / "viewmaker.safetensors"),
            {"viewmaker.safetensors": "safetensors"},
            {"load": lambda folder: coviews.load_viewmaker(folder)(torch.rand(1, 3, 8, 8))},
        ),
        "checkpoint": Format(_run(examples, finished=False), {"run/checkpoints/last.pt": "tensors"}, run_calls),
        "state-dict": Format(
            _state_dict,
            {"weights.pt": "tensors"},
            {"embed": _embed("weights.pt", "--architecture", "resnet8", "--size", "16")},
        ),
        "config": Format(
            _config,
            {"config.yaml": "yaml"},
            {
                "read": _read_config,
                "pretrain": _pretrain_with_config,
            },
        ),
        "config-of-run": Format(_run(examples), {"run/config.yaml": "yaml"}, run_calls),
        "variants": Format(_variants, {"variants.yaml": "yaml"}, {"compare": _compare_variants}),
        "family": Format(
            _family,
            {"views.yaml": "yaml"},
            {
                "read": lambda folder: coviews.read_family(folder / "views.yaml"),
                "preview": _preview(views="views.yaml"),
            },
        ),
        "metrics": Format(_run(examples, finished=False), {"run/metrics.jsonl": "lines"}, run_calls),
        "evaluations": Format(
            _evaluations(examples),
            {"run/evaluations.jsonl": "lines"},
            {"report": _report, "export": _export_for_the_hub},
        ),
        "metrics-of-finished-run": Format(
            _run(examples),
            {"run/metrics.jsonl": "lines"},
            {"check": _check, "export": _export_for_the_hub, "report": _report},
        ),
        "check-of-run": Format(_checked_run(examples), {"run/check.json": "json"}, {"report": _report}),
        "results": Format(_results, {"out/results.json": "json"}, {"compare": _compare}),
        "choice-plan": Format(_choice, {"choice/plan.json": "json"}, {"choose": _choose}),
        "labels-table": Format(_choice, {"labels.csv": "table"}, {"choose": _choose_labelled("labels.csv")}),
        "labels-array": Format(_choice, {"labels.npy": "npy"}, {"choose": _choose_labelled("labels.npy")}),
        "plan": Format(
            _json_forms,
            {"plan.json": "json"},
            {"read": lambda folder: coviews.Plan.from_json(_text(folder / "plan.json"))},
        ),
        "subpolicies": Format(
            _json_forms,
            {"subpolicies.json": "json"},
            {"read": lambda folder: coviews.Subpolicies.from_json(_text(folder / "subpolicies.json"))},
        ),
        "npy": Format(_arrays, {"images.npy": "npy"}, {"load": _load("images.npy"), "preview": _preview("images.npy")}),
        "npy-floats": Format(_arrays, {"floats.npy": "npy"}, {"load": _load("floats.npy")}),
        "npz": Format(_arrays, {"images.npz": "zip"}, {"load": _load("images.npz"), "preview": _preview("images.npz")}),
        "csv": Format(_lists, {"list.csv": "table"}, {"load": _load("list.csv"), "preview": _preview("list.csv")}),
        "tsv": Format(_lists, {"list.tsv": "table"}, {"load": _load("list.tsv")}),
        "txt": Format(_lists, {"list.txt": "table"}, {"load": _load("list.txt")}),
        "cifar": Format(
            _known_sets,
            {"cifar-10-batches-py/data_batch_1": "bytes", "cifar-10-batches-py/batches.meta": "bytes"},
            {"load": _load_known("cifar10")},
        ),
        "svhn": Format(_known_sets, {"train_32x32.mat": "bytes"}, {"load": _load_known("svhn")}),
        "shard": Format(
            _known_sets, {"shard.tar": "bytes"}, {"load": _load("shard.tar", size=16), "stream": _stream("shard.tar")}
        ),
        "parquet": Format(
            _known_sets,
            {"rows.parquet": "bytes"},
            {"load": _load("rows.parquet", size=16), "stream": _stream("rows.parquet")},
        ),
        "tiny-imagenet": Format(_known_sets, {"tiny.zip": "zip"}, {"load": _load("tiny.zip", size=16)}),
        "stored-images": Format(
            _stored,
            {"cache/*/about.json": "json", "cache/*/images.npy": "npy"},
            {"load": _load_stored},
        ),
        "feature-parts": Format(
            _parts(examples),
            {"features.npz.parts/000000.json": "json", "features.npz.parts/000000.npy": "npy"},
            {"embed": _embed("encoder.safetensors")},
        ),
        **{
            f"image-{name.replace('.', '-')}": Format(
                _pictures,
                {f"images/0/{name}": "picture"},
                {"load": _load("images"), "open": _load(f"images/0/{name}"), "preview": _preview(f"images/0/{name}")},
            )
            for name in _PICTURES
        },
    }


def _text(path: Path) -> str:
    """What a user read from a file; not what is tested."""
    if not path.is_file():
        return ""
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read(100_000_000)
