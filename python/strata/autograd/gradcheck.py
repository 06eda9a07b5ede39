"""Compares gradients with finite differences."""

from .. import _C


class GradcheckError(RuntimeError):
    """An analytical gradient differs from the numerical one."""


def _tensors(x):
    return (
        [x] if isinstance(x, _C.Tensor) else [t for i in x for t in _tensors(i)] if isinstance(x, (tuple, list)) else []
    )


def _differentiable(out):
    return [t for t in _tensors(out) if t.dtype in (_C.float64, _C.complex128) and t.requires_grad]


def _numbers(t):
    """The elements as real numbers: a complex one counts as two."""
    return _C.ops["view_as_real"](t) if t.is_complex() else t


def _numerical(fn, inputs, target, outputs, eps):
    """The Jacobian of every output with respect to one input, as lists of columns."""
    if not target.is_contiguous():
        raise ValueError("gradcheck: inputs must be contiguous")
    flat = _numbers(target.detach()).view(-1)
    columns = [[] for _ in outputs]
    for i in range(flat.numel()):
        keep = flat[i].item()
        sides = []
        for h in (eps, -eps):
            flat[i] = keep + h
            sides.append([t.detach().clone() for t in _differentiable(fn(*inputs))])
        flat[i] = keep
        for column, up, down in zip(columns, *sides, strict=False):
            column.append(_numbers((up - down) / (2 * eps)).reshape(-1).tolist() if up.numel() else [])
    return columns


def _analytical(fn, inputs, target, index):
    # For a complex output, the seeds 1 and i give the derivatives of its real and of its imaginary part.
    out = _differentiable(fn(*inputs))[index]
    rows = []
    for i in range(_numbers(out).numel()):
        seed = out.detach().new_zeros(out.shape)
        _numbers(seed).view(-1)[i] = 1
        grad = _C._grad((out,), (target,), (seed,), True, False, True)[0]
        rows.append([0.0] * _numbers(target).numel() if grad is None else _numbers(grad).reshape(-1).tolist())
    return rows


def gradcheck(func, inputs, *, eps=1e-6, atol=1e-5, rtol=1e-3, raise_exception=True, **_):
    """Whether the gradients of func match finite differences for every float64 and complex128 input that requires a
    gradient."""
    inputs = (inputs,) if isinstance(inputs, _C.Tensor) else tuple(inputs)
    targets = [t for t in _tensors(inputs) if t.requires_grad]
    if not targets:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of the them have requires_grad=True."
        )
    outputs = _differentiable(func(*inputs))
    for which, target in enumerate(targets):
        numerical = _numerical(func, inputs, target, outputs, eps)
        for index in range(len(outputs)):
            rows = _analytical(func, inputs, target, index)
            for i, column in enumerate(numerical[index]):
                for o, n in enumerate(column):
                    a = rows[o][i]
                    if not abs(a - n) <= atol + rtol * abs(n):
                        if not raise_exception:
                            return False
                        raise GradcheckError(
                            f"Jacobian mismatch for output {index} with respect to input {which}: d out[{o}] / d in[{i}] is {a} analytically, {n} numerically"
                        )
    return True


def gradgradcheck(func, inputs, grad_outputs=None, *, eps=1e-6, atol=1e-5, rtol=1e-3, raise_exception=True, **_):
    """gradcheck of the gradients of func."""
    inputs = (inputs,) if isinstance(inputs, _C.Tensor) else tuple(inputs)
    outputs = _differentiable(func(*inputs))
    if grad_outputs is None:
        grad_outputs = [
            (o.detach() * 0.5 + 0.25 + o.detach().abs().cos()).contiguous().requires_grad_() for o in outputs
        ]

    def first(*args):
        values, seeds = args[: len(inputs)], args[len(inputs) :]
        outs = _differentiable(func(*values))
        wanted = [t for t in _tensors(values) if t.requires_grad]
        grads = _C._grad(tuple(outs), tuple(wanted), tuple(seeds), True, True, True)
        return tuple(g for g in grads if g is not None and g.requires_grad)

    if not first(*inputs, *grad_outputs):
        return True
    return gradcheck(first, (*inputs, *grad_outputs), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception)
