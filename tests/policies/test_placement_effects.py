"""Where the crops of a pair lie: features against a count of pixels, and policies that choose pairs of crops."""

import hashlib
import json
import math

import numpy as np
import pytest
import safetensors
import safetensors.numpy

from coviews import CoviewsError, LossTable, PolicyQueue, Space, TableSettings, load_policy, view_source
from coviews.ops.placement import Placement
from coviews.ops.plan import Plan
from coviews.policies.fixed import Uniform
from coviews.policies.placement_effects import COUNTS, EDGES, FIRSTS, placement_bins, placement_features
from coviews.policies.statistics import policy_statistics
from coviews.policies.tilted import Effects, Tilt, TiltedPolicy

SIZE = (24, 32)
PRIOR = view_source("simclr")
NAMES = list(EDGES)
ARRAYS = ("ops", "levels", "boxes", "flips", "vertical_flips", "turns", "spots")


def effects_of_bins(seed=0):
    """Known effects: less overlap and smaller crops make pairs harder; the rest does nothing."""
    overlap = np.linspace(0.6, -0.3, COUNTS[0])
    area = np.linspace(0.4, -0.4, COUNTS[NAMES.index("smaller area")])
    values = np.zeros(COUNTS.sum())
    values[: COUNTS[0]] = overlap
    first = FIRSTS[NAMES.index("smaller area")]
    values[first : first + len(area)] = area
    return values


def true_losses(plan, values=None):
    values = effects_of_bins() if values is None else values
    bins = placement_bins(plan)
    return 4.0 + np.array([sum(values[FIRSTS[f] + row[f]] for f in range(len(row))) for row in bins])


def logged(*, batches=200, size=128, noise=0.2, seed=1, placement=None, **options):
    """A table that saw training in which the losses follow from the crops alone."""
    rng, placement = np.random.default_rng(seed), placement or Placement()
    settings = TableSettings(**{"gentle": 1, "ridge": 1.0, "crops": True, **options})
    table = LossTable(PRIOR, settings=settings, placement=placement)
    for _ in range(batches):
        plan = Plan.draw(PRIOR, size, SIZE, rng, placement)
        table.add(plan, true_losses(plan) + noise * rng.standard_normal(size))
    return table


def same(one, other):
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in ARRAYS)


# --- the features -----------------------------------------------------------------------------------------------


def test_features_are_those_of_the_pixels():
    plan = Plan.draw(PRIOR, 200, SIZE, np.random.default_rng(0), Placement(flip_vertical=0.5, area=(0.05, 1.0)))
    height, width = SIZE
    for i, row in enumerate(placement_features(plan).T):
        covered, centres = np.zeros((2, height, width), bool), []
        for v, (left, top, right, bottom) in enumerate(plan.boxes[i]):
            covered[v, top:bottom, left:right] = True
            rows, columns = np.nonzero(covered[v])
            centres.append(((columns.mean() + 0.5) / width, (rows.mean() + 0.5) / height))
        small, large = sorted(covered.sum((1, 2)))
        expected = [
            covered.all(0).sum() / small, large / small, small / (height * width), math.dist(*centres),
            plan.flips[i, 0] != plan.flips[i, 1], plan.vertical_flips[i, 0] != plan.vertical_flips[i, 1], 0,
        ]  # fmt: skip
        np.testing.assert_allclose(row, expected, atol=1e-12)


def test_bins_are_cut_at_the_edges_and_do_not_depend_on_the_order_of_views():
    plan = Plan.draw(PRIOR, 500, SIZE, np.random.default_rng(0), Placement(quarter_turns=0.5), ((8, 8), (8, 8)))
    bins, features = placement_bins(plan), placement_features(plan)
    for f, edges in enumerate(EDGES.values()):
        assert bins[:, f].tolist() == [sum(x >= e for e in edges) for x in features[f]]
        assert len(np.unique(bins[:, f])) > 1 or NAMES[f] == "upside down"
    swapped = Plan(plan.space, SIZE, *(getattr(plan, name)[:, ::-1] for name in ARRAYS), sizes=plan.sizes)
    assert np.array_equal(placement_bins(swapped), bins)
    with pytest.raises(CoviewsError, match="the plan has 3 views"):
        placement_bins(Plan.draw(view_source("uniform", views=3), 4, SIZE, np.random.default_rng(0)))


