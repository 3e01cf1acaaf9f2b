"""Runs through submitit and Ray: the same results as on this machine, killed and continued, stopped, failed, lost."""

import contextlib
import dataclasses
import importlib
import importlib.util
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from launched_sweep import EPOCHS, sweep

from coviews import CoviewsError, choose
from coviews.choosing import pilots
from coviews.cli import main
from coviews.comparison.results import Result
from coviews.comparison.workers import Workers
from coviews.files.lock import lock_folder
from coviews.launching import attendance, far_training, launchers, lease
from coviews.launching.attendance import Attendance, read_state
from coviews.launching.launchers import Launcher, LocalLauncher, named_launcher
from coviews.launching.lease import Lease, LeaseKeeper, LeaseWatch
from coviews.launching.on_ray import RayLauncher
from coviews.launching.on_submitit import SubmititLauncher
from coviews.launching.task import Task
from small_runs import content, differing
from trainings_here import train_here

HERE = Path(__file__).parent
FAR = {"submitit": "executor=local,timeout_min=5", "ray": ""}


@pytest.fixture(scope="module", autouse=True)
def paths():
    """Jobs find the modules of these tests."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), str(HERE.parent), *filter(None, [before])])
    yield
    if before is None:
        del os.environ["PYTHONPATH"]
    else:
        os.environ["PYTHONPATH"] = before


@pytest.fixture(scope="module")
def cluster(paths):
    """One Ray cluster of this machine, for all tests of this file and the programs that they start."""
    import ray

    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}  # no token in the home folder
    made = ray.init(
        address="local", num_cpus=4, include_dashboard=False, object_store_memory=80 * 2**20, log_to_driver=False
    )
    os.environ["RAY_ADDRESS"] = made.address_info["address"]
    yield
    del os.environ["RAY_ADDRESS"]
    ray.shutdown()


def wait_for(condition, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


# ------------------------------------------------------------------------------------------------- whole commands


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Two runs a seed, by what a process of this machine does, but without starting one for each."""
    out = tmp_path_factory.mktemp("plain") / "c"

    def runs(seeds: int) -> tuple[Path, list[Result]]:
        with pytest.MonkeyPatch.context() as patch:
            train_here(patch.setattr)
            patch.setattr(LocalLauncher, "threads", lambda self, at_once: 1)  # as the others have
            return out, sweep(out, seeds).results.runs

    return runs


def without_times(result: Result) -> Result:
    return dataclasses.replace(
        result, seconds=0.0, searching=0.0, curve=[[e, 0.0, value] for e, _, value in result.curve]
    )


