"""How pilots' encoders are judged: by the labelled images, and by how they name the others."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from coviews.choosing import pilots as room
from coviews.choosing.agreement import agreements, weight
from coviews.choosing.model import families
from coviews.choosing.pilots import HitsByPilot, Pilot
from coviews.choosing.probes import class_chances, leave_one_out
from coviews.choosing.score import observed
from coviews.data.imageset import ImageSet
from coviews.policies.factors import RECIPE

PILOTS = [Pilot(family, 0, Path(f"{i}")) for i, family in enumerate(families(RECIPE, ("mirror", "turns", "blur")))]


@pytest.fixture
def encoders(monkeypatch):
    """Encoders that see brightness in each part of an image, and more and more noise."""

    def encoded(encoder, images, mean, std):
        values = images.reshape(len(images), 4, 4, 4, 4).mean((2, 4)).reshape(len(images), -1) / mean
        noise = np.random.default_rng([encoder, len(images)]).standard_normal(values.shape)
        return values + 0.1 * encoder * noise

    monkeypatch.setattr(room, "open_encoder", lambda folder: SimpleNamespace(encoder=int(folder.name)))
    monkeypatch.setattr(room, "normalisation", lambda model, images: (float(np.iinfo(images.images.dtype).max), 1.0))
    monkeypatch.setattr(room, "features", encoded)


def pictures(count=90):
    """Images of three classes, bright in another place each."""
    generator, labels = np.random.default_rng(0), np.arange(count) % 3
    images = generator.integers(0, 120, (count, 16, 16, 1), np.uint8)
    for label in range(3):
        images[labels == label, 4 * label : 4 * label + 4] += 60
    return ImageSet(images, labels, ("a", "b", "c"), tuple(f"{i}.png" for i in range(count)))


def test_scores_are_those_of_labels_and_agreement(encoders):
    images = pictures()
    labelled = images.subset(np.arange(9))
    made = HitsByPilot(labelled, images).observations(PILOTS)
    encode = [lambda x, i=i: room.features(i, x, 255.0, 1.0) for i in range(len(PILOTS))]
    known, others = [e(labelled.images) for e in encode], [e(images.images[9:]) for e in encode]
    judged = [leave_one_out(x, labelled.labels) for x in known]
    chances = [class_chances(x, labelled.labels, y) for x, y in zip(known, others, strict=True)]
    tried = [pilot.family for pilot in PILOTS]
    agreed = agreements(tried, chances)
    assert np.ptp(agreed) > 0.1
    assert weight(labelled.labels, 81) == pytest.approx(0.5 * 81 / 91)
    slow = observed(tried, judged, agreed, 0.5 * 81 / 91)
    np.testing.assert_array_equal(made.scores, slow.scores)
    np.testing.assert_array_equal(made.errors, slow.errors)
    assert (made.scores != observed(tried, judged).scores).all()


def test_labelled_images_of_another_depth_are_judged_in_their_own(encoders):
    images = pictures()
    deep = ImageSet(images.images.astype(np.uint16) * 257, images.labels, images.classes, images.names)
    labelled = images.subset(np.arange(9))
    alone, beside = (HitsByPilot(labelled, some).of(PILOTS[0]) for some in (labelled, deep))
    np.testing.assert_array_equal(alone, beside)


def test_where_all_images_are_labelled_labels_alone_count(encoders):
    images = pictures(30)
    hits = HitsByPilot(images, images)
    assert hits.agreements(PILOTS) is None
    judged = [leave_one_out(room.features(i, images.images, 255.0, 1.0), images.labels) for i in range(len(PILOTS))]
    np.testing.assert_array_equal(
        hits.observations(PILOTS).scores, observed([pilot.family for pilot in PILOTS], judged).scores
    )


def test_without_labels_nothing_is_judged(encoders):
    assert HitsByPilot(None, pictures()).of(PILOTS[0]) is None


def test_judging_many_pilots_at_once_is_shown(encoders):
    shown = []
    display = SimpleNamespace(update=lambda *values: shown.append(values))
    hits = HitsByPilot(pictures(9), pictures(), display)
    hits.observations(PILOTS)
    hits.observations(PILOTS)
    assert shown == [("judging pilots", i, len(PILOTS), "") for i in range(len(PILOTS))]
