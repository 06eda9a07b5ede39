"""InferenceSession over strata.onnx.Model."""

import os

from .. import _C
from ..engine import Engine
from ..onnx import Model, _values
from ._options import GraphOptimizationLevel, SessionOptions
from ._providers import device_of
from ._values import OrtValue, device_named
from .capi.onnxruntime_pybind11_state import Fail, InvalidArgument, InvalidGraph, NoSuchFile
from .capi.onnxruntime_pybind11_state import NotImplemented as NotSupported

_MOST_SIZES = 1024  # that are remembered as seen


class NodeArg:
    """An input or output: name, type and shape."""

    def __init__(self, value):
        self.name, self.type, self.shape = value.name, value.type, value.shape if value.shape is not None else []

    def __repr__(self):
        return f"NodeArg(name={self.name!r}, type={self.type!r}, shape={self.shape})"

    __str__ = __repr__


class ModelMetadata:
    def __init__(self, about):
        self.producer_name = about["producer"]
        self.graph_name = about["graph"]
        self.domain = about["domain"]
        self.description = about["doc"]
        self.graph_description = ""
        self.version = about["version"]
        self.custom_metadata_map = about["metadata"]


def _loaded(source, device):
    """The model, with the exceptions of onnxruntime."""
    if isinstance(source, bytes | bytearray | memoryview):
        source = bytes(source)
    elif not os.path.exists(source):
        raise NoSuchFile(f"Load model from {os.fspath(source)} failed: File doesn't exist")
    try:
        return Model(source, device)
    except NotImplementedError as e:
        raise NotSupported(str(e)) from e
    except (RuntimeError, ValueError) as e:
        raise InvalidGraph(str(e)) from e


class _Runs:
    """Runs of a model. The ops of sizes that come once are called one by one; sizes that come again get a graph of an engine."""

    def __init__(self, model, options):
        self._model = model
        off = options.graph_optimization_level == GraphOptimizationLevel.ORT_DISABLE_ALL
        self._engine = None if off else Engine.of_model(model)
        self._seen = set()

    def __call__(self, feeds):
        if self._engine is None:
            return self._model.run(feeds)
        sizes = tuple((name, getattr(v, "shape", None)) for name, v in feeds.items())
        try:
            is_new = sizes not in self._seen
        except TypeError:  # lists of sizes: not an array
            is_new = True
        if is_new:
            if len(self._seen) < _MOST_SIZES:
                self._seen.add(sizes)
            return self._model.run(feeds)
        return self._engine.run(self._model.values_of(feeds))


class InferenceSession:
    """A model that is ready to run. Keywords of onnxruntime that tune its own engine are accepted."""

    def __init__(self, path_or_bytes, sess_options=None, providers=None, provider_options=None, **kwargs):
        device, self._providers = device_of(providers, provider_options)
        self._options = sess_options or SessionOptions()
        self._model = _loaded(path_or_bytes, device)
        self._runs = _Runs(self._model, self._options)

    def get_session_options(self):
        return self._options

    def get_inputs(self):
        return [NodeArg(v) for v in self._model.inputs if not v.optional]

    def get_overridable_initializers(self):
        return [NodeArg(v) for v in self._model.inputs if v.optional]

    def get_outputs(self):
        return [NodeArg(v) for v in self._model.outputs]

    def get_providers(self):
        return list(self._providers)

    def get_provider_options(self):
        return {name: {} for name in self._providers}

    def set_providers(self, providers=None, provider_options=None):
        device, names = device_of(providers, provider_options)
        if device.type != self._model.device.type:
            raise RuntimeError("InferenceSession.set_providers: a session stays on its device; make another one")
        self._providers = names

    def get_modelmeta(self):
        return ModelMetadata(self._model.about)

    def disable_fallback(self):
        """Accepted: nothing falls back to another provider."""

    def enable_fallback(self):
        """Accepted: nothing falls back to another provider."""

    def end_profiling(self):
        return ""

    def io_binding(self):
        return IOBinding(self)

    def _results(self, output_names, feeds):
        names = [v.name for v in self._model.outputs]
        wanted = list(output_names) if output_names else names
        for name in wanted:
            if name not in names:
                raise InvalidArgument(f"Invalid output name: {name}")
        for name in (v.name for v in self.get_inputs()):
            if name not in feeds:
                raise InvalidArgument(f"Required inputs (['{name}']) are missing from input feed ({list(feeds)}).")
        try:
            results = self._runs(feeds)
        except (TypeError, ValueError) as e:
            raise InvalidArgument(str(e)) from e
        except NotImplementedError as e:
            raise NotSupported(str(e)) from e
        except RuntimeError as e:
            raise Fail(str(e)) from e
        by_name = dict(zip(names, results, strict=True))
        return [by_name[name] for name in wanted]

    def run(self, output_names, input_feed, run_options=None):
        """The outputs with these names (None: all) as arrays, for a dict of arrays."""
        feeds = {name: v._value if isinstance(v, OrtValue) else v for name, v in input_feed.items()}
        return [_values.to_numpy(v) for v in self._results(output_names, feeds)]

    def run_with_ort_values(self, output_names, input_dict_ort_values, run_options=None):
        feeds = {name: v._value for name, v in input_dict_ort_values.items()}
        return [OrtValue(v) for v in self._results(output_names, feeds)]

    def run_with_iobinding(self, iobinding, run_options=None):
        iobinding._run()


class IOBinding:
    """Inputs and outputs that stay where they are between runs."""

    def __init__(self, session):
        self._session = session
        self._inputs, self._outputs, self._results = {}, {}, []

    def bind_cpu_input(self, name, array):
        self._inputs[name] = array

    def bind_ortvalue_input(self, name, ortvalue):
        self._inputs[name] = ortvalue._value

    def bind_input(self, name, device_type, device_id, element_type, shape, buffer_ptr):
        raise NotImplementedError("IOBinding.bind_input: addresses are not accepted; use bind_ortvalue_input")

    def bind_output(self, name, device_type="cpu", device_id=0, element_type=None, shape=None, buffer_ptr=None):
        if buffer_ptr is not None:
            raise NotImplementedError("IOBinding.bind_output: addresses are not accepted; use bind_ortvalue_output")
        self._outputs[name] = device_named(device_type, device_id)

    def bind_ortvalue_output(self, name, ortvalue):
        self._outputs[name] = ortvalue

    def clear_binding_inputs(self):
        self._inputs.clear()

    def clear_binding_outputs(self):
        self._outputs.clear()

    def synchronize_inputs(self):
        """Inputs are copied when they are bound or used; nothing is left to wait for."""

    def synchronize_outputs(self):
        """Reading an output waits for it."""

    def _run(self):
        names = list(self._outputs) or [v.name for v in self._session.get_outputs()]
        self._results = []
        for name, value in zip(names, self._session._results(names, self._inputs), strict=True):
            place = self._outputs.get(name)
            if isinstance(place, OrtValue):
                place._tensor().copy_(value)
                self._results.append(place)
            elif place is not None and isinstance(value, _C.Tensor):
                self._results.append(OrtValue(value.to(place)))
            else:
                self._results.append(OrtValue(value))

    def get_outputs(self):
        return list(self._results)

    def copy_outputs_to_cpu(self):
        return [value.numpy() for value in self._results]
