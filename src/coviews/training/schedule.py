"""The learning rate over a run."""

import math

from coviews.runs.settings import PretrainSettings


def learning_rate(settings: PretrainSettings, step: int, steps: int) -> float:
    """At a step counted through the whole run: a linear rise, then a cosine to zero."""
    total, peak = settings.epochs * steps, settings.base_lr * settings.batch_size * settings.accumulate / 256
    rise = min(settings.lr_warmup_epochs, settings.epochs / 10) * steps
    if step < rise:
        return peak * (step + 1) / (rise + 1)
    return peak * (1 + math.cos(math.pi * (step - rise) / (total - rise))) / 2
