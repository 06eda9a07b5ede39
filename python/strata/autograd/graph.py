"""The graph of backward(): its nodes, hooks on several gradients, and on the tensors that it saves; as torch.autograd.graph."""

import contextlib
from collections import namedtuple

from .. import _C
from .._grad_fn import AccumulateGrad, Node
from ..utils.hooks import RemovableHandle

__all__ = [
    "GradientEdge",
    "Node",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "queue_callback",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]


class saved_tensors_hooks:
    """In the with block, a graph keeps pack_hook(tensor) for each tensor that an op saves; backward gets unpack_hook(packed)."""

    def __init__(self, pack_hook, unpack_hook):
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self):
        _C._push_saved_hooks(self.pack_hook, self.unpack_hook)
        return self

    def __exit__(self, *_):
        _C._pop_saved_hooks()


class save_on_cpu(saved_tensors_hooks):
    """In the with block, saved tensors are moved to the CPU, and back when backward needs them.

    pin_memory: into page-locked memory, which a device copies asynchronously.
    """

    def __init__(self, pin_memory=False, device_type="cuda"):
        def pack(tensor):
            kept = tensor.cpu()
            return tensor.device, kept.pin_memory() if pin_memory and tensor.device.type != "cpu" else kept

        def unpack(packed):
            device, tensor = packed
            return tensor.to(device, non_blocking=pin_memory)

        super().__init__(pack, unpack)


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message):
    """In the with block, saved_tensors_hooks raises RuntimeError(error_message)."""
    before = _C._forbid_saved_hooks(error_message)
    try:
        yield
    finally:
        _C._forbid_saved_hooks(before)


GradientEdge = namedtuple("GradientEdge", ["node", "output_nr", "ownership_token"], defaults=[None])
GradientEdge.__doc__ = "Where the gradient of a tensor goes: a node and the number of its output."


def get_gradient_edge(tensor):
    """The GradientEdge of a tensor that requires a gradient."""
    if not tensor.requires_grad:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients.")
    return GradientEdge(tensor.grad_fn or AccumulateGrad(tensor), tensor.output_nr)


def increment_version(tensor):
    """Counts a write to a tensor, or to each of several: a graph that saved the old values raises in backward()."""
    tensors = [tensor] if isinstance(tensor, _C.Tensor) else list(tensor)
    if any(t.is_inference() for t in tensors):
        raise RuntimeError("increment_version: tensors made under inference_mode() have no version")
    _C._count_writes(tuple(tensors))


def queue_callback(callback):
    """Calls callback() when the backward pass that runs now has ended: for hooks."""
    _C._queue_callback(callback)


def register_multi_grad_hook(tensors, fn, *, mode="all"):
    """Calls fn(gradients) when backward() has the gradients of all tensors; with mode="any" fn(gradient) with the first one.

    A tensor that gets no gradient has None in the list. Returns a handle with remove().
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    places = [i for i, t in enumerate(tensors) if t.requires_grad]
    found = {}

    def finish():  # at the end of a pass, or as soon as all gradients are there
        gradients = [found.get(i) for i in range(len(tensors))]
        done = found.pop("done", False)
        found.clear()
        if mode == "all" and not done:
            fn(gradients)

    def see(place, gradient):
        if place in found:  # of a pass that failed
            found.clear()
        if not found:
            queue_callback(finish)
            if mode == "any":
                fn(gradient)
        found[place] = gradient
        if mode == "all" and len(found) == len(places):
            fn([found.get(i) for i in range(len(tensors))])
            found["done"] = True

    return _Handles({i: tensors[i].register_hook(lambda g, i=i: see(i, g)) for i in places})


class _Handles(RemovableHandle):
    """Removes several hooks together."""

    def remove(self):
        for handle in self.hooks.values():
            handle.remove()
