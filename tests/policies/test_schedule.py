"""Schedules: operations that change in the course of a training."""

import random
from collections import Counter

import numpy as np
import pytest

from coviews import CoviewsError
from coviews.policies.limits import view_limits
from coviews.policies.named import named_source
from coviews.policies.schedule import Schedule, ScheduledOperation, Stage

OPERATIONS = (
    ScheduledOperation("Rotate", 7, 3),
    ScheduledOperation("Solarize", 4, 9),
    ScheduledOperation("Rotate", 2, 9),
    ScheduledOperation("Invert", 5, 0),
)
VALUES = {("Rotate", 3): (-10.0, 10.0), ("Rotate", 9): (-30.0, 30.0), ("Solarize", 9): (0.0, 0.0)}


def drawn_slowly(draws):
    """What the paper's algorithm does for a view, an operation at a time."""
    count = draws.choices([0, 1, 2], [0.2, 0.3, 0.5])[0]
    steps = []
    for op, probability, strength in draws.sample(OPERATIONS, len(OPERATIONS)):
        if count == len(steps):
            break
        if draws.random() < probability / 10:
            steps.append((op, draws.choice(VALUES.get((op, strength), (0.0, 0.0)))))
    return tuple(steps + [("Identity", 0.0)] * (2 - len(steps)))


def test_operations_are_drawn_as_in_the_paper():
    n, draws = 20_000, random.Random(0)
    expected = Counter(drawn_slowly(draws) for _ in range(2 * n))
    drawn = Schedule((Stage(1, OPERATIONS),)).sample(n, np.random.default_rng(0))
    values = np.where(drawn.space.has_magnitude[drawn.ops], drawn.space.values[drawn.ops, drawn.levels], 0.0)
    rows = zip(drawn.ops.reshape(-1, 2).tolist(), np.round(values).reshape(-1, 2).tolist(), strict=True)
    observed = Counter(tuple(zip([drawn.space.ops[o] for o in ops], vs, strict=True)) for ops, vs in rows)
    assert set(observed) == set(expected)
    for key, count in expected.items():
        assert abs(observed[key] - count) < 6 * count**0.5, key


def test_the_stage_follows_the_training():
    """A training of another length stretches the stages."""
    stages = tuple(Stage(epochs, (ScheduledOperation(op, 10, 9),)) for op, epochs in [("Invert", 1), ("Cutout", 3)])
    schedule = Schedule(stages)
    of_epoch = [schedule.at((epoch - 1) / 8).stage.operations[0].op for epoch in range(1, 9)]
    assert of_epoch == ["Invert"] * 2 + ["Cutout"] * 6
    assert schedule.stage == stages[-1]  # where nobody says how far the training is
    names = {schedule.at(share).sample(50, np.random.default_rng(0)).texts()[0] for share in (0.0, 0.9)}
    assert len(names) == 2


def test_strength_0_changes_nothing_and_9_most():
    weakest, strongest = (
        Schedule(
            (Stage(1, tuple(ScheduledOperation(op, 10, strength) for op in ("Posterize", "Brightness", "Cutout"))),)
        )
        for strength in (0, 9)
    )
    drawn = weakest.sample(200, np.random.default_rng(0))
    neutral = {"Posterize": 8.0, "Brightness": 1.0, "Cutout": 0.0}
    for op, value in neutral.items():
        chosen = drawn.ops == drawn.space.index(op)
        assert chosen.any()
        assert drawn.space.values[drawn.ops, drawn.levels][chosen] == pytest.approx(value)
    drawn = strongest.sample(200, np.random.default_rng(0))
    values = drawn.space.values[drawn.ops, drawn.levels]
    assert set(values[drawn.ops == drawn.space.index("Brightness")].round(6)) == {0.1, 1.9}
    assert set(values[drawn.ops == drawn.space.index("Posterize")]) == {4.0}


def test_a_schedule_is_the_same_after_a_file(tmp_path):
    schedule = Schedule((Stage(2, OPERATIONS), Stage(3, OPERATIONS[:1])))
    schedule.save(tmp_path / "schedule.json")
    again = named_source(str(tmp_path / "schedule.json"))
    assert again.stages == schedule.stages
    for share in (0.0, 1.0):
        one, other = (s.at(share).sample(50, np.random.default_rng(1)).texts() for s in (schedule, again))
        assert one == other
    text = (tmp_path / "schedule.json").read_text()
    (tmp_path / "schedule.json").write_text(text.replace('["Rotate", 7, 3]', '["Rotate", 7, 12]'))
    with pytest.raises(CoviewsError, match="is wrong"):
        named_source(str(tmp_path / "schedule.json"))


def test_limits():
    limited = view_limits(forbid="Solarize,Invert", cap="Rotate=9").source(Schedule((Stage(1, OPERATIONS),)))
    drawn = limited.sample(500, np.random.default_rng(0))
    assert not {"Solarize", "Invert"} & set(drawn.space.ops)
    values = drawn.space.values[drawn.ops, drawn.levels][drawn.ops == drawn.space.index("Rotate")]
    assert set(np.abs(values).round(1)) == {3.0, 9.0}
