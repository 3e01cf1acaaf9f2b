"""`choose`, with pilots that train nothing: what is found, what holds, what is kept, what is refused."""

import itertools
import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from coviews import Choice, CoviewsError, Family, read_family
from coviews.choosing.design import expected_best, most_informative, screening
from coviews.choosing.model import DEPARTURE, GAINS, NOISE, Effect, FamilyModel, Observations, families
from coviews.choosing.unlabelled import may_be_plain, seen_gains, verdict_without_labels
from coviews.choosing.verdict import Verdict, verdict
from coviews.comparison.plan import folder_name
from coviews.policies.factors import FACTORS, RECIPE, VIEW_FACTORS, family
from made_up_pilots import families_of

# ------------------------------------------------------------------------------------------------ what is found


def test_known_effects_are_found(quick, pilots):
    def truth(views: Family) -> float:
        tells = 8 * (not views.colour) + 5 * (not views.mirror) - 6 * views.turns - 4 * views.tone
        return 55.0 + tells + {"off": 0, "some": 2, "much": 7}[views.keep]

    pilots.truth = truth
    made = quick(pilots=18, matters=None, keep=True)
    assert made.family.keep == "much"
    assert not made.family.colour
    assert not made.family.mirror
    assert not made.family.turns
    assert not made.family.tone
    effects = {(e.factor, e.value): e for e in made.decided.effects}
    for factor, value, points in (
        ("colour", "off", 8), ("mirror", "off", 5), ("turns", "on", -6), ("tone", "on", -4), ("keep", "some", 2),
        ("keep", "much", 7),
    ):  # fmt: skip
        effect = effects[factor, value]
        assert abs(effect.points - points) < max(2.5, 3 * effect.error), effect
    assert made.decided.gain > 6
    assert abs(made.decided.gain - (truth(made.family) - truth(RECIPE))) < 4 * made.decided.error + 2
    assert "do not mirror" in made.decided.sentence.lower()
    assert "keep colour as it is" in made.decided.sentence
    assert "let the encoder keep much of what views change" in made.decided.sentence
    assert made.family in [p.family for p in made.pilots]  # what is taken was tried
    assert read_family(made.file) == made.family


@pytest.mark.parametrize("noise", [0.0, 1.5])
def test_ties_and_noise_give_the_recipe(quick, pilots, noise):
    pilots.noise = noise
    made = quick()
    assert made.family == RECIPE
    assert not made.decided.differs
    assert "Take the recipe" in made.decided.sentence
    assert "pilots are few" not in made.decided.sentence
    assert read_family(made.file) == RECIPE


@pytest.mark.parametrize(("keeps", "taken"), [(1.0, replace(RECIPE, keep="some")), (-6.0, RECIPE)])
def test_where_nothing_is_better_it_is_what_is_taken_without_labels_or_the_recipe(quick, pilots, keeps, taken):
    pilots.truth = lambda views: 50.0 + keeps * (views.keep != "off")
    made = quick(matters=None, keep=True, pilots=16)
    assert made.family == taken
    assert made.decided.gain == pytest.approx(max(0.0, keeps), abs=1.5)
    said = "Without labels it would be the same: no" if taken.keep == "some" else "Take the recipe: no"
    assert f"{said} views that were tried are better" in made.decided.sentence


def test_what_is_better_than_the_recipe_must_also_be_better_than_what_is_taken_without_labels():
    """By more than the noise; it need not have been tried."""
    keep, blur = replace(RECIPE, keep="some"), replace(RECIPE, blur=True)
    families = [RECIPE, blur, RECIPE, blur]
    for gain, without_labels, taken in ((4.0, None, blur), (4.0, keep, keep), (14.0, keep, blur)):
        scores = np.array([50.0, 50.0 + gain] * 2)
        model = FamilyModel(RECIPE, ("blur", "keep"), Observations(tuple(families), scores, np.eye(4)))
        made = verdict(model, families, without_labels)
        assert made.family == taken, gain
        assert made.beyond_noise == (taken == blur)
        assert [s.pilots for s in made.standings if s.family == keep] == ([0] if taken == keep else [])


