"""Running cases under watch: each in bounded time and memory, and what it said is judged.

Cases run in a process that was forked off a loaded one. It is ended from outside where it takes too long, so that code
of C that hangs is found too; then another one goes on with the next case.
"""

import contextlib
import faulthandler
import json
import os
import random
import resource
import select
import shutil
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from coviews import CoviewsError
from coviews.cli import main
from hostile_formats import Enough, Format, trained
from hostile_options import commands, number_case, text_case
from mutations import MUTATIONS, replace_by_special

SECONDS = 20.0
MEMORY = 1 << 30  # bytes that a process may hold at any time of a case
LINES, LETTERS = 2, 300  # of an error or a warning
ENDINGS = ("ok", "error", "traceback", "hang", "memory", "long message")
OPTIONS = {"numbers": number_case, "texts": text_case}  # cases that are options of commands
_SPECIAL = 0.06  # the share of cases with no regular file where one is expected
_FULL = 3  # the status of a process that ended for want of memory before a case began
_CASES_OF_A_PROCESS = 400  # then another one takes over, in case memory is lost bit by bit


@dataclass(frozen=True)
class Ending:
    """How a case ended."""

    case: str  # FORMAT:SEED, or FORMAT:CALL for whole files
    kind: str  # one of ENDINGS
    call: str = ""
    said: str = ""


class Work:
    """A folder with one whole example of each format, and the place where cases are run."""

    def __init__(self, folder: Path, formats: dict[str, Format]) -> None:
        self.folder, self.formats = folder, formats

    def prepare(self, names: Sequence[str]) -> None:
        """Make the examples of some formats; where they are made is where cases find them."""
        for name in names:
            kept = self.folder / "examples" / name
            if name in OPTIONS:
                trained(self.folder / "runs", "run")
            elif not kept.exists():
                place = self._empty_place()
                self.formats[name].make(place)
                kept.parent.mkdir(exist_ok=True)
                place.rename(kept)

    def whole_cases(self, names: Sequence[str]) -> list[str]:
        """Every call with whole files: it must work, or damage would not be what it fails by."""
        whole = [f"{name}:{call}" for name in names if name not in OPTIONS for call in self.formats[name].calls]
        return whole + [f"numbers:command-{i}" for i in range(len(commands()) if set(names) & set(OPTIONS) else 0)]

    def _empty_place(self) -> Path:
        place = self.folder / "case"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        return place

    def set_up(self, case: str) -> tuple[str, Callable[[], object]]:
        """The files of a case, and what is called: the same for the same case at any time.

        case: FORMAT:SEED, or FORMAT:CALL for that call with files that are whole.
        """
        name, _, seed = case.partition(":")
        chance, place = random.Random(case), self._empty_place()
        if name in OPTIONS:
            words = OPTIONS[name](seed, place, self.folder / "runs" / "run")
            return " ".join([words[0], *(word[:30] for word in words[-6:])]), lambda: main(words)
        form = self.formats[name]
        shutil.copytree(self.folder / "examples" / name, place, symlinks=True, dirs_exist_ok=True)
        if seed in form.calls:
            return f"{seed} (whole)", lambda: form.calls[seed](place)
        pattern = chance.choice(list(form.files))
        path = next(place.glob(pattern))
        if chance.random() < _SPECIAL:
            how = replace_by_special(path, chance)
        else:
            how = "damaged"
            path.write_bytes(MUTATIONS[form.files[pattern]](path.read_bytes(), chance))
        call = chance.choice(list(form.calls))
        return f"{call} ({path.name}: {how})", lambda: form.calls[call](place)


class _FullError(Exception):
    """What earlier cases left in this process leaves too little memory to make the files of the next."""


def run_here(work: Work, case: str, said: Path) -> Ending:
    """Run a case in this process; `said` is the file to which its messages go."""
    try:
        what, call = work.set_up(case)
    except MemoryError as error:
        raise _FullError from error
    start = said.stat().st_size
    _forget_peak()
    before, trace = _peak(), ""
    try:
        code = call()
        kind = "error" if type(code) is int and code != 0 else "ok"
    except Enough:
        kind = "ok"
    except CoviewsError as error:
        kind, trace = "error", f"error: {error}"
    except SystemExit as end:
        kind = "error" if end.code else "ok"
    except MemoryError:
        kind, trace = "memory", traceback.format_exc()
    except BaseException:
        kind, trace = "traceback", traceback.format_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    with open(said, "rb") as file:
        file.seek(start)
        printed = file.read(200_000).decode("utf-8", "replace")
    if kind in ("traceback", "memory"):
        return Ending(case, kind, what, trace[-3000:])
    text = printed + trace
    if "Traceback (most recent call last)" in text:
        return Ending(case, "traceback", what, text[-3000:])
    if (more := _peak() - before) > MEMORY:
        return Ending(case, "memory", what, f"{more >> 20} MB")
    if reason := _too_long(text):
        return Ending(case, "long message", what, f"{reason}: {text[:600]}")
    return Ending(case, kind, what, text[:400])


