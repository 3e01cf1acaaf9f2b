"""The help of a command: `--help` shows the options that matter most, `--help-all` all of them, by subject."""

import argparse
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import tyro
from rich.console import Console
from rich.table import Table
from rich.text import Text

ASKS = ("-h", "--help", "--help-all")

# the options that `--help` shows, with a short text; a command that is not here shows all of its options
MAIN: dict[str, dict[str, str]] = {
    "pretrain": {
        "DATA": "The images: a folder, shards, a list of files, an array file or the name of a known data set.",
        "--out": "Folder for the results.",
        "--views": "How views are made: recipe (for photos), choose (find out what suits your images), coviews "
        "(learned in training), a file that choose wrote, ...",
        "--matters": "What views must not change, such as colour,orientation.",
        "--ignores": "What views must change, because it does not matter.",
        "--labels": "A few labelled images, for --views choose.",
        "--size": "Side of the images in pixels. Smaller is faster.",
        "--subset": "Use a part of the images: 10% or a number.",
        "--test-data": "Labelled images to measure accuracy during training.",
        "--encoder": "resnet8 (small), a torchvision ResNet, or timm/NAME.",
        "--init-from": "Start from the encoder of another run.",
        "--method": "How it learns",
        "--epochs": "Passes over all images.",
        "--batch-size": "Images in a training step.",
        "--seed": "The same seed gives the same run.",
        "--resume": "Continue the run in this folder where it stopped.",
    },
    "compare": {
        "DATA": "The images: a folder, shards, a list of files, an array file or the name of a known data set.",
        "--views": "What to compare: view sources, separated by commas.",
        "--variants": "A YAML file with other settings to compare.",
        "--seeds": "Trainings for each, with different random numbers.",
        "--out": "Folder for the results.",
        "--jobs": "Trainings at the same time; they share the cores.",
        "--dry-run": "Only say what would be trained, and for how long.",
        "--test-data": "Labelled images to judge the encoders on.",
        "--probe-data": "Labelled images, if the training images have no labels.",
        "--matters": "What views must not change, such as colour,orientation.",
        "--size": "Side of the images in pixels. Smaller is faster.",
        "--subset": "Use a part of the images: 10% or a number.",
        "--encoder": "resnet8 (small), a torchvision ResNet, or timm/NAME.",
        "--method": "How it learns",
        "--epochs": "Passes over all images.",
        "--batch-size": "Images in a training step.",
    },
    "preview": {
        "--views": "How views are made: recipe, random, uniform, randaugment, trivialaugment, simclr, "
        "autoaugment:cifar10 (or svhn, imagenet), fast-autoaugment:cifar10 (the same), a file, or a line such as "
        "'crop small, mirror'.",
        "--out": "The picture to write.",
        "--rows": "How many images to show.",
        "--pairs": "How many pairs of views to show for each image.",
        "--matters": "What views must not change, such as colour,orientation.",
        "--ignores": "What views must change, because it does not matter.",
        "--crop": "random, joint (the two parts differ more in size) or none.",
        "--flip": "Probability of a mirror image, left to right.",
        "--flip-vertical": "Probability of a mirror image, top to bottom.",
        "--quarter-turns": "Probability of a turn by 90, 180 or 270 degrees.",
        "--magnitude": "Strength of randaugment, 0 to 30.",
        "--size": "Side of the images in pixels, if not their own.",
        "--frames": "Pages of a file: channels, middle or each.",
        "--show-channels": "Shown as red, green and blue, such as 4,3,2.",
        "--seed": "Another seed shows other images and other views.",
    },
    "choose": {
        "--labels": "A few labelled images: a table (.csv) of file and label, or class folders. Ten of each class "
        "are a good start.",
        "--matters": "What views must not change, such as colour,orientation.",
        "--ignores": "What views must change, because it does not matter.",
        "--budget": "Time for all pilots together, such as 90s, 30m or 2h.",
        "--out": "Folder for the results.",
        "--per-class": "Use at most this many labelled images of each class.",
        "--jobs": "Pilots at the same time; by default one for each core.",
        "--size": "Side of the pilots' images in pixels.",
        "--images": "Pilots are trained on at most this many images.",
        "--pilots": "How many pilots, if the budget should not decide.",
        "--epochs": "Length of each pilot, if the budget should not decide.",
        "--dry-run": "Only say what would be tried, and for how long.",
        "--seed": "The same seed gives the same choice.",
    },
    "evaluate": {
        "--data": "Labelled images to learn from; by default those of the run.",
        "--test-data": "Labelled images to judge on; by default those of the run, or a fifth of --data.",
        "--labels": "A table (.csv) of file and label, for images without class folders.",
        "--finetune": "Also train a copy with these shares of the labels: 1% 10%.",
        "--whole": "Also a linear probe that learns from whole images, not from crops.",
        "--paper": "Also the linear probe of the paper (slow).",
        "--no-baselines": "Leave out the untrained encoder and raw pixels. There is no verdict then.",
        "--size": "Side of the images in pixels; by default that of the training.",
        "--subset": "Learn from a part of the images: 10% or a number.",
        "--architecture": "The architecture of a state dict, such as resnet50.",
        "--download": "Fetch published weights, or a known data set.",
        "--device": "auto, cpu, cuda or mps.",
        "--out": "The file that results are added to; by default evaluations.jsonl in the run.",
        "--seed": "The same seed gives the same numbers.",
    },
    "embed": {
        "--data": "The images; by default those of the run.",
        "--out": "The file to write, .npz or .parquet.",
        "--map": "Also draw a map: similar images are close to each other.",
        "--map-method": "pca, or umap (needs umap-learn).",
        "--overwrite": "Replace an existing file.",
        "--size": "Side of the images in pixels; by default that of the training.",
        "--subset": "Only a part of the images: 10% or a number.",
        "--architecture": "The architecture of a state dict, such as resnet50.",
        "--download": "Fetch published weights, or a known data set.",
        "--device": "auto, cpu, cuda or mps.",
    },
}

