"""argmax, argmin, max and min with indices on a device: the first of equal extremes, NaN before numbers, any shape and order."""

import os

import numpy as np
import pytest
import strata

DEVICE = os.environ.get("STRATA_TEST_DEVICE", "vgpu")
SHAPES = (
    (1,),
    (5,),
    (100003,),
    (8, 64),
    (3, 100),
    (64, 8),
    (200, 128),
    (1000, 72),
    (2, 3, 50),
    (40, 256, 8),
    (257, 64),
)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16", "int64", "int32", "int8", "uint8"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("special", [False, True], ids=["numbers", "nan"])
def test_extremes(shape, dtype, special):
    if special and "float" not in dtype:
        special = False  # integers have no NaN: the same numbers with another seed
    rng = np.random.default_rng(len(shape) + special)
    values = rng.integers(0, 9, shape).astype(float)
    if special:
        values.reshape(-1)[rng.integers(0, values.size, 2)] = np.nan
    x = strata.tensor(values).to(getattr(strata, dtype))
    order = np.where(np.isnan(values), np.inf, values), np.where(np.isnan(values), -np.inf, values)
    for transposed in (False, True):
        d = x.to(DEVICE)
        wanted = order
        if transposed:
            d, wanted = d.transpose(0, -1), [w.swapaxes(0, -1) for w in order]
        for dim in (None, *range(x.dim())):
            arguments = () if dim is None else (dim,)
            assert d.argmax(*arguments).cpu().tolist() == np.argmax(wanted[0], dim).tolist(), dim
            assert d.argmin(*arguments).cpu().tolist() == np.argmin(wanted[1], dim).tolist(), dim
            if dim is None:
                continue
            for found, places in ((d.max(dim), np.argmax(wanted[0], dim)), (d.min(dim), np.argmin(wanted[1], dim))):
                assert found.indices.cpu().tolist() == places.tolist(), dim
                taken = np.take_along_axis(
                    values.swapaxes(0, -1) if transposed else values, np.expand_dims(places, dim), dim
                ).squeeze(dim)
                assert np.array_equal(np.array(found.values.cpu().double().tolist()), taken, equal_nan=True), dim