def _too_long(text: str) -> str:
    """Why what was said is more than an error or warning may say; empty if it is not."""
    lines = text.split("\n")
    if longest := max((len(line) for line in lines if len(line) > LETTERS), default=0):
        return f"a line of {longest} characters"
    starts = [i for i, line in enumerate(lines) if line.startswith("error: ")]
    if starts and len([line for line in lines[starts[-1] :] if line]) > LINES:
        return f"an error of {len(lines) - starts[-1]} lines"
    return ""


def _forget_peak() -> None:
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def _peak() -> int:
    """The most memory that this process held since `_forget_peak`, in bytes."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))


def _address_space() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def _work_off(work: Work, cases: Sequence[str], pipe: int, said: Path) -> None:
    """In a process of its own: run cases, and tell of each when it begins and how it ended."""
    os.setsid()  # what it starts is ended with it
    output = os.open(said, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    # twice the limit is refused outright: the machine has others to serve
    resource.setrlimit(resource.RLIMIT_AS, (_address_space() + 2 * MEMORY,) * 2)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4 << 30, 4 << 30))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    warnings.formatwarning = lambda message, *_, **__: f"warning: {message}\n"  # as commands show them
    faulthandler.register(signal.SIGUSR1, file=sys.stderr)  # where it hangs
    for case in cases:
        os.write(pipe, b"\n")
        os.write(pipe, json.dumps(asdict(run_here(work, case, said))).encode() + b"\n")
    os._exit(0)


def run_cases(work: Work, cases: Sequence[str], seconds: float = SECONDS) -> Iterator[Ending]:
    """The ending of each case, in order."""
    cases, said = list(cases), work.folder / "said.txt"
    while cases:
        some = cases[:_CASES_OF_A_PROCESS]
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            try:
                _work_off(work, some, writer, said)
            except _FullError:
                os._exit(_FULL)
            except BaseException:
                traceback.print_exc()
                sys.stderr.flush()
            os._exit(1)
        os.close(writer)
        done = 0
        for line in _lines(reader, pid, seconds):
            if line:
                done += 1
                yield Ending(**json.loads(line))
        os.close(reader)
        status = _ended(pid)
        full = status == _FULL << 8 and done > 0  # a new process has the memory that this one had not
        if done < len(some) and not full:
            text = said.read_text(errors="replace")[-6000:]
            kind = "hang" if status is None else "traceback"
            call = work.set_up(some[done])[0]
            yield Ending(some[done], kind, call, f"{text}\nthe process ended with the status {status}")
            done += 1
        cases = cases[done:]


def _ended(pid: int) -> int | None:
    """The status of a process that ended; one that hangs is asked where it is, and killed with all that it started."""
    for _ in range(20):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return status
        time.sleep(0.05)
    os.kill(pid, signal.SIGUSR1)
    time.sleep(0.5)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def _lines(reader: int, pid: int, seconds: float) -> Iterator[str]:
    """Lines from a process until it ends, or hangs: it works for too long, or waits for something too long.

    A process that waits for its turn on a busy machine does not hang.
    """
    rest, since, before = b"", time.monotonic(), _processor_time(pid)
    while True:
        ready, _, _ = select.select([reader], [], [], 0.5)
        if ready:
            content = os.read(reader, 65_536)
            if not content:
                return
            since, before = time.monotonic(), _processor_time(pid)
            *lines, rest = (rest + content).split(b"\n")
            yield from (line.decode() for line in lines)
            continue
        waited = time.monotonic() - since
        if _processor_time(pid) - before > seconds or waited > (seconds if _sleeps(pid) else 10 * seconds):
            return


def _processor_time(pid: int) -> float:
    """Seconds that a process has worked."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _sleeps(pid: int) -> bool:
    """Whether no thread of a process could work now."""
    states = []
    for path in Path(f"/proc/{pid}/task").glob("*/stat"):
        with contextlib.suppress(OSError):  # the thread has ended just now
            states.append(path.read_text().rpartition(")")[2].split()[0])
    return "R" not in states
