"""Search by table: the fit against known effects, the draws against the closed form, and the toy from logged data."""

import io
import itertools
import math
import warnings

import numpy as np
import pytest
import torch

from coviews import (
    BoundedReward,
    CoviewsError,
    LossTable,
    Policy,
    Space,
    TableSettings,
    search,
    space,
    view_source,
)
from coviews.policies.fixed import Uniform
from coviews.policies.statistics import policy_statistics
from coviews.policies.tilted import Effects, Tilt, TiltedPolicy, level_bins

PAPER = space("autoaugment")
TINY = Space("tiny", ("Rotate", "Identity", "Solarize"), np.array([[-9.0, 0, 9], [0, 0, 0], [64, 128, 200.0]]))
UNIFORM = view_source("uniform", space_name="autoaugment")


def effects_for(source, seed=0, size=0.15, together=0.05, cooperative=True):
    """Random effects for what a source draws; nothing depends on levels without a meaning."""
    rng = np.random.default_rng(seed)
    drawn = source.sample(1, rng)
    n_ops, bins = len(drawn.space.ops), int(level_bins(drawn.space.levels)[-1]) + 1
    steps = (size * rng.standard_normal((drawn.steps, n_ops, bins))).astype(np.float32)
    steps[:, ~drawn.space.has_magnitude] = steps[:, ~drawn.space.has_magnitude, :1]
    pairs = together * rng.standard_normal((n_ops, n_ops)) * cooperative
    return Effects(steps, (pairs + pairs.T).astype(np.float32), 4.4)


def expected(effects, drawn):
    """The loss of each pair, by a plain loop over its steps."""
    bins = level_bins(drawn.space.levels)[drawn.levels]
    losses = np.full(len(drawn), effects.constant)
    for v, s in itertools.product(range(2), range(drawn.steps)):
        losses += [effects.steps[s, o, k] for o, k in zip(drawn.ops[:, v, s], bins[:, v, s], strict=True)]
    for s, t in itertools.product(range(drawn.steps), repeat=2):
        losses += [effects.pairs[a, b] for a, b in zip(drawn.ops[:, 0, s], drawn.ops[:, 1, t], strict=True)]
    return losses


def logged(source, effects, *, batches=200, size=128, noise=0.3, seed=1, fall=0.002, **options):
    """A table that has seen training with these effects; its loss falls on the way."""
    rng = np.random.default_rng(seed)
    table = LossTable(source, **options)
    for i in range(batches):
        drawn = source.sample(size, rng).applied(rng)
        table.add(drawn, expected(effects, drawn) - fall * i + noise * rng.standard_normal(size))
    return table


SOURCES = {
    "uniform": UNIFORM,
    "random": view_source("random"),
    "simclr": view_source("simclr"),
    "trivialaugment": view_source("trivialaugment"),
    "all": view_source("uniform", space_name="all", steps=1),
}


# --- the fit ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("kind", ["coviews", "indepviews"])
def test_known_effects_are_recovered(name, kind):
    source = SOURCES[name]
    true = effects_for(source, cooperative=kind == "coviews")
    table = logged(source, true, batches=300, kind=kind, noise=0.1, settings=TableSettings(ridge=1.0))
    found, explained, _ = table._fit()
    fresh = source.sample(4000, np.random.default_rng(9)).applied(np.random.default_rng(10))
    bins = level_bins(fresh.space.levels)[fresh.levels]
    known, guessed = expected(true, fresh), found.constant + table._added(found, fresh.ops, bins)
    assert np.corrcoef(known, guessed)[0, 1] > 0.98
    share = known.var() / (known.var() + 0.1**2)
    assert explained == pytest.approx(share, abs=0.05)
    assert np.mean(guessed - known) == pytest.approx(-0.002 * 292, abs=0.03)  # the level is that of the last batches


