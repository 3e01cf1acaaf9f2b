"""What a run tells: to its metrics, to trackers, and to the person in front of it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from coviews.console.progress import Display, duration
from coviews.data.load import ImageSet
from coviews.ops.view_settings import ViewSettings
from coviews.policies.learned import AnyPolicy, Policy
from coviews.policies.queue import PolicyQueue
from coviews.policies.tilted import TiltedPolicy
from coviews.runs.folder import Run
from coviews.runs.settings import PretrainSettings
from coviews.searching.guards import collapse
from coviews.searching.ppo import SearchStep
from coviews.training.clock import Pace
from coviews.training.trackers import Logs


class Journal:
    """Everything that depends on the clock stands under `time` in the metrics: the rest is the same in equal runs."""

    def __init__(self, settings: PretrainSettings, run: Run, display: Display, *, from_epoch: int = 0) -> None:
        self.settings, self.run, self.display = settings, run, display
        self.logs = Logs(settings if run.writes else None, run.path, from_epoch=from_epoch)

    def start(
        self, images: ImageSet, views: ViewSettings, parameters: int, steps: int, looks_at: str, said: Sequence[str]
    ) -> None:
        """What is trained, on what, and what was said while it was loaded."""
        s, (n, height, width, channels) = self.settings, images.images.shape
        self.run.log(
            {
                "kind": "start", "images": n, "height": height, "width": width, "channels": channels,
                "classes": list(images.classes or ()), "labelled": images.labels is not None,
                "broken": len(images.broken), "parameters": parameters, "looks_at": looks_at,
                "mean": views.mean, "std": views.std,
            }
        )  # fmt: skip
        for text in said:
            self.warn(0, text)
        searches = sum(s.searches_at(e) for e in range(1, s.epochs + 1))
        what = "fits of the table" if s.by_table else "searches"
        self.display.line(f"{s.data}: {n:,} images of {height} x {width}, {'grey' if channels == 1 else 'in colour'}")
        self.display.line(
            f"{s.method} on {s.encoder} ({parameters / 1e6:.1f} M parameters), {s.views} views, {s.epochs} epochs of "
            f"{steps} steps" + (f", {searches} {what}" if searches else "") + f" -> {self.run.path}"
        )

    def step(self, epoch: int, step: int, steps: int, loss: float, pace: Pace) -> None:
        """Move the live line."""
        images = self.settings.batch_size * ((self.settings.epochs - epoch + 1) * steps - step)
        text = f"loss {loss:.3f} · {pace.images_per_second:,.0f} images/s · waiting {pace.waiting:.0%}"
        left = duration(images / pace.images_per_second)
        self.display.update(f"epoch {epoch}/{self.settings.epochs}", step, steps, f"{text} · {left} left")

    def epoch(self, epoch: int, loss: float, rate: float, spread: float, pace: Pace) -> None:
        """How an epoch went."""
        self.run.log(
            {"kind": "epoch", "epoch": epoch, "loss": loss, "lr": rate, "spread": spread, "time": pace._asdict()}
        )
        speed, waiting, _ = pace
        numbers = {"loss": loss, "lr": rate, "spread": spread, "images per second": speed, "waiting for views": waiting}
        self.logs({f"training/{name}": value for name, value in numbers.items()}, epoch)
        text = f"epoch {epoch}/{self.settings.epochs}: loss {loss:.4f} · lr {rate:.4f} · {speed:,.0f} images/s"
        self.display.line(f"{text} · waiting {waiting:.0%}", always=False)
        said = collapse(spread)
        if said and (epoch == 2 or epoch % 10 == 0):  # not every time
            self.warn(epoch, f"epoch {epoch}: {said}")

    def search_step(self, epoch: int, step: SearchStep) -> None:
        """Move the live line."""
        text = f"reward {step.reward:.3f} · over the bound {step.over:.0%} · entropy {step.entropy:.2f}"
        total = self.settings.search.ppo.iterations
        self.display.update(f"epoch {epoch}: search", step.iteration, total, text)

    def search(
        self,
        epoch: int,
        policy: Policy,
        history: Sequence[SearchStep],
        refused: str | None,
        queue: PolicyQueue,
        queued: list[int],
        seconds: float,
    ) -> None:
        """What a search found, and who makes the views now."""
        first, last, seen = history[0], history[-1], policy.statistics
        told = {
            **{name: seen[name] for name in ("reference", "chance", "loss")},
            **{name: [getattr(step, name) for step in history] for name in ("reward", "over", "entropy", "kl")},
        }
        numbers = {"reward": last.reward, "over the bound": last.over, "entropy": last.entropy}
        most = self._policy(epoch, policy, refused, told, numbers, queue, queued, seconds)
        self.display.line(
            f"epoch {epoch}: searched for {duration(seconds)}: reward {first.reward:.3f} -> {last.reward:.3f} · "
            f"over the bound {last.over:.0%} · entropy {first.entropy:.2f} -> {last.entropy:.2f} · most: {most}"
        )

    def fit(
        self,
        epoch: int,
        policy: TiltedPolicy,
        refused: str | None,
        queue: PolicyQueue,
        queued: list[int],
        seconds: float,
    ) -> None:
        """What a table tells, and who makes the views now."""
        seen = policy.statistics
        names = {"explained": "explained variance", "hardness": "hardness", "over": "over the bound",
                 "accepted": "accepted"}  # fmt: skip
        numbers = {name: seen[key] for key, name in names.items() if seen[key] is not None}
        most = self._policy(epoch, policy, refused, seen, numbers, queue, queued, seconds)
        text = f"epoch {epoch}: table of {seen['pairs']:,} pairs"
        if seen["over"] is None:
            self.display.line(f"{text}: views stay as they are, as {seen['limited_by']}", always=False)
            return
        limit = f" for the sake of the {seen['limited_by']}" if seen["limited_by"] else ""
        reached = f"hardness {seen['hardness']:.3f} of {seen['target']:.3f}{limit}"
        self.display.line(
            f"{text} explains {seen['explained']:.0%} · {reached} · over the bound {seen['over']:.0%} · most: {most}",
            always=False,
        )

    def _policy(
        self,
        epoch: int,
        policy: AnyPolicy,
        refused: str | None,
        told: dict[str, Any],
        numbers: dict[str, float],
        queue: PolicyQueue,
        queued: list[int],
        seconds: float,
    ) -> str:
        """Note a new policy; the operations that it prefers."""
        drawn = policy.sample(4096, np.random.default_rng(0)).ops  # (n, V, S)
        shares = np.stack([(drawn == op).mean(0) for op in range(len(policy.space.ops))], -1)  # (V, S, ops)
        weights = queue.weights.tolist() if queued else []
        self.run.log(
            {
                "kind": "search", "epoch": epoch, "refused": refused, **told,
                "operations": list(policy.space.ops), "shares": shares.round(4).tolist(),
                "queue": {"epochs": queued, "weights": weights}, "time": {"seconds": seconds},
            }
        )  # fmt: skip
        means = shares.mean((0, 1))
        numbers = {**numbers, "seconds": seconds}
        numbers |= {f"operation {op}": float(share) for op, share in zip(policy.space.ops, means, strict=True)}
        numbers |= {f"queue weight {i + 1}": weight for i, weight in enumerate(weights)}
        self.logs({f"search/{name}": value for name, value in numbers.items()}, epoch - 1)  # it comes before the epoch
        return ", ".join(policy.space.ops[i] for i in np.argsort(-means)[:4])

    def look(self, epoch: int, quality: dict[str, float], seconds: float) -> None:
        """How good the encoder is."""
        self.run.log({"kind": "look", "epoch": epoch, **quality, "time": {"seconds": seconds}})
        self.logs({f"encoder/{name}": value for name, value in quality.items()}, epoch)
        shown = f"kNN {quality['knn']:.1f} % · " if "knn" in quality else ""
        self.display.line(f"epoch {epoch}: {shown}RankMe {quality['rankme']:.1f}")

    def warn(self, epoch: int, text: str) -> None:
        """Tell the user, and keep it with the run."""
        self.run.log({"kind": "warning", "epoch": epoch, "text": text})
        self.display.line(f"warning: {text}")

    def end(
        self,
        seconds: dict[str, float],
        quality: dict[str, float],
        untrained: dict[str, float],
        looks_at: str,
        policy: Path | None,
        own_module: bool,
    ) -> None:
        """Where things are, what they are worth, and how to load the encoder."""
        say, total = self.display.line, sum(seconds.values())
        shares = " · ".join(f"{name} {spent / total:.0%}" for name, spent in seconds.items() if spent)
        say(f"done in {duration(total)}: {shares}")
        if "knn" in quality:
            before = f" (untrained {untrained['knn']:.1f} %)" if "knn" in untrained else ""
            say(f"kNN accuracy {quality['knn']:.1f} %{before}: {looks_at}")
        say(f"run      {self.run.path}")
        if self.settings.report:
            say(f"report   {self.run.path / 'report.html'}")
        if policy is not None:
            say(f"policy   {policy}")
        say(f"encoder  {self.run.encoder}")
        into = ", into=your_module" if own_module else ""
        say(f"load it  import coviews; encoder = coviews.load_encoder({str(self.run.path)!r}{into})")

    def close(self) -> None:
        """Write out what is still in memory."""
        self.logs.close()
