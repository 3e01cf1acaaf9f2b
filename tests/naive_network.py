"""The policy network once more, as slow and as plain as can be: one image, one step at a time, in torch."""

import math

import torch


def naive_weights(network):
    """The network's weights as 64-bit leaves that collect gradients."""
    return {k: torch.tensor(w, dtype=torch.float64, requires_grad=True) for k, w in network.split(network.flat).items()}


def naive_evaluate(network, w, ops, levels):
    """(log_prob, entropy), each (n,), by the definition."""
    log_probs, entropies = [], []
    for image_ops, image_levels in zip(ops.tolist(), levels.tolist(), strict=True):
        views = [list(zip(o, k, strict=True)) for o, k in zip(image_ops, image_levels, strict=True)]
        sequences = [[step for view in views for step in view]] if network.cooperative else views
        log_prob, entropy = 0.0, 0.0
        for sequence in sequences:
            hidden = cell = torch.zeros(network.settings.hidden, dtype=torch.float64)
            previous = (network.n_ops, network.n_levels)
            for op, level in sequence:
                counts = bool(network.has_magnitude[op]) or not network.settings.masked
                level = level if counts else 0
                read = torch.cat([w["op_embedding"][previous[0]], w["level_embedding"][previous[1]]])
                i, f, o, g = (read @ w["input"] + w["bias"] + hidden @ w["recurrent"]).chunk(4)
                cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
                hidden = torch.sigmoid(o) * torch.tanh(cell)
                for_level = hidden + w["drawn_op"][op] if network.settings.conditioned else hidden
                op_p = torch.softmax(hidden @ w["op_head"] + w["op_bias"], 0)
                level_p = torch.softmax(for_level @ w["level_head"] + w["level_bias"], 0)
                log_prob = log_prob + op_p[op].log() + (level_p[level].log() if counts else 0.0)
                entropy = entropy - (op_p * op_p.log()).sum() - ((level_p * level_p.log()).sum() if counts else 0.0)
                previous = (op, level)
        log_probs.append(log_prob)
        entropies.append(entropy / (network.views * network.steps))
    return torch.stack(log_probs), torch.stack(entropies)


def loud(network, generator, scale=1.0):
    """Make every choice depend strongly on all that it can depend on, and compute in 64 bits."""
    network = network.astype("float64")
    network.flat += scale * generator.standard_normal(len(network.flat)) / math.sqrt(math.sqrt(network.settings.hidden))
    return network
