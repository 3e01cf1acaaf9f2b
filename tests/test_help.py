"""The help: a screen for what matters, everything by subject with --help-all."""

import re
import subprocess
import sys

import pytest

from coviews.cli import COMMANDS, main
from coviews.cli.help import MAIN, SUBJECTS

MOST_LINES = 40  # of 80 columns
MOST_OPTIONS = 15


@pytest.fixture
def shown(capsys, monkeypatch):
    """A function that gives the help of some words, 80 columns wide."""
    monkeypatch.setenv("COLUMNS", "80")

    def show(*words):
        with pytest.raises(SystemExit) as ended:
            main(list(words))
        assert ended.value.code == 0
        return capsys.readouterr().out

    return show


def options(page):
    return re.findall(r"^  (--[\w.-]+)", page, re.MULTILINE)


def test_the_list_of_commands_has_them_all_on_a_screen(shown):
    page = shown("--help")
    assert len(page.splitlines()) <= MOST_LINES
    for command in COMMANDS:
        assert re.search(rf"^  {command} ", page, re.MULTILINE), command


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_fits_a_screen(command, shown):
    page = shown(command, "--help")
    assert len(page.splitlines()) <= MOST_LINES
    if command in MAIN:
        assert options(page) == [name for name in MAIN[command] if name.startswith("--")]  # each exists, in this order
        assert len(options(page)) <= MOST_OPTIONS
        assert set(options(page)) < set(options(shown(command, "--help-all")))
    assert shown(command, "-h") == page


def test_all_options_stand_under_their_subjects(shown):
    page = shown("pretrain", "--help-all")
    parts = re.split(rf"^({'|'.join(re.escape(s.title) for s in SUBJECTS)}|Run)$", page, flags=re.MULTILINE)
    subjects = dict(zip(parts[1::2], parts[2::2], strict=True))
    assert set(subjects) == {"Run", *(s.title for s in SUBJECTS)}
    assert {"--resume", "--config", "--overwrite"} <= set(options(subjects["Run"]))
    assert {"--size", "--subset"} <= set(options(subjects["Images"]))
    assert {"--method", "--encoder", "--temperature"} <= set(options(subjects["Method and encoder"]))
    assert {"--matters", "--flip"} <= set(options(subjects["Views"]))
    assert {"--search", "--search.prior"} <= set(options(subjects["How views are learned"]))
    assert options(subjects["Reward"])[0] == "--search.reward.bound"


@pytest.mark.parametrize(
    ("word", "title"),
    [
        ("space", "Learned views"), ("prior", "How views are learned"), ("fit", "How views are learned"),
        ("bound", "Reward"), ("look", "Measurements and records"), ("policy", "Views"), ("family", "Views"),
    ],
)  # fmt: skip
def test_basic_words_are_explained_where_they_first_appear(word, title):
    texts = [(s.title, s.words) for s in SUBJECTS]
    first = next(t for t, words in texts if re.search(rf"\b{word}\b", words))
    assert first.startswith(title)
    assert re.search(rf"\b(The|A|a) {word}\b", dict(texts)[first])


def test_a_method_and_a_search_show_their_own_options(shown):
    page = shown("pretrain", "--method", "moco", "--search=ppo", "--help")
    assert {"--bank", "--momentum", "--search.iterations"} <= set(options(page))
    assert "--bank" not in shown("pretrain", "--help")


def test_switches_are_shown_as_they_are_written(shown):
    page = " ".join(shown("pretrain", "--help-all").split())
    assert "--no-report Do not: write report.html" in page
    assert "--download Fetch a known set" in page


def test_a_reader_may_leave_early():
    code = "from coviews.cli import main; main(['preview', '--help'])"
    reader = subprocess.run(
        f'"{sys.executable}" -c "{code}" | head -n 1', shell=True, capture_output=True, text=True, check=False
    )
    assert reader.stdout.startswith("Usage: coviews preview")
    assert reader.stderr == ""


def test_first_steps_are_a_line_each(shown):
    steps = shown("--help").partition("First steps\n")[2].partition("\n\n")[0].splitlines()
    assert len(steps) == 5
    assert all(line.startswith("  coviews ") for line in steps)
