"""Reductions of your own from formulas, compiled at run time by NVRTC: for tensors on cuda and on vgpu."""

import math

from .. import _C
from ..autograd.function import Function
from .kernels import _tuple_of_texts

__all__ = ["ReductionKernel", "reduction"]


def _written_in_c(number):
    if isinstance(number, bool):
        return str(number).lower()
    if math.isnan(number):
        return "NAN"
    return str(number) if math.isfinite(number) else "INFINITY" if number > 0 else "-INFINITY"


class _Reduction(Function):
    @staticmethod
    def forward(ctx, kernel, outs, axes, keepdims, *inputs):
        results = _C._reduction_call(kernel._handle, inputs, outs, axes, keepdims)
        ctx.name = kernel.name
        ctx.mark_non_differentiable(*(r for r in results if not r.dtype.is_floating_point))
        return results

    @staticmethod
    def backward(ctx, *grads):
        raise NotImplementedError(f"{ctx.name} has no gradient; use strata.library.custom_op to give it one")


class ReductionKernel:
    """A reduction, as CuPy's: ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "norm")(x, axis=1).

    `map_expr` is an expression of the inputs, `reduce_expr` combines two such values `a` and `b`, and must not depend on
    their order. `post_map_expr` assigns the outputs from the reduced value `a`; `n` is the number of reduced elements.
    `identity` is the value of a reduction of no elements; with None, such a reduction is an error. `reduce_type` is the
    type of `a` and `b`: a dtype or a placeholder, that of the first output by default.
    """

    def __init__(
        self, in_params, out_params, map_expr, reduce_expr, post_map_expr, identity, name="reduction", reduce_type=None,
        options=(),
    ):  # fmt: skip
        identity = _written_in_c(identity) if isinstance(identity, (int, float)) else identity or None
        self._handle = _C._reduction_create(
            in_params, out_params, map_expr, reduce_expr, post_map_expr, identity, reduce_type or "", name,
            _tuple_of_texts(options, "options"),
        )  # fmt: skip
        self.name = name
        self.inputs, self.outputs = _C._reduction_names(self._handle)

    def __call__(self, *args, out=None, axis=None, keepdims=False):
        """Reduces over `axis`: an int, a tuple of ints, or None for all. `out`: a tensor for each output."""
        count = len(self.inputs)
        if len(args) != count and not (out is None and len(args) == count + len(self.outputs)):
            raise TypeError(
                f"{self.name} takes {count} inputs ({', '.join(self.inputs)}) and optionally {len(self.outputs)} outputs, "
                f"got {len(args)} arguments"
            )
        outs = args[count:] if out is None else tuple(out) if isinstance(out, (tuple, list)) else (out,)
        axes = axis if axis is None or isinstance(axis, (tuple, list)) else (axis,)
        inputs = args[:count]
        if _C.is_grad_enabled() and any(isinstance(x, _C.Tensor) and x.requires_grad for x in inputs):
            results = _Reduction.apply(self, outs, axes, keepdims, *inputs)
        else:
            results = _C._reduction_call(self._handle, inputs, outs, axes, keepdims)
        return results[0] if len(results) == 1 else results

    def __repr__(self):
        return f"<strata.cuda.ReductionKernel {self.name}({', '.join(self.inputs)}) -> {', '.join(self.outputs)}>"


def reduction(
    in_params, out_params, map_expr, reduce_expr, post_map_expr, identity, name="reduction", reduce_type=None, options=(),
):  # fmt: skip
    """A reduction from formulas; see ReductionKernel."""
    return ReductionKernel(
        in_params, out_params, map_expr, reduce_expr, post_map_expr, identity, name, reduce_type, options
    )
