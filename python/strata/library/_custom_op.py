"""Custom ops: kernels per device, a shape rule for meta, a gradient, and the registry behind strata.ops."""

import contextlib
import re
import threading

from .. import _C
from ..amp.autocast_mode import cast_floating
from ..autograd.function import Function
from . import _schema

DEVICE_TYPES = ("cpu", "cuda", "vgpu")
_QUALIFIED = re.compile(r"([A-Za-z_]\w*)::([A-Za-z_]\w*)")


class Namespace:
    """The custom ops of one namespace, as attributes."""

    def __init__(self, name):
        self.__name__ = name

    def __getattr__(self, name):
        known = ", ".join(sorted(n for n in vars(self) if not n.startswith("__"))) or "none"
        raise AttributeError(f"strata.ops.{self.__name__} has no op {name!r}; it has {known}")

    def __repr__(self):
        return f"<namespace strata.ops.{self.__name__}>"


def _add_torchvision():
    from ..vision.torch_ops import add_ops

    add_ops()


namespaces = {}
BUILT_IN = {"torchvision": _add_torchvision}  # namespaces of Strata itself, filled when they are first used


class BuiltInOp:
    """An op of a package that Strata has itself, under the package's name. It has kernels, shape rules and a gradient.

    The package registers its own ones: they are accepted, and the op keeps those that it has.
    """

    def __init__(self, name, function):
        self._qualname, self._function = name, function
        self.__name__, self.__doc__ = split_name(name)[1], function.__doc__

    def __call__(self, *args, **kwargs):
        return self._function(*args, **kwargs)

    @property
    def default(self):
        """The op: it has one overload."""
        return self

    def overloads(self):
        """The names of the overloads."""
        return ["default"]

    def register_fake(self, func, /):
        """Accepted: the op has a shape rule."""
        return func

    def register_autograd(self, backward, /, *, setup_context=None):
        """Accepted: the op has a gradient."""

    def register_autocast(self, device_type, cast_inputs, /):
        """Accepted: the op has its own rule."""

    def register_kernel(self, device_types, func=None, /):
        """Accepted: the op has kernels for all devices."""
        return (lambda f: f) if func is None else func

    def __repr__(self):
        return f"<built-in op {self._qualname}>"


_lock = threading.Lock()


def split_name(name):
    """The namespace and the name of "namespace::name"."""
    if not isinstance(name, str):
        raise TypeError(f"the name of a custom op must be a str, got {type(name).__name__}")
    found = _QUALIFIED.fullmatch(name)
    if not found:
        raise ValueError(f"the name of a custom op is 'namespace::name', got {name!r}")
    return found[1], found[2]


def publish(name, op):
    """Makes an op available as strata.ops.<namespace>.<name>. An op of Python replaces one of the same name."""
    space, short = split_name(name)
    with _lock:
        found = namespaces.setdefault(space, Namespace(space))
        before = vars(found).get(short)
        if before is not None and isinstance(op, CustomOpDef) != isinstance(before, CustomOpDef):
            raise ValueError(
                f"{name} is defined already, {'by a library in C++' if isinstance(op, CustomOpDef) else 'in Python'}"
            )
        setattr(found, short, op)


def find(op, who):
    """A CustomOpDef or BuiltInOp from itself or from its name."""
    if isinstance(op, (CustomOpDef, BuiltInOp)):
        return op
    space, _ = split_name(op)
    if space in BUILT_IN and space not in namespaces:
        BUILT_IN[space]()
    space, short = split_name(op)
    found = vars(namespaces.get(space, Namespace(space))).get(short)
    if found is None:
        raise ValueError(f"{who}: there is no custom op {op!r}; define it first")
    if not isinstance(found, (CustomOpDef, BuiltInOp)):
        raise TypeError(f"{who}: {op} is defined in C++, where its kernels and gradient belong")
    return found