# --- the table --------------------------------------------------------------------------------------------------


def test_known_effects_of_crops_are_recovered():
    table = logged(batches=300, noise=0.1)
    effects, explained, without_crops = table._fit()
    fresh = Plan.draw(PRIOR, 4000, SIZE, np.random.default_rng(9))
    known, fitted = true_losses(fresh), effects.placement.of(placement_bins(fresh))
    assert np.corrcoef(known, fitted)[0, 1] > 0.99
    assert explained == pytest.approx(known.var() / (known.var() + 0.1**2), abs=0.05)
    assert without_crops < 0.02
    overlap = effects.placement.values[1 : COUNTS[0]]  # the first bin is rare
    assert (np.diff(overlap) < 0).all()
    assert np.ptp(effects.placement.values[FIRSTS[NAMES.index("mirrored")] :][:2]) < 0.02


def test_operations_alone_explain_what_a_table_without_crops_does():
    rng, tables = np.random.default_rng(0), {}
    for crops in (True, False):
        tables[crops] = LossTable(PRIOR, settings=TableSettings(crops=crops))
    for _ in range(60):
        plan = Plan.draw(PRIOR, 64, SIZE, rng)
        losses = true_losses(plan) + 0.3 * (plan.ops == 0).sum((1, 2)) + 0.1 * rng.standard_normal(64)
        for table in tables.values():
            table.add(plan, losses)
    with_crops, without = tables[True]._fit(), tables[False]._fit()
    assert with_crops.without_crops == pytest.approx(without.explained, abs=1e-9)
    assert with_crops.explained > without.explained + 0.2
    assert without.without_crops is None


@pytest.mark.parametrize("hardness", [-0.1, 0.05, 0.1])
@pytest.mark.parametrize("crop", ["random", "joint"])
def test_drawn_plans_are_as_hard_as_was_asked_for(hardness, crop):
    placement = Placement(crop)
    policy = logged(batches=300, noise=0.1, hardness=hardness, placement=placement).policy(np.random.default_rng(0))
    assert policy.chooses_crops
    assert policy.statistics["limited_by"] is None
    ordinary = true_losses(Plan.draw(PRIOR, 20_000, SIZE, np.random.default_rng(1), placement)).mean()
    plan = Plan.draw(policy, 20_000, SIZE, np.random.default_rng(2), placement)
    reached = (true_losses(plan).mean() - ordinary) / (math.log(255) - ordinary)
    assert reached == pytest.approx(hardness, abs=0.015)
    assert policy.statistics["hardness"] == pytest.approx(hardness, abs=1e-3)


def test_a_saved_table_of_crops_goes_on_as_it_would_have():
    first = logged(batches=40)
    first.policy(np.random.default_rng(0))
    second = LossTable(PRIOR, settings=first.settings)
    second.load_state_dict(first.state_dict())
    for table in (first, second):
        plan = Plan.draw(PRIOR, 64, SIZE, np.random.default_rng(3))
        table.add(plan, true_losses(plan))
    one, two = (table.policy(np.random.default_rng(5)) for table in (first, second))
    assert one.statistics == two.statistics
    assert np.array_equal(one.effects.placement.values, two.effects.placement.values)
    assert one.effects.placement.image_size == two.effects.placement.image_size == SIZE
    damaged = first.state_dict()
    damaged["places"][0, 0] = 200
    with pytest.raises(CoviewsError, match="crops that do not fit"):
        second.load_state_dict(damaged)


