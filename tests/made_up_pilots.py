"""Choices in milliseconds: pilots that train nothing, and reach what a rule says."""

import json
import zlib
from pathlib import Path

import numpy as np

from coviews.choosing.choice import Choice, PilotScore
from coviews.choosing.model import Effect
from coviews.choosing.pilot_plan import PilotPlan
from coviews.choosing.pilot_worker import SIGNALS
from coviews.choosing.verdict import Standing, Verdict
from coviews.policies.factors import Family, family
from coviews.runs.settings import PretrainSettings
from ended_process import Done


class Pilots:
    """Pilots that train nothing."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.settings: list[PretrainSettings] = []  # of those that were started
        self.fails = lambda variant: False  # whether the pilots of a family fail
        self.killed_after: int | None = None
        self.noise = 1.0  # of a pilot, in points
        self.mirrored = 52.0  # how well pilots tell mirror images, in percent

    def truth(self, views: Family) -> float:
        """The accuracy that a family reaches, in percent."""
        return 50.0

    def start(self, runner, job) -> None:
        if self.killed_after is not None and len(self.started) >= self.killed_after:
            raise KeyboardInterrupt("killed")
        self.started.append(job.name)
        self.settings.append(job.settings)
        log = runner.log(job)
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("error: something <b>went</b> wrong\n")
        failed = self.fails(job.variant)
        if not failed:
            runner.run_folder(job).mkdir(parents=True, exist_ok=True)
            signals = {"mirrored": self.mirrored, "rankme": 20.0}
            (runner.run_folder(job) / SIGNALS).write_text(json.dumps(signals))
        runner._running[job.name] = Done(int(failed))

    def hits(self, by_pilot, pilot):
        if by_pilot.labelled is None:
            return None
        generator = np.random.default_rng(zlib.crc32(f"{pilot.family.text} {pilot.seed}".encode()))
        share = (self.truth(pilot.family) + self.noise * generator.standard_normal()) / 100
        # images differ in how hard they are, alike for all pilots, and a little for each
        hard, own = np.random.default_rng(0).random(len(by_pilot.labelled)), generator.random(len(by_pilot.labelled))
        judged = share + 0.5 * (hard - hard.mean()) + 0.2 * (own - own.mean())
        return np.stack([judged, judged])


def families_of(pilots: Pilots) -> list[Family]:
    """The families of the pilots that were started."""
    parts = [name.rpartition("-")[0] for name in pilots.started]  # crop-small-mirror-light
    texts = [", ".join(["crop " + p.split("-")[1], *p.split("-")[2:]]) for p in parts]
    return [family(text.replace("keep, much", "keep much")) for text in texts]


def made_up_choice(text: str) -> Choice:
    """A choice that nobody made, with a text wherever one can come from outside."""
    chosen = Family(colour=False, light=False)
    effects = (Effect("colour", "off", 2.0, 1.0), Effect("light", "off", 4.0, 1.5), Effect("turns", "on", -1.0, 0.5))
    standings = (Standing(chosen, 70.0, 6.0, 2.0, 1), Standing(Family(), 64.0, 0.0, 0.0, 2))
    verdict = Verdict(chosen, Family(), 6.0, 2.0, effects, standings, True)
    signals = {"mirrored": 50.0, "rankme": 20.0}
    scores = tuple(PilotScore(f, seed, 60.0, signals) for seed, f in enumerate((chosen, Family(), Family())))
    settings = {"encoder": "resnet8", "size": 32, "batch_size": 64, "seed": 0}
    return Choice(
        Path("choice"), text, text, 200, 20, {"mirror": True}, PilotPlan(3, 8, 10.0, 2), settings, verdict, scores,
        {text: text},
    )  # fmt: skip
