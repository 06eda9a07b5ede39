"""Hooks on the tensors that a graph saves for backward, as in torch.autograd.graph."""

import contextlib

from .. import _C

__all__ = ["disable_saved_tensors_hooks", "save_on_cpu", "saved_tensors_hooks"]


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