def test_a_table_of_crops_needs_plans_and_pairs_that_are_drawn_together():
    rng = np.random.default_rng(0)
    table = LossTable(PRIOR, settings=TableSettings(crops=True))
    with pytest.raises(CoviewsError, match="needs the plan"):
        table.add(PRIOR.sample(8, rng).applied(rng), np.ones(8))
    apart = LossTable(PRIOR, kind="indepviews", settings=TableSettings(crops=True))
    for _ in range(20):
        plan = Plan.draw(PRIOR, 64, SIZE, rng)
        apart.add(plan, true_losses(plan) + 0.3 * (plan.ops == 0).sum((1, 2)))
    assert not apart.policy(rng).chooses_crops
    assert "places" not in apart.state_dict()
    policy = logged(batches=20).policy(rng)
    with pytest.raises(CoviewsError, match="cannot choose pairs of crops"):
        TiltedPolicy(PRIOR, "indepviews", policy.effects, policy.tilt)


# --- the draws --------------------------------------------------------------------------------------------------


def test_plans_follow_the_tilted_prior():
    """The share of each bin, against weighted draws of the prior; and what is kept plain is plain."""
    policy = logged().policy(np.random.default_rng(0))
    n = 40_000
    bins = placement_bins(policy.draw_plan(n, SIZE, np.random.default_rng(1)))
    shares = np.bincount((FIRSTS + bins).ravel(), minlength=COUNTS.sum()) / n
    found = policy_statistics(policy).placement
    error = 5 * np.sqrt(np.maximum(found.policy * (1 - found.policy), 0) / n * 4) + 1e-3
    assert (np.abs(shares - found.policy) < error).all()
    assert np.abs(found.policy - found.prior).max() > 0.05
    np.testing.assert_allclose(np.add.reduceat(found.policy, FIRSTS), 1)
    plain = TiltedPolicy(PRIOR, "coviews", policy.effects, policy.tilt, 1.0, policy.accepted)
    unchanged = placement_bins(plain.draw_plan(n, SIZE, np.random.default_rng(1)))
    prior = np.bincount((FIRSTS + unchanged).ravel(), minlength=COUNTS.sum()) / n
    assert np.abs(prior - found.prior).max() < 0.015


def test_one_generator_one_plan_of_the_size_and_placement_that_was_asked_for():
    policy = logged(batches=30).policy(np.random.default_rng(0))
    sizes = ((8, 8), (8, 8))
    one, two = (Plan.draw(policy, 50, (40, 40), np.random.default_rng(1), Placement("none"), sizes) for _ in range(2))
    assert one == two
    assert (one.boxes == [0, 0, 40, 40]).all()
    assert one.sizes == sizes
    assert len(Plan.draw(policy, 0, SIZE, np.random.default_rng(0))) == 0
    drawn = policy.sample(30, np.random.default_rng(2))  # operations of pairs as in the search
    plan = policy.draw_plan(30, SIZE, np.random.default_rng(2))
    assert np.array_equal(drawn.ops, plan.ops)
    assert np.array_equal(drawn.levels, plan.levels)


def test_a_queue_mixes_policies_that_choose_crops_with_others():
    queue = PolicyQueue(p=0.5)
    queue.push(logged(crops=False, batches=20).policy(np.random.default_rng(0)))
    assert not queue.chooses_crops
    queue.push(logged(hardness=-0.3).policy(np.random.default_rng(0)))
    assert queue.chooses_crops
    n = 20_000
    plan = Plan.draw(queue, n, SIZE, np.random.default_rng(1))
    assert plan == Plan.draw(queue, n, SIZE, np.random.default_rng(1))
    means = [
        true_losses(Plan.draw(source, n, SIZE, np.random.default_rng(2))).mean()
        for source in (queue.policies[0], queue.policies[1])
    ]
    assert means[0] < means[1] - 0.2
    assert true_losses(plan).mean() == pytest.approx(queue.weights @ means, abs=0.02)
    assert len(Plan.draw(queue, 0, SIZE, np.random.default_rng(1))) == 0


def test_plans_are_stacked_image_by_image():
    plan = Plan.draw(PRIOR, 9, SIZE, np.random.default_rng(0))
    assert Plan.stacked([plan[:4], plan[4:4], plan[4:]]) == plan


