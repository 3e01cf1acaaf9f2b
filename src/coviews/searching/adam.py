"""Adam on one row of weights."""

import math
from typing import Any

import numpy as np

from coviews.policies.lstm import Array

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


class Adam:
    """The optimiser with its usual constants; it changes the weights in place."""

    def __init__(self, weights: Array, learning_rate: float) -> None:
        self.weights, self.learning_rate = weights, learning_rate
        # decayed sums, not means: the factors between the two are numbers and go into the step
        self.sum, self.sum_of_squares = np.zeros((2, len(weights)), weights.dtype)
        self.steps = 0

    def step(self, gradient: Array) -> None:
        """One step against the gradient."""
        self.steps += 1
        self.sum *= BETA1
        self.sum += gradient
        squares = gradient * gradient
        self.sum_of_squares *= BETA2
        self.sum_of_squares += squares
        mean = (1 - BETA1) / (1 - BETA1**self.steps)
        root_mean = math.sqrt((1 - BETA2) / (1 - BETA2**self.steps))
        move = np.sqrt(self.sum_of_squares, out=squares)
        move += EPSILON / root_mean
        np.divide(self.sum, move, out=move)
        move *= self.learning_rate * mean / root_mean
        self.weights -= move

    def state_dict(self) -> dict[str, Any]:
        """A copy of what the next steps depend on, besides the weights."""
        return {"sum": self.sum.copy(), "sum_of_squares": self.sum_of_squares.copy(), "steps": self.steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue as the optimiser would that gave this state."""
        self.sum[:], self.sum_of_squares[:] = state["sum"], state["sum_of_squares"]
        self.steps = int(state["steps"])
