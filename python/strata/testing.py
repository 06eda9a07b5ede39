"""Comparisons and random tensors for tests."""

from . import _C

_TOLERANCES = {"float64": (1e-7, 1e-7), "float32": (1.3e-6, 1e-5), "float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5)}


def _text(msg, generated):
    return generated if msg is None else msg(generated) if callable(msg) else msg


def _differ(what, actual, expected, msg):
    if actual != expected:
        text = f"The values for attribute '{what}' do not match: {actual} != {expected}."
        raise AssertionError(_text(msg, text))


def _comparable(a, e):
    """Both in a type that holds their values exactly."""
    if a.is_complex() or e.is_complex():
        return a.to(_C.complex128), e.to(_C.complex128)
    if a.is_floating_point() or e.is_floating_point():
        return a.to(_C.float64), e.to(_C.float64)
    return a.to(_C.int64), e.to(_C.int64)


def assert_close(
    actual,
    expected,
    *,
    allow_subclasses=True,
    rtol=None,
    atol=None,
    equal_nan=False,
    check_device=True,
    check_dtype=True,
    check_layout=True,
    check_stride=False,
    msg=None,
):
    """Raises AssertionError unless the tensors, arrays or numbers, also in sequences and dicts, agree to the tolerance of their dtype."""
    options = dict(rtol=rtol, atol=atol, equal_nan=equal_nan, check_device=check_device, check_dtype=check_dtype)
    options.update(check_layout=check_layout, check_stride=check_stride, msg=msg)
    if isinstance(actual, dict) and isinstance(expected, dict):
        if actual.keys() != expected.keys():
            text = f"The keys of the mappings do not match: {sorted(actual, key=str)} and {sorted(expected, key=str)}"
            raise AssertionError(_text(msg, text))
        for key in actual:
            assert_close(actual[key], expected[key], **options)
        return
    if isinstance(actual, (list, tuple)):
        if not isinstance(expected, (list, tuple)) or len(actual) != len(expected):
            found = len(expected) if isinstance(expected, (list, tuple)) else type(expected).__name__
            raise AssertionError(_text(msg, f"The length of the sequences mismatch: {len(actual)} != {found}"))
        for a, e in zip(actual, expected, strict=True):
            assert_close(a, e, **options)
        return
    if (rtol is None) != (atol is None):
        given, other = ("atol", "rtol") if rtol is None else ("rtol", "atol")
        raise ValueError(
            f"'rtol' and 'atol' must both be specified or both unspecified, but got {given} and no {other}."
        )
    a, e = (x.detach() if isinstance(x, _C.Tensor) else _C.tensor(x) for x in (actual, expected))
    both = isinstance(actual, _C.Tensor) and isinstance(expected, _C.Tensor)
    _differ("shape", tuple(a.shape), tuple(e.shape), msg)
    if both and check_layout:
        _differ("layout", a.layout, e.layout, msg)
    if a.is_sparse or a.layout != "strided":
        a = a.to_dense()
    if e.is_sparse or e.layout != "strided":
        e = e.to_dense()
    if both and check_device:
        _differ("device", str(a.device), str(e.device), msg)
    if both and check_dtype:
        _differ("dtype", a.dtype, e.dtype, msg)
    if both and check_stride:
        _differ("stride()", tuple(a.stride()), tuple(e.stride()), msg)
    pairs = [_TOLERANCES.get(str(t.dtype).split(".")[-1], (0.0, 0.0)) for t in (a, e)]
    rtol = max(p[0] for p in pairs) if rtol is None else rtol
    atol = max(p[1] for p in pairs) if atol is None else atol
    a, e = _comparable(a, e.to(a.device))
    exact = rtol == 0 and atol == 0 and not equal_nan
    good = a == e if exact else _C.ops["isclose"](a, e, rtol=rtol, atol=atol, equal_nan=equal_nan)
    if bool(good.all()):
        return
    if a.numel() == 1 and not both:
        kind = "Booleans" if isinstance(actual, bool) else "Scalars"
        text = f"{kind} are not close!\n\nExpected {expected} but got {actual}."
        raise AssertionError(_text(msg, text))
    wrong = int((~good).sum())
    worst = float((a - e).abs().to(_C.float64).nan_to_num(nan=float("inf")).max())
    text = (
        f"Tensor-likes are not close!\n\nMismatched elements: {wrong} / {a.numel()} ({100 * wrong / a.numel():.1f}%)\n"
        f"Greatest absolute difference: {worst} (up to {atol} allowed, rtol {rtol})"
    )
    raise AssertionError(_text(msg, text))


def _limits(dtype, low, high):
    """The range of values when the caller gives none."""
    if dtype is _C.bool:
        return 0 if low is None else low, 2 if high is None else high
    bound = 9
    if not (dtype.is_floating_point or dtype.is_complex):
        least = 0 if not dtype.is_signed else -bound
        return least if low is None else int(low), bound + 1 if high is None else int(high)
    return -bound if low is None else low, bound if high is None else high


def make_tensor(
    *shape,
    dtype,
    device="cpu",
    low=None,
    high=None,
    requires_grad=False,
    noncontiguous=False,
    exclude_zero=False,
    memory_format=None,
):
    """A tensor of uniform random values in [low, high): by default [-9, 9), [-9, 10) for integers, 0 and 1 for bool.

    exclude_zero: zeros become the smallest positive value. noncontiguous: it is a strided part of other memory.
    """
    from . import finfo

    size = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
    least, most = _limits(dtype, low, high)
    if not least < most:
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    spread = (*size[:-1], 2 * size[-1]) if noncontiguous and size else size
    if dtype.is_floating_point or dtype.is_complex:
        exact = dtype if dtype in (_C.float64, _C.complex64, _C.complex128) else _C.float32
        made = _C.ops["empty"](spread, dtype=exact, device=device).uniform_(least, most).to(dtype)
        smallest = finfo(dtype).tiny if dtype.is_floating_point else finfo(_C.float32).tiny
    else:
        made, smallest = _C.ops["randint"](least, most, spread, device=device).to(dtype), 1
    if exclude_zero:
        made = made.masked_fill(made == 0, smallest)
    if noncontiguous and size:
        made = made[..., ::2]
    if memory_format is not None:
        made = made.contiguous(memory_format=memory_format)
    return made.requires_grad_(requires_grad) if requires_grad else made