# what a reader of the help has to know first
WORDS: dict[str, str] = {
    "pretrain": "An encoder turns an image into features: a few hundred numbers that describe it. A view is a "
    "changed copy of an image: cropped, mirrored, with other colours. The encoder learns to give all views of an "
    "image the same features, so it learns to ignore whatever views change.",
    "compare": "A view is a changed copy of an image; a view source decides how it is changed. Each view source "
    "trains an encoder with every seed, and all are judged in the same way.",
    "preview": "A view is a changed copy of an image: cropped, mirrored, with other colours. In training, an encoder "
    "learns to ignore what views change, so look whether the views still show what matters.",
    "choose": "A view is a changed copy of an image: cropped, mirrored, with other colours. Training teaches an "
    "encoder to ignore what views change. A pilot is a short training with one choice of changes.",
    "evaluate": "The encoder stays as it is. kNN: each test image gets the class of the most similar training images. "
    "Linear probe: one linear layer learns the classes from the features.",
}


class Subject(NamedTuple):
    """Options that belong together, from a field of the settings on."""

    first: str
    title: str
    words: str = ""


# where each subject begins among the fields of PretrainSettings, in their order
SUBJECTS = (
    Subject("data", "Images"),
    Subject("method", "Method and encoder"),
    Subject(
        "views",
        "Views",
        "A view is a changed copy of an image. An operation is one change, such as Rotate or Brightness. A family "
        "of views says which kinds of changes (factors) occur; a policy says how likely each operation is.",
    ),
    Subject("epochs", "Training"),
    Subject(
        "warmup_epochs",
        "Learned views (--views coviews or indepviews)",
        "A policy is learned again and again during training; the queue holds the newest policies, which make the "
        "views. The space is the list of operations that a policy can use.",
    ),
    Subject(
        "search",
        "How views are learned",
        "The prior is the source of views that learning starts from. A fit is a new estimate of how hard each "
        "operation makes a pair of views. Hardness is measured by the loss: 0 is the loss of the prior, 1 that of "
        "destroyed images.",
    ),
    Subject(
        "search.reward",
        "Reward",
        "Harder views earn more reward, up to a bound. A loss beyond the bound means that a view has lost its image.",
    ),
    Subject(
        "knn_every",
        "Measurements and records",
        "A look is a quick measurement of the encoder during training: kNN accuracy with labels, RankMe without.",
    ),
    Subject("accelerator", "Machine"),
)
OWN = "Run"


class Option(NamedTuple):
    """An option as the parser has it."""

    name: str  # such as --views, or DATA
    place: str  # the field it belongs to, such as search.reward.bound
    owner: str  # settings, options, or nothing: the argument of the command's function that it is a part of
    invocation: str  # such as --views STR
    text: str
    hint: str  # such as default: 200

    @property
    def described(self) -> str:
        """The text with the hint behind it."""
        return f"{self.text} ({self.hint})".strip() if self.hint else self.text


FIRST_STEPS = (
    "  coviews preview my/folder                     look at views of your images",
    "  coviews choose my/folder                      which views suit them?",
    "  coviews pretrain my/folder --out runs/first   train an encoder",
    "  coviews check runs/first                      did the training work?",
    "  coviews evaluate runs/first                   how good is it? (needs labels)",
)


def show_commands(docs: Mapping[str, str]) -> None:
    """Print what the commands do, in the first sentence of the docstring of each."""
    console = _console()
    console.print(Text("Find out which augmentations suit your images, and pretrain an encoder with them."))
    commands = [Option(name, "", "", name, doc.strip().partition("\n")[0], "") for name, doc in docs.items()]
    _print_options(console, "Commands", commands)
    console.print()
    console.print(Text("First steps", style="bold"))
    console.print(Text("\n".join(line for line in FIRST_STEPS if line.split()[1] in docs)))
    console.print("\nMore on a command: coviews COMMAND --help. Which version: coviews --version.")