def test_the_fit_is_ridge_regression_with_a_level_for_each_batch():
    source = Uniform(TINY, 2, 0.8)
    table = logged(source, effects_for(source), batches=7, size=20, settings=TableSettings(ridge=3.0))
    found, explained, _ = table._fit()
    rows, losses, batch = [], [], []
    for i, b in enumerate(table._batches):
        for terms, loss in zip(b.terms.T, b.losses, strict=True):
            rows.append(np.bincount(terms, minlength=table._features))
            losses.append(float(loss))
            batch.append(i)
    x, y, batch = np.array(rows, float), np.array(losses), np.array(batch)

    def solve(which):
        a, b = x[which].copy(), y[which].copy()
        for i in set(batch[which]):
            mine = batch[which] == i
            a[mine] -= a[mine].mean(0)
            b[mine] -= b[mine].mean()
        return np.linalg.solve(a.T @ a + 3 * np.eye(a.shape[1]), a.T @ b), a, b

    everything, _, _ = solve(np.ones(len(y), bool))
    np.testing.assert_allclose(found.steps, everything[table._step_index], atol=1e-6)
    np.testing.assert_allclose(found.pairs, everything[table._pair_index], atol=1e-6)
    before, _, _ = solve(batch < 5)  # a fifth, in whole batches, is not seen
    _, a, b = solve(batch >= 5)
    assert explained == pytest.approx(1 - ((b - a @ before) ** 2).sum() / (b**2).sum(), abs=1e-9)


def test_levels_without_a_meaning_share_one_effect():
    table = logged(UNIFORM, effects_for(UNIFORM), batches=20)
    found, _, _ = table._fit()
    for op in np.flatnonzero(~PAPER.has_magnitude):
        assert (found.steps[:, op] == found.steps[:, op, :1]).all()
    assert np.array_equal(found.pairs, found.pairs.T)


def test_the_fit_takes_well_under_a_second():
    import time

    table = logged(UNIFORM, effects_for(UNIFORM), batches=25, size=2000)
    assert len(table) == 50_000
    start = time.process_time()
    table.policy(np.random.default_rng(0))
    assert time.process_time() - start < 0.5


def test_the_memory_is_bounded_and_keeps_the_newest():
    table = logged(UNIFORM, effects_for(UNIFORM), batches=50, size=100, settings=TableSettings(memory=1000))
    assert len(table) == 1000
    other = logged(UNIFORM, effects_for(UNIFORM), batches=50, size=100)
    assert np.array_equal(table.state_dict()["losses"], other.state_dict()["losses"][-1000:])


def test_a_saved_table_goes_on_as_it_would_have():
    first = logged(UNIFORM, effects_for(UNIFORM), batches=40)
    first.policy(np.random.default_rng(0))
    second = LossTable(UNIFORM)
    torch.save(first.state_dict(), saved := io.BytesIO())
    second.load_state_dict(torch.load(io.BytesIO(saved.getvalue())))
    for table in (first, second):
        drawn = UNIFORM.sample(64, np.random.default_rng(3)).applied(np.random.default_rng(4))
        table.add(drawn, torch.linspace(1, 2, 64, requires_grad=True))
    one, two = (table.policy(np.random.default_rng(5)) for table in (first, second))
    assert one.statistics == two.statistics
    assert one.tilt == two.tilt
    assert np.array_equal(one.effects.steps, two.effects.steps)
    with pytest.raises(CoviewsError, match="saved table"):
        LossTable(view_source("trivialaugment")).load_state_dict(first.state_dict())
    with pytest.raises(CoviewsError, match="it has no bins, fits, losses, ops, sizes"):
        second.load_state_dict({})


# --- how far the policy goes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["coviews", "indepviews"])
@pytest.mark.parametrize("hardness", [-0.1, 0.0, 0.05, 0.1, 0.15])
@pytest.mark.parametrize("name", ["uniform", "simclr"])
def test_what_is_drawn_is_as_hard_as_was_asked_for(kind, hardness, name):
    source = SOURCES[name]
    true = effects_for(source, cooperative=kind == "coviews")
    settings = TableSettings(hardness=hardness, gentle=1, ridge=1.0)
    table = logged(source, true, batches=300, fall=0.0, noise=0.1, kind=kind, settings=settings)
    policy = table.policy(np.random.default_rng(0))
    ordinary = expected(true, source.sample(20_000, np.random.default_rng(1)).applied(np.random.default_rng(2))).mean()
    drawn = policy.sample(20_000, np.random.default_rng(3))
    reached = (expected(true, drawn).mean() - ordinary) / (math.log(255) - ordinary)
    assert reached == pytest.approx(hardness, abs=0.02)
    assert policy.statistics["hardness"] == pytest.approx(hardness, abs=1e-3)
    assert policy.statistics["limited_by"] is None
    assert policy.statistics["accepted"] > 0.02


def test_it_starts_gently():
    table = logged(UNIFORM, effects_for(UNIFORM), settings=TableSettings(gentle=4, hardness=0.08))
    reached = [table.policy(np.random.default_rng(i)).statistics["hardness"] for i in range(6)]
    assert reached == pytest.approx([0.02, 0.04, 0.06, 0.08, 0.08, 0.08], abs=1e-4)


