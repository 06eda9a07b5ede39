"""What the programs share: numbers that every library draws alike, and the table of programs."""

import numpy as np
import torch

PROGRAMS = {}  # name: function that trains a little and returns its losses


def program(function):
    """Puts a program into the table."""
    PROGRAMS[function.__name__] = function
    return function


def numbers(*shape, seed=0, scale=1.0):
    """Normal random numbers, the same in every library."""
    return torch.tensor(np.random.RandomState(seed).randn(*shape) * scale, dtype=torch.float32)


def uniform(*shape, seed=0):
    """Random numbers between 0 and 1."""
    return torch.tensor(np.random.RandomState(seed).rand(*shape), dtype=torch.float32)


def classes(count, *shape, seed=0):
    """Random class indices."""
    return torch.tensor(np.random.RandomState(seed).randint(0, count, shape))


def filled(module, seed=0):
    """The module with weights that do not depend on the library's random numbers."""
    draw = np.random.RandomState(seed)
    with torch.no_grad():
        for name, p in module.named_parameters():
            if p.dim() > 1:
                fan = p[0].numel()
                p.copy_(torch.tensor(draw.randn(*p.shape) / fan**0.5, dtype=p.dtype))
            elif "bias" in name:
                p.zero_()
    return module


def fit(optimizer, loss_of, steps=5):
    """Losses of a few steps."""
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
