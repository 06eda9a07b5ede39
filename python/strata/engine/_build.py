"""The ways to an engine: a model of ONNX, a module, a plan."""

import os

from .. import _C
from ..autograd import no_grad
from ..export import Dim
from ..export._capture import Capture, argument_names
from ..export._dims import Varying
from ..nn.module import Module
from ._engine import Engine

_MOST_DIMS = 4


class Input:
    """What compile() is told of an input: a shape, or the smallest, usual and largest one.

    >>> strata.engine.Input(min_shape=(1, 8), opt_shape=(4, 8), max_shape=(16, 8))
    Input(min_shape=(1, 8), opt_shape=(4, 8), max_shape=(16, 8), dtype=strata.float32)
    """

    def __init__(
        self,
        shape=None,
        *,
        min_shape=None,
        opt_shape=None,
        max_shape=None,
        dtype=None,
        format=None,
        name="",
        torch_tensor=None,
    ):
        ranges = (min_shape, opt_shape, max_shape)
        if torch_tensor is not None and shape is None and ranges == (None,) * 3:
            shape = torch_tensor.shape
            dtype = torch_tensor.dtype if dtype is None else dtype
        if (shape is None) == (min_shape is None) or any((r is None) != (min_shape is None) for r in ranges):
            raise ValueError("Input: expected shape, or min_shape, opt_shape and max_shape together")
        self.shape = None if shape is None else tuple(shape)
        self.min_shape, self.opt_shape, self.max_shape = (tuple(shape if r is None else r) for r in ranges)
        self.dtype = _C.float32 if dtype is None else dtype
        self.name = name
        sizes = list(zip(self.min_shape, self.opt_shape, self.max_shape, strict=False))
        if len({len(self.min_shape), len(self.opt_shape), len(self.max_shape)}) != 1 or any(
            not 0 <= low <= usual <= high for low, usual, high in sizes
        ):
            raise ValueError(
                f"Input: shapes are {self.min_shape}, {self.opt_shape} and {self.max_shape}; expected as many sizes with "
                "min <= opt <= max"
            )

    @classmethod
    def from_tensor(cls, tensor):
        """The shape and dtype of a tensor."""
        return cls(tuple(tensor.shape), dtype=tensor.dtype)

    @property
    def varies(self):
        return self.min_shape != self.max_shape

    def example(self):
        """A tensor of the usual shape."""
        x = _C.ops["randn"](self.opt_shape) if self.dtype.is_floating_point else _C.ops["zeros"](self.opt_shape)
        return x.to(self.dtype)

    def __repr__(self):
        shape = (
            f"min_shape={self.min_shape}, opt_shape={self.opt_shape}, max_shape={self.max_shape}"
            if self.varies
            else f"shape={self.opt_shape}"
        )
        return f"Input({shape}, dtype={self.dtype})"


class _Primitive(Capture):
    """With ops that are made of others as those."""

    composites = False


def _config(options):
    known = {
        "fp16",
        "bf16",
        "int8",
        "level",
        "time_limit",
        "workspace_limit",
        "most_specializations",
        "most_bytes",
        "cuda_graphs",
        "graphs_now",
        "timing_cache",
        "profiles",
        "progress",
        "calibration",
    }
    if unknown := sorted(set(options) - known):
        raise TypeError(f"engine: unknown option {unknown[0]!r}; options are {', '.join(sorted(known))}")
    if options.get("timing_cache") is not None:
        options["timing_cache"] = os.fspath(options["timing_cache"])
    if options.get("calibration") is not None:
        options["calibration"] = str(options["calibration"])
    return {key: value for key, value in options.items() if value is not None}


def build(model, *, device="cpu", profiles=(), **options):
    """The engine of an .onnx file, or of the bytes of one.

    `profiles` are dicts of (min, opt, max) by input, for inputs whose sizes vary. Options: `fp16`, `bf16`, `int8` allow these
    precisions; `level` 0 (kernels are not timed) to 5, `time_limit` in seconds, `timing_cache` (a file) for the timing of
    kernels; `workspace_limit` in bytes; `most_specializations` and `most_bytes`, which a context keeps; `cuda_graphs`; `graphs_now=False`
    makes graphs at the first run of their sizes;
    `progress(what, done)`, which may return False to stop; `calibration`, which `int8` needs: what calibrate() returned.
    """
    if isinstance(profiles, dict):
        profiles = [profiles]
    network = _C._engine_network(model if isinstance(model, bytes) else os.fspath(model), _C.device(device))
    return Engine(_C._engine_build(network, _config({**options, "profiles": list(profiles)})))


