"""`coviews export`: an encoder in files that can be used without coviews."""

import sys
from typing import Annotated

import tyro

import coviews
from coviews.console.options import Source
from coviews.encoders.encoder_options import ExportOptions

DEFAULTS = ExportOptions()


def export_command(run: Source, *, options: Annotated[ExportOptions, tyro.conf.arg(name="")] = DEFAULTS) -> None:
    """Write the encoder for use without coviews, and print the code that loads it.

    Args:
        run: The folder of a run, finished or not, or its encoder.safetensors.
        options: What is written.
    """
    exported = coviews.export(run, options=options)
    print(f"wrote {', '.join(str(file) for file in exported.files)}", file=sys.stderr)
    if exported.difference is not None:
        print(f"onnxruntime and torch differ by {exported.difference:.1g} of the largest feature", file=sys.stderr)
    print(exported.snippet, end="")
