"""Engine and ExecutionContext over the capsules of _C."""

import json
import os
import threading
from typing import NamedTuple

from .. import _C
from ..onnx._values import to_value


class Port(NamedTuple):
    """An input or output of an engine. A size is a number, a name, or None."""

    name: str
    type: str
    shape: list | None
    optional: bool


def _tensors(values):
    return values[0] if len(values) == 1 else tuple(values)


class ExecutionContext:
    """Runs an engine, in memory of its own: one per thread."""

    def __init__(self, engine):
        self.engine = engine
        self._context = _C._engine_context(engine._engine)

    def run(self, inputs, outputs=None):
        """All outputs as a list, for a dict of inputs by name or a list of them in order.

        `outputs` are tensors to write to, by name; the others are new.
        """
        values = self.engine._values(inputs)
        if not outputs:
            return _C._engine_run(self._context, values, None)
        names = [p.name for p in self.engine.outputs]
        if unknown := [name for name in outputs if name not in names]:
            raise ValueError(f"engine: there is no output {unknown[0]!r}; there are {', '.join(names)}")
        return _C._engine_run(self._context, values, [outputs.get(name) for name in names])

    def __call__(self, *args, **named):
        return _tensors(self.run(self.engine._named(args, named)))

    @property
    def last_mode(self):
        """How it ran last: "graph", "cuda graph" or "interpreter"."""
        return _C._engine_state(self._context)[0]

    @property
    def memory(self):
        """Bytes that it holds between runs, without weights."""
        return _C._engine_state(self._context)[1]

    def profile(self, inputs=None, *, times=10, form="text", title="profile", peaks=(0.0, 0.0)):
        """What each layer takes, the best of some runs: as "text", "html", or "json" (a dict).

        `peaks` are FLOP/s and bytes/s of the device (strata.devices(measure=True) measures them), for shares.
        """
        if form not in ("text", "html", "json"):
            raise ValueError(f"engine: form={form!r}; expected 'text', 'html' or 'json'")
        values = self.engine._values(self.engine.sample_inputs() if inputs is None else inputs)
        text = _C._engine_profile(self._context, values, times, form, title, *map(float, peaks))
        return json.loads(text) if form == "json" else text


class Engine:
    """A network with profiles and decisions. Call it with its inputs, in order or by name; save() writes it as a plan.

    Threads may share it: each gets a context of its own.
    """

    def __init__(self, handle):
        self._engine = handle
        self._own = threading.local()
        about = self.describe()
        self.inputs, self.outputs = ([Port(**p) for p in about[side]] for side in ("inputs", "outputs"))
        self.device = _C._engine_device(handle)

    @classmethod
    def of_model(cls, model, **options):
        """The engine of a strata.onnx.Model, with which it shares the weights. Options are those of build()."""
        from ._build import _config

        network = _C._engine_network_of_loaded(model._network)
        return cls(_C._engine_build(network, _config({"graphs_now": False, **options})))

    def create_context(self):
        """A context with memory of its own."""
        return ExecutionContext(self)

    @property
    def _context(self):
        if not hasattr(self._own, "context"):
            self._own.context = self.create_context()
        return self._own.context

    def run(self, inputs, outputs=None):
        """All outputs as a list, for a dict of inputs by name or a list of them in order; see ExecutionContext.run."""
        return self._context.run(inputs, outputs)

    def __call__(self, *args, **named):
        return self._context(*args, **named)

    def describe(self, inputs=None):
        """A dict of what the engine is; with `inputs`, of the graph for their sizes."""
        if inputs is None:
            return json.loads(_C._engine_describe(self._engine))
        return json.loads(_C._engine_inspect(self._engine, self._values(inputs)))

    def profile(self, inputs=None, **options):
        """See ExecutionContext.profile."""
        return self._context.profile(inputs, **options)

    def accuracy(self, inputs, *, form="text"):
        """How far each layer is from the network without optimisation: as "text" or "json" (a dict)."""
        if form not in ("text", "json"):
            raise ValueError(f"engine: form={form!r}; expected 'text' or 'json'")
        text = _C._engine_accuracy(self._engine, self._values(inputs), form)
        return json.loads(text) if form == "json" else text

    def tune(self, inputs=None, *, seconds=60.0, timing_cache=None):
        """Measures the kernels of these sizes here, and uses the fastest from now on. Returns how many layers had a choice."""
        values = self._values(self.sample_inputs() if inputs is None else inputs)
        layers = _C._engine_tune(self._engine, values, float(seconds), timing_cache)
        self._own = threading.local()  # contexts take the new kernels
        return layers

    def save(self, path=None):
        """Writes the plan, a safetensors file; without a path, returns its bytes."""
        return _C._engine_save(self._engine, None if path is None else os.fspath(path))

    def sample_inputs(self):
        """Inputs of the sizes that the engine is tuned for, or that its network has."""
        profiles = self.describe()["profiles"]
        values = {}
        for port in self.inputs:
            if port.optional:
                continue
            shape = profiles[0][port.name]["opt"] if profiles and port.name in profiles[0] else port.shape
            if shape is None or not all(isinstance(n, int) for n in shape):
                raise ValueError(f"engine: the sizes of the input {port.name!r} are {shape}; give inputs")
            dtype = _C.float32 if port.type == "float" else getattr(_C, _DTYPES.get(port.type, port.type))
            x = _C.ops["randn"](shape) if dtype.is_floating_point else _C.ops["zeros"](shape)
            values[port.name] = x.to(dtype)
        return values

    def _named(self, args, named):
        if len(args) > len(self.inputs):
            raise TypeError(f"engine: {len(args)} inputs were given, the network has {len(self.inputs)}")
        for port, value in zip(self.inputs, args, strict=False):
            if port.name in named:
                raise TypeError(f"engine: the input {port.name!r} is given twice")
            named[port.name] = value
        return named

    def _values(self, inputs):
        if not isinstance(inputs, dict):
            inputs = self._named(tuple(inputs), {})
        known = [p.name for p in self.inputs]
        if unknown := [name for name in inputs if name not in known]:
            raise ValueError(f"engine: the network has no input {unknown[0]!r}; its inputs are {', '.join(known)}")
        return [_value(inputs.get(name)) for name in known]

    def eval(self):
        """Returns itself: an engine only infers."""
        return self

    def __reduce__(self):
        return _from_plan, (self.save(),)

    def __repr__(self):
        shown = [", ".join(f"{p.name}: {p.type}{p.shape}" for p in side) for side in (self.inputs, self.outputs)]
        return f"Engine(inputs=({shown[0]}), outputs=({shown[1]}), device={str(self.device)!r})"


_DTYPES = {"float": "float32", "double": "float64"}


def _value(value):
    """As the engine takes it: tensors stay where they are."""
    if isinstance(value, _C.Tensor):
        return value.detach() if value.requires_grad else value
    return to_value(value, _C.device("cpu"))


def _from_plan(plan):
    return Engine(_C._engine_load(plan, None))