def test_the_keeping_head_is_expected_to_gain_until_pilots_say_otherwise():
    kept, much = replace(RECIPE, keep="some"), replace(RECIPE, keep="much")

    def model(*scores):
        tried = (RECIPE, kept) * (len(scores) // 2)
        seen = Observations(tried, np.array(scores, np.float64), 0.25 * np.eye(len(tried)))
        return FamilyModel(RECIPE, ("blur", "keep"), seen)

    assert [e.points for e in model().effects()] == [-DEPARTURE, GAINS["keep", "some"][0], GAINS["keep", "much"][0]]
    points, _ = model().gains([kept, much], RECIPE)
    np.testing.assert_allclose(points, [GAINS["keep", "some"][0], GAINS["keep", "much"][0]])
    assert model(50, 50).gains([kept], RECIPE)[0] > 0  # one pilot each
    assert model(*(50, 47) * 8).gains([kept], RECIPE)[0] < -2


def test_gains_are_differences_of_predictions():
    every = families(RECIPE, ("crop", "mirror", "keep"))
    for model in (some_model(), replace(some_model(), observations=NOTHING_SEEN)):
        points, errors = model.gains(every, every[5])
        mean, covariance = model.predict(every)
        contrast = np.eye(18) - np.eye(18)[5]
        np.testing.assert_allclose(points, contrast @ mean, atol=1e-9)
        np.testing.assert_allclose(errors**2, (contrast @ covariance @ contrast.T).diagonal(), atol=1e-6)


NOTHING_SEEN = Observations((), np.zeros(0), np.zeros((0, 0)))


def some_model(seed: int = 3) -> FamilyModel:
    """What six families may teach about eighteen."""
    generator, free = np.random.default_rng(seed), ("crop", "mirror", "keep")
    tried = tuple(screening(RECIPE, free))
    scores = 50 + 5 * generator.standard_normal(len(tried))
    return FamilyModel(RECIPE, free, Observations(tried, scores, np.eye(len(tried)) + 0.5))


def test_few_pilots_are_said_and_noise_has_short_bars(quick, pilots):
    pilots.noise = 0.0
    made = quick(pilots=2)
    factors = len({e.factor for e in made.decided.effects})
    assert made.decided.sentence.endswith(
        f" 2 pilots are few for {factors} factors: more of them tell more (--pilots)."
    )
    assert any(e.error > abs(e.points) for e in made.decided.effects)
    assert "██████" not in str(made)


@pytest.mark.parametrize(("mirrored", "mirror"), [(51.0, True), (75.0, True), (76.0, False), (99.0, False)])
def test_without_labels_mirror_images_that_stand_out_are_not_made(quick, pilots, capsys, mirrored, mirror):
    pilots.mirrored = mirrored
    made = quick(labels="none", pilots=None, matters=None, progress=True)
    assert made.family == Family(mirror=mirror)
    assert families_of(pilots) == [Family(mirror=False)] * 2
    assert len(set(pilots.started)) == 2  # with other seeds
    assert made.labels == 0
    assert made.judged_by == "no labels"
    assert "Whether brightness, colour and up and down may change cannot be seen" in capsys.readouterr().err
    assert "cannot be seen" in (made.path / "choice.html").read_text()
    assert all(p.accuracy is None for p in made.pilots)
    assert made.decided.sentence.startswith(
        "Take the recipe: mirror images cannot clearly" if mirror else "Do not mirror (+"
    )


def test_with_labels_mirror_images_that_stand_out_still_count(quick, pilots, tmp_path):
    """What can be told without labels is where the model starts; labels that say otherwise prevail."""

    def not_to_mirror(out, mirrored, truth):
        pilots.mirrored, pilots.noise, pilots.truth = mirrored, 0.1, truth
        made = quick(out=tmp_path / out)
        return made, next(e.points for e in made.decided.effects if e.factor == "mirror")

    equal = [not_to_mirror(f"equal {m}", m, lambda views: 50.0)[1] for m in (51.0, 90.0)]
    assert abs(equal[0]) < 0.5 < equal[1] < 3  # 7 are expected where 90 % are told apart
    harmful, points = not_to_mirror("harmful", 90.0, lambda views: 50.0 - 20.0 * (not views.mirror))
    assert harmful.family.mirror
    assert points < -8


@pytest.mark.parametrize(("mirrored", "taken"), [(51.0, Family(keep="some")), (99.0, Family(mirror=False))])
def test_without_labels_there_is_a_keeping_head_or_no_mirroring(quick, pilots, mirrored, taken):
    pilots.mirrored = mirrored
    made = quick(labels="none", pilots=None, keep=True)
    assert made.family == taken
    assert families_of(pilots) == [Family(mirror=False)] * 2
    words = "Let the encoder keep some of what views change (+3.0 ± 3.0)" if taken.mirror else "Do not mirror (+"
    assert made.decided.sentence.startswith(words)
    assert "Expected gain over the recipe, as on other images: +" in made.decided.sentence
    assert made.decided.standings[0].family == made.family
    assert {e.factor for e in made.decided.effects} == {"mirror", *(["keep"] if taken.mirror else [])}
    assert abs(made.alike_in_colour) < 0.4  # the images are noise
    assert "are alike in colour by" in (made.path / "choice.html").read_text()


@pytest.mark.parametrize(("mirrored", "line"), [(51.0, "mirror, light, keep, plain"), (99.0, "light, plain")])
def test_without_labels_grey_images_get_plain_pairs(quick, pilots, tmp_path, mirrored, line):
    pilots.mirrored = mirrored
    np.save(tmp_path / "grey.npy", np.random.default_rng(0).integers(0, 256, (40, 16, 16, 1), np.uint8))
    made = quick(tmp_path / "grey.npy", labels="none", pilots=None, matters=None, keep=True)
    assert made.family.text == f"crop small, {line}"
    assert "apply no operations to a quarter of the pairs (+" in made.decided.sentence
    assert made.alike_in_colour is None
    gains = [e.points for e in made.decided.effects if e.factor != "mirror" or not made.family.mirror]
    assert made.decided.gain == pytest.approx(sum(gains))


def test_plain_pairs_are_for_colours_of_things_that_nobody_asked_to_change():
    assert may_be_plain(RECIPE, (), 0.8)
    assert not may_be_plain(RECIPE, (), 0.7)
    assert may_be_plain(RECIPE.without_colour(), (), None)
    assert may_be_plain(RECIPE.without_colour(), ("colour", "grey", "tone"), None)  # --matters colour
    assert not may_be_plain(RECIPE, ("colour",), 0.8)  # --ignores colour: every pair changes it
    assert not may_be_plain(RECIPE.without_colour(), ("light",), None)  # --ignores light
    assert not may_be_plain(family("crop small, mirror"), (), None)  # there are no operations
    assert not may_be_plain(family("crop whole, light"), ("crop",), None)  # its views would be copies
    assert verdict_without_labels(RECIPE, (*FACTORS,), [99.0], 0.9).family == replace(RECIPE, keep="much", plain=True)


def test_without_labels_nothing_is_trained_where_colour_belongs_to_things(quick, pilots, tmp_path):
    images = np.repeat(np.random.default_rng(0).integers(0, 256, (20, 16, 16, 3), np.uint8), 2, 0)
    np.save(tmp_path / "twins.npy", images)
    made = quick(tmp_path / "twins.npy", labels="none", pilots=None, matters=None, keep=True, out=tmp_path / "a")
    assert made.family == replace(RECIPE, keep="much", plain=True)
    assert made.alike_in_colour == pytest.approx(1)
    assert not pilots.started
    told = quick(tmp_path / "twins.npy", labels="none", pilots=None, matters=None, keep=True, ignores="colour")
    assert told.family == replace(RECIPE, keep="some")  # the user knows better
    assert told.alike_in_colour is None
    assert len(pilots.started) == 2


def test_without_labels_and_without_a_question_about_mirrors_nothing_is_trained(quick, pilots):
    made = quick(labels="none", pilots=None, matters="mirror")
    assert made.family == Family(mirror=False)
    assert quick(labels="none", pilots=None, matters=None, ignores="mirror", out=made.path / "other").family.mirror
    assert not pilots.started


def test_labels_that_come_later_add_pilots(quick, pilots):
    pilots.mirrored, pilots.truth = 90.0, lambda views: 50 + 10 * views.mirror
    assert not quick(labels="none", pilots=None).family.mirror
    made = quick(pilots=None)
    assert made.family.mirror
    assert len(pilots.started) == len(set(pilots.started)) == made.plan.count == 24
    assert quick(pilots=None).family == made.family  # nothing is left to do
    assert len(pilots.started) == 24


def test_the_recipe_is_tried_twice_and_pilots_differ(quick, pilots):
    quick()
    assert len(pilots.started) == len(set(pilots.started)) == 12
    assert families_of(pilots).count(RECIPE) >= 2


@pytest.mark.parametrize(("mirrored", "taken"), [(51.0, Family(keep="some")), (99.0, Family(mirror=False))])
def test_with_labels_the_choice_without_is_tried_as_well(quick, pilots, mirrored, taken):
    pilots.mirrored, pilots.truth = mirrored, lambda views: 50 + 10 * views.turns
    made = quick(keep=True, pilots=14)
    assert taken in families_of(pilots)[12:]
    assert made.family.turns


def test_the_keeping_head_is_expected_to_harm_where_mirror_images_stand_out():
    assert seen_gains(("mirror", "keep"), [51.0], None).keys() == {("mirror", False)}
    gains = seen_gains(("mirror", "keep"), [99.0], None)
    assert gains["mirror", False] > 5
    assert gains["keep", "some"] == gains["keep", "much"] < 0
    assert not seen_gains(("keep",), [99.0], None)
    assert not seen_gains(("mirror", "keep"), [99.0], 0.9)  # colours belong to things, which pilots remember
    assert not seen_gains(("mirror", "keep"), [], None)


@pytest.mark.parametrize("seed", range(3))
def test_the_next_pilot_is_the_one_that_teaches_most(seed):
    """Against all scores and all results as one Gaussian, conditioned on the results that are known."""
    model, generator = some_model(seed), np.random.default_rng(0)
    every = families(model.start, model.free)
    told, results = outlook_by_conditioning(model, every)
    np.testing.assert_allclose(model.outlook(every)[0], told, atol=1e-8)
    np.testing.assert_allclose(model.outlook(every)[1], results, atol=1e-8)
    outcomes = generator.standard_normal(20_000)[:, None]
    shifts = (told / np.sqrt(results.diagonal())).T
    values = np.array([(model.expected(every) + shift * outcomes).max(1).mean() for shift in shifts])
    pick = every.index(most_informative(model, 1)[0])
    assert values[pick] > max(values) - 0.05
    assert values[pick] > np.median(values) + 0.05


def outlook_by_conditioning(model: FamilyModel, every: list[Family]):
    """What `FamilyModel.outlook` says, from one Gaussian of all scores, all results and all that labels misjudge."""
    seen, n = model.observations, len(every)
    prior = replace(model, observations=NOTHING_SEEN).predict(every)[1]
    tried = [every.index(some) for some in seen.families]
    misjudged = np.eye(n) * seen.errors.diagonal().mean()  # what is not known is as large as on average
    misjudged[np.ix_(tried, tried)] = seen.errors
    # scores (n), results of the pilots, results of one more pilot of each family (n)
    at = [*range(n), *tried, *range(n)]
    whole = prior[np.ix_(at, at)]
    whole[n:, n:] += misjudged[np.ix_(at[n:], at[n:])] + NOISE**2 * np.eye(len(at) - n)
    known, others = np.arange(n, n + len(tried)), np.r_[:n, n + len(tried) : len(at)]
    weights = np.linalg.solve(whole[np.ix_(known, known)], whole[np.ix_(known, others)])
    after = whole[np.ix_(others, others)] - whole[np.ix_(others, known)] @ weights
    return after[:n, n:], after[n:, n:]


def test_a_pilot_more_counts_less_where_its_family_was_tried():
    """A round that begins with a family goes on with another one, as if its pilot had been seen."""
    model = some_model()
    every = families(model.start, model.free)
    first = most_informative(model, 1)[0]
    other = most_informative(model, 2, [first])[1]
    errors = np.pad(model.observations.errors, (0, 1))
    errors[-1, -1] = model.observations.errors.diagonal().mean()
    expected = float(model.expected([first])[0])
    seen = Observations((*model.observations.families, first), np.append(model.observations.scores, expected), errors)
    then = replace(model, observations=seen)
    assert first not in model.observations.families
    told, results = then.outlook(every)
    shifts = told / np.sqrt(results.diagonal())
    worth = (then.expected(every)[:, None, None] + shifts[:, :, None] * np.linspace(-2, 2, 9)).max(0).mean(1)
    worth[every.index(first)] = -np.inf
    assert worth[every.index(other)] > worth.max() - 0.1
    assert most_informative(model, 2, [RECIPE])[0] == RECIPE
    assert most_informative(model, 1, without=[first])[0] != first
    assert expected_best(model, [expected_best(model)]) != expected_best(model)


@pytest.mark.parametrize("seed", range(5))
def test_a_round_that_begins_with_a_tried_family_goes_on_with_a_good_one(seed):
    """Also where few labels misjudge all families alike."""
    generator, free = np.random.default_rng(seed), ("crop", "mirror", "turns", "light", "blur", "keep")
    tried = tuple(screening(RECIPE, free))
    images = generator.standard_normal((len(tried), 15)) + 3 * generator.standard_normal(15)  # few, hard or easy
    errors = 30 * np.cov(images) / 15
    scores = 50 + 4 * generator.standard_normal(len(tried))
    model = FamilyModel(RECIPE, free, Observations(tried, scores, errors + 0.25 * np.eye(len(tried))))
    every = families(RECIPE, free)
    assert np.linalg.eigvalsh(model.outlook(every)[1])[0] > 0
    picks = most_informative(model, 4, [RECIPE])
    assert picks[0] == RECIPE
    expected, best = model.expected(picks[1:]), model.expected([expected_best(model)])[0]
    assert expected.min() > best - 5


def test_many_families_are_narrowed_to_those_that_may_be_the_best(monkeypatch):
    free = ("crop", "mirror", "turns", "tilt", "light", "keep")
    generator, tried = np.random.default_rng(1), screening(RECIPE, ("crop", "mirror", "turns", "tilt", "light", "keep"))
    scores = 50 + 5 * generator.standard_normal(len(tried))
    model = FamilyModel(RECIPE, free, Observations(tuple(tried), scores, np.eye(len(tried))))
    picks = most_informative(model, 2)
    monkeypatch.setattr("coviews.choosing.design.CANDIDATES", 144)  # all
    assert most_informative(model, 2) == picks
    monkeypatch.setattr("coviews.choosing.design.CANDIDATES", 0)  # what was tried, and what looks best
    assert set(most_informative(model, 40)) == {*tried, expected_best(model)}


def test_pilots_of_a_round_differ_and_there_may_be_few_families():
    model = some_model()
    for count in (1, 2, 5, 18, 40):
        picks = most_informative(model, count)
        assert len(picks) == len(set(picks)) == min(count, 18)
    assert most_informative(model, 2)[:1] == most_informative(model, 1)


def test_what_is_sure_to_be_worse_is_not_tried():
    best = replace(RECIPE, blur=True, cutout=True)
    tried = [RECIPE, best, replace(best, turns=True), replace(best, tilt=True)] * 3
    scores = np.array([50.0, 60.0, 40.0, 40.0] * 3)
    model = FamilyModel(RECIPE, ("turns", "tilt", "blur", "cutout"), Observations(tuple(tried), scores, np.eye(12)))
    assert not any(family.turns or family.tilt for family in most_informative(model, 3))


def test_families_that_are_others_in_name_only_are_not_tried():
    start = RECIPE.without_colour()
    model = FamilyModel(start, ("light", "plain"), Observations((start,), np.array([50.0]), np.eye(1)))
    assert {p.text for p in most_informative(model, 4)} == {
        "crop small, mirror, light", "crop small, mirror, light, plain", "crop small, mirror"
    }  # fmt: skip
    assert expected_best(model).text == "crop small, mirror, light, plain"


def test_what_looks_best_is_tried_in_the_last_round(quick, pilots):
    """Whatever else the last round wants to know: what is taken must have been tried."""
    pilots.noise, pilots.truth = 0.1, lambda views: 50 + 6 * (not views.mirror) + 6 * (not views.light) + 6 * views.tone
    for count in (9, 10, 14):
        pilots.started.clear()
        made = quick(pilots=count, out=quick.folder / str(count))
        assert not made.family.mirror
        assert not made.family.light
        assert made.family.tone


def test_a_family_that_fails_is_not_tried_again_and_again(quick, pilots):
    pilots.truth = lambda views: 50 + 10 * (not views.mirror)
    best = quick(pilots=20).family
    pilots.started.clear()
    pilots.fails = lambda variant: variant == best.text
    with pytest.warns(UserWarning, match="is left out"):
        made = quick(pilots=20, out=quick.folder / "failing")
    assert families_of(pilots).count(best) == 1
    assert made.family != best
    assert len(made.pilots) == 19


# ------------------------------------------------------------------------------------------------ locks


def test_locks_hold_in_every_family_and_every_view(quick, pilots):
    pilots.truth = lambda views: 50 + 20 * views.colour + 20 * views.mirror - 20 * views.blur  # against the locks
    made = quick(matters="colour, mirror", ignores="blur")
    assert made.locks == {"mirror": False, "colour": False, "tone": False, "grey": False, "blur": True, "keep": False}
    assert len(families_of(pilots)) == made.plan.count
    for views in [*families_of(pilots), made.family]:
        assert not any(views.is_on(name) for name in ("colour", "tone", "grey", "mirror"))
        assert views.blur
        drawn = views.source().sample(500, np.random.default_rng(0))
        ops = {drawn.space.ops[i] for i in np.unique(drawn.ops)}
        assert not ops & {op for name in ("colour", "tone", "grey") for op in FACTORS[name].ops}
        assert ops & set(FACTORS["blur"].ops)
        assert views.placement.flip == 0
    assert {e.factor for e in made.decided.effects} == {"crop", "turns", "tilt", "light", "cutout"}


def test_forbidden_and_capped_operations_reach_the_pilots(quick, pilots, images, tmp_path):
    made = quick(matters="blur,cutout", forbid="Rotate,ShearX,ShearY", cap="Brightness=1.1")
    assert made.locks == {"tilt": False, "blur": False, "cutout": False, "keep": False}
    assert not any(views.tilt for views in [*families_of(pilots), made.family])
    for settings in pilots.settings:
        drawn = settings.named_source(settings.views).sample(500, np.random.default_rng(0))
        for op in np.unique(drawn.ops):
            assert drawn.space.ops[op] not in ("Rotate", "ShearX", "ShearY")
            assert drawn.space.ops[op] != "Brightness" or np.abs(drawn.space.values[op] - 1).max() <= 0.1 + 1e-9
    with pytest.raises(CoviewsError, match="differ in cap"):
        quick(matters="blur,cutout", forbid="Rotate,ShearX,ShearY")
    with pytest.raises(CoviewsError, match="--ignores turns tilt on, and --forbid excludes"):
        quick(ignores="tilt", matters=None, forbid="Rotate,ShearX,ShearY")


def test_images_without_colours_have_no_factors_of_colour(quick, pilots, tmp_path):
    rng = np.random.default_rng(0)
    for mode in ("L", "RGB"):  # grey ones may be stored in three channels
        folder = tmp_path / mode
        for i in range(20):
            (folder / "ab"[i % 2]).mkdir(parents=True, exist_ok=True)
            picture = Image.fromarray(rng.integers(0, 256, (16, 30), np.uint8)).convert(mode)
            picture.save(folder / "ab"[i % 2] / f"{i}.png")
        made = quick(folder, out=tmp_path / f"out-{mode}", pilots=4)
        assert {e.factor for e in made.decided.effects} == {"crop", "mirror", "turns", "light", "tone", "plain"}
        assert not any(p.family.colour or p.family.grey for p in made.pilots)
        assert "the images have no colours" in (made.path / "choice.html").read_text()


def test_one_free_factor_is_tried_several_times(quick, pilots):
    every_other = ",".join(set(VIEW_FACTORS) - {"mirror"})
    pilots.truth = lambda views: 50 + 10 * (not views.mirror)
    made = quick(matters=every_other, pilots=6)
    assert len(set(pilots.started)) == 6
    assert [e.factor for e in made.decided.effects] == ["mirror"]
    assert not made.family.mirror


# ------------------------------------------------------------------------------------------------ kept and resumed


def content(folder: Path) -> dict:
    return json.loads((folder / "choice.json").read_text())


@pytest.mark.parametrize("moment", [1, 5, 9, 11])
def test_killed_and_resumed_it_is_the_same(quick, pilots, tmp_path, moment):
    pilots.truth = lambda views: 50 + 6 * (not views.colour) + 3 * views.tone
    whole = quick(out=tmp_path / "whole")
    started, pilots.started, pilots.killed_after = pilots.started, [], moment
    with pytest.raises(KeyboardInterrupt):
        quick(out=tmp_path / "killed")
    assert not (tmp_path / "killed" / "choice.json").exists()
    pilots.killed_after = None
    again = quick(out=tmp_path / "killed")
    assert pilots.started == started  # none was begun twice
    assert content(again.path) == content(whole.path)
    assert again.file.read_bytes() == whole.file.read_bytes()


def test_the_same_seed_gives_the_same_choice(quick, pilots, tmp_path):
    one, other = (quick(out=tmp_path / name) for name in ("one", "other"))
    assert content(one.path) == content(other.path)
    third = quick(out=tmp_path / "third", seed=5)
    assert {p.seed for p in third.pilots} >= {5}


def test_more_labels_and_more_pilots_later(quick, pilots, images, tmp_path):
    first = quick(labels="none")
    count = len(pilots.started)
    second = quick()
    assert len(pilots.started) == count  # pilots are used again
    assert second.labels == 40
    assert [p.family for p in second.pilots] == [p.family for p in first.pilots]
    third = quick(pilots=15)
    assert len(pilots.started) == 15
    assert len(third.pilots) == 15


def test_a_short_design_can_be_completed(quick, pilots, tmp_path):
    quick(pilots=5)
    quick()
    longer = pilots.started[:]
    pilots.started = []
    quick(out=tmp_path / "at once")
    assert longer[:8] == pilots.started[:8]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"size": 24}, r"differ in size \(16, not 24\); choose another --out"),
        ({"seed": 1}, r"differ in seed"),
        ({"images": 64, "data": "shapes:80"}, "its images are others"),
        ({"matters": "blur"}, r"differ in locks \(tilt off, blur off, cutout off, keep off, not blur off, keep off\)"),
        ({"encoder": "resnet18"}, "differ in encoder"),
        ({"epochs": 3}, "holds pilots of 2 epochs: leave out --epochs"),
    ],
)
def test_another_choice_in_the_same_folder_is_refused(quick, pilots, changes, said):
    quick(pilots=2)
    with pytest.raises(CoviewsError, match=said):
        quick(**{"pilots": 2} | changes)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 1, "count": "x"}', '{"format": 9}'])
