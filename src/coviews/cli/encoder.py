"""What is done with an encoder: embed, export, neighbours."""

import sys
from pathlib import Path
from typing import Annotated

import tyro

import coviews
from coviews.cli.options import Data, Int, MaybePath, Source, Text, check_range


def embed(
    run: Source,
    *,
    data: Data = None,
    out: Path = Path("features.npz"),
    map: MaybePath = None,
    map_method: str = "pca",
    overwrite: bool = False,
    size: Int = None,
    subset: Text = None,
    data_root: MaybePath = None,
    download: bool = False,
    cache: MaybePath = None,
    architecture: Text = None,
    batch_size: int = 256,
    device: str = "auto",
    seed: int = 0,
    progress: bool = True,
) -> None:
    """Write the features of images to a file, with their names and labels; cut off, it goes on where it was.

    Args:
        run: The folder of a run, finished or not; or an encoder from elsewhere, as for evaluate.
        data: Images, as for pretrain; by default those of the run.
        out: The file to write, .npz or .parquet.
        map: A picture to draw as well: a dot for each image, similar ones close to each other.
        map_method: How features become places on the map: pca, or umap (needs umap-learn).
        overwrite: Replace a file that is there.
        size: The side of the images in pixels, if not that of the encoder's training.
        subset: Only a part: '10%' or a number of images; of a run's own data by default what the run took.
        data_root: Where known sets are; by default as in the run, or 'data'.
        download: Fetch a known set, or published weights.
        cache: Where images that do not fit into memory are kept decoded.
        architecture: The name of the encoder that a state dict is of, such as resnet50.
        batch_size: Images that pass the encoder at once.
        device: auto, cpu, cuda or mps.
        seed: Chooses the images on the map if there are very many, and starts UMAP.
        progress: Show what is going on where it takes long.
    """
    check_range("seed", seed, 0, 2**32 - 1)
    made = coviews.embed(
        run, data, out=out, map=map, map_method=map_method, overwrite=overwrite, size=size, subset=subset,
        data_root=data_root, download=download, cache=cache, architecture=architecture, batch_size=batch_size,
        device=device, seed=seed, progress=progress,
    )  # fmt: skip
    known = [what for what, value in (("names", made.names), ("labels", made.labels)) if value is not None]
    beside = f", with {' and '.join(known)}" if known else ""
    print(f"wrote {out}: {made.shape[0]:,} images, {made.shape[1]:,} features each{beside}")
    if map is not None:
        print(f"wrote {map}")


def export(
    run: Source,
    *,
    format: Text = None,
    out: MaybePath = None,
    overwrite: bool = False,
    progress: bool = True,
) -> None:
    """Write the encoder to files that need no coviews, and print the Python that loads them.

    Args:
        run: The folder of a run, finished or not, or its encoder.safetensors.
        format: torchvision or timm for an encoder of that library, state-dict for any, or onnx (checked by running
            it); by default the library's.
        out: The file to write: .safetensors, .pt or .pth, or .onnx; by default it is called by the run.
        overwrite: Replace files that are there.
        progress: Show what is going on where it takes long.
    """
    made = coviews.export(run, format, out=out, overwrite=overwrite, progress=progress)
    print(f"wrote {', '.join(str(file) for file in made.files)}", file=sys.stderr)
    if made.difference is not None:
        print(f"onnxruntime and torch differ by {made.difference:.1g} of the largest feature", file=sys.stderr)
    print(made.snippet, end="")


def neighbours(
    run: Source,
    *,
    data: Data = None,
    query: Annotated[tyro.conf.UseAppendAction[tuple[Path, ...]], tyro.conf.arg(metavar="IMAGE")] = (),
    out: Path = Path("neighbours.png"),
    count: int = 10,
    seed: int = 0,
    size: Int = None,
    subset: Text = None,
    data_root: MaybePath = None,
    download: bool = False,
    cache: MaybePath = None,
    architecture: Text = None,
    device: str = "auto",
    progress: bool = True,
) -> None:
    """Draw images and their nearest neighbours by the encoder: what to look at first.

    Args:
        run: The folder of a run, finished or not; or an encoder from elsewhere, as for evaluate.
        data: Among which images to look, as for pretrain; by default those of the run.
        query: An image file or a folder of some; may be given several times. By default a few of the data at random.
        out: Where to write the picture; its extension says which format. An older one is replaced.
        count: Neighbours of each.
        seed: Chooses the images, if none are given.
        size: The side of the images in pixels, if not that of the encoder's training.
        subset: Look among a part only: '10%' or a number of images; by default what the run took, or all.
        data_root: Where known sets are; by default as in the run, or 'data'.
        download: Fetch a known set, or published weights.
        cache: Where images that do not fit into memory are kept decoded.
        architecture: The name of the encoder that a state dict is of, such as resnet50.
        device: auto, cpu, cuda or mps.
        progress: Show what is going on where it takes long.
    """
    check_range("seed", seed, 0, 2**63)
    made = coviews.neighbours(
        run, data, query=query, out=out, count=count, seed=seed, size=size, subset=subset, data_root=data_root,
        download=download, cache=cache, architecture=architecture, device=device, progress=progress,
    )  # fmt: skip
    shown = "1 image with its" if len(made.queries) == 1 else f"{len(made.queries)} images, each with its"
    print(f"wrote {out}: {shown} {count} nearest of {len(made.images):,}")
