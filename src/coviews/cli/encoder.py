"""`coviews evaluate`: what an encoder is worth."""

from typing import Annotated

import tyro

from coviews.console.options import Data, Int, MaybePath, Text


def evaluate(
    source: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RUN_OR_ENCODER")],
    *,
    data: Data = None,
    test_data: Data = None,
    k: int = 200,
    temperature: float = 0.1,
    whole: bool = False,
    paper: bool = False,
    finetune: Annotated[tuple[str, ...], tyro.conf.arg(metavar="SHARE [SHARE ...]")] = (),
    baselines: bool = True,
    seed: int = 0,
    architecture: Text = None,
    size: Int = None,
    subset: Text = None,
    subset_seed: Int = None,
    data_root: MaybePath = None,
    download: bool = False,
    cache: MaybePath = None,
    batch_size: int = 256,
    device: str = "auto",
    out: MaybePath = None,
    progress: bool = True,
) -> None:
    """Tell what an encoder is worth: kNN, linear probe and quality without labels, beside baselines.

    Args:
        source: The folder of a run (finished or not), its encoder.safetensors, a state dict from elsewhere (with
            --architecture), or the name of an encoder with published weights (with --download).
        data: Images to learn from, as for pretrain; by default those of the run.
        test_data: Images to judge; by default those of the run, or else a fifth of --data is held out.
        k: Neighbours that vote in kNN; at most one for every 25 images to learn from.
        temperature: Of their vote.
        whole: Also a linear probe that learns from whole images rather than from random crops.
        paper: The paper's linear probe as well: SGD, 100 epochs of random crops, five heads. It takes a hundred
            passes of the images.
        finetune: Shares of the labels, such as 1% 10%, to fine-tune a copy of the encoder with.
        baselines: Measure the untrained encoder and raw pixels too.
        seed: For all that is drawn.
        architecture: The name of the encoder that a state dict is of, such as resnet50.
        size: The side of the images in pixels; by default that of the encoder's training, or their own.
        subset: Learn from a part: '10%' or a number of images; of a run's own data by default what the run took.
        subset_seed: Chooses the subset.
        data_root: Where known sets are; by default as in the run, or 'data'.
        download: Fetch a known set, or published weights.
        cache: Where images that do not fit into memory are kept decoded.
        batch_size: Images that pass the encoder at once.
        device: auto, cpu, cuda or mps.
        out: The file that the results are added to, one line of JSON; by default evaluations.jsonl in the run, if it
            is one.
        progress: Show what is going on where it takes long.
    """
    from rich.console import Console

    from coviews.evaluation.evaluate import evaluate as assess

    made = assess(
        source, data, test_data, k=k, temperature=temperature, whole=whole, paper=paper,
        finetune=finetune, baselines=baselines,
        seed=seed, architecture=architecture, size=size, subset=subset, subset_seed=subset_seed, data_root=data_root,
        download=download, cache=cache, batch_size=batch_size, device=device, out=out, progress=progress,
    )  # fmt: skip
    console = Console(highlight=False)
    if console.is_terminal:
        console.print(made)
    else:
        print(made)
    if made.kept is not None:
        print(f"\nadded to {made.kept}")
