"""What strata.explain of a function returns: one call on every layer, from the Python line to the instructions."""

import json as _json
import types

from . import _C


class Journey:
    """One call on every layer: print it, or read `steps`, a list of dicts with the `op`, its `direction` ("forward" or "backward"),
    `depth` (ops inside composites are deeper), time `us`, and `layers` in order: dicts of `layer`, `text`, `facts`, `lines`, `us`.

    `id` is that of all spans of the call, `results` has types and values; `json()` is all of it as JSON, `html()` a page. As a
    sequence it is the kernels that were considered: (op, kernel, reason)."""

    def __init__(self, handle):
        self._handle = handle
        self._considered = _C._explain_considered(handle)
        found = _json.loads(_C._explain_text(handle, "json"))
        self.title, self.device, self.id = found["title"], found["device"], found["id"]
        self.spans, self.us = found["spans"], found["us"]
        self.steps, self.results = found["steps"], found["results"]

    def __str__(self):
        return _C._explain_text(self._handle, "text").rstrip("\n")

    __repr__ = __str__

    def __iter__(self):
        return iter(self._considered)

    def __len__(self):
        return len(self._considered)

    def __getitem__(self, index):
        return self._considered[index]

    def json(self):
        return _C._explain_text(self._handle, "json")

    def html(self):
        """The same as one page without other files."""
        return _C._explain_text(self._handle, "html")

    def _repr_html_(self):
        from html import escape

        return f"<pre>{escape(str(self))}</pre>"


def _backward(result, gradients):
    """The gradient of all results that have one. `gradients` keeps the tensors of ones that the first call makes."""
    from . import Tensor, autograd, ones_like

    found = result if isinstance(result, tuple | list) else [result]
    roots = [t for t in found if isinstance(t, Tensor) and t.requires_grad and not t.dtype == bool]
    if not roots:
        raise RuntimeError("explain: backward=True, but no result requires a gradient")
    if not gradients:
        gradients += [ones_like(t) for t in roots]
    autograd.backward(roots, gradients)


def follow(function, *, title="", backward=False, warm_up=False):
    """Calls the function without arguments, and returns the Journey of the call."""
    gradients = []

    def call():
        result = function()
        if backward:
            _backward(result, gradients)
        return result

    return Journey(_C._explain_call(call, title, warm_up))


def explain(op, /, *args, **kwargs):
    """explain(op, *args, **kwargs): calls the op, and lists which kernels were considered: (op, kernel, reason).

    explain(function, *, title="", backward=False, warm_up=False): calls the function of no arguments, such as `lambda: a + b`, and returns
    what it did on every layer, with its values and times; see `strata help explain`. `warm_up`: calls it twice, and returns the second call,
    for which kernels are loaded and memory is there."""
    options = {"title", "backward", "warm_up"}
    if not args and isinstance(op, types.FunctionType | types.MethodType) and not set(kwargs) - options:
        return follow(op, **kwargs)
    return _C.explain(op, *args, **kwargs)


def explain_layers(network, /, *args, backward=False, **kwargs):
    """Calls the module a few times, and returns the kernels, times, bytes, operations and bound of each of its layers, and the one change
    that would help most. `backward`: with the gradient of the results."""
    from . import get_default_device, nn
    from ._explain_network import explain_layers as layers_of

    if not isinstance(network, nn.Module):
        raise TypeError(f"explain_layers: expected a module, found {type(network).__name__}")
    gradients = []

    def call():
        result = network(*args, **kwargs)
        if backward:
            _backward(result, gradients)

    parameter = next(network.parameters(), None)
    device = parameter.device if parameter is not None else next((a.device for a in args if hasattr(a, "device")), None)
    return layers_of(network, call, device=str(device if device is not None else get_default_device()))
