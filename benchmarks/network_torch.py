"""The policy network and PPO's update in torch: the twin that search.py times against the NumPy ones."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn

from coviews.policies.learned import Policy
from coviews.policies.network import PolicyNetwork
from coviews.policies.subpolicy import Subpolicies
from coviews.searching.ppo import PPO, PPOSettings, Scores


class TorchNetwork(nn.Module):
    """The same distribution as a `PolicyNetwork`, starting from its weights."""

    def __init__(self, network: PolicyNetwork) -> None:
        super().__init__()
        settings = network.settings
        self.n_ops, self.n_levels = network.n_ops, network.n_levels
        self.views, self.steps = network.views, network.steps
        self.length = self.views * self.steps if network.cooperative else self.steps  # T, of one sequence
        self.op_embedding = nn.Embedding(self.n_ops + 1, settings.embedding)  # the last row stands for the start
        self.level_embedding = nn.Embedding(self.n_levels + 1, settings.embedding)
        self.lstm = nn.LSTM(2 * settings.embedding, settings.hidden, batch_first=True)
        self.op_head = nn.Linear(settings.hidden, self.n_ops)
        self.level_head = nn.Linear(settings.hidden, self.n_levels)
        self.drawn_op = nn.Embedding(self.n_ops, settings.hidden) if settings.conditioned else None
        counts = network.has_magnitude | (not settings.masked)
        self.register_buffer("counts", torch.from_numpy(counts.astype(np.int64)))  # (n_ops,), whose level counts
        self._copy(network)

    @torch.no_grad()
    def _copy(self, network: PolicyNetwork) -> None:
        w = {name: torch.from_numpy(weight.astype(np.float32)) for name, weight in network.split(network.flat).items()}

        def torch_order(weight: Tensor) -> Tensor:
            """The gates i, f, o, g along the last axis -> i, f, g, o along the first."""
            i, f, o, g = weight.chunk(4, -1)
            return torch.cat([i, f, g, o], -1).T if weight.ndim == 2 else torch.cat([i, f, g, o])

        self.op_embedding.weight.copy_(w["op_embedding"])
        self.level_embedding.weight.copy_(w["level_embedding"])
        self.lstm.weight_ih_l0.copy_(torch_order(w["input"]))
        self.lstm.weight_hh_l0.copy_(torch_order(w["recurrent"]))
        self.lstm.bias_ih_l0.copy_(torch_order(w["bias"]))
        self.lstm.bias_hh_l0.zero_().requires_grad_(False)  # one bias is enough
        for name, head in (("op", self.op_head), ("level", self.level_head)):
            head.weight.copy_(w[f"{name}_head"].T)
            head.bias.copy_(w[f"{name}_bias"])
        if self.drawn_op is not None:
            self.drawn_op.weight.copy_(w["drawn_op"])

    def _inputs(self, ops: Tensor, levels: Tensor) -> Tensor:
        return torch.cat([self.op_embedding(ops), self.level_embedding(levels)], -1)

    def _level_logits(self, hidden: Tensor, ops: Tensor) -> Tensor:
        return self.level_head(hidden if self.drawn_op is None else hidden + self.drawn_op(ops))

    @torch.no_grad()
    def sample(self, n: int, generator: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Draw operations and levels, each (n, V, S), from the same random numbers as `PolicyNetwork.sample`."""
        uniform = torch.from_numpy(generator.random((n, self.views * self.steps, 2)).reshape(-1, self.length, 2))
        ops, levels = torch.empty((2, *uniform.shape[:2]), dtype=torch.int64)
        op, level = torch.full((len(ops),), self.n_ops), torch.full((len(ops),), self.n_levels)
        state = 2 * (torch.zeros(len(ops), self.lstm.hidden_size),)
        for t in range(self.length):
            state = torch.lstm_cell(self._inputs(op, level), state, *self.lstm.all_weights[0])
            op = _draw(self.op_head(state[0]), uniform[:, t, 0])
            level = _draw(self._level_logits(state[0], op), uniform[:, t, 1]) * self.counts[op]
            ops[:, t], levels[:, t] = op, level
        return ops.reshape(n, self.views, self.steps), levels.reshape(n, self.views, self.steps)

    def forward(self, ops: Tensor, levels: Tensor) -> tuple[Tensor, Tensor]:
        """The log-probability and the entropy (n,) of operations and levels, each (n, V, S)."""
        n = len(ops)
        ops = ops.reshape(-1, self.length)
        counts = self.counts[ops]
        levels = levels.reshape(-1, self.length) * counts
        before = self._inputs(_shifted(ops, self.n_ops), _shifted(levels, self.n_levels))
        hidden, _ = self.lstm(before)
        op_log = self.op_head(hidden).log_softmax(-1)
        level_log = self._level_logits(hidden, ops).log_softmax(-1)
        log_prob = op_log.gather(-1, ops[..., None])[..., 0] + counts * level_log.gather(-1, levels[..., None])[..., 0]
        entropy = -(op_log.exp() * op_log).sum(-1) - counts * (level_log.exp() * level_log).sum(-1)
        return log_prob.reshape(n, -1).sum(1), entropy.reshape(n, -1).mean(1)


