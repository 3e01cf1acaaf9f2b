"""What is locked, forbidden or capped never occurs in a view, whoever draws it."""

import dataclasses

import numpy as np
import pytest

from coviews import OPS, CoviewsError, LossTable, Placement, Plan, PPOSettings, TableSettings, load_policy, view_source
from coviews.ops.space import SPACES, space
from coviews.policies.factors import FACTORS, family
from coviews.policies.fixed import FIXED
from coviews.policies.limits import Limited, Limits, view_limits
from coviews.runs.settings import PretrainSettings
from coviews.searching.ppo_search import learn_policy
from coviews.training.setup import first_source

N = 4000
FREE = Placement(flip=0.5, flip_vertical=0.5, quarter_turns=0.75)
FAMILY = "crop tiny, mirror, turns, tilt, light, colour, tone, grey, blur, cutout"

# options, operations that must not occur, and the least and largest value of others
CASES = {
    "colour": (
        {"matters": "colour"},
        {"Saturation", "Color", "Hue", "Grayscale", "Solarize", "Equalize", "Posterize", "Invert", "AutoContrast"},
        {},
    ),
    "orientation": ({"matters": "orientation"}, {"Rotate", "ShearX", "ShearY"}, {}),
    "position, light": (
        {"matters": "position, light"},
        {"TranslateX", "ShiftX", "MoveX", "TranslateY", "ShiftY", "MoveY", "Brightness", "Contrast", "AutoContrast"},
        {},
    ),
    "single operations": (
        {"forbid": "invert,Color,TranslateX", "cap": "Rotate=10, brightness=1.2,Solarize=200,Hue=-0.05,Cutout=0.15"},
        {"Invert", "Color", "Saturation", "TranslateX", "ShiftX", "MoveX"},
        {"Rotate": (-10, 10), "Brightness": (0.8, 1.2), "Solarize": (200, 256), "Hue": (-0.05, 0.05),
         "Cutout": (0, 0.15)},
    ),
    "all at once": (
        {"matters": "orientation,detail,cutout", "forbid": "Posterize", "cap": "Contrast=0.9,TranslateY=0.1,Color=1.3"},
        {"Rotate", "ShearX", "ShearY", "Blur", "Sharpness", "Cutout", "Posterize"},
        {"Contrast": (0.9, 1.1), "TranslateY": (-0.1, 0.1), "ShiftY": (-0.1, 0.1), "Color": (0.7, 1.3),
         "Saturation": (0.7, 1.3)},
    ),
}  # fmt: skip


def tilted(prior, placement=None):
    """A policy by table: every step that is applied costs, the stronger the more."""
    table = LossTable(
        prior, settings=TableSettings(ridge=0.5, gentle=1, hardness=0.3, crops=placement is not None), chance=8.0,
        placement=placement,
    )  # fmt: skip
    rng = np.random.default_rng(0)
    for _ in range(8):
        plan = Plan.draw(prior, 400, (32, 32), rng, placement)
        applied = plan.ops != plan.space.identity
        table.add(plan, 2.0 + (applied * (1 + np.abs(plan.levels - plan.space.levels / 2))).sum((1, 2)) / 20)
    return table.policy(rng)


def learned(space_):
    """A policy by ppo."""
    settings = PPOSettings(iterations=2, samples=16, minibatch=16, batch=32, reference_batches=1)
    rng = np.random.default_rng(0)
    return learn_policy(
        lambda s: 1.0 + (s.ops != s.space.identity).sum((1, 2)), generator=rng, kind="coviews", space=space_,
        chance=8.0, settings=settings,
    )  # fmt: skip


def searched(settings):
    """What a run with these settings would draw from after a search."""
    if settings.search.name == "ppo":
        return learned(settings.limits.space(space(settings.space_name)))
    return tilted(settings.first_source(), settings.placement if settings.search.crops else None)


def files(folder):
    """Policies that were learned without limits."""
    for name, policy in {
        "table": tilted(view_source("uniform")), "crops": tilted(view_source("uniform"), Placement()),
        "recipe": tilted(view_source("simclr")), "network": learned(space("all")),
    }.items():  # fmt: skip
        policy.save(folder / f"{name}.safetensors")


@pytest.fixture(scope="module")
def policies(tmp_path_factory):
    folder = tmp_path_factory.mktemp("policies")
    files(folder)
    return sorted(folder.iterdir())


def held(plan, options, forbidden, ranges):
    """Whether a plan keeps to the limits; which operations it has."""
    names = np.array(plan.space.ops)[plan.ops]
    assert not forbidden & set(plan.space.ops), plan.space.ops
    values = plan.space.values[plan.ops, plan.levels]
    for op, (low, high) in ranges.items():
        mine = values[names == op]
        assert mine.size == 0 or (low - 1e-9 <= mine.min() and mine.max() <= high + 1e-9), (op, mine.min(), mine.max())
    matters = options.get("matters", "")
    if "orientation" in matters:
        assert not plan.flips.any()
        assert not plan.vertical_flips.any()
        assert not plan.turns.any()
    if "position" in matters:
        assert (plan.boxes == [0, 0, 32, 32]).all()
    return set(names.ravel().tolist())