def test_no_more_than_a_share_is_over_the_bound():
    true = effects_for(UNIFORM, size=0.3)
    bound = BoundedReward("relative", 0.5, tolerance=1e5)  # a bound that does not punish: only the rule holds it
    settings = TableSettings(hardness=0.9, gentle=1, most_over=0.2, reward=bound)
    table = logged(UNIFORM, true, batches=300, fall=0.0, noise=0.1, settings=settings)
    policy = table.policy(np.random.default_rng(0))
    assert policy.statistics["limited_by"] == "share over the bound"
    assert policy.statistics["over"] == pytest.approx(0.2, abs=1e-3)
    drawn = policy.sample(20_000, np.random.default_rng(1))
    reference, chance = policy.statistics["reference"], policy.statistics["chance"]
    limit = reference + 0.5 * (chance - reference)
    assert (expected(true, drawn) > limit).mean() == pytest.approx(0.2, abs=0.03)


def test_a_table_that_explains_little_keeps_some_variety():
    settings = TableSettings(hardness=0.9, gentle=1)
    table = logged(UNIFORM, effects_for(UNIFORM, size=0.05), batches=300, settings=settings)
    policy = table.policy(np.random.default_rng(0))
    assert policy.statistics["limited_by"] == "variety"
    assert policy.statistics["accepted"] == pytest.approx(0.02, abs=0.002)


@pytest.mark.parametrize(
    ("level", "batches", "why"),
    [(4.4, 0, "too few pairs"), (4.4, 1, "too few pairs"), (9.0, 50, "tells no pair from another")],
)
def test_where_the_table_knows_nothing_the_prior_stays(level, batches, why):
    true = effects_for(UNIFORM)
    table = logged(UNIFORM, Effects(true.steps, true.pairs, level), batches=batches, fall=0.0)
    policy = table.policy(np.random.default_rng(0))
    assert why in policy.statistics["limited_by"]
    assert policy.tilt == Tilt()
    np.testing.assert_allclose(policy.log_weights(*drawn_arrays(UNIFORM)), 0)


def test_luck_is_not_taken_for_an_effect():
    nothing = Effects(np.zeros((2, 16, 11), np.float32), np.zeros((16, 16), np.float32), 4.4)
    policy = logged(UNIFORM, nothing, batches=100).policy(np.random.default_rng(0))
    assert policy.statistics["explained"] <= 0
    assert "explains nothing" in policy.statistics["limited_by"]