@pytest.mark.parametrize(
    ("launcher", "seeds"),
    [("ray", 1), *(pytest.param(name, 2, marks=pytest.mark.slow) for name in (*FAR, "local"))],
)
def test_killed_and_continued_gives_the_bytes_of_plain_runs(launcher, seeds, plain, cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(LocalLauncher, "threads", lambda self, at_once: 1)
    (reference, results), out, options = plain(seeds), tmp_path / "c", FAR.get(launcher, "")
    command = [sys.executable, str(HERE / "launched_sweep.py"), str(out), launcher, options, str(seeds)]
    process = subprocess.Popen(command, start_new_session=True)
    first = out / "runs" / "long-0" / "metrics.jsonl"

    def epochs() -> int:
        return first.read_bytes().count(b'"kind":"epoch"') if first.exists() else 0

    wait_for(lambda: process.poll() is not None or epochs() > 0, 120)
    assert process.poll() is None
    os.killpg(process.pid, signal.SIGKILL)  # and the processes that attend to the jobs of submitit here
    process.wait()
    wait_for(lambda: not _is_locked(first.parent))
    assert epochs() < EPOCHS
    made = sweep(out, seeds, launcher, options)
    assert made.failed == {}
    names = {f"{variant}-{seed}" for variant in ("long", "short") for seed in range(seeds)}
    assert {p.name for p in (out / "runs").iterdir()} == names
    for name in names:
        ours, theirs = (content(folder / "runs" / name) for folder in (out, reference))
        for files in (ours, theirs):
            del files["evaluations.jsonl"]  # tells times; the results are compared below
        assert "encoder.safetensors" in ours
        assert differing(ours, theirs) == []
    results = [r for r in results if r.seed < seeds]
    by_name = [{(r.variant, r.seed): without_times(r) for r in runs} for runs in (made.results.runs, results)]
    assert by_name[0] == by_name[1]
    assert "continuing" in (out / "logs" / "long-0.txt").read_text()
    assert (launcher == "local") != ("at work on" in (out / "logs" / "long-0.txt").read_text())
    assert not (out / "launched").exists()


def test_pilots_run_on_a_cluster(cluster, tmp_path, monkeypatch):
    """What trains them is replaced: the rounds of a choice and all that starts them are real."""
    monkeypatch.setattr(pilots, "Workers", lambda *given, **named: Workers(*given, **named | {"module": "toy_pilot"}))
    choice = choose(
        "shapes:60", labels="none", out=tmp_path / "choice", size=16, pilots=3, epochs=1, jobs=2, progress=False,
        launcher="ray",
    )  # fmt: skip
    assert [pilot.signals["mirrored"] for pilot in choice.pilots] == [52.0] * 3
    logs = list((tmp_path / "choice" / "logs").iterdir())
    assert len(logs) == 3
    assert all("at work on" in log.read_text() for log in logs)


def test_a_table_of_the_paper_takes_the_launcher(tmp_path, monkeypatch):
    given = {}

    def carry_out(*_, **options):
        given.update(options)
        raise CoviewsError("nothing is trained here")

    monkeypatch.setattr(importlib.import_module("coviews.comparison.reproduce"), "carry_out", carry_out)
    words = ["reproduce", "table-moco", "--launcher", "ray", "--launcher-options", "num_cpus=3", "--jobs", "7"]
    assert main([*words, "--data", "shapes:140", "--out", str(tmp_path / "r")]) == 2
    assert given["launcher"] == named_launcher("ray", "num_cpus=3")
    assert given["jobs"] == 7


def _is_locked(run: Path) -> bool:
    try:
        lock_folder(run).close()
    except CoviewsError:
        return True
    return False


# ------------------------------------------------------------------------------------------- what can happen to one


def toy(folder: Path, name: str, seconds: float = 0.0, code: int = 0) -> Task:
    request = f"{seconds} {code}".encode()
    return Task(name, "toy_training", folder / "runs" / name, request, folder / "logs" / f"{name}.txt", 1)


def only_process(folder: Path) -> int:
    """The process of the training a, as soon as it has begun."""
    begun = folder / "runs" / "a" / "begun"
    wait_for(lambda: begun.exists() and begun.read_text().endswith("\n"))
    return int(begun.read_text())


def parent_of(process: int) -> int:
    command = ["ps", "-o", "ppid=", "-p", str(process)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.fixture(params=FAR)
def opened(request, cluster, tmp_path, monkeypatch):
    """What starts trainings, by each launcher; and the folder."""
    monkeypatch.setattr(far_training, "_GRACE", 0.5)
    with named_launcher(request.param, FAR[request.param]).opened(tmp_path) as start:
        yield start, tmp_path


def test_codes_and_messages_come_back(opened):
    start, folder = opened
    trainings = [start(toy(folder, "good")), start(toy(folder, "bad", code=3))]
    assert [training.wait(60) for training in trainings] == [0, 3]
    assert (folder / "logs" / "bad.txt").read_text().endswith("error: as asked\n")


def test_asked_to_end_they_save_and_end(opened):
    start, folder = opened
    trainings = [start(toy(folder, name, seconds=300)) for name in ("a", "b")]
    wait_for(lambda: all((folder / "runs" / name / "begun").exists() for name in ("a", "b")))
    for training in trainings:
        training.terminate()
    assert [training.wait(60) for training in trainings] == [143, 143]
    assert (folder / "runs" / "a" / "saved").read_text() == os.getcwd()


def test_a_job_that_is_lost_is_a_failure_and_its_training_saves(opened):
    start, folder = opened
    training = start(toy(folder, "a", seconds=300))
    os.kill(parent_of(only_process(folder)), signal.SIGKILL)
    assert training.wait(60) == 1
    assert "ended without a result" in (folder / "logs" / "a.txt").read_text().splitlines()[-1]
    wait_for((folder / "runs" / "a" / "saved").exists)


def test_what_does_not_fit_waits_and_is_taken_out_of_the_queue(cluster, tmp_path):
    with contextlib.ExitStack() as stack:
        launched = named_launcher("ray", "num_cpus=9").opened(tmp_path)
        with pytest.warns(UserWarning, match="the Ray cluster has 4 CPUs now, and a run asks for 9"):
            start = stack.enter_context(launched)
        training = start(toy(tmp_path, "a"))
        time.sleep(1.0)
        assert training.poll() is None
        training.terminate()
        assert training.wait(10) == 143
    assert not (tmp_path / "runs").exists()


def test_a_job_that_is_needed_elsewhere_is_queued_again(tmp_path):
    """As SLURM does before a job's time is over, and where another job is more important."""
    with named_launcher("submitit", FAR["submitit"]).opened(tmp_path) as start:
        training = start(toy(tmp_path, "a", seconds=300))
        process = only_process(tmp_path)
        for told in (process, parent_of(process)):
            os.kill(told, signal.SIGUSR2)
        wait_for(lambda: (tmp_path / "runs" / "a" / "begun").read_text().count("\n") == 2)
        assert (tmp_path / "runs" / "a" / "saved").exists()
        assert training.poll() is None
        training.terminate()
        assert training.wait(60) == 143


def test_a_training_whose_machine_is_taken_back_has_not_ended_yet(tmp_path, monkeypatch):
    """SLURM sends SIGTERM to all processes of a job, and may queue it again: its end is not told at once."""
    monkeypatch.setattr(attendance, "_OWN_END", 1.0)
    keeper, states = LeaseKeeper(tmp_path / "lease"), []

    def take_back():
        os.kill(only_process(tmp_path), signal.SIGTERM)
        wait_for((tmp_path / "runs" / "a" / "saved").exists)
        time.sleep(0.3)
        states.append(read_state(tmp_path / "a.json").code)

    thread = threading.Thread(target=take_back)
    thread.start()
    Attendance(toy(tmp_path, "a", seconds=300), tmp_path, keeper.lease, tmp_path / "a.json").attend()
    thread.join()
    keeper.release()
    assert [*states, read_state(tmp_path / "a.json").code] == [None, 143]


# ----------------------------------------------------------------------------------------------------------- leases


def test_a_lease_that_is_not_renewed_ends_the_training(tmp_path):
    (tmp_path / "lease").write_text("a command that was killed")
    attendance = Attendance(
        toy(tmp_path, "a", seconds=300), tmp_path, Lease(tmp_path / "lease", 1.5), tmp_path / "a.json"
    )
    attendance.attend()
    assert (tmp_path / "runs" / "a" / "saved").exists()
    assert '"code": 143' in (tmp_path / "a.json").read_text()


def test_without_a_lease_nothing_begins(tmp_path):
    Attendance(toy(tmp_path, "a"), tmp_path, Lease(tmp_path / "lease", 60.0), tmp_path / "a.json").attend()
    assert not (tmp_path / "runs").exists()
    assert '"code": 143' in (tmp_path / "a.json").read_text()


def test_the_next_command_ends_what_a_killed_one_left(tmp_path):
    launcher = named_launcher("submitit", FAR["submitit"])
    with launcher.opened(tmp_path) as start:
        training = start(toy(tmp_path, "a", seconds=300))
        only_process(tmp_path)
        with launcher.opened(tmp_path):  # a killed one would not renew its lease either
            wait_for((tmp_path / "runs" / "a" / "saved").exists)
        training.kill()


def test_a_lease_is_renewed_until_it_is_released(tmp_path, monkeypatch):
    monkeypatch.setattr(lease, "RENEWED", 0.05)
    keeper = LeaseKeeper(tmp_path / "lease")
    first = (tmp_path / "lease").read_bytes()
    watch = LeaseWatch(Lease(tmp_path / "lease", 0.4))
    for _ in range(10):
        time.sleep(0.1)
        assert watch.holds()
    assert (tmp_path / "lease").read_bytes() != first
    keeper.release()
    assert [watch.holds(), watch.holds()] == [True, False]


# ------------------------------------------------------------------------------------------------------------ SLURM

SLURM = {
    "sbatch": 'export SLURM_JOB_ID=17; bash "$1" >/dev/null 2>&1 & echo "Submitted batch job 17"',
    "srun": 'while [[ $1 == --* ]]; do [[ $1 == --unbuffered ]] || shift; shift; done; exec "$@"',
    "sacct": "echo 'JobID|State|NodeList'",
    "scancel": "exit 0",
}


def test_slurm_is_asked_for_what_the_options_say(tmp_path, monkeypatch):
    """With programs that stand for those of SLURM, and start the job on this machine."""
    for name, text in SLURM.items():
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/bash\n{text}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    launcher = named_launcher("submitit", "partition=gpu,gpus_per_node=1,timeout_min=600,cpus_per_task=8,mem_gb=16")
    launcher.check()
    assert launcher.threads(at_once=20) == 8
    with launcher.opened(tmp_path) as start:
        training = start(toy(tmp_path, "a"))
        script = next((tmp_path / "launched").rglob("*_submission.sh")).read_text()
        assert training.wait(60) == 0
    asked = {line.removeprefix("#SBATCH --") for line in script.splitlines() if line.startswith("#SBATCH")}
    assert asked >= {
        "partition=gpu", "gpus-per-node=1", "time=600", "cpus-per-task=8", "mem=16GB", "job-name=a", "signal=USR2@120",
    }  # fmt: skip


def test_the_commands_of_the_docs_are_understood(monkeypatch):
    """As they are typed; nothing is trained."""

    class Read(Exception):
        """The command was understood."""

    def read(*_, **given):
        o = given["options"]
        launchers.append(named_launcher(o.launcher, o.launcher_options))
        raise Read

    launchers: list[Launcher] = []
    for name in ("coviews.comparison.compare", "coviews.choosing.choose"):
        monkeypatch.setattr(importlib.import_module(name), name.rpartition(".")[2], read)
    page = (HERE.parents[1] / "docs" / "scale.md").read_text()
    for line in page.splitlines():
        if line.startswith("coviews ") and "--launcher" in line:
            with pytest.raises(Read):
                main(shlex.split(line)[1:])
    gpu = {"partition": "gpu", "gpus_per_node": 1, "cpus_per_task": 8, "timeout_min": 600}
    assert launchers == [SubmititLauncher(**gpu), RayLauncher(address="auto", num_gpus=1, num_cpus=8), RayLauncher()]


# -------------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--launcher", "rya"], "unknown launcher 'rya': did you mean 'ray'?"),
        (["--launcher-options", "partition=gpu"], "the launcher local has no options"),
        (["--launcher", "ray", "--launcher-options", "num_gpu=1"], "did you mean 'num_gpus'?"),
        (["--launcher", "ray", "--launcher-options", "num_gpus=one"], "num_gpus must be a number from 0, not 'one'"),
        (["--launcher", "ray", "--launcher-options", "num_cpus=0"], "num_cpus must be a whole number from 1, not '0'"),
        (["--launcher", "ray", "--launcher-options", "num_cpus=2,num_cpus=3"], "names num_cpus twice"),
        (["--launcher", "submitit", "--launcher-options", "mem_gb=nan"], "mem_gb must be a number from 0.1, not 'nan'"),
        (["--launcher", "submitit", "--launcher-options", "partition="], "has no value for partition"),
        (["--launcher", "submitit", "--launcher-options", "executor=pbs"], "unknown executor 'pbs'"),
        (["--launcher", "submitit", "--launcher-options", "timeout_min=1"], "longer than signal_delay_s"),
    ],
)
@pytest.mark.parametrize("command", [["compare", "shapes:60"], ["choose", "shapes:60"], ["reproduce", "table-moco"]])
def test_bad_input_is_said_at_once(command, arguments, said, tmp_path, capsys):
    assert main([*command, *arguments, "--out", str(tmp_path / "c")]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("name", FAR)
def test_a_missing_package_is_named(name, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda package: None)
    assert main(["compare", "shapes:60", "--launcher", name, "--out", str(tmp_path / "c")]) == 2
    assert f"pip install 'coviews[{name}]'" in capsys.readouterr().err


def test_slurm_has_to_be_there(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(shutil, "which", lambda program: None)
    assert main(["choose", "shapes:60", "--launcher", "submitit", "--out", str(tmp_path / "c")]) == 2
    assert "there is no sbatch here" in capsys.readouterr().err


def test_a_cluster_that_is_not_there(tmp_path, monkeypatch):
    import ray

    def refuse(**_):
        raise ConnectionError("nobody answers\nand more")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", refuse)
    launcher = named_launcher("ray", "address=10.0.0.1:6379")
    with (
        pytest.raises(CoviewsError, match=r"the Ray cluster at 10.0.0.1:6379: nobody answers$"),
        launcher.opened(tmp_path),
    ):
        pass


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system gives no process fewer cores")
def test_trainings_share_the_cores_that_the_process_was_given(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    mine = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(mine)})
    try:
        assert LocalLauncher().threads(1) == 1
    finally:
        os.sched_setaffinity(0, mine)
    assert LocalLauncher().threads(1) == len(mine)


def test_trainings_have_no_more_threads_than_any_process(monkeypatch):
    """Pilots within a training of a comparison take its share of the cores, not all of them."""
    monkeypatch.setattr(launchers, "cores", lambda: 8)
    for limit, at_once, threads in (("", 1, 8), ("3", 1, 3), ("3", 4, 2), ("1", 8, 1), ("0", 2, 1), ("all", 2, 4)):
        monkeypatch.setenv("OMP_NUM_THREADS", limit)
        assert LocalLauncher().threads(at_once) == threads
