"""Kernels of your own, compiled at run time by NVRTC: for tensors on cuda and on vgpu."""

from .. import _C
from ..autograd.function import Function

__all__ = ["CompileError", "ElementwiseKernel", "RawKernel", "RawModule", "elementwise"]

CompileError = _C._CompileError


def _tuple_of_texts(value, what):
    if value is None:
        return ()
    if isinstance(value, str):
        raise TypeError(f"{what} must be a tuple or list of str, got the str {value!r}")
    return tuple(value)


def _device_of(args, who):
    """The device to run on: that of the first tensor on a GPU, otherwise the default device."""
    tensors = [a for a in args if isinstance(a, _C.Tensor)]
    for tensor in tensors:
        if tensor.device.type in ("cuda", "vgpu"):
            return tensor.device
    if tensors:
        raise RuntimeError(
            f"{who}: the tensors are on {tensors[0].device}, but kernels run on cuda and vgpu; move them with .to()"
        )
    return _current_gpu(who)


def _current_gpu(who):
    default = _C._get_default_device()
    kind = default.type if default.type in ("cuda", "vgpu") else "cuda"
    if _C._device_count(kind) == 0:
        raise RuntimeError(
            f"{who}: there is no tensor that says which device to use, and no cuda device; call compile(device) with one"
        )
    return _C.device(kind, _C._device_current(kind))


class RawModule:
    """CUDA C++ with kernels, as CuPy's RawModule. It is compiled when a kernel first runs on a device.

    `options` go to NVRTC. `name_expressions` are the instances of templates that are needed, such as "scale<float>".
    """

    def __init__(self, code, *, options=(), backend="nvrtc", name_expressions=None, name="kernels.cu"):
        if not isinstance(code, str):
            raise TypeError(f"RawModule: code must be a str, got {type(code).__name__}")
        if backend != "nvrtc":
            raise ValueError(f"RawModule: backend {backend!r} is not available, use 'nvrtc'")
        self.code, self.options, self.name = code, _tuple_of_texts(options, "options"), name
        self.name_expressions = _tuple_of_texts(name_expressions, "name_expressions")
        self._modules = {}

    def compile(self, device=None):
        """Compiles for a device now, the current one by default, and returns the PTX."""
        return _C._kernel_ptx(self._on(_current_gpu("compile") if device is None else _C.device(device)))

    def _on(self, device):
        module = self._modules.get(device)
        if module is None:
            module = _C._kernel_compile(device, self.code, self.name, self.options, self.name_expressions)
            self._modules[device] = module
        return module

    def get_function(self, name):
        """A kernel by its name, as a RawKernel."""
        return RawKernel(self, name)


class RawKernel:
    """A kernel in CUDA C++, as CuPy's RawKernel: RawKernel(code, name)(grid, block, args).

    `code` is the source or a RawModule. The kernel runs in the current stream of the device of its tensors. Arguments
    are tensors, numbers, NumPy scalars and ctypes values; their number and kinds are checked against the kernel's
    parameters. Python numbers are converted to the parameter's type.
    """

    def __init__(self, code, name, options=(), backend="nvrtc"):
        if not isinstance(name, str):
            raise TypeError(f"RawKernel: name must be a str, got {type(name).__name__}")
        if not isinstance(code, RawModule):
            instances = () if name.isidentifier() else (name,)
            code = RawModule(code, options=options, backend=backend, name_expressions=instances)
        self.module, self.name = code, name
        self._kernels = {}

    def compile(self, device=None):
        """Compiles for a device now, the current one by default, and returns the PTX."""
        return self.module.compile(device)

    def _on(self, device):
        kernel = self._kernels.get(device)
        if kernel is None:
            kernel = self._kernels[device] = _C._kernel_find(self.module._on(device), self.name)
        return kernel

    def __call__(self, grid, block, args, *, shared_mem=0, strided=False):
        """Launches it with a grid and blocks of one to three sizes, and `shared_mem` bytes of dynamic shared memory.

        Tensors must be contiguous unless `strided` is true.
        """
        if not isinstance(args, (tuple, list)):
            raise TypeError(f"kernel {self.name}: args must be a tuple, got {type(args).__name__}")
        kernel = self._on(_device_of(args, f"kernel {self.name}"))
        _C._kernel_launch(kernel, grid, block, args, shared_mem, strided)

    def __repr__(self):
        return f"<strata.cuda.RawKernel {self.name}>"


