"""Custom ops of your own, with kernels per device, shape rules and gradients; the names are those of torch.library."""

from . import _schema
from ._custom_op import BuiltInOp, CustomOpDef, find, publish, split_name
from ._opcheck import OpCheckError, opcheck

__all__ = [
    "CustomOpDef",
    "Library",
    "OpCheckError",
    "custom_op",
    "define",
    "impl",
    "infer_schema",
    "opcheck",
    "register_autocast",
    "register_autograd",
    "register_fake",
    "register_kernel",
    "register_vmap",
]


def _names(mutates_args):
    if mutates_args == "unknown":
        return mutates_args
    if isinstance(mutates_args, str):
        raise ValueError(f'mutates_args must be a tuple of names, or "unknown" for all tensors, got {mutates_args!r}')
    return tuple(mutates_args)


def custom_op(name, fn=None, /, *, mutates_args, device_types=None, schema=None):
    """Makes a function an op named "namespace::name". Also a decorator.

    The schema comes from the annotations of the function, unless given: "(Tensor x, float by) -> Tensor".
    `mutates_args` names the tensors that the function writes to; it must not write to others, and returns new tensors.
    `device_types`: the device types that the function is a kernel for, all by default; see register_kernel.
    """
    split_name(name)
    written = _names(mutates_args)

    def make(function):
        if schema is None:
            read = _schema.of_function(function, written)
        else:
            read = _schema.of_text(schema)
            if written not in ((), "unknown") and set(written) != set(read.written):
                raise ValueError(
                    f"{name}: mutates_args names {', '.join(written)}, but the schema says {', '.join(read.written) or 'none'}"
                )
        op = CustomOpDef(name, read)
        op.__doc__ = function.__doc__
        op.register_kernel(device_types, function)
        publish(name, op)
        return op

    return make if fn is None else make(fn)


def infer_schema(prototype_function, /, *, mutates_args, op_name=None):
    """The schema of a function with annotations, as a text."""
    return f"{op_name or ''}{_schema.of_function(prototype_function, _names(mutates_args))}"


def register_kernel(op, device_types, func=None, /):
    """See CustomOpDef.register_kernel; `op` may be a name."""
    return find(op, "register_kernel").register_kernel(device_types, func)


def register_fake(op, func=None, /):
    """See CustomOpDef.register_fake; `op` may be a name."""
    found = find(op, "register_fake")
    return found.register_fake if func is None else found.register_fake(func)


def register_autograd(op, backward, /, *, setup_context=None):
    """See CustomOpDef.register_autograd; `op` may be a name."""
    find(op, "register_autograd").register_autograd(backward, setup_context=setup_context)


def register_autocast(op, device_type, cast_inputs, /):
    """See CustomOpDef.register_autocast; `op` may be a name."""
    find(op, "register_autocast").register_autocast(device_type, cast_inputs)


def register_vmap(op, func=None, /):
    """See CustomOpDef.register_vmap; `op` may be a name."""
    return find(op, "register_vmap").register_vmap(func)


def define(qualname, schema):
    """Defines an op without a kernel: define("mine::scale", "(Tensor x, float by) -> Tensor")."""
    op = CustomOpDef(qualname, _schema.of_text(schema))
    publish(qualname, op)
    return op


def impl(qualname, types, func=None):
    """Adds a kernel to an op: `types` are device types, or "default" for all devices. Also a decorator."""
    kinds = [types] if isinstance(types, str) else list(types)
    return find(qualname, "impl").register_kernel([None if kind == "default" else kind for kind in kinds], func)


class Library:
    """Ops of one namespace, defined by schema and implemented by dispatch key: CPU, CUDA, Meta, CompositeExplicitAutograd,
    CompositeImplicitAutograd."""

    _KEYS = {"CPU": "cpu", "CUDA": "cuda", "CompositeExplicitAutograd": None}

    def __init__(self, ns, kind="FRAGMENT", dispatch_key=""):
        split_name(f"{ns}::op")
        if kind not in ("DEF", "FRAGMENT", "IMPL"):
            raise ValueError(f"Library: kind must be DEF, FRAGMENT or IMPL, got {kind!r}")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def define(self, schema):
        """Defines "name(Tensor x, ...) -> Tensor" and returns the name."""
        name, parenthesis, rest = schema.partition("(")
        define(f"{self.ns}::{name.strip()}", parenthesis + rest)
        return name.strip()

    def impl(self, op_name, fn, dispatch_key=""):
        """Adds a kernel for a dispatch key; Meta is the rule for shapes, CompositeImplicitAutograd a function of other ops."""
        key = dispatch_key or self.dispatch_key or "CompositeExplicitAutograd"
        named = f"{self.ns}::{op_name.rpartition('::')[2]}" if isinstance(op_name, str) else op_name
        op = find(named, "Library.impl")
        if isinstance(op, BuiltInOp):
            return  # it has kernels for all keys
        if key == "Meta":
            op.register_fake(fn)
        elif key == "CompositeImplicitAutograd":
            op._composite = fn
        elif key in self._KEYS:
            op.register_kernel(self._KEYS[key], fn)
        else:
            known = ", ".join([*self._KEYS, "CompositeImplicitAutograd", "Meta"])
            raise NotImplementedError(f"Library.impl: dispatch key {key!r} is not available; there are {known}")

    def __repr__(self):
        return f"<strata.library.Library {self.ns}>"
