"""One seed, one run: initial weights and batches are the same on every device, and losses agree over the first steps."""

import os

import numpy as np
import pytest
import strata
from strata import nn
from strata.utils.data import DataLoader, TensorDataset

DEVICE = os.environ.get("STRATA_TEST_DEVICE", "vgpu")
F = nn.functional
STEPS, BATCH = 50, 4


def network():
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(4, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.2), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 10),
    )  # fmt: skip


def digits(dtype):
    """Classes that can be told apart: a bright pixel for each, in noise."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, STEPS * BATCH)
    images = rng.standard_normal((len(labels), 64)) * 0.3
    images[np.arange(len(labels)), labels * 6] += 3
    return TensorDataset(
        strata.tensor(images.tolist(), dtype=dtype).reshape(-1, 1, 8, 8), strata.tensor(labels.tolist())
    )


def train(device, dtype):
    strata.manual_seed(11)
    model = network().to(device, dtype)
    optimizer = strata.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for x, target in DataLoader(digits(dtype), batch_size=BATCH, shuffle=True, prefetch_device=device):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return np.array([loss.item() for loss in losses])


@pytest.mark.parametrize("dtype, tolerance", [(strata.float64, 1e-12), (strata.float32, 1e-5)], ids=str)
def test_losses_agree_over_the_first_fifty_steps(dtype, tolerance):
    here, there = train("cpu", dtype), train(DEVICE, dtype)
    assert len(here) == STEPS and here[-10:].mean() < 0.8 * here[:10].mean()
    np.testing.assert_allclose(there, here, rtol=tolerance, atol=tolerance)


def test_weights_drawn_on_a_device_are_those_of_the_cpu():
    strata.manual_seed(5)
    here = network().state_dict()
    strata.manual_seed(5)
    strata.set_default_device(DEVICE)
    try:
        there = network().state_dict()
    finally:
        strata.set_default_device(None)
    for name, value in here.items():
        assert there[name].device.type == DEVICE
        assert strata.equal(there[name].cpu(), value), name


def test_a_shuffled_pass_is_the_same_on_every_device():
    passes = []
    for device in ("cpu", DEVICE):
        strata.manual_seed(2)
        loader = DataLoader(digits(strata.float32), batch_size=BATCH, shuffle=True, prefetch_device=device)
        passes.append([target.tolist() for _ in range(2) for _, target in loader])
    assert passes[0] == passes[1] and passes[0][:STEPS] != passes[0][STEPS:]