def test_a_damaged_plan_is_refused(quick, tmp_path, text):
    (tmp_path / "choice").mkdir()
    (tmp_path / "choice" / "plan.json").write_text(text)
    with pytest.raises(CoviewsError, match=r"plan.json is (damaged|of another version)"):
        quick()


def test_a_pilot_that_fails_is_named_and_left_out(quick, pilots, recwarn):
    failing = screening(RECIPE, ("crop", "mirror", "turns", "light", "colour", "tone", "grey"))[3].text
    pilots.fails = lambda variant: variant == failing
    made = quick()
    assert list(made.failed) == [folder_name(failing) + "-0"]
    assert "something <b>went</b> wrong" in next(iter(made.failed.values()))
    assert len(made.pilots) == made.plan.count - 1
    assert any("is left out" in str(w.message) for w in recwarn)
    page = (made.path / "choice.html").read_text()
    assert "something &lt;b&gt;went&lt;/b&gt; wrong" in page
    assert "<b>went" not in page
    pilots.fails = lambda variant: False
    again = quick()
    assert not again.failed  # it was tried again
    assert len(again.pilots) == made.plan.count


def test_if_all_fail_the_reason_is_said(quick, pilots):
    pilots.fails = lambda variant: True
    with pytest.raises(CoviewsError, match="fewer than two pilots came to an end: something <b>went</b> wrong"):
        quick()


