"""Tensors of random numbers on the device under test, and their values as NumPy arrays of float64."""

import os

import numpy as np
import strata

DEVICE = os.environ.get("STRATA_TEST_DEVICE", "vgpu")


def on_gpu(*shape, dtype=strata.float32, seed=0):
    values = np.random.default_rng(seed).standard_normal(shape) * 3
    return strata.tensor(values.tolist(), dtype=strata.float64).reshape(shape).to(dtype).to(DEVICE)


def host(t):
    return np.array(t.detach().cpu().double().tolist()).reshape(tuple(t.shape))
