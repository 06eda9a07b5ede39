"""Comparisons for tests."""

from . import _C

_TOLERANCES = {"float64": (1e-7, 1e-7), "float32": (1.3e-6, 1e-5), "float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5)}


def assert_close(actual, expected, *, rtol=None, atol=None, equal_nan=False, check_dtype=True, msg=None, **_):
    """Raises AssertionError unless the tensors (numbers, sequences) agree to the tolerance of their dtype."""
    if isinstance(actual, (list, tuple)):
        assert len(actual) == len(expected), f"sequences have {len(actual)} and {len(expected)} items"
        for a, e in zip(actual, expected, strict=True):
            assert_close(a, e, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=check_dtype, msg=msg)
        return
    a, e = (x if isinstance(x, _C.Tensor) else _C.tensor(x) for x in (actual, expected))
    if tuple(a.shape) != tuple(e.shape):
        raise AssertionError(
            msg or f"The values for attribute 'shape' do not match: {list(a.shape)} != {list(e.shape)}."
        )
    if check_dtype and a.dtype is not e.dtype and isinstance(actual, _C.Tensor) and isinstance(expected, _C.Tensor):
        raise AssertionError(msg or f"The values for attribute 'dtype' do not match: {a.dtype} != {e.dtype}.")
    pairs = [_TOLERANCES.get(str(t.dtype).split(".")[-1], (0.0, 0.0)) for t in (a, e)]
    rtol = max(p[0] for p in pairs) if rtol is None else rtol
    atol = max(p[1] for p in pairs) if atol is None else atol
    a, e = a.detach().to(_C.float64), e.detach().to(_C.float64)
    good = _C.ops["isclose"](a, e, rtol=rtol, atol=atol, equal_nan=equal_nan)
    if bool(good.all()):
        return
    wrong = int((~good).sum())
    worst = float((a - e).abs().nan_to_num(nan=float("inf")).max())
    raise AssertionError(
        msg
        or f"Tensor-likes are not close!\n\nMismatched elements: {wrong} / {a.numel()}\nGreatest absolute difference: {worst} (up to {atol} allowed, rtol {rtol})"
    )
