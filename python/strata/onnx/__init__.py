"""ONNX models: load() makes a module of one, register() adds an op, export() writes a module as a model.

>>> model = strata.onnx.load("model.onnx")     # doctest: +SKIP
>>> model(images)                              # doctest: +SKIP
"""

from typing import NamedTuple

from .. import _C
from ..nn.module import Module
from ._export import export
from ._values import NAMES, to_value

__all__ = ["Model", "Value", "export", "load", "ops", "register"]


class Value(NamedTuple):
    """An input or output of a model. A size is a number, a name, or None."""

    name: str
    type: str
    shape: list | None
    optional: bool


def _type_name(kind, element, inner):
    if kind == 1:
        return f"tensor({NAMES.get(element, 'undefined')})"
    if kind in (2, 3):
        name = "seq" if kind == 2 else "optional"
        return f"{name}({_type_name(*inner[:2], inner[3])})" if inner else name
    return {4: "map", 5: "sparse_tensor"}.get(kind, "undefined")


def _ports(rows):
    return [Value(name, _type_name(t[0], t[1], t[3]), t[2], optional) for name, t, optional in rows]


class Model(Module):
    """A model of an ONNX file. Call it with its inputs in order, or by name; it returns its output, or a tuple of several.

    Inputs are tensors or what tensors are made of, lists for sequences, texts. Gradients are not recorded.
    """

    def __init__(self, source, device="cpu", *, max_loop_iterations=1 << 24, max_value_bytes=0):
        super().__init__()
        self._network = _C._onnx_load(source, _C.device(device), max_loop_iterations, max_value_bytes)
        about = _C._onnx_describe(self._network)
        self.inputs, self.outputs = _ports(about.pop("inputs")), _ports(about.pop("outputs"))
        self.device = about.pop("device")
        self.about = about
        self.eval()

    def values_of(self, inputs):
        """The inputs in order, as the network takes them, for a dict by name."""
        known = [v.name for v in self.inputs]
        unknown = [name for name in inputs if name not in known]
        if unknown:
            raise ValueError(f"onnx: the model has no input {unknown[0]!r}; its inputs are {', '.join(known)}")
        return [to_value(inputs.get(name), self.device) for name in known]

    def run(self, inputs):
        """All outputs as a list, for a dict of inputs by name."""
        return _C._onnx_run(self._network, self.values_of(inputs))

    def forward(self, *args, **named):
        if len(args) > len(self.inputs):
            raise TypeError(f"onnx: {len(args)} inputs were given, the model has {len(self.inputs)}")
        for value, argument in zip(self.inputs, args, strict=False):
            if value.name in named:
                raise TypeError(f"onnx: the input {value.name!r} is given twice")
            named[value.name] = argument
        outputs = self.run(named)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def extra_repr(self):
        shown = [", ".join(f"{v.name}: {v.type}{v.shape}" for v in side) for side in (self.inputs, self.outputs)]
        return f"inputs=({shown[0]}), outputs=({shown[1]}), nodes={self.about['nodes']}"


def load(source, device="cpu", *, max_loop_iterations=1 << 24, max_value_bytes=0):
    """The model of a file, or of the bytes of one, as a module.

    `source` is a path or bytes. `device` is where it runs; one that is not there is an error. A model with ops that
    are not known is refused, with all of them. The limits stop hostile models: iterations of a Loop, and bytes of a
    value (0: the memory of the machine).
    """
    return Model(source, device, max_loop_iterations=max_loop_iterations, max_value_bytes=max_value_bytes)


def register(domain, op, function=None):
    """Adds an op, or replaces one, for models that are loaded from then on.

    `function` takes the inputs (None for one that is not given) and the attributes by name, and returns a tensor or a
    tuple of them. Without it, register() is a decorator:

    >>> @strata.onnx.register("my.domain", "Twice")
    ... def twice(x):
    ...     return x * 2
    """

    def add(f):
        _C._onnx_register(domain, op, f)
        return f

    return add if function is None else add(function)


def ops():
    """All known ops: triples of domain ("" is ONNX's own), name and the first opset that is supported."""
    return _C._onnx_ops()
