"""Checks that a custom op does what its registrations say."""

from .. import _C, autograd
from ._custom_op import CustomOpDef, _as_tuple, each_tensor, find


class OpCheckError(AssertionError):
    """A custom op does something else than its schema, shape rule or gradient says."""


def _mapped(value, change):
    """The same arguments with other tensors."""
    if isinstance(value, (list, tuple)):
        return type(value)(_mapped(v, change) for v in value)
    return change(value) if isinstance(value, _C.Tensor) else value


def _copied(t):
    with_layout = _C.ops["empty_strided"](tuple(t.shape), t.stride(), dtype=t.dtype, device=t.device)
    before = _C._set_grad_enabled(False)
    try:
        return with_layout.copy_(t).requires_grad_(t.requires_grad)
    finally:
        _C._set_grad_enabled(before)


def _bits(t):
    return t.detach().cpu().contiguous().flatten().view(_C.uint8).tolist() if t.numel() else []


def _layout(t):
    """What a shape rule must get right; the strides of dimensions of size 1 mean nothing."""
    steps = [step for size, step in zip(t.shape, t.stride(), strict=True) if size > 1] if t.numel() else []
    return tuple(t.shape), str(t.dtype), tuple(steps)


def _check_schema(op, values):
    """The op writes to the tensors that its schema says, and to no others."""
    copies = _mapped(values, _copied)
    before = [[_bits(t) for t in each_tensor((v,))] for v in copies]
    versions = [[t._version for t in each_tensor((v,))] for v in copies]
    _without_recording(op, copies)
    for p, value, bits, counts in zip(op._schema.parameters, copies, before, versions, strict=True):
        tensors = list(each_tensor((value,)))
        if not p.written and ([_bits(t) for t in tensors] != bits or [t._version for t in tensors] != counts):
            raise OpCheckError(
                f"{op._qualname} wrote to its argument {p.name!r}, which is not in mutates_args and not Tensor(a!) in the schema"
            )


def _check_fake(op, values):
    """The rule for meta gives the shapes, dtypes and strides of the real results."""
    real = list(each_tensor(_as_tuple(_without_recording(op, _mapped(values, _copied)))))
    fake = list(each_tensor(_as_tuple(_without_recording(op, _mapped(values, lambda t: t.detach().to("meta"))))))
    if len(real) != len(fake):
        raise OpCheckError(f"{op._qualname} returned {len(real)} tensors, its rule for meta {len(fake)}")
    for i, (r, f) in enumerate(zip(real, fake, strict=True)):
        if _layout(r) != _layout(f):
            raise OpCheckError(
                f"{op._qualname}: result {i} has shape, dtype and strides {_layout(r)}, but the rule for meta says {_layout(f)}"
            )


def _check_registration(op, values):
    """Inputs that require a gradient have one."""
    wanted = [
        p.name
        for p, v in zip(op._schema.parameters, values, strict=True)
        if any(t.requires_grad for t in each_tensor((v,)))
    ]
    if wanted and op._backward is None:
        raise OpCheckError(
            f"{op._qualname} has no gradient, but {', '.join(wanted)} requires one; use register_autograd"
        )


def _check_gradients(op, values):
    """The gradients of float64 inputs match finite differences."""
    if op._backward is None:
        return
    copies = _mapped(values, lambda t: t.detach().clone().contiguous().requires_grad_(t.requires_grad))
    targets = [t for t in each_tensor(copies) if t.requires_grad and t.dtype is _C.float64]
    if not targets:
        return

    def run(*_):
        return [t for t in each_tensor(_as_tuple(_called(op, copies))) if t.dtype.is_floating_point]

    try:
        autograd.gradcheck(run, targets)
    except RuntimeError as error:
        raise OpCheckError(f"{op._qualname}: {error}") from error


def _called(op, values):
    count = len(op._schema.positional)
    return op(*values[:count], **op._keywords(values))


def _without_recording(op, values):
    before = _C._set_grad_enabled(False)
    try:
        return _called(op, values)
    finally:
        _C._set_grad_enabled(before)


_CHECKS = {
    "test_schema": _check_schema,
    "test_autograd_registration": _check_registration,
    "test_faketensor": _check_fake,
    "test_gradients": _check_gradients,
}


def opcheck(op, args, kwargs=None, *, test_utils=tuple(_CHECKS), raise_exception=True):
    """Runs checks of a custom op with sample arguments; returns "SUCCESS" or the error of each.

    test_schema: it writes only to what its schema says. test_autograd_registration: inputs that require a gradient have
    one. test_faketensor: the rule for meta gives the real shapes. test_gradients: gradients of float64 inputs match
    finite differences.
    """
    op = find(op, "opcheck") if not isinstance(op, CustomOpDef) else op
    names = [test_utils] if isinstance(test_utils, str) else list(test_utils)
    for name in names:
        if name not in _CHECKS:
            raise ValueError(f"opcheck: there is no check {name!r}; there are {', '.join(_CHECKS)}")
    values = op._schema.bind(op._qualname, tuple(args), dict(kwargs or {}))
    found = {}
    for name in names:
        try:
            _CHECKS[name](op, values)
            found[name] = "SUCCESS"
        except Exception as error:  # of the op too
            if raise_exception:
                raise error if isinstance(error, OpCheckError) else OpCheckError(f"{name}: {error}") from error
            found[name] = error
    return found
