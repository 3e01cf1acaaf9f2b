"""Settings: checked when made, the same after a trip through YAML, typos named."""

from pathlib import Path

import numpy as np
import pytest
import yaml
from torch import nn

from coviews import CoviewsError, PPOSettings, SearchSettings, TableSettings, space, view_source
from coviews.cli.pretrain import has_data, starting_settings
from coviews.methods.known import make_method
from coviews.runs.presets import PRESETS, preset
from coviews.runs.settings import (
    METHODS,
    OF_THE_MACHINE,
    TEMPERATURES,
    PretrainSettings,
    changed_settings,
    read_settings,
)
from coviews.training.setup import fixed_source


@pytest.mark.parametrize("name", PRESETS)
def test_yaml_there_and_back(name, tmp_path):
    path = tmp_path / "c.yaml"
    settings = preset(name).replaced(out=Path("x y"), crop_area=(0.5, 0.9), subset="10%", temperature=0.2)
    path.write_text(settings.to_yaml())
    assert read_settings(path) == settings.settled()
    assert settings.settled() == settings.settled().settled()


def test_a_file_changes_only_what_it_names(tmp_path):
    (tmp_path / "c.yaml").write_text("epochs: 30\nlr: 1\nsubset: 500\nsearch:\n  ppo:\n    iterations: 7\n")
    read = read_settings(tmp_path / "c.yaml", preset("demo"))
    wanted = preset("demo").replaced(epochs=30, lr=1.0, subset="500", search=SearchSettings(PPOSettings(iterations=7)))
    assert read == wanted


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("epoch: 3", "did you mean 'epochs'"),
        ("search: {pop: {}}", "did you mean 'search.ppo'"),
        ("epochs: many", "epochs must be of the type int, not 'many'"),
        ("epochs: true", "epochs must be of the type int, not True"),
        ("crop_area: [1]", "crop_area must be of the type tuple"),
        ("- 1", "must be a mapping"),
        ("search: 3", "must be a mapping"),
        ("a: [", "is not YAML"),
        ("x: !!python/object/apply:os.system ['touch hacked']", "is not YAML"),
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
        ({"epochs": 5}, "leave none for a search"),
        ({"batch_size": 1}, "--batch-size"),
        ({"batch_size": 33, "devices": 2}, "shared evenly"),
        ({"lr": 0.0}, "--lr must be above 0"),
        ({"momentum": 1.0}, "--momentum"),
        ({"crop_area": (0.9, 0.1)}, "--crop-area"),
        ({"channels": 4}, "--channels"),
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
    settings = PretrainSettings(epochs=35, warmup_epochs=10, search_every=10, search=SearchSettings(by="ppo"))
    assert [e for e in range(1, 36) if settings.searches_at(e)] == [11, 21, 31]
    assert not any(settings.replaced(views="uniform").searches_at(e) for e in range(1, 36))
    assert PretrainSettings(warmup_epochs=0).searches_at(1)


def test_the_papers_figures():
    paper = preset("paper-cifar10")
    assert (paper.epochs, paper.batch_size, paper.encoder, paper.lr, paper.weight_decay) == (
        800, 512, "resnet50", 0.03, 5e-4
    )  # fmt: skip
    assert paper.search == SearchSettings.paper()
    assert (paper.search_by, paper.space_name, paper.temperature) == ("ppo", "autoaugment", 0.5)
    assert preset("paper-moco-4096").temperature == 0.1
    assert (preset("paper-stl10").epochs, preset("paper-stl10").batch_size) == (400, 256)
    assert (preset("paper-moco-65536").bank, preset("paper-moco-65536").epochs) == (65536, 200)
    with pytest.raises(CoviewsError, match="did you mean 'paper-cifar10'"):
        preset("paper-cifar-10")


BY_TABLE = SearchSettings(by="table")


def test_a_table_is_fitted_before_every_epoch_after_the_warm_up():
    settings = PretrainSettings(epochs=15, warmup_epochs=10, search=BY_TABLE)
    assert [e for e in range(1, 16) if settings.searches_at(e)] == [11, 12, 13, 14, 15]
    assert not settings.replaced(views="uniform").by_table


def test_views_are_learned_by_table_where_the_losses_allow_it():
    ways = {method: PretrainSettings(method=method).search_by for method in METHODS}
    assert ways == {"simclr": "table", "moco": "table", "byol": "ppo", "simsiam": "ppo"}
    assert PretrainSettings().by_table
    assert PretrainSettings().space_name == "all"
    assert not PretrainSettings(search=SearchSettings(by="ppo")).by_table


def test_what_is_written_leaves_nothing_to_defaults():
    """They may be others tomorrow, and a run is to be repeated as it was."""
    for method, temperature in TEMPERATURES.items():
        written = yaml.safe_load(PretrainSettings(method=method).to_yaml())
        assert (written["temperature"], written["space"]) == (temperature, "all")
        assert written["search"]["by"] == ("table" if method in ("simclr", "moco") else "ppo")
        assert make_method(method, nn.Identity(), 4).temperature == temperature
    assert PretrainSettings(temperature=0.2, space="all").differences(PretrainSettings()) == []
    assert PretrainSettings(temperature=0.5).differences(PretrainSettings()) == ["temperature"]
    for views in ("coviews", "uniform"):
        PretrainSettings(prior="simclr", views=views).settled()