def test_an_empty_bound_is_said():
    table = logged(UNIFORM, effects_for(UNIFORM), fall=0.0, settings=TableSettings(reward=BoundedReward("ratio")))
    with pytest.warns(UserWarning, match="no upper bound"):
        table.policy(np.random.default_rng(0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once is enough
        table.policy(np.random.default_rng(0))


def drawn_arrays(source, n=50):
    drawn = source.sample(n, np.random.default_rng(0)).applied(np.random.default_rng(1))
    return drawn.ops, drawn.levels


# --- the draws --------------------------------------------------------------------------------------------------

TILTS = {
    "none": Tilt(),
    "harder": Tilt(2.0, 12.0, 4.8, -0.1),
    "a sharp top": Tilt(3.0, 20.0, 4.6, 0.0),
    "easier": Tilt(-2.0, 2.0, 4.4, 0.9),
    "steep": Tilt(900.0, 3000.0, 4.7, -5.0),
}


def tiny_policy(kind, tilt="harder", steps=1, keep=0.1, seed=0, levels=None):
    where = (
        TINY
        if levels is None
        else Space("fine", TINY.ops, np.linspace(TINY.values[:, 0], TINY.values[:, -1], levels).T)
    )
    prior = Uniform(where, steps, 0.8)
    effects = effects_for(prior, seed=seed, size=0.3, together=0.2, cooperative=kind == "coviews")
    return TiltedPolicy(prior, kind, effects, TILTS[tilt], keep, 0.2)


def closed_form(policy):
    """Every pair of subpolicies that the prior can draw, and its probability: ops, levels (n, 2, S), p (n,)."""
    prior, where = policy.prior, policy.space
    steps = []
    for o in range(len(where.ops)):
        for k in range(where.levels):
            p = prior.p / len(where.ops) / where.levels
            steps.append((o, k, p + (1 - prior.p) / where.levels if o == where.identity else p))
    every = np.array(list(itertools.product(steps, repeat=2 * prior.steps))).reshape(-1, 2, prior.steps, 3)
    ops, levels, plain = every[..., 0].astype(int), every[..., 1].astype(int), every[..., 2].prod((1, 2))
    assert plain.sum() == pytest.approx(1)
    bins = level_bins(where.levels)[levels]
    t, constant = policy.tilt, policy.effects.constant
    effects, together = (a.astype(np.float64) for a in (policy.effects.steps, policy.effects.pairs))

    def tilt(loss):
        return min(t.rise * (loss - t.bound) if loss < t.bound else -t.fall * (loss - t.bound), t.top)

    def view(v, i):
        return sum(effects[s, ops[i, v, s], bins[i, v, s]] for s in range(prior.steps))

    if policy.kind == "coviews":
        met = together[ops[:, 0, :, None], ops[:, 1, None, :]].sum((1, 2))
        weights = np.array(
            [math.exp(tilt(constant + view(0, i) + view(1, i) + met[i]) - t.top) for i in range(len(ops))]
        )
        tilted = plain * weights
        return ops, levels, policy.keep * plain + (1 - policy.keep) * tilted / tilted.sum()
    single = every[..., 2].prod(2)  # (n, 2)
    weights = np.array(
        [[math.exp(tilt(constant + 2 * view(v, i)) / 2 - t.top / 2) for v in (0, 1)] for i in range(len(ops))]
    )
    mean = (plain[:, None] * weights).sum(0)
    return ops, levels, (single * (policy.keep + (1 - policy.keep) * weights / mean)).prod(1)


def counts(policy, n, seed=0):
    drawn = policy.sample(n, np.random.default_rng(seed))
    tokens = drawn.ops.astype(np.int64) * policy.space.levels + drawn.levels
    base = len(policy.space.ops) * policy.space.levels
    code = tokens.reshape(n, -1) @ base ** np.arange(2 * policy.steps)[::-1]
    return np.bincount(code, minlength=base ** (2 * policy.steps))


@pytest.mark.parametrize("kind", ["coviews", "indepviews"])
@pytest.mark.parametrize("tilt", ["none", "harder", "a sharp top", "easier"])
def test_draws_follow_the_closed_form(kind, tilt):
    from scipy import stats

    policy, n = tiny_policy(kind, tilt), 100_000
    _, _, p = closed_form(policy)
    assert p.sum() == pytest.approx(1)
    found = counts(policy, n)
    statistic = ((found - n * p) ** 2 / (n * p)).sum()
    assert 0.001 < stats.chi2.sf(statistic, len(p) - 1) < 0.999
    if tilt != "none":  # the test would notice
        plain = closed_form(tiny_policy(kind, "none"))[2]
        assert stats.chi2.sf(((found - n * plain) ** 2 / (n * plain)).sum(), len(p) - 1) < 1e-9


def test_two_steps_follow_the_closed_form_too():
    policy, n = tiny_policy("coviews", "harder", steps=2), 200_000
    _, _, p = closed_form(policy)
    found = counts(policy, n)
    likely = p * n > 20
    assert np.abs((found - n * p)[likely] / np.sqrt(n * p[likely])).max() < 5.5
    assert found[~likely].sum() == pytest.approx(n * p[~likely].sum(), rel=0.05)


def test_independent_views_are_independent_and_cooperative_ones_are_not():
    """Exactly, in the closed form; and in the draws."""
    for kind in ("indepviews", "coviews"):
        policy = tiny_policy(kind, "harder")
        _, _, p = closed_form(policy)
        joint = p.reshape(9, 9)
        apart = np.abs(joint - np.outer(joint.sum(1), joint.sum(0))).max()
        found = counts(policy, 200_000).reshape(9, 9) / 200_000
        seen = np.abs(found - np.outer(found.sum(1), found.sum(0))).max()
        if kind == "indepviews":
            assert apart < 1e-15
            assert seen < 0.002
        else:
            assert apart > 0.01
            assert seen > 0.01


def test_a_table_whose_views_do_better_together_avoids_what_does_not():
    """The same operation in both views makes pairs easy: a cooperative policy learns to avoid it."""
    source = Uniform(PAPER, 1, 1.0)
    same = Effects(np.zeros((1, 16, 11), np.float32), -0.8 * np.eye(16, dtype=np.float32), 4.4)
    settings = TableSettings(hardness=0.03, gentle=1, ridge=1.0)
    shares = {}
    for kind in ("coviews", "indepviews"):
        table = logged(source, same, batches=300, noise=0.1, fall=0.0, kind=kind, settings=settings)
        drawn = table.policy(np.random.default_rng(0)).sample(40_000, np.random.default_rng(1)).ops[:, :, 0]
        shares[kind] = (drawn[:, 0] == drawn[:, 1]).mean()
    assert shares["coviews"] < 0.03
    assert shares["indepviews"] == pytest.approx(1 / 16, abs=0.006)


def test_one_generator_one_draw_and_none_at_all():
    policy = tiny_policy("coviews")
    assert policy.sample(99, np.random.default_rng(4)) == policy.sample(99, np.random.default_rng(4))
    assert policy.sample(0, np.random.default_rng(0)).ops.shape == (0, 2, 1)
    assert policy.sample(5, np.random.default_rng(0)).p == 1


def test_a_tilt_that_accepts_nothing_does_not_hang():
    policy = tiny_policy("coviews")
    stuck = TiltedPolicy(policy.prior, "coviews", policy.effects, Tilt(0.0, 0.0, 0.0, 900.0), 0.0, 0.5)
    with pytest.raises(CoviewsError, match="accepts almost nothing"):
        stuck.sample(10, np.random.default_rng(0))


# --- the toy of the search's tests, from logged data ------------------------------------------------------------

ROTATE, SOLARIZE = PAPER.index("Rotate"), PAPER.index("Solarize")


def toy(ops, levels):
    """Half for Rotate at level 2, or Solarize at level 7, in a view; half for one of them in each view."""
    op, level = ops[:, :, 0], levels[:, :, 0]
    placed = ((op == ROTATE) & (level == 2)) | ((op == SOLARIZE) & (level == 7))
    paired = (op.min(1) == min(ROTATE, SOLARIZE)) & (op.max(1) == max(ROTATE, SOLARIZE))
    return 0.25 * placed.sum(1) + 0.5 * paired


@pytest.mark.parametrize(("kind", "least", "most"), [("coviews", 0.97, 1.0), ("indepviews", 0.45, 0.75)])
def test_the_toy_is_solved_from_logged_data(kind, least, most):
    """What uniform views have shown is enough: no policy draws in between. Views drawn apart earn 3/4 at most."""
    source, rng = Uniform(PAPER, 1, 1.0), np.random.default_rng(0)
    bound = BoundedReward("relative", 0.99)
    settings = TableSettings(hardness=0.9, gentle=1, most_over=1.0, ridge=1.0, reward=bound)
    table = LossTable(source, kind=kind, settings=settings, chance=2.0)
    for _ in range(100):
        drawn = source.sample(400, rng)
        table.add(drawn, 1 + toy(drawn.ops, drawn.levels) + 0.05 * rng.standard_normal(400))
    mild = table.policy(rng)
    assert mild.statistics["limited_by"] == "variety"
    drawn = mild.sample(4000, rng)
    assert toy(drawn.ops, drawn.levels).mean() > 5 * toy(*drawn_arrays(source, 20_000)).mean()

    strong = TiltedPolicy(source, kind, mild.effects, Tilt(80.0, 0.0, 2.0, 0.0), 0.0, 1e-4)
    tokens = [(o, k) for o in range(16) for k in range(11)]
    every = np.array(list(itertools.product(tokens, tokens)))  # (30,976, 2, 2)
    ops, levels = every[:, :, :1], every[:, :, 1:]
    p = np.exp(strong.log_weights(ops, levels).sum(1))
    assert least < (p * toy(ops, levels)).sum() / p.sum() <= most
    if kind == "coviews":
        drawn = strong.sample(10, rng)  # of which the prior draws one in 15,000
        assert toy(drawn.ops, drawn.levels).mean() > 0.9


# --- what the report says ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["coviews", "indepviews"])
@pytest.mark.parametrize("tilt", TILTS)
@pytest.mark.parametrize("steps", [1, 2])
def test_statistics_equal_the_sum_over_all_pairs(kind, tilt, steps):
    policy = tiny_policy(kind, tilt, steps)
    ops, levels, p = closed_form(policy)
    found = policy_statistics(policy)
    assert found.error == 0
    for v, s, o in itertools.product(range(2), range(steps), range(3)):
        chosen = ops[:, v, s] == o
        assert found.ops[v, s, o] == pytest.approx(p[chosen].sum(), abs=1e-9)
        for k in range(3):
            wanted = p[chosen & (levels[:, v, s] == k)].sum() if policy.space.has_magnitude[o] else 0
            assert found.levels[v, s, o, k] == pytest.approx(wanted, abs=1e-9)
    for s, t, a, b in itertools.product(range(steps), range(steps), range(3), range(3)):
        wanted = p[(ops[:, 0, s] == a) & (ops[:, 1, t] == b)].sum()
        assert found.pairs[s, t, a, b] == pytest.approx(wanted, abs=1e-9)
    if kind == "indepviews":
        np.testing.assert_allclose(found.lift, 1, rtol=1e-12)


def test_fine_levels_are_told_by_their_bins():
    policy = tiny_policy("coviews", levels=25)
    ops, levels, p = closed_form(policy)
    found, bins = policy_statistics(policy), level_bins(25)[levels]
    assert found.space.levels == 11
    assert found.space.values[0, 0] == -9
    for o, k in itertools.product((0, 2), range(11)):
        assert found.levels[0, 0, o, k] == pytest.approx(p[(ops[:, 0, 0] == o) & (bins[:, 0, 0] == k)].sum(), abs=1e-9)


@pytest.mark.parametrize("name", ["uniform", "simclr", "trivialaugment"])
def test_statistics_of_fitted_policies_agree_with_draws(name):
    source = SOURCES[name]
    policy = logged(source, effects_for(source), settings=TableSettings(gentle=1)).policy(np.random.default_rng(0))
    found = policy_statistics(policy)
    assert (found.error == 0) == (name == "uniform")
    n = 100_000
    drawn = policy.sample(n, np.random.default_rng(1)).ops
    shares = np.stack([(drawn == o).mean(0) for o in range(len(policy.space.ops))], -1)
    spread = np.sqrt(found.ops * (1 - found.ops) / n + found.error**2) + 1e-9
    assert (np.abs(shares - found.ops) < 5 * spread).all()
    np.testing.assert_allclose(found.pairs.sum((2, 3)), 1)


def test_exact_statistics_take_a_fraction_of_a_second():
    import time

    policy = logged(UNIFORM, effects_for(UNIFORM), batches=60).policy(np.random.default_rng(0))
    start = time.process_time()
    policy_statistics(policy)
    assert time.process_time() - start < 1  # about 0.15 s where nothing else runs


# --- what does not fit ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"memory": 0}, "memory must be a whole number"),
        ({"gentle": 1.5}, "gentle must be a whole number"),
        ({"ridge": 0.0}, "ridge must be from"),
        ({"hardness": 1.0}, "between -1 and 1"),
        ({"keep": 1.1}, "keep is a share"),
        ({"most_over": -0.1}, "most_over is a share"),
        ({"prior": "simcrl"}, "did you mean 'simclr'"),
        ({"steps": 0}, "steps must be a whole number"),
        ({"p": -0.1}, "probability of a step must be in 0..1"),
    ],
)
def test_wrong_settings_are_named(changes, said):
    with pytest.raises(CoviewsError, match=said):
        TableSettings(**changes)


