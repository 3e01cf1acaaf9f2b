"""What a run tells: to its metrics, to trackers, and to the person in front of it."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from coviews.console.progress import Display, duration
from coviews.data.colours import has_colour
from coviews.data.load import ImageSet
from coviews.evaluation.text_tables import clean
from coviews.ops.view_settings import ViewSettings
from coviews.policies.factors import FAMILIES
from coviews.policies.learned import AnyPolicy
from coviews.policies.limits import COLOUR_ONLY, forbid_colour
from coviews.policies.queue import PolicyQueue
from coviews.runs.folder import Run
from coviews.runs.settings import FROM_PYTHON, PretrainSettings
from coviews.runs.view_names import VIEWS
from coviews.searching.contract import SearchReport
from coviews.training.clock import Pace
from coviews.training.monitor import collapse_warning
from coviews.training.setup import STEPS, fitting_batch
from coviews.training.trackers import Trackers

_CLASSES = 8  # that are named on the console


class Journal:
    """Everything that depends on the clock stands under `time` in the metrics: the rest is the same in equal runs."""

    def __init__(self, settings: PretrainSettings, run: Run, display: Display, *, from_epoch: int = 0) -> None:
        self.settings, self.run, self.display = settings, run, display
        self.trackers = Trackers(settings if run.writes else None, run.path, from_epoch=from_epoch)

    def start(
        self,
        images: ImageSet,
        views: ViewSettings,
        parameters: int,
        steps: int,
        looks_at: str,
        messages: Sequence[str],
        left_out: Sequence[str] = (),
        count: int | None = None,
    ) -> None:
        """What is trained, on what, what was said while it was loaded, and which operations do not fit the images.

        count: of all images, where `images` are a sample of a stream.
        """
        s, (sampled, height, width, channels) = self.settings, images.images.shape
        n = sampled if count is None else count
        self.run.log(
            {
                "kind": "start", "images": n, "height": height, "width": width, "channels": channels,
                "classes": list(images.classes or ()), "labelled": images.labels is not None,
                "broken": len(images.broken), "parameters": parameters, "looks_at": looks_at,
                "mean": views.mean, "std": views.std, "depth": images.depth, "values": images.values,
                **({} if count is None else {"sampled": sampled}),
            }
        )  # fmt: skip
        for text in messages:
            self.warn(0, text)
        searches = f", {s.searches} {s.search.unit[s.searches != 1]}" if s.searches else ""
        colours = {1: "grey", 3: "in colour"}.get(channels, f"{channels} channels")
        deep = f", {images.depth} bits" if images.depth > 8 else ""
        self.display.line(f"{s.data}: {n:,} images of {height} x {width}, {colours}{deep}")
        if count is not None:
            self.display.line(
                f"streaming: images are decoded when they are needed; the normalisation, the looks at the encoder and "
                f"the report take a sample of {sampled:,}"
            )
        if images.classes:
            names = ", ".join(clean(name) for name in images.classes[:_CLASSES])
            more = ", ..." if len(images.classes) > _CLASSES else ""
            self.display.line(f"{len(images.classes)} classes, for the looks at the encoder only: {names}{more}")
        self.display.line(
            f"{s.method.name} on {s.encoder} ({parameters / 1e6:.1f} M parameters), {s.views} views, "
            f"{s.epochs} epoch{'s' if s.epochs > 1 else ''} of {steps} step{'s' if steps > 1 else ''}{searches}, "
            f"{s.precision} precision -> {self.run.path}"
        )
        if steps < STEPS and (batch := fitting_batch(n)) < s.batch_size:
            self.display.line(
                f"an epoch has so few steps because a batch has {s.batch_size} of the {n} images: --batch-size {batch} "
                f"makes {n // batch} steps"
            )
        if channels in (1, 3) and s.forbid == forbid_colour(s.forbid) and not has_colour(images):
            self.display.line(f"the images are grey: their views never have {', '.join(COLOUR_ONLY)}")
        if left_out:
            self.display.line(f"left out, because such images do not allow them: {', '.join(left_out)}")

    def extension(self, epoch: int, before: int, rate: float, old_rate: float) -> None:
        """A run got more epochs: from which number, and the learning rate now and as it was."""
        epochs = self.settings.epochs
        self.run.log({"kind": "extension", "epoch": epoch, "from": before, "to": epochs, "lr": rate})
        self.display.line(
            f"extended from {before} to {epochs} epochs: from here on the learning rate is that of a run of {epochs} "
            f"epochs, {rate:.4f} now (it was {old_rate:.4f}) and falling as a cosine to 0"
        )

    def step(self, epoch: int, step: int, steps: int, loss: float, pace: Pace) -> None:
        """Move the live line."""
        images = self.settings.batch_size * ((self.settings.epochs - epoch + 1) * steps - step)
        text = f"loss {loss:.3f} · {pace.images_per_second:,.0f} images/s · waiting {pace.waiting:.0%}"
        left = duration(images / pace.images_per_second)
        self.display.update(f"epoch {epoch}/{self.settings.epochs}", step, steps, f"{text} · {left} left")

    def epoch(self, epoch: int, loss: float, rate: float, spread: float, pace: Pace, kept: Mapping[str, float]) -> None:
        """How an epoch went, and what the keeping head predicts, if there is one."""
        record = {"kind": "epoch", "epoch": epoch, "loss": loss, "lr": rate, "spread": spread}
        self.run.log({**record, **({"kept": dict(kept)} if kept else {}), "time": pace._asdict()})
        speed, waiting, _ = pace
        numbers = {"loss": loss, "lr": rate, "spread": spread, "images per second": speed, "waiting for views": waiting}
        numbers |= {f"kept {name}": share for name, share in kept.items()}
        self.trackers({f"training/{name}": value for name, value in numbers.items()}, epoch)
        text = f"epoch {epoch}/{self.settings.epochs}: loss {loss:.4f} · lr {rate:.4f} · {speed:,.0f} images/s"
        self.display.line(f"{text} · waiting {waiting:.0%}", always=False)
        collapse = collapse_warning(spread)
        if collapse and (epoch == 2 or epoch % 10 == 0):  # not every time
            self.warn(epoch, f"epoch {epoch}: {collapse}")

    def search_progress(self, epoch: int, done: int, total: int, text: str) -> None:
        """Move the live line."""
        self.display.update(f"epoch {epoch}: search", done, total, text)

    def search(
        self,
        epoch: int,
        policy: AnyPolicy,
        report: SearchReport,
        objection: str | None,
        queue: PolicyQueue,
        queued: list[int],
        seconds: float,
    ) -> None:
        """Note a new policy: how it was learned, what it prefers, and which policies make the views now."""
        ops = policy.sample(4096, np.random.default_rng(0)).ops  # (n, V, S)
        shares = np.stack([(ops == op).mean(0) for op in range(len(policy.space.ops))], -1)  # (V, S, ops)
        weights = queue.weights.tolist() if queued else []
        self.run.log(
            {
                "kind": "search", "epoch": epoch, "refused": objection, **report.metrics,
                "operations": list(policy.space.ops), "shares": shares.round(4).tolist(),
                "queue": {"epochs": queued, "weights": weights}, "time": {"seconds": seconds},
            }
        )  # fmt: skip
        means = shares.mean((0, 1))
        numbers = {**report.numbers, "seconds": seconds}
        numbers |= {f"operation {op}": float(share) for op, share in zip(policy.space.ops, means, strict=True)}
        numbers |= {f"queue weight {i + 1}": weight for i, weight in enumerate(weights)}
        # it comes before the epoch
        self.trackers({f"search/{name}": value for name, value in numbers.items()}, epoch - 1)
        title = f"{report.title} for {duration(seconds)}:" if report.timed else report.title
        changes = [i for i in np.argsort(-means) if i != policy.space.identity]
        most = ", ".join(policy.space.ops[i] for i in changes[:4])
        preferred = f" · most: {most}" if report.changed else ""
        self.display.line(f"epoch {epoch}: {title} {report.text}{preferred}", always=not report.brief)

    def look(self, epoch: int, quality: dict[str, float], seconds: float) -> None:
        """How good the encoder is."""
        self.run.log({"kind": "look", "epoch": epoch, **quality, "time": {"seconds": seconds}})
        self.trackers({f"encoder/{name}": value for name, value in quality.items()}, epoch)
        shown = f"kNN {quality['knn']:.1f} % · " if "knn" in quality else ""
        self.display.line(f"epoch {epoch}: {shown}RankMe {quality['rankme']:.1f}")
        collapse = collapse_warning(quality["spread"], quality["rankme"])
        if collapse and epoch:  # an encoder that has not begun to learn may look like this
            self.warn(epoch, f"epoch {epoch}: {collapse}")

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
        s = self.settings
        if (s.views in VIEWS or s.views in FAMILIES) and not s.data.startswith(FROM_PYTHON):
            say(f"next     coviews choose {shlex.quote(s.data)}: which views are useful for these images?")

    def close(self) -> None:
        """Write out what is still in memory."""
        self.trackers.close()
