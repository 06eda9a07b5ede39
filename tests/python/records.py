"""Shared parts of the tests of this folder: records, their samples as Python calls, layouts, tolerances."""

import numpy as np
import strata
from strata import _C

RECORDS = _C._records()
PUBLIC = [r for r in RECORDS if not r["internal"]]
FLOATS = (strata.float64, strata.float32, strata.float16, strata.bfloat16)
COMPLEX = (strata.complex128, strata.complex64)
TOLERANCE = {
    strata.complex128: (1e-7, 1e-7),
    strata.complex64: (2e-5, 2e-5),
    strata.float64: (1e-7, 1e-7),
    strata.float32: (2e-5, 2e-5),
    strata.float16: (2e-2, 5e-3),
    strata.bfloat16: (6e-2, 4e-2),
}


def label(record):
    return record["name"] + ("." + record["overload"] if record["overload"] else "")


def callable_of(record):
    return _C.ops[record["name"]]


def samples(record, dtype, seed=0):
    """The record's sample calls for a dtype: pairs of the text and the arguments by name. Complex numbers are not rounded."""
    texts = [t for t in record["samples"] if dtype.is_floating_point or dtype.is_complex or "~" not in t[:2]]
    if dtype.is_complex:
        texts = [t for t in texts if "rounding_mode" not in t]
    return [(text, _C._sample(record["index"], text, dtype, seed)) for text in texts]


def call(record, arguments):
    """The results of the op; for an op that changes its arguments and returns nothing, the changed arguments."""
    if not record["schema"].endswith("-> ()"):
        return callable_of(record)(**arguments)
    before = [t.clone() for t in tensors(arguments)]
    callable_of(record)(**arguments)
    changed = map_tensors(lambda t: t.clone(), arguments)
    for t, old in zip(tensors(arguments), before, strict=True):
        t.copy_(old)
    return changed


def tensors(x):
    """Every tensor inside nested tuples, lists and dicts."""
    if isinstance(x, strata.Tensor):
        return [x]
    if isinstance(x, dict):
        x = list(x.values())
    return [t for item in x for t in tensors(item)] if isinstance(x, (tuple, list)) else []


def map_tensors(f, x):
    if isinstance(x, strata.Tensor):
        return f(x)
    if isinstance(x, dict):
        return {k: map_tensors(f, v) for k, v in x.items()}
    if isinstance(x, (tuple, list)):
        return (
            type(x)(map_tensors(f, v) for v in x) if type(x) in (tuple, list) else tuple(map_tensors(f, v) for v in x)
        )
    return x


def to_numpy(t):
    t = t.detach()
    return (
        t.to(strata.float32) if t.dtype in (strata.bfloat16, strata.float8_e4m3fn, strata.float8_e5m2) else t
    ).numpy()


def assert_same(got, want, dtype, what):
    """Shapes and dtypes equal, values within the dtype's tolerance (exactly for the rest)."""
    assert tuple(got.shape) == tuple(want.shape), f"{what}: shape {tuple(got.shape)}, expected {tuple(want.shape)}"
    wide = np.complex128 if got.is_complex() else np.float64
    a, b = to_numpy(got).astype(wide), to_numpy(want).astype(wide)
    tight = [TOLERANCE[d] for d in (dtype, got.dtype) if d in TOLERANCE]
    rtol, atol = max(tight) if tight and (got.is_floating_point() or got.is_complex()) else (0, 0)
    np.testing.assert_allclose(
        a, b, rtol=rtol, atol=atol * max(1.0, np.abs(b[np.isfinite(b)]).max(initial=0)), equal_nan=True, err_msg=what
    )


class reference_kernels:
    """Runs the plain kernel at the end of each op's list."""

    def __enter__(self):
        self.before = _C._set_reference_only(True)

    def __exit__(self, *_):
        _C._set_reference_only(self.before)