def _shifted(tokens: Tensor, start: int) -> Tensor:
    """(m, T): the token before each one."""
    return torch.cat([torch.full_like(tokens[:, :1], start), tokens[:, :-1]], 1)


def _draw(logits: Tensor, uniform: Tensor) -> Tensor:
    cumulative = logits.softmax(-1).double().cumsum(-1)
    return (cumulative[:, :-1] < uniform[:, None] * cumulative[:, -1:]).sum(1)


@contextmanager
def torch_threads(n: int | None) -> Iterator[None]:
    """Let torch compute on n threads; None leaves their number as it is."""
    before = torch.get_num_threads()
    torch.set_num_threads(n or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class TorchPPO:
    """`PPO` with a `TorchNetwork`, autograd and torch's Adam.

    threads: of the policy's own part; None for as many as the encoder has.
    """

    def __init__(
        self,
        policy: Policy,
        score: Callable[[Subpolicies], Scores],
        generator: np.random.Generator,
        settings: PPOSettings,
        threads: int | None = None,
    ) -> None:
        self.policy, self.score, self.generator, self.settings = policy, score, generator, settings
        self.threads = threads
        self.network = TorchNetwork(policy.network)
        weights = [w for w in self.network.parameters() if w.requires_grad]
        self.optimizer = torch.optim.Adam(weights, settings.learning_rate, fused=True)  # the fastest of its versions

    def __iter__(self) -> Iterator[tuple[float, float]]:
        """The mean reward and the KL of each iteration."""
        for _ in range(self.settings.iterations):
            with torch_threads(self.threads):
                ops, levels = self.network.sample(self.settings.samples, self.generator)
            scores = self.score(Subpolicies(self.policy.space, ops.numpy(), levels.numpy(), self.policy.p))
            with torch_threads(self.threads):
                kl = self._update(ops, levels, scores.rewards)
            yield float(scores.rewards.mean()), kl

    @torch.enable_grad()  # the encoder is scored without
    def _update(self, ops: Tensor, levels: Tensor, rewards: np.ndarray) -> float:
        s = self.settings
        with torch.no_grad():
            old, _ = self.network(ops, levels)
        advantage = torch.from_numpy(((rewards - rewards.mean()) / rewards.std()).astype(np.float32))
        for _ in range(s.epochs):
            order = torch.from_numpy(self.generator.permutation(s.samples))
            for batch in order.split(s.minibatch):
                log_prob, entropy = self.network(ops[batch], levels[batch])
                ratio, gain = torch.exp(log_prob - old[batch]), advantage[batch]
                clipped = ratio.clamp(1 - s.clip, 1 + s.clip)
                loss = -torch.minimum(ratio * gain, clipped * gain).mean() - s.entropy * entropy.mean()
                self.optimizer.zero_grad()
                loss.backward()
                if s.gradient_clip is not None:
                    nn.utils.clip_grad_norm_(self.network.parameters(), s.gradient_clip)
                self.optimizer.step()
        with torch.no_grad():
            change = self.network(ops, levels)[0] - old
        return float((change.exp() - 1 - change).mean())


def check_twin(policy: Policy, settings: PPOSettings) -> None:
    """The twin has the same draws, probabilities and entropies, and the same ones after an iteration of PPO."""
    policy = policy.copy()
    generators = np.random.default_rng(1), np.random.default_rng(1)

    def score(subpolicies: Subpolicies) -> Scores:
        hardness = subpolicies.ops.sum((1, 2)) + 0.3 * subpolicies.levels[:, 0, 0]
        return Scores(hardness, np.zeros(len(subpolicies), bool))

    numpy_ppo = PPO(policy, score, generators[0], settings)
    torch_ppo = TorchPPO(policy, score, generators[1], settings)
    ops, levels = policy.network.sample(64, np.random.default_rng(2))
    twin_ops, twin_levels = torch_ppo.network.sample(64, np.random.default_rng(2))
    assert np.array_equal(ops, twin_ops)
    assert np.array_equal(levels, twin_levels)

    def agree(tolerance: float) -> None:
        evaluation = policy.network.evaluate(ops, levels)
        with torch.no_grad():
            log_prob, entropy = torch_ppo.network(twin_ops, twin_levels)
        np.testing.assert_allclose(evaluation.log_prob, log_prob, rtol=0, atol=tolerance)
        np.testing.assert_allclose(evaluation.entropy, entropy, rtol=0, atol=tolerance)

    agree(1e-5)
    before = policy.network.evaluate(ops, levels).log_prob
    next(iter(numpy_ppo))
    next(iter(torch_ppo))
    agree(1e-3)
    assert np.abs(policy.network.evaluate(ops, levels).log_prob - before).max() > 0.01