def test_a_table_departs_from_its_prior():
    settings = PretrainSettings(search=BY_TABLE)
    assert settings.first_source() == view_source("uniform")
    assert settings.space_name == "all"
    assert settings.replaced(prior="simclr").first_source() == view_source("simclr")
    assert settings.replaced(prior="simclr").space_name == "simclr"
    assert settings.replaced(prior="simclr", views="uniform").space_name == "all"  # what is not learned has no prior
    assert settings.replaced(space="autoaugment").first_source() == view_source("uniform", space_name="autoaugment")
    assert settings.replaced(prior="random", space="simclr").first_source().space == space("simclr", 1001)
    four = settings.replaced(search=SearchSettings(by="table", steps=4, p=0.5)).first_source()
    assert (four.steps, four.p) == (4, 0.5)
    assert PretrainSettings(search=SearchSettings(by="ppo")).first_source() == view_source("random")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"prior": "simclr", "search": SearchSettings(by="ppo")}, "is an option of --search.by table, not of ppo"),
        ({"prior": "simclr", "method": "byol"}, "--prior simclr is an option of --search.by table, not of ppo"),
        ({"prior": "simcrl", "search": BY_TABLE}, "did you mean 'simclr'"),
        ({"prior": "simclr", "space": "autoaugment", "search": BY_TABLE}, "leave one of the two out"),
        ({"prior": "simclr", "search": SearchSettings(by="table", steps=3)}, "leave out --search.steps"),
        ({"method": "byol", "search": BY_TABLE}, "that of byol has no level"),
        ({"warm_start": True, "search": BY_TABLE}, "--warm-start is an option of --search.by ppo"),
        ({"space": "al"}, "did you mean 'all'"),
    ],
)
def test_choices_that_contradict_each_other_are_named(changes, said):
    with pytest.raises(CoviewsError) as caught:
        PretrainSettings().replaced(**changes)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "flag"),
    [
        ({"search_every": 5}, "--search-every"),
        ({"search": {"ppo": {"iterations": 50}}}, "--search.ppo.iterations"),
        ({"search": {"network": {"hidden": 32}}}, "--search.network.hidden"),
        ({"search": {"reference": "current"}}, "--search.reference"),
        ({"search": {"reference_batches": 8}}, "--search.reference-batches"),
        ({"search": {"batch": 64}}, "--search.batch"),
        ({"search": {"images_each": 8}}, "--search.images-each"),
    ],
)
def test_options_of_ppo_are_refused_where_nobody_chose_a_search(changes, flag):
    settings = changed_settings(PretrainSettings(), changes)
    with pytest.raises(CoviewsError, match=f"^{flag} is an option of --search.by ppo, and by default"):
        settings.check_ppo_options()
    for choice in ({"method": "byol"}, {"views": "uniform"}, {"search": {"by": "ppo"}}, {"search": {"by": "table"}}):
        changed_settings(settings, choice).check_ppo_options()


def test_options_of_the_default_search_are_welcome():
    changes = {"warmup_epochs": 5, "search": {"table": {"hardness": 0.2}, "steps": 1, "reward": {"tolerance": 0.5}}}
    changed_settings(PretrainSettings(), changes).check_ppo_options()
    for name in PRESETS:
        preset(name).check_ppo_options()


def test_the_tables_settings_in_a_file(tmp_path):
    (tmp_path / "c.yaml").write_text("prior: simclr\nsearch:\n  by: table\n  table:\n    hardness: -0.1\n")
    read = read_settings(tmp_path / "c.yaml")
    assert read.search == SearchSettings(by="table", table=TableSettings(hardness=-0.1))
    assert read.space_name == "simclr"
    (tmp_path / "c.yaml").write_text("search: {by: tables}")
    with pytest.raises(CoviewsError, match="did you mean 'table'"):
        read_settings(tmp_path / "c.yaml")


def test_names_of_machine_settings_exist():
    assert set(PretrainSettings.__dataclass_fields__) >= OF_THE_MACHINE


def test_without_data_the_demonstration_is_meant(tmp_path):
    assert starting_settings(["--epochs", "9", "--no-crop"]) == preset("demo")
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
        ("--epochs 5 --crop-area 0.1 0.5 --no-flip", False),
        ("--epochs=5 images", True),
        ("--search.network.no-masked images", True),
        ("--search.ppo.iterations 5", False),
    ],
)
def test_data_is_found_among_options(arguments, there):
    assert has_data(arguments.split()) is there


def test_unlearned_views_have_the_operations_steps_and_strength_of_the_settings():
    """A control must be like what it is the control of."""
    settings = PretrainSettings(views="uniform", space="all", search=SearchSettings(steps=3, p=0.5))
    source = fixed_source(settings)
    drawn = source.sample(2, np.random.default_rng(0))
    assert (drawn.space.name, drawn.steps, drawn.p) == ("all", 3, 0.5)
    drawn = fixed_source(settings.replaced(views="random")).sample(2, np.random.default_rng(0))
    assert (drawn.space.name, drawn.steps, drawn.p) == ("all", 3, 1.0)
    assert drawn.space.levels > 100
    hard = settings.replaced(views="hardviews", hard_source="uniform", hard_views=5)
    drawn = fixed_source(hard).sample(2, np.random.default_rng(0))
    assert (drawn.space.name, drawn.views) == ("all", 5)
    drawn = fixed_source(settings.replaced(views="randaugment", magnitude=3)).sample(2, np.random.default_rng(0))
    assert (drawn.space.name, drawn.steps) == ("randaugment", 2)
    assert fixed_source(settings.replaced(views="coviews")) is None