def test_two_at_work_in_one_folder(quick, pilots, tmp_path):
    from coviews.files.lock import lock_folder

    (tmp_path / "choice").mkdir()
    with lock_folder(tmp_path / "choice"), pytest.raises(CoviewsError, match="another process is at work"):
        quick()


# ------------------------------------------------------------------------------------------------ what is shown


def test_the_result_is_enough_to_cite_it(quick, pilots):
    made = quick()
    result = content(made.path)
    assert result["images"] == result["labels"] == 40
    assert result["pilot_epochs"] == 2
    assert len(result["pilots"]) == 12
    assert result["seed"] == 0
    assert result["version"]
    assert result["standings"][0].keys() == {"family", "score", "gain", "error", "pilots"}
    assert str(made).splitlines()[0][:20] == made.decided.sentence[:20]
    assert "│" in str(made)


def test_the_page_escapes_names(quick, pilots, tmp_path):
    folder = tmp_path / "<b>x" / "<i>data"
    rng = np.random.default_rng(0)
    for i in range(20):
        path = folder / ("<script>a", "b")[i % 2] / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (16, 16, 3), np.uint8)).save(path)
    page = (quick(folder, pilots=4).path / "choice.html").read_text()
    assert "&lt;script&gt;a" in page
    assert "&lt;i&gt;data" in page
    assert "<script>a" not in page
    assert "<i>data" not in page


