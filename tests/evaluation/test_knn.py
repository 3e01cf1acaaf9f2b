"""kNN against a slow double loop and against lightly, and features that leave the encoder as it was."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from coviews.encoders import features as encoder_features
from coviews.encoders.architectures import make_encoder
from coviews.encoders.features import check_features, feature_batches, features
from coviews.errors import CoviewsError
from coviews.evaluation import knn
from coviews.evaluation.knn import knn_accuracy, knn_predict, nearest, usable_k

MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.25, 0.3)


def clouds(n, seed=0, d=6, classes=4):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, n)
    centres = np.random.default_rng(99).normal(size=(classes, d))
    return (centres[labels] + rng.normal(size=(n, d))).astype(np.float32), labels


def slow_predict(bank, labels, queries, k, temperature, classes, leave_one_out=False):
    def cosine(a, b):
        return float(a @ b) / math.sqrt(float(a @ a)) / math.sqrt(float(b @ b))

    bank, queries = bank.astype(np.float64), queries.astype(np.float64)
    found = []
    for m, query in enumerate(queries):
        near = [(cosine(query, b), i) for i, b in enumerate(bank) if not (leave_one_out and i == m)]
        votes = [0.0] * classes
        for similarity, i in sorted(near, reverse=True)[:k]:
            votes[labels[i]] += math.exp(similarity / temperature)
        found.append(votes.index(max(votes)))
    return found


@pytest.mark.parametrize("leave_one_out", [False, True])
@pytest.mark.parametrize(("k", "temperature"), [(1, 0.1), (7, 0.1), (7, 1.0), (39, 0.07)])
def test_predictions_equal_the_slow_oracle(k, temperature, leave_one_out, monkeypatch):
    monkeypatch.setattr(knn, "_CHUNK", 40 * 7)  # several chunks, the last one smaller
    bank, labels = clouds(40)
    queries = bank if leave_one_out else clouds(31, seed=1)[0]
    made = knn_predict(bank, labels, queries, k=k, temperature=temperature, leave_one_out=leave_one_out)
    assert made.tolist() == slow_predict(bank, labels, queries, k, temperature, 4, leave_one_out)
    truth = np.arange(len(queries)) % 4
    accuracy = knn_accuracy(bank, labels, queries, truth, k=k, temperature=temperature, leave_one_out=leave_one_out)
    assert accuracy == pytest.approx(np.mean([a == b for a, b in zip(made, truth, strict=True)]))


@pytest.mark.parametrize(("n", "k", "temperature"), [(500, 200, 0.1), (300, 20, 0.5), (64, 64, 1.0)])
def test_predictions_equal_lightlys(n, k, temperature):
    from coviews.compat import import_torchvision

    import_torchvision()
    from lightly.utils.benchmarking import knn_predict as theirs

    bank, labels = clouds(n, classes=10)
    queries, _ = clouds(200, seed=1, classes=10)
    unit_bank, unit_queries = (nn.functional.normalize(torch.from_numpy(x), dim=1) for x in (bank, queries))
    wanted = theirs(unit_queries, unit_bank.T, torch.from_numpy(labels), 10, k, temperature)[:, 0]
    np.testing.assert_array_equal(knn_predict(bank, labels, queries, k=k, temperature=temperature), wanted)


def test_equal_votes_go_to_the_lowest_class_as_in_lightly():
    from coviews.compat import import_torchvision

    import_torchvision()
    from lightly.utils.benchmarking import knn_predict as theirs

    axes = np.eye(4, dtype=np.float32)
    bank, labels = np.concatenate([axes, axes]), np.array([3, 1, 2, 0, 1, 3, 2, 2])  # 1 and 3 as near as each other
    wanted = theirs(torch.from_numpy(axes), torch.from_numpy(bank).T, torch.from_numpy(labels), 4, 2, 0.1)[:, 0]
    made = knn_predict(bank, labels, axes, k=2)
    assert made.tolist() == [1, 1, 2, 0]
    assert made.tolist() == wanted.tolist()


def test_a_low_temperature_does_not_overflow():
    bank, labels = clouds(50)
    np.testing.assert_array_equal(knn_predict(bank, labels, bank, k=50, temperature=1e-3), labels)


def test_leave_one_out_goes_by_index_not_by_content():
    same = np.ones((4, 3), np.float32)
    indices, similarities = nearest(same, same, 3, leave_one_out=True)
    assert [sorted(row) for row in indices.tolist()] == [[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]]
    np.testing.assert_allclose(similarities, 1, rtol=1e-6)


def test_nearest_first():
    bank, _ = clouds(60)
    queries, _ = clouds(9, seed=2)
    indices, similarities = nearest(bank, queries, 5)
    unit = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in (queries.astype(np.float64), bank.astype(np.float64))]
    all_of_them = unit[0] @ unit[1].T
    np.testing.assert_array_equal(indices, np.argsort(-all_of_them, axis=1)[:, :5])
    np.testing.assert_allclose(similarities, -np.sort(-all_of_them, axis=1)[:, :5], atol=1e-6)


def test_fewer_neighbours_on_small_sets():
    assert [usable_k(200, n) for n in (1, 24, 25, 100, 1000, 5000, 50_000)] == [1, 1, 1, 4, 40, 200, 200]
    assert [usable_k(None, n) for n in (1, 100, 1000, 4999, 5000, 50_000)] == [1, 4, 20, 20, 200, 200]
    assert usable_k(20, 50_000) == 20
    with pytest.raises(CoviewsError, match="at least 1"):
        usable_k(0, 100)


def test_images_of_an_unknown_class_are_left_out():
    bank, labels = clouds(30)
    truth = labels.copy()
    truth[5:] = -1
    assert knn_accuracy(bank, labels, bank, truth, k=1) == 1


def test_what_is_wrong_is_said():
    bank, labels = clouds(30)
    with pytest.raises(CoviewsError, match="k must be 1 to 30"):
        knn_predict(bank, labels, bank)
    with pytest.raises(CoviewsError, match=r"k must be 1 to 29.*usable_k"):
        knn_predict(bank, labels, bank, k=30, leave_one_out=True)
    with pytest.raises(CoviewsError, match="leave_one_out needs the bank"):
        knn_predict(bank, labels, bank[:4], k=3, leave_one_out=True)
    with pytest.raises(CoviewsError, match="29 bank labels for 30"):
        knn_predict(bank, labels[1:], bank, k=3)
    with pytest.raises(CoviewsError, match=r"0\.\.2, but reach from 0 to 3"):
        knn_predict(bank, labels, bank, k=3, classes=3)
    with pytest.raises(CoviewsError, match="whole numbers"):
        knn_predict(bank, labels / 2, bank, k=3)
    with pytest.raises(CoviewsError, match="6 features an image, the queries 5"):
        knn_predict(bank, labels, bank[:, 1:], k=3)
    with pytest.raises(CoviewsError, match="temperature"):
        knn_predict(bank, labels, bank, k=3, temperature=0)
    bank[[7, 9]] = np.nan
    with pytest.raises(CoviewsError, match="2 of 30 images are not finite, first of image 7"):
        knn_predict(bank, labels, bank, k=3)
    with pytest.raises(CoviewsError, match="no image of a known class"):
        knn_accuracy(bank[:5], labels[:5], bank[:5], np.full(5, -1), k=1)


# ------------------------------------------------------------------------------------------ features


@pytest.fixture(scope="module")
def encoder():
    torch.manual_seed(0)
    made = make_encoder("resnet8")
    made.train()
    made.stem[0].eval()  # a mixture of modes must come back
    return made


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(0).integers(0, 256, (21, 32, 32, 3), np.uint8)


def state(module):
    return [p.clone() for p in module.state_dict().values()], [m.training for m in module.modules()]


def test_features_equal_a_plain_pass_and_nothing_changes(encoder, images):
    weights, modes = state(encoder)
    before = torch.random.get_rng_state()
    made = features(encoder, images, MEAN, STD, batch=8)
    after, modes_after = state(encoder)
    assert modes == modes_after
    assert all(torch.equal(a, b) for a, b in zip(weights, after, strict=True))
    assert torch.equal(before, torch.random.get_rng_state())
    assert all(p.grad is None for p in encoder.parameters())

    plain = make_encoder("resnet8").eval()
    plain.load_state_dict(encoder.state_dict())
    x = torch.from_numpy(((images / 255 - MEAN) / STD).astype(np.float32)).permute(0, 3, 1, 2)
    with torch.no_grad():
        np.testing.assert_allclose(made, plain(x).numpy(), rtol=1e-3, atol=1e-5)
    assert made.dtype == np.float32
    np.testing.assert_array_equal(made, features(encoder, images, MEAN, STD, batch=8))


def test_an_encoder_that_fails_gets_its_modes_back(images):
    class Failing(nn.Sequential):
        def forward(self, x):
            raise RuntimeError("broken")

    module = Failing(nn.Linear(1, 1)).train()
    with pytest.raises(RuntimeError, match="broken"):
        features(module, images, MEAN, STD)
    assert module.training


def test_a_memory_map_is_read_in_batches(encoder, images, tmp_path, recwarn):
    np.save(tmp_path / "images.npy", images)
    mapped = np.load(tmp_path / "images.npy", mmap_mode="r")
    np.testing.assert_array_equal(
        features(encoder, mapped, MEAN, STD, batch=4), features(encoder, images, MEAN, STD, batch=4)
    )
    assert not recwarn.list


def test_batches_of_large_images_are_smaller(encoder, images, monkeypatch):
    height, width = images.shape[1:3]
    monkeypatch.setattr(encoder_features, "MOST_PIXELS", 3 * height * width + 1)
    sizes = [len(part) for part in feature_batches(encoder, images[:8], MEAN, STD, batch=8)]
    assert sizes == [3, 3, 2]
    monkeypatch.setattr(encoder_features, "MOST_PIXELS", 1)
    assert len(features(encoder, images[:2], MEAN, STD, batch=8)) == 2


def test_the_encoder_is_as_it_was_between_batches(encoder, images):
    modes = [m.training for m in encoder.modules()]
    for part in feature_batches(encoder, images, MEAN, STD, batch=16):
        assert [m.training for m in encoder.modules()] == modes
        assert part.shape[1] == 256


def test_maps_are_flattened_and_grey_images_taken():
    made = features(nn.AvgPool2d(4), np.full((3, 8, 8), 255, np.uint8), (0.5,), (0.25,))
    np.testing.assert_allclose(made, np.full((3, 4), 2.0), atol=1e-6)


def test_features_that_are_not_finite_are_named(images):
    class Bad(nn.Module):
        def forward(self, x):
            made = x.mean((2, 3))
            made[2:4] = torch.nan
            return made

    with pytest.raises(CoviewsError, match="6 of 21 images are not finite, first of image 2"):
        features(Bad(), images, MEAN, STD, batch=8)


def test_bad_images_and_encoders_are_named(images):
    with pytest.raises(CoviewsError, match="a vector for each of 21"):
        features(nn.Flatten(0), images, MEAN, STD)
    with pytest.raises(CoviewsError, match="uint8"):
        features(nn.Identity(), images / 255, MEAN, STD)
    with pytest.raises(CoviewsError, match="uint8"):
        features(nn.Identity(), [1, 2], MEAN, STD)
    with pytest.raises(CoviewsError, match="no image"):
        features(nn.Identity(), images[:0], MEAN, STD)
    with pytest.raises(CoviewsError, match="batch"):
        features(nn.Identity(), images, MEAN, STD, batch=0)
    with pytest.raises(CoviewsError, match=r"\(N, D\)"):
        check_features(np.zeros(3), "features")


def test_a_bar_appears_only_in_a_terminal_and_late(images, monkeypatch, capsys):
    from coviews.console import progress as late_bar

    pool = nn.AvgPool2d(32)
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    wanted = features(pool, images, MEAN, STD, batch=4, progress=True)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(late_bar, "_PATIENCE", -1.0)
    np.testing.assert_array_equal(features(pool, images, MEAN, STD, batch=4, progress=True), wanted)
    assert "features" in capsys.readouterr().err
    monkeypatch.setenv("TTY_COMPATIBLE", "0")
    features(pool, images, MEAN, STD, batch=4, progress=True)
    assert capsys.readouterr().err == ""


def test_arrays_that_cannot_be_written_are_taken_in_silence(recwarn):
    bank, labels = clouds(30)
    bank.flags.writeable = labels.flags.writeable = False
    knn_predict(bank, labels, bank, k=3)
    assert not recwarn.list