def test_wrong_input_is_named():
    table, rng = LossTable(UNIFORM), np.random.default_rng(0)
    drawn = UNIFORM.sample(8, rng)
    with pytest.raises(CoviewsError, match="what was applied"):
        table.add(drawn, np.ones(8))
    done = drawn.applied(rng)
    for losses in (np.ones(7), np.full(8, np.nan), np.ones((8, 1))):
        with pytest.raises(CoviewsError, match="8 finite losses"):
            table.add(done, losses)
    with pytest.raises(CoviewsError, match="not like those of the prior"):
        table.add(view_source("simclr").sample(8, rng), np.ones(8))
    with pytest.raises(CoviewsError, match="hand your losses to"):
        search(np.zeros((2, 8, 8, 3), np.uint8), torch.nn.Flatten(), generator=rng, settings=TableSettings())
    with pytest.raises(CoviewsError, match="did you mean 'indepviews'"):
        LossTable(UNIFORM, kind="indepview")
    with pytest.raises(CoviewsError, match="pairs of views"):
        LossTable(view_source("uniform", views=3))


def test_random_views_fit_a_uniform_prior():
    """Fine levels of the same ranges are told by their bins."""
    table, rng = LossTable(view_source("uniform")), np.random.default_rng(0)
    table.add(view_source("random").sample(8, rng), np.ones(8))
    table.add(view_source("random").sample(0, rng), np.ones(0))
    assert len(table) == 8
    assert isinstance(table.policy(rng), TiltedPolicy)
    assert not isinstance(table.policy(rng), Policy)
