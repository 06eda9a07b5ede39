"""load_inline: functions from source texts in C++ and CUDA C++, compiled when the program runs."""

import os
import sys

from .. import _C
from ..autograd.function import Function
from .kernels import RawModule, _tuple_of_texts

__all__ = ["load", "load_inline"]


def _shares_memory(a, b):
    return a.numel() > 0 and _C._storage_id(a) == _C._storage_id(b)


class _Inline(Function):
    @staticmethod
    def forward(ctx, function, *args):
        results = function._launch(args)
        if any(ctx.needs_input_grad):
            for result in results:
                if any(isinstance(a, _C.Tensor) and _shares_memory(result, a) for a in args):
                    raise RuntimeError(
                        f"{function.name}: outputs returned an argument, which the kernel has overwritten, so there is no "
                        "gradient; return new tensors, or call it under no_grad()"
                    )
        ctx.function, ctx.args = function, [None if isinstance(a, _C.Tensor) else a for a in args]
        ctx.mark_non_differentiable(*(r for r in results if not r.dtype.is_floating_point))
        if function.backward is not None:
            ctx.save_for_backward(*(a if isinstance(a, _C.Tensor) else None for a in args))
        return results

    @staticmethod
    def backward(ctx, *grads):
        function = ctx.function
        if function.backward is None:
            raise NotImplementedError(f"{function.name} has no gradient; name a second kernel with backward=")
        args = [a if t is None else t for a, t in zip(ctx.args, ctx.saved_tensors, strict=True)]
        found = function.backward._launch((*(g.contiguous() for g in grads), *args))
        targets = [i for i, a in enumerate(args) if isinstance(a, _C.Tensor) and a.dtype.is_floating_point]
        if len(found) != len(targets):
            raise RuntimeError(
                f"{function.backward.name} has {len(found)} outputs, expected a gradient for each of the {len(targets)} "
                f"floating-point tensors of {function.name}"
            )
        out = [None] * len(args)
        for i, grad in zip(targets, found, strict=True):
            out[i] = grad
        return (None, *out)