def test_progress_counts_all_pilots(quick, pilots, capsys):
    quick(progress=True)
    said = capsys.readouterr().err
    assert "12 pilots of 2 epochs on 40 images" in said
    assert re.search(r"\[1/12\] crop small, mirror, light, colour, grey, seed 0: [\d.]+ % by the labels", said)
    assert "[12/12]" in said
    assert "judged by 40 labelled images of 2 classes (20 a class)" in said


def test_a_dry_run_does_nothing(quick, pilots, tmp_path, capsys):
    made = quick(dry_run=True, progress=True)
    assert isinstance(made, Choice)
    assert made.verdict is None
    assert "nothing was trained" in str(made)
    assert "12 pilots" in capsys.readouterr().err
    assert not (tmp_path / "choice").exists()
    with pytest.raises(CoviewsError, match="dry run"):
        made.family  # noqa: B018


# ------------------------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"matters": "colour,orientation,brightness,detail,position,cutout"}, "all factors are locked"),
        ({"matters": "colour", "ignores": "colour"}, "cannot both matter and be ignored"),
        ({"matters": "color"}, "did you mean 'colour'"),
        ({"budget": "10s"}, "too little for two pilots"),
        ({"budget": "soon"}, "such as 90s, 30m or 2h"),
        ({"budget": "21s", "pilots": None, "epochs": 5000}, r"two pilots of 5000 epochs .* give \d+m or more"),
        ({"pilots": 1}, "--pilots must be a whole number from 2"),
        ({"per_class": 1}, "--per-class must be a whole number from 2"),
        ({"jobs": 0}, "--jobs"),
        ({"data": "shapes:12"}, "need 16 images or more"),
        ({"data": "nowhere"}, "no file or folder"),
        ({"data": np.zeros((30, 8, 8, 3), np.uint8)}, "pilots need data by name"),
        ({"nonsense": 1}, "unknown option"),
    ],
)
def test_bad_input_is_said_before_anything_is_trained(quick, pilots, changes, said):
    with pytest.raises(CoviewsError, match=said):
        quick(**changes)
    assert not pilots.started


