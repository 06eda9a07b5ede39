"""Matrix products with a tile and an epilogue of one's own, compiled at run time for cuda and vgpu."""

from . import _C
from .autograd import Function

__all__ = ["Gemm", "compile"]


class _Product(Function):
    @staticmethod
    def forward(ctx, kernel, a, b, *extras):
        results = _C._gemm_call(kernel._handle, a, b, dict(zip(kernel.extras, extras, strict=True)), ())
        ctx.kernel = kernel
        ctx.numbers = [None if isinstance(x, _C.Tensor) else x for x in extras]
        if kernel._backward is not None:
            ctx.save_for_backward(a, b, results[0], *(x if isinstance(x, _C.Tensor) else None for x in extras))
        ctx.mark_non_differentiable(*results[1:])
        return results if len(results) > 1 else results[0]

    @staticmethod
    def backward(ctx, grad, *_):
        kernel = ctx.kernel
        if kernel._backward is None:
            raise NotImplementedError(
                f"{kernel.name} has no gradient; compile it with backward=, a formula for grad_acc"
            )
        a, b, result, *tensors = ctx.saved_tensors
        extras = [n if t is None else t for n, t in zip(ctx.numbers, tensors, strict=True)]
        return None, *kernel._gradients(grad, a, b, result, extras, ctx.needs_input_grad[1:])


class Gemm:
    """A product with an epilogue, made by strata.gemm.compile: kernel(a, b, bias=bias, out=None).

    `extras` are the names that the epilogue uses. `tile`, `stages`, `warps` and `shared_bytes` describe a block. The
    result is a tuple if there are two epilogues or amax; gradients are those of the first.
    """

    def __init__(self, handle, dtype, epilogue, name, backward):
        self._handle, self.dtype, self.epilogue, self.name = handle, dtype, epilogue, name
        self.tile, self.stages, self.warps, self.shared_bytes, uses = _C._gemm_describe(handle)
        self.extras = tuple(name for name, _, _ in uses)
        self._columns = {name for name, _, by_column in uses if by_column}
        self._indices = {name: count for name, count, _ in uses}
        self._backward = None
        if backward is None:
            return
        from .cuda import elementwise

        self._backward = elementwise(backward, name=f"{name}_backward")
        known = {"grad_out", "out", "acc", *self.extras}
        for used in self._backward.inputs:
            if used not in known:
                raise ValueError(f"{name}: backward uses {used!r}; it may use {', '.join(sorted(known))}")
        for made in self._backward.outputs:
            if made != "grad_acc" and not (made.startswith("grad_") and made.removeprefix("grad_") in self.extras):
                raise ValueError(
                    f"{name}: backward assigns {made!r}, expected grad_acc or grad_ and a name of the epilogue"
                )

    def __call__(self, a, b, *, out=None, **extras):
        for name in self.extras:
            if name not in extras:
                raise TypeError(f"{self.name}: the epilogue {self.epilogue!r} needs {name!r}; pass it by name")
        for name in extras:
            if name not in self.extras:
                names = ", ".join(self.extras) or "no operands"
                raise TypeError(f"{self.name}: {name!r} is unknown; the epilogue {self.epilogue!r} has {names}")
        if out is None:
            return _Product.apply(self, a, b, *(extras[name] for name in self.extras))
        outs = out if isinstance(out, tuple) else (out,)
        if _C.is_grad_enabled() and any(
            isinstance(x, _C.Tensor) and x.requires_grad for x in (a, b, *outs, *extras.values())
        ):
            raise RuntimeError(
                f"{self.name}: out= is not differentiable, but an operand requires a gradient; use no_grad"
            )
        results = _C._gemm_call(self._handle, a, b, extras, outs)
        return (*outs, *results[len(outs) :]) if len(results) > 1 else out

    def _gradients(self, grad, a, b, result, extras, needed):
        """The gradients of a, b and extras, or None for those that are not needed."""
        values = {"grad_out": grad, "out": result}
        if "acc" in self._backward.inputs:
            values["acc"] = a @ b
        for name, value in zip(self.extras, extras, strict=True):
            values[name] = value
            if isinstance(value, _C.Tensor) and name in self._columns:
                values[name] = value.unsqueeze(-1)
            elif isinstance(value, _C.Tensor) and self._indices[name] == 0 and value.dim():
                values[name] = value.reshape((*value.shape, 1, 1))
        found = self._backward(**{name: values[name] for name in self._backward.inputs})
        found = found if isinstance(found, tuple) else (found,)
        made = dict(zip(self._backward.outputs, found, strict=True))

        def of(name):
            if "grad_" + name not in made:
                raise NotImplementedError(f"{self.name}: backward has no formula for grad_{name}")
            return made["grad_" + name]

        out = []
        if needed[0] or needed[1]:
            of_acc = of("acc").to(a.dtype)
        out.append((of_acc @ b.transpose(-2, -1)).sum_to_size(a.shape) if needed[0] else None)
        out.append((a.transpose(-2, -1) @ of_acc).sum_to_size(b.shape) if needed[1] else None)
        for name, value, need in zip(self.extras, extras, needed[2:], strict=True):
            if not need:
                out.append(None)
                continue
            gradient = of(name).sum_to_size(values[name].shape)
            out.append(gradient.reshape(value.shape).to(value.dtype))
        return out

    def __repr__(self):
        tile = "x".join(map(str, self.tile))
        return f"<strata.gemm.Gemm {self.name}: {self.epilogue!r}, {self.dtype}, tile {tile}, {self.stages} stages>"