class InlineFunction:
    """A kernel with its launch geometry and outputs: a function of load_inline without host code."""

    _KEYS = ("grid", "block", "outputs", "shared_mem", "backward")

    def __init__(self, kernel, spec):
        unknown = set(spec) - set(self._KEYS)
        if unknown:
            raise TypeError(
                f"load_inline: {kernel.name} has no setting {sorted(unknown)[0]!r}; there are {', '.join(self._KEYS)}"
            )
        if "outputs" not in spec:
            raise TypeError(
                f"load_inline: {kernel.name} needs outputs, a function of the arguments that returns its output tensors"
            )
        self.kernel, self.name = kernel, kernel.name
        self.outputs, self.block = spec["outputs"], spec.get("block", 256)
        self.grid, self.shared_mem = spec.get("grid"), spec.get("shared_mem", 0)
        self.backward = spec.get("backward")

    def _launch(self, args):
        def of_args(setting):
            return setting(*args) if callable(setting) else setting

        made = of_args(self.outputs)
        outputs = made if isinstance(made, tuple) else (made,)
        for output in outputs:
            if not isinstance(output, _C.Tensor):
                raise TypeError(f"{self.name}: outputs returned {type(output).__name__}, expected tensors")
        block, grid = of_args(self.block), of_args(self.grid)
        elements = outputs[0].numel() if outputs else 0
        if grid is None:  # a thread for each element of the first output
            if not isinstance(block, int) or not outputs:
                raise TypeError(
                    f"{self.name}: pass grid=, or an int as block and an output, whose elements are then counted"
                )
            grid = -(-elements // max(block, 1))
            if grid == 0:
                return outputs
        self.kernel(grid, block, (*args, *outputs), shared_mem=of_args(self.shared_mem))
        return outputs

    def __call__(self, *args):
        results = _Inline.apply(self, *args)
        return results[0] if len(results) == 1 else results

    def __repr__(self):
        return f"<function {self.name} of strata.cuda.load_inline>"


class InlineModule:
    """The functions made by load_inline, as attributes."""

    def __init__(self, name, module):
        self.__name__, self._module = name, module

    def __repr__(self):
        return f"<strata.cuda.InlineModule {self.__name__}>"


class HostFunction:
    """A C++ function compiled by load_inline. It takes tensors, numbers, str, dtypes, None and lists of them."""

    def __init__(self, name, doc, parameters, handle):
        self.__name__, self.__doc__ = name, doc or None
        self.parameters, self._handle = tuple(parameters), handle

    def __call__(self, *args):
        return _C._inline_call(self._handle, args)

    def __repr__(self):
        return f"<function {self.__name__}({', '.join(self.parameters)}) of strata.cuda.load_inline>"


def _list_of_sources(sources, what):
    if sources is None:
        return []
    if not isinstance(sources, (str, list, tuple)):
        raise TypeError(f"load_inline: {what} must be a str or a list of str, got {type(sources).__name__}")
    found = [sources] if isinstance(sources, str) else list(sources)
    for source in found:
        if not isinstance(source, str):
            raise TypeError(f"load_inline: {what} must be str, got {type(source).__name__}")
    return found


def _from_kernels(name, sources, functions, options):
    """Kernels with their launch geometry in Python: no host compiler is needed."""
    instances = [f for f in functions if not f.isidentifier()]
    if instances:
        raise ValueError(f"load_inline: {instances[0]!r} is not the name of a kernel; use RawModule for templates")
    raw = RawModule("\n".join(sources), options=options, name=f"{name}.cu")
    module = InlineModule(name, raw)
    made = {f: InlineFunction(raw.get_function(f), dict(spec)) for f, spec in functions.items()}
    for f, function in made.items():
        if function.backward is not None:
            if function.backward not in made:
                raise ValueError(f"load_inline: backward of {f} is {function.backward!r}, which is not in functions")
            function.backward = made[function.backward]
        setattr(module, f, function)
    return module


def load_inline(
    name,
    cpp_sources=None,
    cuda_sources=None,
    functions=None,
    *,
    options=(),
    extra_cflags=None,
    extra_cuda_cflags=None,
    extra_ldflags=None,
    extra_include_paths=None,
    build_directory=None,
    verbose=False,
    with_cuda=None,
    is_python_module=True,
    keep_intermediates=True,
    use_pch=True,
    no_implicit_headers=False,
    with_pytorch_error_handling=True,
    sycl_sources=None,
):
    """Functions from source texts in C++ and CUDA C++, as attributes of the result; PyTorch's load_inline.

    `cpp_sources` and `cuda_sources` are texts or lists of them, with functions of `torch::Tensor` and numbers;
    `cuda_sources` may have kernels and launch them with <<<>>>. `functions` is the name of a C++ function, a list of
    names, or a dict with their docstrings; without it the sources define PYBIND11_MODULE. Host functions are compiled by
    the system's C++ compiler (CXX, c++), kernels by NVRTC, and both are cached. The headers are precompiled and part of
    every source, `with_cuda` is implied by `cuda_sources`, and `options` and `extra_cuda_cflags` go to NVRTC. The other
    options of PyTorch's build have no effect.

    With a dict of settings as `functions`, kernels become functions without host code: `outputs`, a function of the
    arguments that returns the output tensors; `grid` and `block`, sizes or functions of the arguments (by default blocks
    of 256 threads, and a thread for each element of the first output); `shared_mem` in bytes; `backward`, the name of the
    kernel that computes the gradients. A kernel receives the arguments, then the outputs. A gradient kernel receives the
    gradients of the outputs, the arguments, then its own outputs: a gradient for each floating-point tensor among the
    arguments.
    """
    cpp, cuda = _list_of_sources(cpp_sources, "cpp_sources"), _list_of_sources(cuda_sources, "cuda_sources")
    if functions is None:
        functions = {}
    elif isinstance(functions, str):
        functions = {functions: ""}
    elif isinstance(functions, (list, tuple)):
        functions = dict.fromkeys(functions, "")
    elif not isinstance(functions, dict):
        raise TypeError(
            f"load_inline: functions must be a list of names, or a dict by name, got {type(functions).__name__}"
        )
    for f in functions:
        if not isinstance(f, str):
            raise TypeError(f"load_inline: functions must be named by str, got {type(f).__name__}")
    options = _tuple_of_texts(options, "options")
    if not isinstance(name, str):
        raise TypeError(f"load_inline: name must be a str, got {type(name).__name__}")
    if isinstance(extra_include_paths, (str, os.PathLike)):
        raise TypeError(f"extra_include_paths must be a tuple or list of paths, got {extra_include_paths!r}")
    if functions and all(isinstance(spec, dict) for spec in functions.values()):
        if cpp:
            raise TypeError(
                "load_inline: settings of kernels go with cuda_sources alone; list the names of C++ functions"
            )
        return _from_kernels(name, cuda, functions, options)
    if sycl_sources:
        raise NotImplementedError("load_inline: sycl_sources are not available; use cuda_sources")
    if is_python_module is not True:
        raise NotImplementedError("load_inline: is_python_module=False is not available; use strata.ops.load_library")
    folder = "" if build_directory is None else os.path.abspath(os.fspath(build_directory))
    made = _C._inline_load(
        name,
        cpp,
        cuda,
        list(functions),
        [doc or "" for doc in functions.values()],
        _tuple_of_texts(extra_cflags, "extra_cflags"),
        (*options, *_tuple_of_texts(extra_cuda_cflags, "extra_cuda_cflags")),
        _tuple_of_texts(extra_ldflags, "extra_ldflags"),
        tuple(os.path.abspath(os.fspath(p)) for p in extra_include_paths or ()),
        folder,
    )
    module = InlineModule(name, None)
    for f, doc, parameters, handle in made:
        setattr(module, f, HostFunction(f, doc, parameters, handle))
    if verbose:
        print(f"load_inline: {name} has {', '.join(f for f, *_ in made)}", file=sys.stderr)
    return module


def load(name, sources, **options):
    """Functions from files in C++ (.cpp, .cc) and CUDA C++ (.cu), which define them with PYBIND11_MODULE; see load_inline."""
    texts, folders = {"cpp_sources": [], "cuda_sources": []}, []
    for source in [sources] if isinstance(sources, (str, os.PathLike)) else sources:
        path = os.path.abspath(os.fspath(source))
        with open(path, encoding="utf-8") as file:
            texts["cuda_sources" if path.endswith((".cu", ".cuh")) else "cpp_sources"].append(file.read())
        folders.append(os.path.dirname(path))
    options["extra_include_paths"] = [*(options.get("extra_include_paths") or ()), *dict.fromkeys(folders)]
    return load_inline(name, **texts, **options)