@pytest.mark.parametrize("case", CASES)
def test_limits_hold_in_every_view_of_every_source(case, policies):
    options, forbidden, ranges = CASES[case]
    base = PretrainSettings(hard_views=4, **options)  # without crops, hard views are the encoder's choice
    sources = {name: base.replaced(views=name) for name in (*FIXED, "recipe", FAMILY, "hardviews")}
    sources |= {f"hard {name}": base.replaced(views="hardviews", hard_source=name) for name in FIXED}
    sources |= {f"space {name}": base.replaced(views="random", space=name) for name in SPACES}
    sources |= {path.stem: base.replaced(views=str(path)) for path in policies}
    learns = {f"prior {name}": base.replaced(search=TableSettings(prior=name)) for name in FIXED}
    learns |= {"ppo": base.replaced(search="ppo"), "crops": base.replaced(search=TableSettings(crops=True))}
    learns |= {"indepviews": base.replaced(views="indepviews")}
    drawn = {}
    for name, settings in {**sources, **learns}.items():
        source = searched(settings) if settings.learns_views else first_source(settings)
        plan = Plan.draw(source, N, (32, 32), np.random.default_rng(1), settings.placement)
        drawn[name] = held(plan, options, forbidden, ranges)
    # what is allowed still occurs, all of it, also where a policy was learned
    for name in ("uniform", "random", "prior uniform", "ppo"):
        assert drawn[name] == set(space("all").ops) - forbidden, name
    assert drawn["trivialaugment"] == set(space("trivialaugment").ops) - forbidden
    assert drawn["table"] == drawn["network"] == set(space("all").ops) - forbidden
    for op in ranges:
        assert any(op in ops for ops in drawn.values()), op


def test_every_operation_belongs_to_a_factor():
    named = {op for factor in FACTORS.values() for op in factor.all_ops}
    assert named == set(OPS) - {"Identity"}


def test_without_limits_nothing_changes():
    none = view_limits()
    assert not none
    placement = Placement(quarter_turns=0.3)
    assert none.placement(placement) == placement
    for name in FIXED:
        source = view_source(name)
        assert none.source(source) is source
    whole = space("all")
    assert none.space(whole) is whole
    assert view_limits(forbid="Saturation", cap="Rotate=400").space(whole) is whole  # has neither


def test_levels_divide_what_is_left_of_a_range():
    limits = view_limits(cap="Rotate=10,Cutout=0.1,Posterize=6,Blur=1")
    left, whole = limits.space(space("all")), space("all")
    assert left.ops == whole.ops
    assert left.levels == whole.levels
    for op, low, high in (("Rotate", -10, 10), ("Cutout", 0, 0.1), ("Posterize", 6, 8), ("Blur", 0.1, 1)):
        assert left.values[left.index(op)] == pytest.approx(np.linspace(low, high, 11)), op
    same = [op for op in whole.ops if op not in limits.caps]
    for op in same:
        assert np.array_equal(left.values[left.index(op)], whole.values[whole.index(op)])
    factors = view_limits(cap="Cutout=0.2").space(space("factors"))  # its cutouts begin at 0.1
    assert factors.values[factors.index("Cutout")] == pytest.approx(np.linspace(0.1, 0.2, 11))


@pytest.mark.parametrize("cap", ["Rotate=0", "Cutout=0.05", "Blur=0.05"])
def test_a_cap_that_leaves_nothing_forbids(cap):
    op = cap.split("=")[0]
    assert op not in view_limits(cap=cap).space(space("factors")).ops


def test_one_magnitude_is_cut_at_the_cap_and_no_more():
    """RandAugment's Rotate is 9 degrees at magnitude 9: a cap of 10 does not touch it."""
    rng = np.random.default_rng(0)
    for magnitude, degrees in ((9, 9), (20, 10)):
        source = view_limits(cap="Rotate=10").source(view_source("randaugment", magnitude=magnitude))
        drawn = source.sample(N, rng)
        rotate = drawn.space.index("Rotate")
        values = drawn.space.values[rotate][drawn.levels[drawn.ops == rotate]]
        assert set(np.round(np.abs(values), 5)) == {degrees}