def each_tensor(values):
    """The tensors among arguments or results, those in lists too."""
    for value in values:
        if isinstance(value, _C.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from (v for v in value if isinstance(v, _C.Tensor))


def _as_tuple(made):
    return tuple(made) if isinstance(made, (tuple, list)) else () if made is None else (made,)


def _needs(value):
    if isinstance(value, list):
        return [_needs(v) for v in value]
    return isinstance(value, _C.Tensor) and value.requires_grad


class _Call:
    """Passes the arguments of a recorded call into forward, and its results out."""

    def __init__(self, op, values, kind):
        self.op, self.values, self.kind, self.made = op, values, kind, None


class _Recorded(Function):
    @staticmethod
    def forward(ctx, call, *tensors):
        op = call.op
        positional = call.values[: len(op._schema.positional)]
        call.made = op._run(call.values, call.kind)
        ctx._op = op
        # Of each argument: the places of its tensors in a list, True for a tensor, False for anything else.
        ctx._arguments = [
            [v is not None for v in value] if isinstance(value, list) else isinstance(value, _C.Tensor)
            for value in positional
        ]
        ctx._results = (
            len(call.made) if isinstance(op._schema.results, _schema.Type) and op._schema.results.is_list else None
        )
        ctx._is_tensor = [isinstance(v, _C.Tensor) for v in _as_tuple(call.made)]
        ctx.needs_input_grad = tuple(_needs(v) for v in positional)
        made = tuple(each_tensor(_as_tuple(call.made)))
        ctx.mark_non_differentiable(*(t for t in made if not t.dtype.is_floating_point))
        if op._setup_context is not None:
            keywords = {}
            if op._schema.keywords:
                keywords["keyword_only_inputs"] = op._keywords(call.values)
            op._setup_context(ctx=ctx, inputs=tuple(positional), output=call.made, **keywords)
        return made

    @staticmethod
    def backward(ctx, *grads):
        op = ctx._op
        if op._backward is None:
            raise NotImplementedError(
                f"{op._qualname} has no gradient, but one of its results is differentiated; use register_autograd"
            )
        if ctx._results is not None:
            grads = (list(grads),)
        else:
            rest = iter(grads)
            grads = tuple(next(rest) if is_tensor else None for is_tensor in ctx._is_tensor)
        found = op._backward(ctx, *grads)
        found = found if isinstance(found, tuple) else (found,)
        if len(found) != len(ctx._arguments):
            raise RuntimeError(
                f"the gradient of {op._qualname} returned an incorrect number of gradients (expected "
                f"{len(ctx._arguments)}, one for each positional argument, got {len(found)})"
            )
        flat = [None]
        for parameter, shape, grad in zip(op._schema.positional, ctx._arguments, found, strict=True):
            flat += _flat_gradients(op._qualname, parameter, shape, grad)
        return tuple(flat)


def _flat_gradients(op, parameter, shape, grad):
    """The gradients of the tensors of one argument."""
    if isinstance(shape, list):
        if grad is None:
            return [None] * sum(shape)
        if not isinstance(grad, (list, tuple)) or len(grad) != len(shape):
            found = f"{len(grad)} of them" if isinstance(grad, (list, tuple)) else type(grad).__name__
            raise RuntimeError(
                f"the gradient of {op} for {parameter.name!r} must be a list of {len(shape)} gradients, got {found}"
            )
        return [g for g, is_tensor in zip(grad, shape, strict=True) if is_tensor]
    if grad is not None and not isinstance(grad, _C.Tensor):
        raise TypeError(
            f"the gradient of {op} for {parameter.name!r} must be a Tensor or None, got {type(grad).__name__}"
        )
    if shape:
        return [grad]
    if grad is not None:
        raise RuntimeError(f"the gradient of {op} for {parameter.name!r} must be None: the argument is not a tensor")
    return []


class CustomOpDef:
    """A custom op, made by strata.library.custom_op. Call it like a function."""

    def __init__(self, name, schema):
        self._namespace, self._name = split_name(name)
        self._qualname, self._schema = name, schema
        self._kernels = {}  # (function, handle) by device type; None: all devices without their own
        self._disabled = set()  # device types whose kernels are not used: see set_kernel_enabled
        self._fake = self._backward = self._setup_context = self._vmap = None
        self._autocast = {}  # the dtype of floating-point arguments under autocast, by device type
        self._recorded = type(f"{self._namespace}_{self._name}", (_Recorded,), {})
        self.__name__ = self.__qualname__ = self._name

    # --- registration --------------------------------------------------------------------------------------------------

    def register_kernel(self, device_types, func=None, /):
        """Adds a kernel for device types: "cpu", "cuda", "vgpu", several of them, or None for all. Also a decorator.

        A kernel for cuda is used on vgpu too, unless there is one for vgpu.
        """
        kinds = [device_types] if device_types is None or isinstance(device_types, str) else list(device_types)
        for kind in kinds:
            if kind not in (None, *DEVICE_TYPES):
                advice = "use register_fake" if kind == "meta" else f"there are {', '.join(DEVICE_TYPES)}"
                raise ValueError(f"{self._qualname}: no kernels for device type {kind!r}; {advice}")

        def add(function):
            _check_callable(function, f"a kernel of {self._qualname}")
            for kind in kinds:
                self._kernels[kind] = (
                    function,
                    _C._custom_kernel(self._qualname, kind or getattr(function, "__name__", "kernel")),
                )
            return function

        return add if func is None else add(func)

    @contextlib.contextmanager
    def set_kernel_enabled(self, device_type, enabled=True):
        """A with block in which the kernel for a device type is used or not; then the one for all devices is."""
        if device_type not in DEVICE_TYPES:
            raise ValueError(
                f"{self._qualname}: no kernels for device type {device_type!r}; there are {', '.join(DEVICE_TYPES)}"
            )
        before = self._disabled
        self._disabled = before - {device_type} if enabled else before | {device_type}
        try:
            yield
        finally:
            self._disabled = before

    def register_fake(self, func, /):
        """Sets the rule for tensors on meta: it returns results of the right shapes and dtypes. Also a decorator."""
        _check_callable(func, f"the rule of {self._qualname} for meta")
        self._fake = (func, _C._custom_kernel(self._qualname, "fake"))
        return func

    def register_autograd(self, backward, /, *, setup_context=None):
        """Sets the gradient: backward(ctx, *grads) returns one gradient for each positional argument.

        setup_context(ctx, inputs, output) runs after the kernel and saves what backward needs; an op with keyword-only
        arguments gets them as keyword_only_inputs.
        """
        _check_callable(backward, f"the gradient of {self._qualname}")
        if setup_context is not None:
            _check_callable(setup_context, f"setup_context of {self._qualname}")
        if self._schema.written:
            raise RuntimeError(
                f"{self._qualname} writes to {', '.join(self._schema.written)}: a gradient needs an op that returns "
                "new tensors instead"
            )
        for parameter in self._schema.keywords:
            if parameter.type.is_tensor:
                raise NotImplementedError(
                    f"{self._qualname}: {parameter.name} is keyword-only; tensors of an op with a gradient must be positional"
                )
        self._backward, self._setup_context = backward, setup_context

    def register_autocast(self, device_type, cast_inputs, /):
        """Sets the dtype to which autocast for a device type ("cpu", "cuda" or "vgpu") casts floating-point arguments.

        float64 is kept. That of cuda is used on vgpu too, unless there is one for vgpu.
        """
        if device_type not in DEVICE_TYPES:
            raise ValueError(
                f"{self._qualname}: no autocast for device type {device_type!r}; there are {', '.join(DEVICE_TYPES)}"
            )
        if not isinstance(cast_inputs, _C.dtype) or not cast_inputs.is_floating_point:
            raise TypeError(f"{self._qualname}: cast_inputs must be a floating-point dtype, got {cast_inputs!r}")
        self._autocast[device_type] = cast_inputs

    def register_vmap(self, func=None, /):
        """Sets the batching rule for func.vmap(): func(info, in_dims, *args) returns (output, out_dims). Also a decorator.

        Without one, vmap() calls the op once per slice, with a warning.
        """
        if func is None:
            return self.register_vmap
        _check_callable(func, f"the batching rule of {self._qualname}")
        self._vmap = func
        return func

    # --- calls ---------------------------------------------------------------------------------------------------------

    _composite = None  # a function of other ops, which stands for the op

    def __call__(self, *args, **kwargs):
        if self._composite is not None:
            return self._composite(*args, **kwargs)
        if _C._function_modes():
            from .._vmap.functions import call_custom_op, current_level

            level = current_level()
            if level is not None:
                return call_custom_op(level, self, self._vmap, args, kwargs)
        values = self._schema.bind(self._qualname, args, kwargs)
        kind = self._device_type(values, list(each_tensor(values)))
        if self._autocast and kind != "meta" and _C._is_autocast_enabled(kind):
            values = self._cast_by_autocast(values, kind)
        tensors = list(each_tensor(values))
        if not (_C.is_grad_enabled() and any(t.requires_grad for t in tensors)):
            return self._run(values, kind)
        if self._schema.written:
            self._refuse_gradient(values)
        positional = list(each_tensor(values[: len(self._schema.positional)]))
        call = _Call(self, values, kind)
        recorded = iter(self._recorded.apply(call, *positional))
        return _replaced(call.made, recorded)

    def _cast_by_autocast(self, values, kind):
        lower = self._autocast.get(kind) or (self._autocast.get("cuda") if kind == "vgpu" else None)
        if lower is None:
            return values
        return [
            value if p.written else cast_floating(value, kind, lower)
            for p, value in zip(self._schema.parameters, values, strict=True)
        ]

    def _refuse_gradient(self, values):
        for p, value in zip(self._schema.parameters, values, strict=True):
            if any(t.requires_grad for t in each_tensor((value,))):
                what = (
                    "writes to it" if p.written else f"writes to {', '.join(self._schema.written)} without a gradient"
                )
                raise RuntimeError(
                    f"{self._qualname}: {p.name} requires a gradient, but the op {what}; call it under no_grad() or "
                    "with detached tensors"
                )

    def _device_type(self, values, tensors):
        kinds = {t.device.type for t in tensors}
        if not kinds:
            for p, value in zip(self._schema.parameters, values, strict=True):
                if p.type.element == "device" and isinstance(value, _C.device):
                    return value.type
            return _C._get_default_device().type
        return next(kind for kind in ("meta", "cuda", "vgpu", "cpu") if kind in kinds)

    def _kernel_for(self, kind):
        if kind == "meta":
            if self._fake is None:
                raise NotImplementedError(
                    f"{self._qualname} has no rule for shapes, which device meta needs; add one with register_fake"
                )
            return self._fake
        for candidate in (kind, "cuda", None) if kind == "vgpu" else (kind, None):
            found = None if candidate in self._disabled else self._kernels.get(candidate)
            if found is not None:
                break
        if found is None:
            registered = ", ".join(k for k in self._kernels if k) or "none"
            raise NotImplementedError(
                f"{self._qualname}: no kernel for device {kind}; registered: {registered}. Add one with "
                f"register_kernel({kind!r})"
            )
        return found

    def _keywords(self, values):
        keywords = self._schema.keywords
        return {p.name: v for p, v in zip(keywords, values[len(self._schema.positional) :], strict=True)}

    def _run(self, values, kind):
        function, handle = self._kernel_for(kind)
        positional = tuple(values[: len(self._schema.positional)])
        try:
            made = _C._custom_run(handle, function, positional, self._keywords(values))
        finally:  # a kernel that fails may have written before
            for p, value in zip(self._schema.parameters, values, strict=True):
                if p.written and kind != "meta":
                    _C._count_writes(tuple(each_tensor((value,))))
        who = f"the {'rule for meta' if kind == 'meta' else f'kernel for {kind}'} of {self._qualname}"
        self._schema.check_results(who, made)
        self._check_aliases(who, values, made)
        if isinstance(self._schema.results, tuple):
            return tuple(made) if self._schema.results else None
        return list(made) if self._schema.results.is_list else made

    def _check_aliases(self, who, values, made):
        owners = {}
        for p, value in zip(self._schema.parameters, values, strict=True):
            for t in each_tensor((value,)):
                owners[_C._storage_id(t)] = f"its argument {p.name!r}"
        for t in each_tensor(_as_tuple(made)):
            storage = _C._storage_id(t)
            if storage and storage in owners:
                raise RuntimeError(
                    f"{who} returned a tensor that shares the memory of {owners[storage]}; results must have their own "
                    "memory: return a clone()"
                )
            owners[storage] = "another result"

    @property
    def default(self):
        """The op itself, for programs that name the overload."""
        return self

    def __reduce__(self):
        return find, (self._qualname, "pickle")

    def __repr__(self):
        return f"<strata.library.CustomOpDef {self._qualname}{self._schema}>"


def _check_callable(function, what):
    if not callable(function):
        raise TypeError(f"{what} must be a function, got {type(function).__name__}")


def _replaced(made, tensors):
    """The same structure with other tensors."""
    if isinstance(made, (list, tuple)):
        return type(made)(next(tensors) if isinstance(v, _C.Tensor) else v for v in made)
    return next(tensors) if isinstance(made, _C.Tensor) else made