def test_a_folder_of_something_else_is_refused(quick, pilots, tmp_path):
    (tmp_path / "choice").write_text("a file")
    with pytest.raises(CoviewsError, match="not a folder"):
        quick()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text("epochs: 1")
    with pytest.raises(CoviewsError, match=r"holds something else \(config.yaml\)"):
        quick(out=tmp_path / "run")


def test_the_plan_fits_the_budget(quick, pilots):
    short = quick(pilots=None, epochs=None, budget="40s", dry_run=True).plan
    long = quick(pilots=None, epochs=None, budget="60m", dry_run=True).plan
    assert short.count < long.count == 24
    assert long.epochs == 40


def test_a_budget_for_too_few_pilots_says_which_would_do(quick, pilots, capsys):
    quick(pilots=None, epochs=None, budget="40s", dry_run=True, progress=True)
    assert re.search(r"24 pilots tell more, and take about \d+ min in all: --pilots 24", capsys.readouterr().err)
    quick(pilots=None, epochs=None, budget="60m", dry_run=True, progress=True)
    assert "tell more" not in capsys.readouterr().err


def test_a_budget_that_is_used_up_is_said_and_a_longer_one_goes_on(quick, pilots, capsys, monkeypatch):
    clock = SimpleNamespace(monotonic=itertools.count(0, 2000).__next__)  # seconds a round
    monkeypatch.setattr("coviews.choosing.choose.time", clock)
    quick(pilots=None, budget="60m", progress=True)
    began = len(pilots.started)
    assert 2 <= began < 24
    said = " ".join(capsys.readouterr().err.split())
    assert f"used up by {began} of 24 pilots" in said
    quick(pilots=None, budget="60m", progress=True)
    again = " ".join(capsys.readouterr().err.split())
    assert f"24 pilots of 2 epochs on 40 images, {began} done earlier 7 factors" in again  # and no time: none is begun
    assert len(pilots.started) == began
    quick(pilots=None, budget=re.search(r"the same command with --budget (\d+m) goes on", said)[1], progress=True)
    assert len(pilots.started) > began
    capsys.readouterr()
    quick(pilots=None, budget="60h", progress=True)
    assert len(pilots.started) == 24
    assert "used up" not in capsys.readouterr().err