def _console() -> Console:
    console = Console(highlight=False)
    console.width = min(console.width, 110)
    return console


def show_help(command: str, function: Callable[..., None], arguments: Iterable[str]) -> bool:
    """Print the help that the arguments ask for; False where tyro can no longer list its options."""
    if not hasattr(tyro.extras, "get_parser"):
        return False
    arguments = list(arguments)
    options = _options(function)
    main = MAIN.get(command, {})
    console = _console()
    positional = [o for o in options if not o.name.startswith("--")]
    usage = " ".join(["coviews", command, *(o.invocation for o in positional), "[options]"])
    console.print(Text.assemble(("Usage: ", "bold"), usage))
    console.print()
    about = (getattr(function, "func", function).__doc__ or "").partition("Args:")[0]
    console.print(Text(" ".join(about.split())))
    if command in WORDS:
        console.print()
        console.print(Text(WORDS[command], style="dim"))
    if main and "--help-all" not in arguments:
        shown = [o._replace(text=main[o.name]) for o in options if o.name in main and o not in positional]
        order = list(main)
        _print_options(console, "", [o._replace(text=main.get(o.name, o.text)) for o in positional])
        _print_options(console, "Options that matter most", sorted(shown, key=lambda o: order.index(o.name)))
        for word, kind in (("--method", "method"), ("--search", "search")):
            if any(a.partition("=")[0] == word for a in arguments):
                own = [o for o in options if o.place.split(".")[0] == kind and o.name not in ("--method", "--search")]
                _print_options(console, f"Options of this {kind}", own)
        console.print(f"\nAll {len(options) - len(positional)} options: coviews {command} --help-all")
        return True
    for title, words, group in options_by_subject(command, function):
        _print_options(console, title, group, words)
    return True


def options_by_subject(command: str, function: Callable[..., None]) -> list[tuple[str, str, list[Option]]]:
    """All options of a command under titles, with words that explain each title; what has no name comes first."""
    options = _options(function)
    named = [o for o in options if o.name.startswith("--")]
    groups = _by_subject(named) if command in ("pretrain", "compare") else [("Options", "", named)]
    positional = [o for o in options if o not in named]
    return [("", "", positional), *groups] if positional else groups


def _options(function: Callable[..., None]) -> list[Option]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        parser = tyro.extras.get_parser(function)
    return [_option(action) for action in parser._actions if action.dest != "help"]


def _option(action: argparse.Action) -> Option:
    help_text = " ".join(str(action.help or "").replace("%%", "%").split())
    found = re.match(r"(.*?)\s*\(((?:default: |required)?[^()]*(?:\([^()]*\)[^()]*)*)\)$", help_text)
    text, hint = (found[1], found[2]) if found else (help_text, "")
    metavar = re.sub(r" \[(\w+) \.\.\.\]", " ...", str(action.metavar or "").replace("{None}|", ""))
    name = action.option_strings[0] if action.option_strings else metavar.strip("[]")
    if len(action.option_strings) == 2 and hint == "default: True":  # on already: what can be said is --no-...
        name, text = action.option_strings[1], f"Do not: {text[:1].lower()}{text[1:]}"
    if len(action.option_strings) == 2 or hint in ("default: None", "default: ", "default: ''", "required"):
        hint = ""
    owner, _, place = action.dest.replace("-", "_").partition(".")
    if owner not in ("settings", "options"):
        owner, place = "", owner
    return Option(name, place, owner, f"{name} {metavar}".strip() if action.option_strings else metavar, text, hint)


def _by_subject(options: list[Option]) -> list[tuple[str, str, list[Option]]]:
    """The options of a command that trains: those of the command itself, then those of its settings by subject."""
    import dataclasses

    from coviews.runs.settings import PretrainSettings

    titles, current = {}, SUBJECTS[0]
    starts = {subject.first: subject for subject in SUBJECTS}
    for field in dataclasses.fields(PretrainSettings):
        current = starts.get(field.name, current)
        titles[field.name] = current
    groups: dict[str, list[Option]] = {OWN: [], **{subject.title: [] for subject in SUBJECTS}}
    for option in options:
        first = option.place.split(".")[0]
        if option.place.startswith("search.reward."):
            groups[starts["search.reward"].title].append(option)
        elif first in titles and (option.owner == "settings" or first in ("method", "search")):
            groups[titles[first].title].append(option)
        else:
            groups[OWN].append(option)
    words = {subject.title: subject.words for subject in SUBJECTS}
    return [(title, words.get(title, ""), group) for title, group in groups.items() if group]


def _print_options(console: Console, title: str, options: list[Option], words: str = "") -> None:
    if not options:
        return
    console.print()
    if title:
        console.print(Text(title, style="bold"))
    if words:
        console.print(Text(words, style="dim"))
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(width=min(max(len(o.invocation) for o in options), 32) + 2)
    for option in options:
        table.add_row(Text(f"  {option.invocation}", style="cyan"), Text(option.described))
    console.print(table)