@pytest.mark.parametrize(("kind", "checksum"), [("coviews", "3c7d154a23d9f19f"), ("indepviews", "02ef7998772bf9c9")])
def test_without_effects_of_crops_plans_are_as_before(kind, checksum):
    """Checksums of what the code drew before policies could choose crops."""
    where = Space("tiny", ("Rotate", "Identity", "Solarize"), np.array([[-9.0, 0, 9], [0, 0, 0], [64, 128, 200.0]]))
    queue = PolicyQueue()
    for seed in (0, 1):
        rng = np.random.default_rng(seed)
        Uniform(where, 1, 0.8).sample(1, rng)
        steps = (0.3 * rng.standard_normal((1, 3, 3))).astype(np.float32)
        steps[:, 1] = steps[:, 1, :1]
        pairs = 0.2 * rng.standard_normal((3, 3)) * (kind == "coviews")
        effects = Effects(steps, (pairs + pairs.T).astype(np.float32), 4.4)
        queue.push(TiltedPolicy(Uniform(where, 1, 0.8), kind, effects, Tilt(2.0, 12.0, 4.8, -0.1), 0.1, 0.2))
    plan = Plan.draw(queue, 300, (20, 30), np.random.default_rng(8))
    drawn = b"".join(getattr(plan, name).tobytes() for name in ("ops", "levels", "boxes", "flips"))
    assert hashlib.sha256(drawn).hexdigest()[:16] == checksum


# --- the file ---------------------------------------------------------------------------------------------------


def test_a_policy_of_crops_comes_back_as_it_was(tmp_path):
    policy = logged(batches=40, placement=Placement("joint", (0.1, 0.9), flip=0.3)).policy(np.random.default_rng(0))
    path = tmp_path / "p.safetensors"
    policy.save(path)
    back = load_policy(path)
    assert back.chooses_crops
    assert back.effects.placement.placement == Placement("joint", (0.1, 0.9), flip=0.3)
    assert back.statistics == policy.statistics
    plans = [Plan.draw(p, 60, (16, 16), np.random.default_rng(1)) for p in (policy, back)]
    assert same(*plans)
    back.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == path.read_bytes()


def described(path):
    with safetensors.safe_open(path, framework="numpy") as file:
        return json.loads(file.metadata()["coviews"]), {k: file.get_tensor(k) for k in file.keys()}  # noqa: SIM118


def test_older_versions_refuse_a_policy_of_crops_and_read_all_others(tmp_path):
    path = tmp_path / "p.safetensors"
    logged(batches=20).policy(np.random.default_rng(0)).save(path)
    assert described(path)[0]["format"] == 2
    logged(batches=20, crops=False).policy(np.random.default_rng(0)).save(path)
    description, weights = described(path)
    assert description["format"] == 1
    assert "crops" not in description
    assert set(weights) == {"steps", "pairs"}


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        (("crops", "edges", "overlap", 0), 0.3, "other bins"),
        (("crops", "placement", "crop"), "rendom", "did you mean 'random'"),
        (("crops", "placement", "depth"), 1, "of crops is wrong: it has no .depth"),
        (("crops", "placement", "area"), "large", "of crops is wrong: area"),
        (("crops", "image_size"), [0, 8], "image_size"),
        (("crops", "image_size"), [8], "description is wrong"),
        (("crops", "image_size", 0), 10**9, "image_size"),
        (("crops",), None, "format 2"),
        (("format",), 1, "format 1"),
        (("kind",), "indepviews", "cannot choose pairs of crops"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(tmp_path, keys, value, message):
    path = tmp_path / "p.safetensors"
    logged(batches=20).policy(np.random.default_rng(0)).save(path)
    description, weights = described(path)
    part = description
    for key in keys[:-1]:
        part = part[key]
    part[keys[-1]] = value
    path.write_bytes(safetensors.numpy.save(weights, {"coviews": json.dumps(description)}))
    with pytest.raises(CoviewsError, match=message) as caught:
        load_policy(path)
    assert "\n" not in str(caught.value)
