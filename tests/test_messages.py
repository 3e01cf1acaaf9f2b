"""Whatever is wrong on the command line or in a file, the command says it in one or two lines."""

import os

import pytest

from coviews.cli import main

LONG = "x" * 20_000


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["preview", "--row", "3"], "error: Unrecognized options: --row, 3: did you mean --rows?"),
        (["preview", "--rows", "many"], "error: Error parsing --rows"),
        (["preview", "--rows", LONG], "error: Error parsing --rows"),
        (["preview", f"--{LONG}"], "error: Unrecognized options"),
        (["preview", "--rows"], "error: Missing value for argument '--rows'"),
        (["preview", LONG], "error: "),
        (["preview", "a\x1b[31m\nb"], r"there is no file or folder 'a\x1b[31m\nb'"),
        (["preview", "shapes:" + "9" * 5000], "with a number of images"),
        (["preview", "--views", LONG], "unknown view source"),
        ([LONG], "unknown command"),
        (["check", "runs/none"], "there is no run runs/none: give the folder that coviews pretrain wrote"),
        (["preview", "shapes:300", "--views", "coviews"], "only coviews pretrain --views coviews does"),
        (["pretrain", "shapes:300", "--lr", "1e300"], "--lr must be above 0 and at most 10000"),
        (["pretrain", "shapes:300", "--epochs", "9" * 30], "--epochs must be a whole number from 1 to 1000000"),
        (["pretrain", "shapes:300", "--method", "dino", "--teacher-warmup", str(2**64)], "--teacher-warmup must be"),
        (["pretrain", "shapes:300", "--search.ridge", "1e-300", "--views", "coviews"], "ridge must be from 1e-06"),
        (["pretrain", "shapes:300", "--search.steps", "64", "--views", "coviews"], "steps must be at most 16"),
    ],
)
def test_an_error_is_short(words, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    try:
        code = main(words)
    except SystemExit as end:
        code = end.code
    output = capsys.readouterr()
    assert code == 2
    assert said in output.err
    assert len(output.err.splitlines()) <= 2
    assert all(len(line) <= 300 and line.isprintable() for line in output.err.splitlines())


@pytest.mark.parametrize("words", [["preview", "{}.txt"], ["preview", "{}.npy"], ["preview", "{}.png"],
                                   ["preview", "--views", "{}.yaml"], ["preview", "--views", "{}.safetensors"],
                                   ["evaluate", "{}.pt"], ["pretrain", "--config", "{}.yaml"]])  # fmt: skip
def test_a_pipe_is_refused_at_once(words, tmp_path, capsys):
    path = tmp_path / "pipe"
    words = [word.format(path) for word in words]
    os.mkfifo(words[-1])
    assert main(words) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried")]
)
def test_too_little_memory_is_said_in_a_line(error, monkeypatch, capsys):
    def fails(*_):
        raise error

    monkeypatch.setattr("coviews.cli._run", fails)
    assert main(["preview"]) == 2
    assert capsys.readouterr().err.startswith("error: there is not enough memory")


def test_other_errors_are_not_taken_for_it(monkeypatch):
    def fails(*_):
        raise RuntimeError("a defect")

    monkeypatch.setattr("coviews.cli._run", fails)
    with pytest.raises(RuntimeError, match="a defect"):
        main(["preview"])