def compile(
    dtype,
    epilogue="acc",
    *,
    tile=None,
    stages=None,
    warps=None,
    out_dtype=None,
    preamble="",
    backward=None,
    name="gemm",
    options=(),
    tf32=False,
    amax=False,
):
    """A product of matrices with an epilogue: compile(strata.bfloat16, "relu(acc + bias[n])")(a, b, bias=bias).

    `epilogue` is a C++ expression over `acc`, the element of a @ b in float (double for float64), its indices `m`, `n`
    and `batch`, and names of your own: `bias[n]` and `scale[m]` are vectors, `residual[m, n]` is a matrix, a name
    without indices is a number or a tensor with one element. There are relu, gelu, gelu_tanh, silu, sigmoid, mish,
    leaky_relu(x, slope), clamp(x, least, most), square and the functions of CUDA's math library; `preamble` can define
    more. `dtype` is that of both factors: float16, bfloat16, int8, float8_e4m3fn and float8_e5m2 on tensor cores, float32
    with `tf32` too, float32 and float64 without. Sums of int8 are exact integers; a factor of either float8 may be
    multiplied by one of the other. `out_dtype` is by default `dtype`, int32 for int8 and bfloat16 for float8.

    A tuple of two epilogues makes two results, for example one with and one without an activation; `out_dtype` may then
    be a tuple. With `amax`, the last result is the largest absolute value of the first one before rounding, in float32.

    `tile` has the sizes of a block's tile along m, n and k, `stages` is how many of them are in flight, and `warps` has
    the numbers of warps along m and n. `backward` is a formula for the gradients, as of strata.cuda.elementwise, which
    assigns grad_acc and grad_ with names of the epilogue from grad_out, out, acc and these names.
    """
    if isinstance(options, str):
        raise TypeError("gemm: options must be a tuple or list of str")
    if stages is not None and not isinstance(stages, int):
        raise TypeError(f"gemm: stages must be an int, got {type(stages).__name__}")
    if stages is not None and not 2 <= stages <= 8:
        raise ValueError(f"gemm: {stages} stages; expected 2 to 8")
    epilogues = epilogue if isinstance(epilogue, tuple) else (epilogue, None)
    made = out_dtype if isinstance(out_dtype, tuple) else (out_dtype, None)
    if len(epilogues) != 2 or len(made) != 2:
        raise ValueError("gemm: a kernel has one or two epilogues, each with one out_dtype")
    handle = _C._gemm_create(
        dtype, tile, stages or 0, warps, epilogues, made, preamble, name, tuple(options), tf32, amax
    )  # fmt: skip
    return Gemm(handle, dtype, epilogue, name, backward)