def test_what_is_forbidden_leaves_the_others_as_they_were(policies):
    """Of a policy file, only the forbidden steps change."""
    policy = load_policy(next(p for p in policies if p.stem == "network"))
    limited = view_limits(forbid="Invert", cap="Rotate=10").source(policy)
    assert isinstance(limited, Limited)
    before, after = (s.sample(N, np.random.default_rng(3)) for s in (policy, limited))
    assert before.p == after.p
    names, others = (np.array(s.space.ops)[s.ops] for s in (before, after))
    assert np.array_equal(names == "Invert", (names == "Invert") & (others == "Identity"))
    assert (names == others)[names != "Invert"].all()
    values, narrow = (s.space.values[s.ops, s.levels] for s in (before, after))
    rotated = names == "Rotate"
    assert np.array_equal(np.clip(values[rotated], -10, 10), narrow[rotated])
    assert np.array_equal(values[~rotated & (names != "Invert")], narrow[~rotated & (names != "Invert")])


def test_a_limited_prior_survives_its_file(tmp_path):
    limits = view_limits("orientation", forbid="Invert", cap="Brightness=1.2,Hue=0.05")
    for name in FIXED:
        policy = tilted(limits.source(view_source(name)))
        policy.save(tmp_path / "p.safetensors")
        back = load_policy(tmp_path / "p.safetensors")
        assert back.space == policy.space
        assert back.prior == policy.prior
        a, b = (p.sample(300, np.random.default_rng(0)) for p in (policy, back))
        assert a == b
        again = tmp_path / "again.safetensors"
        back.save(again)
        assert again.read_bytes() == (tmp_path / "p.safetensors").read_bytes()


def test_a_policy_that_chooses_crops_stays_one(policies):
    policy = load_policy(next(p for p in policies if p.stem == "crops"))
    limited = view_limits(forbid="Invert").source(policy)
    assert policy.chooses_crops
    assert limited.chooses_crops
    before, after = (Plan.draw(s, 300, (32, 32), np.random.default_rng(0), FREE) for s in (policy, limited))
    assert np.array_equal(before.boxes, after.boxes)
    still = Plan.draw(view_limits("position,orientation").source(policy), 300, (32, 32), np.random.default_rng(0), FREE)
    held(still, {"matters": "position,orientation"}, set(), {})


def test_families_get_their_factors_locked():
    ignoring = view_limits("colour", "turns,detail")
    source = ignoring.source(family("recipe").source())
    assert source.family == family("crop small, mirror, turns, light, blur")
    limited = view_limits(forbid="ShearX,Hue").source(family("tilt, colour").source(3))
    drawn = limited.sample(N, np.random.default_rng(0))
    assert drawn.views == 3
    assert set(np.array(drawn.space.ops)[drawn.ops].ravel()) == {"Rotate", "ShearY", "Saturation", "Identity"}
    # the factor is as frequent as before: another of its operations is drawn
    tilt = np.isin(np.array(drawn.space.ops)[drawn.ops[..., 0]], ["Rotate", "ShearY"])
    assert abs(tilt.mean() - FACTORS["tilt"].p) < 0.02


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"matters": "color"}, "unknown factor for --matters 'color': did you mean 'colour'"),
        ({"ignores": "miror"}, "unknown factor for --ignores 'miror': did you mean 'mirror'"),
        ({"matters": "mirror", "ignores": "orientation"}, "mirror cannot both matter and be ignored"),
        ({"forbid": "Inverse"}, "unknown operation for --forbid 'Inverse': did you mean 'Invert'"),
        ({"forbid": "Identity"}, "Identity changes nothing"),
        ({"cap": "Rotat=10"}, "unknown operation for --cap 'Rotat': did you mean 'Rotate'"),
        ({"cap": "Rotate"}, "such as Rotate=10, not 'Rotate'"),
        ({"cap": "Rotate=much"}, "such as Rotate=10, not 'Rotate=much'"),
        ({"cap": "Rotate=nan"}, "such as Rotate=10, not 'Rotate=nan'"),
        ({"cap": "Invert=1"}, "Invert is not weaker or stronger, so it has no cap: use --forbid Invert"),
    ],
)
def test_wrong_words_are_named(options, says):
    with pytest.raises(CoviewsError, match=says) as caught:
        view_limits(**options)
    assert "\n" not in str(caught.value)


def test_an_operation_of_ones_own_can_be_forbidden_and_capped(monkeypatch):
    monkeypatch.setitem(OPS, "Fade", dataclasses.replace(OPS["Brightness"], name="Fade", low=0.2, high=1.0))
    assert "Fade" not in view_limits(forbid="fade").space(space("all")).ops
    faded = view_limits(cap="Fade=0.8").space(space("all"))
    assert faded.values[faded.index("Fade")].min() == pytest.approx(0.8)


def test_nothing_left_is_an_error():
    everything = Limits(forbidden=frozenset(OPS) - {"Identity"})
    for name in FIXED:
        with pytest.raises(CoviewsError, match="leave no operation"):
            everything.source(view_source(name))