def load(source, device=None):
    """The engine of a plan: a path, or the bytes that Engine.save() returned. By default on the device it was built for."""
    return Engine(
        _C._engine_load(source if isinstance(source, bytes) else os.fspath(source), device and _C.device(device))
    )


def _specification(given):
    if isinstance(given, Input):
        return given
    if isinstance(given, _C.Tensor):
        return Input.from_tensor(given)
    return Input(given)


def _device_of(model, device):
    own = [*model.parameters(), *model.buffers()] if isinstance(model, Module) else []
    if device is None:
        return own[0].device if own else _C.device("cpu")
    device = _C.device(device)
    if elsewhere := [t.device for t in own if t.device.type != device.type]:
        raise ValueError(
            f"engine.compile: the module is on {elsewhere[0]}, and device is {device}; move it with module.to('{device}') first"
        )
    return device


def _dims(specs, together):
    """A Dim for each size that varies. `together`: sizes of one axis with the same limits are one dimension."""
    dims, shapes = {}, []
    for i, spec in enumerate(specs):
        axes = {}
        for axis, (low, high) in enumerate(zip(spec.min_shape, spec.max_shape, strict=True)):
            if low == high:
                continue
            key = (axis, low, high) if together else (i, axis)
            name = f"s{len(dims)}" if key not in dims else dims[key].__name__
            axes[axis] = dims.setdefault(key, Dim(name, min=0 if low == 0 else None))
        shapes.append(axes)
    return shapes, len(dims)


def _graph(model, examples, specs):
    """The graph of the module for all sizes of its inputs."""
    if not any(spec.varies for spec in specs):
        return _Primitive(model, examples, {}).graph(Varying(examples, {}, None, argument_names(model, examples, {})))
    error = None
    for together in (False, True):
        shapes, count = _dims(specs, together)
        if count > _MOST_DIMS:
            continue
        try:
            varying = Varying(examples, {}, tuple(shapes), argument_names(model, examples, {}))
            return _Primitive(model, examples, {}).graph(varying)
        except (RuntimeError, ValueError, IndexError) as e:
            error = e
    if error is None:
        raise NotImplementedError(f"engine.compile: at most {_MOST_DIMS} sizes can vary")
    raise error


def compile(
    model, inputs=None, *, enabled_precisions=None, workspace_size=0, device=None, arg_inputs=None, ir=None, **options
):
    """The engine of a module (or function) in eval mode, which takes tensors and returns tensors.

    `inputs` are Inputs, tensors, or shapes. `enabled_precisions` are dtypes that may be used besides float32. `options` are those
    of build(); names of torch_tensorrt that tune its own builder are accepted. Weights are copied.
    """
    inputs = arg_inputs if inputs is None else inputs
    if inputs is None:
        raise TypeError("engine.compile: inputs are missing; give an Input or a shape for each")
    if isinstance(model, Module) and model.training:
        raise ValueError("engine.compile: the module is in training mode; call eval() first")
    specs = [_specification(given) for given in inputs]
    precisions = set(enabled_precisions or ())
    known = {_C.float32, _C.float16, _C.bfloat16, _C.int8, float, int}
    if wrong := [p for p in precisions if p not in known]:
        raise ValueError(
            f"engine.compile: enabled_precisions has {wrong[0]!r}; expected float32, float16, bfloat16 or int8"
        )
    for name in (
        "truncate_long_and_double",
        "min_block_size",
        "require_full_compilation",
        "debug",
        "torch_executed_ops",
    ):
        options.pop(name, None)
    if "optimization_level" in options:
        options["level"] = options.pop("optimization_level")
    device = _device_of(model, device)
    examples = tuple(spec.example().to(device) for spec in specs)
    with no_grad():
        handle = _graph(model, examples, specs)
    names = _names(model, examples, specs)
    network = _C._engine_network_of_graph(handle, device, names, [])
    profile = {name: (spec.min_shape, spec.opt_shape, spec.max_shape) for name, spec in zip(names, specs, strict=True)}
    options.setdefault("fp16", _C.float16 in precisions)
    options.setdefault("bf16", _C.bfloat16 in precisions)
    options.setdefault("int8", _C.int8 in precisions)
    if workspace_size:
        options["workspace_limit"] = workspace_size
    return Engine(_C._engine_build(network, _config({**options, "profiles": [profile]})))


def _names(model, examples, specs):
    own = argument_names(model, examples, {})
    return [spec.name or name for spec, name in zip(specs, own, strict=True)]
