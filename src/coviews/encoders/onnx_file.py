"""An encoder as an ONNX file, checked by comparing its outputs with the encoder's."""

import importlib.util
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn

from coviews.errors import CoviewsError

OPSET = 18  # runtimes from 2023 on know it
MOST = 1e-4  # the largest difference of outputs, relative to the largest output

_NEEDED = ("onnx", "onnxruntime", "onnxscript")


def check_onnx() -> None:
    """Raise an error if a package that ONNX needs is not installed."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise CoviewsError(f"--format onnx needs {' and '.join(missing)}: pip install 'coviews[onnx]'")


def onnx_bytes(encoder: nn.Module, image_size: tuple[int, int], channels: int, about: dict[str, str]) -> bytes:
    """The encoder as an ONNX model: images (N, C, H, W) -> features (N, D) for every N, with `about` as metadata."""
    check_onnx()
    example = torch.zeros(2, channels, *image_size)
    try:
        with _quiet():
            program: Any = torch.onnx.export(
                encoder, (example,), dynamo=True, opset_version=OPSET, verbose=False, input_names=["images"],
                output_names=["features"], dynamic_shapes=({0: torch.export.Dim("batch")},),
            )  # fmt: skip
            model = program.model_proto
    except Exception as error:  # the exporter raises anything, with long messages
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise CoviewsError(f"torch cannot export this encoder to ONNX: {reason[:200]}") from error
    _remove_traces(model)
    for name, value in about.items():
        entry = model.metadata_props.add()
        entry.key, entry.value = name, value
    return bytes(model.SerializeToString())


def largest_difference(
    content: bytes, encoder: nn.Module, image_size: tuple[int, int], channels: int, seed: int = 0
) -> float:
    """The largest difference between onnxruntime and torch, relative to the largest output; an error above MOST."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors only
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    generator = torch.Generator().manual_seed(seed)
    worst = 0.0
    for count in (1, 5):  # other batch sizes than that of the export
        images = torch.randn(count, channels, *image_size, generator=generator)
        with torch.no_grad():
            expected = encoder(images).numpy()
        output = session.run(None, {"images": images.numpy()})[0]
        if output.shape != expected.shape:
            raise CoviewsError(f"the ONNX file gives features of shape {output.shape}, not {expected.shape}")
        worst = max(worst, float(np.abs(output - expected).max() / max(float(np.abs(expected).max()), 1e-12)))
    if not worst <= MOST:
        raise CoviewsError(
            f"the ONNX file does not give what the encoder gives: they differ by {worst:.1g} of the largest feature, "
            f"more than {MOST:g}"
        )
    return worst


def _remove_traces(model: Any) -> None:
    """Remove the exporter's debug information, which has paths of source files on this machine."""
    graphs = [model.graph, *model.functions]
    for graph in graphs:
        for part in (*graph.node, *graph.value_info, *getattr(graph, "input", ()), *getattr(graph, "output", ())):
            if not isinstance(part, str):
                part.doc_string = ""
                del part.metadata_props[:]
        graph.doc_string = ""
        del graph.metadata_props[:]


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter's warnings about its internals."""
    names = ("torch.onnx", "onnxscript", "onnx_ir")
    before = {name: logging.getLogger(name).level for name in names}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:
            logging.getLogger(name).setLevel(logging.ERROR)
        try:
            yield
        finally:
            for name, level in before.items():
                logging.getLogger(name).setLevel(level)
