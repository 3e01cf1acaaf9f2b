"""Settings: checked when made, the same after a trip through YAML, typos named."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import yaml
from torch import nn

from coviews import CoviewsError, PPOSettings, TableSettings, space, view_source
from coviews.cli.settings import has_data, starting_settings
from coviews.methods.byol import BYOLSettings
from coviews.methods.keeping import KEEP_WEIGHTS
from coviews.methods.known import METHODS, make_method
from coviews.methods.moco import MoCoSettings
from coviews.methods.simclr import SimCLRSettings
from coviews.methods.simsiam import SimSiamSettings
from coviews.runs.presets import PRESETS, preset
from coviews.runs.settings import OF_THE_MACHINE, PretrainSettings
from coviews.runs.settings_file import read_settings, settings_yaml
from coviews.searching.reward import BoundedReward
from coviews.training.setup import first_source


@pytest.mark.parametrize("name", PRESETS)
def test_yaml_there_and_back(name, tmp_path):
    path = tmp_path / "c.yaml"
    settings = preset(name).replaced(out=Path("x y"), crop_area=(0.5, 0.9), subset="10%", temperature=0.2)
    path.write_text(settings_yaml(settings))
    assert read_settings(path) == settings.settled()
    assert settings.settled() == settings.settled().settled()


def test_a_file_changes_only_what_it_names(tmp_path):
    (tmp_path / "c.yaml").write_text("epochs: 30\nlr: 1\nsubset: 500\nsearch:\n  hardness: 0.3\n")
    read = read_settings(tmp_path / "c.yaml", preset("demo"))
    wanted = preset("demo").replaced(epochs=30, lr=1.0, subset="500", search=TableSettings(hardness=0.3))
    assert read == wanted
    (tmp_path / "c.yaml").write_text("search: {iterations: 7}\ntemperature: 0.3\n")
    read = read_settings(tmp_path / "c.yaml", preset("paper-svhn"))
    wanted = dataclasses.replace(PPOSettings.paper(), iterations=7)
    assert read == preset("paper-svhn").replaced(search=wanted, method=SimCLRSettings(temperature=0.3))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("epoch: 3", "did you mean 'epochs'"),
        ("search: {hardnes: 1}", "did you mean 'search.hardness'"),
        ("search: {name: pop}", "unknown search 'pop': did you mean 'ppo'"),
        ("search: {name: 3}", "search.name must be of the type str, not 3"),
        ("search: {iterations: 3}", "search.iterations is an option of the search ppo, and the search is table"),
        ("method: {name: simclr, bank: 64}", "method.bank is an option of the method moco"),
        ("method: byol\nbank: 64", "bank is an option of the method moco, and the method is byol"),
        ("epochs: many", "epochs must be of the type int, not 'many'"),
        ("epochs: true", "epochs must be of the type int, not True"),
        ("crop_area: [1]", "crop_area must be of the type tuple"),
        ("- 1", "expected object | null, got array"),
        ("search: 3", "must be a mapping"),
        ("a: [", "cannot be read as YAML"),
        ("x: !!python/object/apply:os.system ['touch hacked']", "tags are not read"),
        ("views: coview", "did you mean 'coviews'"),
    ],
)
def test_a_bad_file_is_named(text, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("c.yaml").write_text(text)
    with pytest.raises(CoviewsError) as caught:
        read_settings(Path("c.yaml"))
    assert said in str(caught.value)
    assert "c.yaml" in str(caught.value)
    assert not Path("hacked").exists()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"method": "simcrl"}, "did you mean 'simclr'"),
        ({"views": "covews"}, "did you mean 'coviews'"),
        ({"precision": "bf16"}, "did you mean 'bf16"),
        ({"epochs": 0}, "--epochs must be a whole number from 1"),
        ({"epochs": 5, "warmup_epochs": 5, "views": "coviews"}, "leave none for a search"),
        ({"batch_size": 1}, "--batch-size"),
        ({"batch_size": 33, "devices": 2}, "shared evenly"),
        ({"lr": 0.0}, "--lr must be above 0"),
        ({"method": "moco", "momentum": 1.1}, "--momentum"),
        ({"sgd_momentum": 1.0}, "--sgd-momentum"),
        ({"temperature": 0.0}, "--temperature must be above 0"),
        ({"method": "moco", "bank": 300}, "--bank 300 must hold both views of --batch-size 256"),
        ({"crop_area": (0.9, 0.1)}, "--crop-area"),
        ({"channels": 17}, "another number up to 16, not 17"),
        ({"depth": 12}, "8 or 16 bits"),
        ({"frames": "al"}, "unknown way to read frames 'al'"),
        ({"show_channels": "3,2"}, "such as 3,2,1"),
        ({"epoch": 5}, "did you mean 'epochs'"),
        ({"magnitude": 31}, "--magnitude"),
        ({"hard_source": "coviews"}, "hard_source"),
    ],
)
def test_wrong_choices_are_named(changes, said):
    with pytest.raises(CoviewsError) as caught:
        PretrainSettings().replaced(**changes)
    assert said in str(caught.value)


def test_searches_come_after_the_warm_up_and_every_k_epochs():
    settings = PretrainSettings(epochs=35, warmup_epochs=10, search=PPOSettings(every=10), views="coviews")
    assert [e for e in range(1, 36) if settings.searches_at(e)] == [11, 21, 31]
    assert not any(settings.replaced(views="uniform").searches_at(e) for e in range(1, 36))
    assert PretrainSettings(warmup_epochs=0, views="coviews").searches_at(1)


def test_the_papers_figures():
    paper = preset("paper-cifar10")
    assert (paper.epochs, paper.batch_size, paper.encoder, paper.lr, paper.weight_decay) == (
        800, 512, "resnet50", 0.03, 5e-4
    )  # fmt: skip
    assert paper.search == PPOSettings.paper()
    assert (paper.search.every, paper.space_name, paper.method.temperature) == (10, "autoaugment", 0.5)
    assert preset("paper-moco-4096").method.temperature == 0.1
    assert (preset("paper-stl10").epochs, preset("paper-stl10").batch_size) == (400, 256)
    assert (preset("paper-moco-65536").method.bank, preset("paper-moco-65536").epochs) == (65536, 200)
    with pytest.raises(CoviewsError, match="did you mean 'paper-cifar10'"):
        preset("paper-cifar-10")


def test_a_table_is_fitted_before_every_epoch_after_the_warm_up():
    settings = PretrainSettings(epochs=15, warmup_epochs=10, search=TableSettings(), views="coviews")
    assert [e for e in range(1, 16) if settings.searches_at(e)] == [11, 12, 13, 14, 15]
    assert settings.searches == 5
    assert settings.replaced(views="uniform").searches == 0


# ------------------------------------------------------------------------------------- methods and searches

BY_DEFAULT = dict.fromkeys(METHODS, "ppo") | {"simclr": "table", "moco": "table"}


@pytest.mark.parametrize("method", METHODS)
def test_views_are_learned_by_table_where_the_losses_allow_it(method):
    """Whatever the method before: switched by name, it brings its default search along."""
    for before in METHODS:
        settings = PretrainSettings().replaced(method=before).replaced(method=method)
        assert (settings.method.name, settings.search.name) == (method, BY_DEFAULT[method])
    assert PretrainSettings().space_name == "all"


def test_a_search_that_was_chosen_stays_when_the_method_changes():
    chosen = PretrainSettings().replaced(search={"name": "ppo", "iterations": 7})
    assert chosen.replaced(method="moco").search == PPOSettings(iterations=7)
    assert PretrainSettings().replaced(search={"hardness": 0.3}).replaced(method="moco").search.hardness == 0.3
    with pytest.raises(CoviewsError, match="those of byol do not reveal how hard a pair is: use --search ppo, or"):
        PretrainSettings().replaced(search={"hardness": 0.3}).replaced(method="byol")


def test_a_method_is_given_by_name_with_its_options_beside():
    base = PretrainSettings()
    assert base.replaced(method="moco", bank=1024).method == MoCoSettings(bank=1024)
    assert base.replaced(method="moco").replaced(bank=1024, momentum=0.9).method == MoCoSettings(
        bank=1024, momentum=0.9
    )
    assert base.replaced(method=MoCoSettings(momentum=0.9), bank=1024).method == MoCoSettings(bank=1024, momentum=0.9)
    assert base.replaced(batch_size=2048).replaced(method="moco", bank=8192).method.bank == 8192
    assert base.replaced(batch_size=4096).replaced(method="moco", batch_size=64).batch_size == 64
    assert base.replaced(method={"name": "byol", "predictor": 9}).method == BYOLSettings(predictor=9)
    assert base.replaced(method={"temperature": 0.3}).method == SimCLRSettings(temperature=0.3)


def test_a_search_is_given_by_name_or_with_its_options():
    base = PretrainSettings()
    assert base.replaced(search="ppo").search == PPOSettings()
    assert base.replaced(search={"hardness": 0.2}).search == TableSettings(hardness=0.2)
    assert base.replaced(search="ppo").replaced(search={"every": 2}).search == PPOSettings(every=2)
    assert base.replaced(search={"name": "ppo", "every": 2}).search == PPOSettings(every=2)
    assert base.replaced(search={"name": "ppo", "network": {"hidden": 8}}).search.network.hidden == 8
    assert base.replaced(search="table") == base.replaced(views="coviews")
    assert base.replaced(method="byol", search={"every": 2}).search == PPOSettings(every=2)  # its default search


def test_what_was_changed_stays_when_the_method_or_search_changes_and_has_it_too():
    base = PretrainSettings()
    assert base.replaced(method="moco").method == MoCoSettings(temperature=0.1)  # each has its own default
    assert base.replaced(temperature=0.3, projector=64).replaced(method="simsiam").method == SimSiamSettings(
        temperature=0.3, projector=64
    )
    assert base.replaced(method="moco", momentum=0.5).replaced(method="byol").method == BYOLSettings(momentum=0.5)
    assert base.replaced(method="moco", bank=1024).replaced(method="moco").method.bank == 1024
    reward = BoundedReward("ratio")
    changed = base.replaced(search={"name": "ppo", "steps": 3, "p": 0.5, "reward": {"bound": "ratio"}, "every": 2})
    assert changed.replaced(search="table").search == TableSettings(steps=3, p=0.5, reward=reward)


def test_what_is_written_leaves_nothing_to_defaults():
    """They may be others tomorrow, and a run is to be repeated as it was."""
    temperatures = {"simclr": 0.2, "moco": 0.1, "byol": 0.5, "simsiam": 0.5}
    for method, temperature in temperatures.items():
        settings = PretrainSettings().replaced(method=method)
        written = yaml.safe_load(settings_yaml(settings))
        assert (written["method"]["name"], written["method"]["temperature"]) == (method, temperature)
        assert (written["search"]["name"], written["space"]) == (BY_DEFAULT[method], "all")
        assert set(written["search"]) == {"name", *(f.name for f in dataclasses.fields(settings.search))}
        assert make_method(settings.method, nn.Identity(), 4).temperature == temperature
    assert PretrainSettings().replaced(temperature=0.2, space="all").differences(PretrainSettings()) == {}
    for views in ("coviews", "uniform"):
        PretrainSettings(search=TableSettings(prior="simclr"), views=views).settled()


def test_differences_are_named_in_full():
    base = PretrainSettings(views="coviews")
    assert base.replaced(temperature=0.5).differences(base) == {"method.temperature": (0.5, 0.2)}
    assert base.replaced(search={"reward": {"tolerance": 0.5}}).differences(base) == {
        "search.reward.tolerance": (0.5, 0.2)
    }
    other = base.differences(base.replaced(method="moco"))
    assert other["method"] == ("simclr", "moco")
    assert other["method.bank"] == (None, 4096)
    assert base.differences(base.replaced(search="ppo"))["search"] == ("table", "ppo")
    assert base.differences(base.replaced(threads=3, out="x")) == {}


def test_a_table_departs_from_its_prior():
    settings = PretrainSettings()
    assert settings.first_source() == view_source("uniform")
    assert settings.space_name == "all"
    by_recipe = settings.replaced(search={"prior": "simclr"})
    assert by_recipe.first_source() == view_source("simclr")
    assert by_recipe.space_name == "simclr"
    assert by_recipe.replaced(views="uniform").space_name == "all"  # what is not learned has no prior
    assert settings.replaced(space="autoaugment").first_source() == view_source("uniform", space_name="autoaugment")
    random = settings.replaced(search={"prior": "random"}, space="simclr")
    assert random.first_source().space == space("simclr", 1001)
    four = settings.replaced(search=TableSettings(steps=4, p=0.5)).first_source()
    assert (four.steps, four.p) == (4, 0.5)
    assert PretrainSettings(search=PPOSettings()).first_source() == view_source("random")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"search": {"prior": "simcrl"}}, "did you mean 'simclr'"),
        ({"search": {"prior": "simclr"}, "space": "autoaugment"}, "leave out --space or --search.prior"),
        ({"search": {"prior": "simclr", "steps": 3}}, "leave out --search.steps"),
        ({"method": "byol", "search": "table"}, "use --search ppo, or --method simclr or moco"),
        ({"search": {"name": "ppo", "batch": 100}}, "no whole number of batches of 100"),
        ({"space": "al"}, "did you mean 'all'"),
    ],
)
def test_choices_that_contradict_each_other_are_named(changes, said):
    with pytest.raises(CoviewsError) as caught:
        PretrainSettings().replaced(**changes)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"bank": 64}, "bank is an option of the method moco, and the method is simclr"),
        ({"momentum": 0.9}, "momentum is an option of the method moco and byol and dino, and the method is simclr"),
        ({"method": "moco", "predictor": 8}, "predictor is an option of the method byol and simsiam"),
        (
            {"method": {"name": "byol", "bank": 8}},
            "method.bank is an option of the method moco, and the method is byol",
        ),
        ({"search": {"every": 5}}, "search.every is an option of the search ppo, and the search is table"),
        ({"search": {"network": {"hidden": 32}}}, "search.network is an option of the search ppo"),
        ({"search": {"name": "ppo", "gentle": 2}}, "search.gentle is an option of the search table"),
        ({"method": "byol", "search": {"prior": "simclr"}}, "search.prior is an option of the search table"),
        ({"search_every": 5}, "search_every is now called search.every"),
        ({"warm_start": True}, "warm_start is now called search.warm_start"),
        ({"prior": "simclr"}, "prior is now called search.prior"),
        ({"search": {"by": "ppo"}}, "search.by is now called search.name"),
        ({"batch": 32}, "did you mean 'batch_size'"),
    ],
)
def test_options_of_another_method_or_search_are_refused_with_its_name(changes, said):
    with pytest.raises(CoviewsError) as caught:
        PretrainSettings().replaced(**changes)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--bank 64", "--bank is an option of --method moco, and the method is simclr: add --method moco"),
        ("--method byol --bank=64", "--bank is an option of --method moco, and the method is byol"),
        ("--search.every 5", "--search.every is an option of --search ppo, and the search is table: add --search ppo"),
        ("--search.network.hidden 32", "--search.network.hidden is an option of --search ppo"),
        ("--search.images_each 8", "--search.images-each is an option of --search ppo"),
        ("--search ppo --search.gentle 2", "--search.gentle is an option of --search table"),
        ("--method simsiam --search.prior simclr", "--search.prior is an option of --search table"),
        ("--search-every 5", "--search-every is now called --search.every"),
        ("--search.ppo.iterations 5", "--search.ppo.iterations is now called --search.iterations, with --search ppo"),
    ],
)
def test_flags_of_another_method_or_search_are_refused_with_its_name(arguments, said):
    with pytest.raises(CoviewsError) as caught:
        starting_settings(["shapes", *arguments.split()])
    assert said in str(caught.value)


def test_flags_choose_a_method_and_a_search():
    assert starting_settings(["shapes", "--method", "moco", "--bank", "64"]).method == MoCoSettings()
    assert starting_settings(["shapes", "--method=byol"]).search == PPOSettings()
    assert starting_settings(["shapes", "--search", "ppo", "--search.every", "2"]).search == PPOSettings()
    learned = starting_settings(["shapes", "--search.hardness", "0.2", "--temperature", "0.1"])
    assert learned == PretrainSettings(views="coviews")
    assert starting_settings(["shapes", "--views", "uniform", "--search.steps", "3"]) == PretrainSettings()
    assert starting_settings(["shapes", "--search", "ppo"]).views == "coviews"
    paper = starting_settings(["--preset", "paper-svhn", "--search", "table"])
    assert (paper.search, paper.method.temperature) == (TableSettings(reward=BoundedReward("ratio")), 0.5)


def test_the_tables_settings_in_a_file(tmp_path):
    (tmp_path / "c.yaml").write_text("search:\n  name: table\n  prior: simclr\n  hardness: -0.1\n")
    read = read_settings(tmp_path / "c.yaml")
    assert read.search == TableSettings(prior="simclr", hardness=-0.1)
    assert read.space_name == "simclr"
    (tmp_path / "c.yaml").write_text("search: tables")
    with pytest.raises(CoviewsError, match="did you mean 'table'"):
        read_settings(tmp_path / "c.yaml")


def test_names_of_machine_settings_exist():
    assert set(PretrainSettings.__dataclass_fields__) >= OF_THE_MACHINE


def test_without_data_the_demonstration_is_meant(tmp_path):
    assert starting_settings(["--epochs", "9", "--crop", "none"]) == preset("demo")
    assert starting_settings(["--epochs", "9", "folder"]) == PretrainSettings()
    assert starting_settings(["--preset", "paper-svhn"]) == preset("paper-svhn")
    (tmp_path / "c.yaml").write_text("lr: 0.5\nepochs: 50")
    assert starting_settings(["--config", str(tmp_path / "c.yaml")]).lr == 0.5
    both = starting_settings(["--preset", "paper-svhn", "--config", str(tmp_path / "c.yaml")])
    assert (both.data, both.epochs) == ("svhn", 50)


@pytest.mark.parametrize(
    ("arguments", "there"),
    [
        ("", False),
        ("shapes", True),
        ("--overwrite shapes", True),
        ("--epochs 5 --crop-area 0.1 0.5 --flip 0", False),
        ("--epochs=5 images", True),
        ("--search.network.no-masked images", True),
        ("--search.iterations 5", False),
        ("--search ppo", False),
        ("--search.warm-start images", True),
    ],
)
def test_data_is_found_among_options(arguments, there):
    assert has_data(arguments.split()) is there


def test_unlearned_views_have_the_operations_steps_and_strength_of_the_settings():
    """A control must be like what it is the control of."""
    settings = PretrainSettings(views="uniform", space="all", search=TableSettings(steps=3, p=0.5))
    source = first_source(settings)
    drawn = source.sample(2, np.random.default_rng(0))
    assert (drawn.space.name, drawn.steps, drawn.p) == ("all", 3, 0.5)
    drawn = first_source(settings.replaced(views="random")).sample(2, np.random.default_rng(0))
    assert (drawn.space.name, drawn.steps, drawn.p) == ("all", 3, 1.0)
    assert drawn.space.levels > 100
    hard = settings.replaced(views="hardviews", hard_source="uniform", hard_views=5, hard_crops=0)
    drawn = first_source(hard).sample(2, np.random.default_rng(0))
    assert (drawn.space.name, drawn.views) == ("all", 5)
    drawn = first_source(settings.replaced(views="randaugment", magnitude=3)).sample(2, np.random.default_rng(0))
    assert (drawn.space.name, drawn.steps) == ("randaugment", 2)
    assert first_source(settings.replaced(views="coviews")) == settings.first_source()


def test_a_family_may_ask_for_the_keeping_head():
    settings = PretrainSettings(views="crop small, mirror, light, keep")
    assert settings.keeping.weight == settings.settled().keep == KEEP_WEIGHTS["some"]
    assert settings.replaced(keep=0.0).keeping.weight == 0.0
    assert settings.replaced(keep=2.0).settled().keep == 2.0
    assert settings.replaced(views="hardviews", hard_source=settings.views).keeping.weight == KEEP_WEIGHTS["some"]
    assert PretrainSettings(views="recipe").keeping.weight == 0.0
    assert PretrainSettings(views="coviews").settled().keep == 0.0


@pytest.mark.parametrize("sizes", [{"view_size": 4097}, {"local_size": 5000}, {"size": 4097}])
def test_views_beyond_what_can_be_made_are_refused_before_anything_is_opened(sizes):
    with pytest.raises(CoviewsError, match="4096"):
        PretrainSettings(**sizes)
    assert PretrainSettings(size=4097, view_size=4096).view_size == 4096
