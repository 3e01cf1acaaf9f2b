"""Views in loops of other libraries: a transform for data sets, whole batches, and a callback for Lightning."""

from coviews.transforms.views import ViewBatch, Views

__all__ = ["ViewBatch", "Views"]
