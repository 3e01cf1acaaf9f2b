"""The options of commands that use an encoder: what they share, and those of `export`."""

from dataclasses import dataclass

from coviews.console.options import Int, MaybePath, Text
from coviews.data.request import check_depth_and_frames
from coviews.errors import CoviewsError, unknown

EXPORT_FORMATS = ("torchvision", "timm", "state-dict", "onnx", "huggingface")


@dataclass(frozen=True)
class EncoderOptions:
    """Which images an encoder is used on, and where it computes."""

    size: Int = None
    """The side of the images in pixels, if not that of the encoder's training."""
    frames: Text = None
    """How files of several pages are read: channels, middle or each; by default as in the run."""
    subset: Text = None
    """Only a part: '10%' or a number of images; of a run's own data by default what the run took."""
    data_root: MaybePath = None
    """Where known sets are; by default as in the run, or 'data'."""
    download: bool = False
    """Fetch a known set, or published weights."""
    cache: MaybePath = None
    """Where images that do not fit into memory are kept decoded."""
    architecture: Text = None
    """The name of the encoder that a state dict is of, such as resnet50."""
    batch_size: int = 256
    """Images that pass the encoder at once; on the CPU, fewer if they are large."""
    device: str = "auto"
    """auto, cpu, cuda or mps."""
    progress: bool = True
    """Show what is going on where it takes long."""

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise CoviewsError(f"--batch-size must be 1 or more, not {self.batch_size}")
        check_depth_and_frames(None, self.frames)


@dataclass(frozen=True)
class ExportOptions:
    """What `export` writes."""

    format: Text = None
    """torchvision or timm for their own encoders (the default), state-dict for any, onnx (checked by running it), or
    huggingface: a folder with config.json, model.safetensors and a model card."""
    out: MaybePath = None
    """The file to write: .safetensors, .pt or .pth, or .onnx; the folder for huggingface; by default it is called by
    the run."""
    overwrite: bool = False
    """Replace files that are there."""
    progress: bool = True
    """Show what is going on where it takes long."""

    def __post_init__(self) -> None:
        if self.format is not None and self.format not in EXPORT_FORMATS:
            raise unknown("format", self.format, EXPORT_FORMATS)