class _Elementwise(Function):
    @staticmethod
    def forward(ctx, kernel, outs, *inputs):
        results = _C._elementwise_call(kernel._handle, inputs, outs)
        ctx.kernel = kernel
        ctx.numbers = [None if isinstance(x, _C.Tensor) else x for x in inputs]
        tensors = [x if isinstance(x, _C.Tensor) else None for x in inputs]
        ctx.mark_non_differentiable(*(r for r in results if not r.dtype.is_floating_point))
        if kernel._backward is not None:
            ctx.save_for_backward(*tensors, *results)
        return results

    @staticmethod
    def backward(ctx, *grads):
        kernel = ctx.kernel
        if kernel._backward is None:
            raise NotImplementedError(
                f"{kernel.name} has no gradient; create it with backward=, a formula for grad_{kernel.inputs[0]}"
            )
        saved = ctx.saved_tensors
        tensors, results = saved[: len(kernel.inputs)], saved[len(kernel.inputs) :]
        values = {}
        for name, tensor, number in zip(kernel.inputs, tensors, ctx.numbers, strict=True):
            values[name] = number if tensor is None else tensor
        for name, result, grad in zip(kernel.outputs, results, grads, strict=True):
            values[name], values["grad_" + name] = result, grad
        found = kernel._backward(**{name: values[name] for name in kernel._backward.inputs})
        found = found if isinstance(found, tuple) else (found,)
        by_name = dict(zip(kernel._backward.outputs, found, strict=True))
        out = [None, None]
        for name, tensor, needed in zip(kernel.inputs, tensors, ctx.needs_input_grad[2:], strict=True):
            grad = by_name.get("grad_" + name) if needed else None
            if needed and grad is None:
                raise NotImplementedError(f"{kernel.name}: backward has no formula for grad_{name}")
            out.append(None if grad is None else grad.sum_to_size(tensor.shape).to(tensor.dtype))
        return tuple(out)


class ElementwiseKernel:
    """An elementwise kernel, as CuPy's: ElementwiseKernel("T x, T y", "T z", "z = x * y", "name").

    Types are dtypes, or placeholders: the operands of a placeholder are promoted to a common dtype. `operation` is C++
    that assigns the outputs; `i` is the index of the element and `n` their number. Call it with the inputs, by position
    or by name, and optionally with tensors for the outputs. `backward` is a formula for the gradients.
    """

    def __init__(self, in_params, out_params, operation, name="elementwise", options=(), *, backward=None):
        handle = _C._elementwise_create(in_params, out_params, operation, name, _tuple_of_texts(options, "options"))
        self._set(handle, name, options, backward)

    def _set(self, handle, name, options, backward):
        self._handle, self.name = handle, name
        self.inputs, self.outputs = _C._elementwise_names(handle)
        self._backward = None
        if backward is None:
            return
        self._backward = elementwise(backward, name=f"{name}_backward", options=options)
        known = {*self.inputs, *self.outputs, *("grad_" + o for o in self.outputs)}
        for used in self._backward.inputs:
            if used not in known:
                raise ValueError(f"{name}: backward uses {used!r}; it may use {', '.join(sorted(known))}")
        for made in self._backward.outputs:
            if made.removeprefix("grad_") not in self.inputs or not made.startswith("grad_"):
                raise ValueError(f"{name}: backward assigns {made!r}, expected grad_ and the name of an input")

    def __call__(self, *args, **named):
        count = len(self.inputs)
        for name in named:
            if name not in self.inputs[len(args) :]:
                raise TypeError(f"{self.name}: {name!r} is not one of the inputs {', '.join(self.inputs[len(args) :])}")
        inputs = args[:count] + tuple(named[name] for name in self.inputs[len(args) :] if name in named)
        outs = args[count:]
        if len(inputs) != count or len(outs) not in (0, len(self.outputs)):
            raise TypeError(
                f"{self.name} takes {count} inputs ({', '.join(self.inputs)}) and optionally {len(self.outputs)} outputs, "
                f"got {len(args) + len(named)} arguments"
            )
        results = _Elementwise.apply(self, outs, *inputs)
        return results[0] if len(results) == 1 else results

    def __repr__(self):
        return f"<strata.cuda.ElementwiseKernel {self.name}({', '.join(self.inputs)}) -> {', '.join(self.outputs)}>"


def elementwise(formula, *, name="elementwise", options=(), backward=None):
    """An elementwise kernel from a formula: elementwise("out = a * x + y")(2.0, x, y).

    What the formula assigns without a type is an output; the other variables are the inputs, in the order of their first
    use. The inputs broadcast and are promoted to a common dtype, the type of all variables. Several statements are
    separated by semicolons. `backward` is a formula for the gradients: "grad_x = a * grad_out; grad_y = grad_out".
    """
    kernel = ElementwiseKernel.__new__(ElementwiseKernel)
    handle = _C._elementwise_formula(formula, name, _tuple_of_texts(options, "options"))
    kernel._set(handle, name, options, backward)
    return kernel