def test_no_round_begins_that_is_expected_to_end_after_the_budget(quick, pilots, monkeypatch):
    clock = SimpleNamespace(monotonic=itertools.count(0, 1200).__next__)  # a round of eight pilots takes it, one of two
    monkeypatch.setattr("coviews.choosing.choose.time", clock)
    quick(pilots=None, budget="42m")  # 20 minutes for eight pilots, so 5 are expected for two, and 20 are taken
    assert len(pilots.started) == 10
    quick(pilots=None, budget="42m")  # 8 minutes for two more would be too many
    assert len(pilots.started) == 10


def test_after_a_kill_only_pilots_that_are_done_are_counted(quick, pilots, capsys):
    pilots.killed_after = 3
    with pytest.raises(KeyboardInterrupt):
        quick(progress=True)
    pilots.killed_after = None
    quick(progress=True)
    assert re.search(r"12 pilots of 2 epochs on 40 images, [23] done earlier: about", capsys.readouterr().err)


def test_a_change_that_costs_points_on_average_comes_last_in_the_sentence():
    family = replace(RECIPE, mirror=False, turns=True, tilt=True)
    points = {"mirror": ("off", 3.0), "turns": ("on", -2.0), "tilt": ("on", 1.0)}
    effects = tuple(Effect(name, value, gain, 1.0) for name, (value, gain) in points.items())
    said = Verdict(family, RECIPE, 5.0, 2.0, effects, (), True).sentence
    first, last = said.split("; with these, also ")
    assert first.startswith("Do not mirror (+3.0 ± 1.0)")
    assert "(+1.0 ± 1.0)" in first
    assert "(-2.0 ± 1.0); the rest as in the recipe." in last
    effects = (Effect("mirror", "off", 3.0, 1.0), Effect("turns", "on", -0.04, 1.0))
    said = Verdict(replace(RECIPE, mirror=False, turns=True), RECIPE, 5.0, 2.0, effects, (), True).sentence
    assert "turn by quarters and upside down (+0.0 ± 1.0); the rest" in said  # nothing, not "-0.0"
