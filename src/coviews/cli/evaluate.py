"""`coviews evaluate`: what an encoder is worth."""

from pathlib import Path
from typing import Annotated

import tyro

import coviews
from coviews.console.options import Data
from coviews.evaluation.options import EvaluateOptions


def evaluate_command(
    source: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RUN_OR_ENCODER")],
    *,
    data: Data = None,
    test_data: Data = None,
    options: Annotated[EvaluateOptions, tyro.conf.arg(name="")],
) -> None:
    """Measure an encoder, beside raw pixels and an untrained encoder.

    Args:
        source: The folder of a run (finished or not), its encoder.safetensors, a state dict from elsewhere (with
            --architecture), or the name of an encoder with published weights (with --download).
        data: Images to learn from, as for pretrain; by default those of the run.
        test_data: Images to judge; by default those of the run, or else a fifth of --data is held out.
        options: How it is measured.
    """
    from rich.console import Console

    evaluation = coviews.evaluate(source, data, test_data, options=options)
    console = Console(highlight=False)
    if console.is_terminal:
        console.print(evaluation)
    else:
        print(evaluation)
    if evaluation.file is not None:
        print(f"\nadded to {evaluation.file}")
        if evaluation.file.parent == Path(source) and (Path(source) / "report.html").exists():
            print(f"to show it on the page of the run: coviews report {source}")
