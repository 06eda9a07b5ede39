"""multiprocessing with shared tensors: a tensor after share_memory_() is sent to another process without a copy.

All names of the standard module are here too. The memory is an anonymous file (memfd), so nothing is left behind when the
processes end, and what one process writes the others read.
"""

import mmap
import multiprocessing as _standard
import os
from multiprocessing import *  # noqa: F403
from multiprocessing.reduction import DupFd, ForkingPickler

from . import _C

__all__ = ["get_all_sharing_strategies", "get_sharing_strategy", "set_sharing_strategy", "spawn"]
__all__ += _standard.__all__


class _SharedMap(mmap.mmap):
    """A mapping that keeps its file open, so that it can be passed on."""

    def __new__(cls, file, bytes):
        made = super().__new__(cls, file, bytes)
        made.file = file
        return made

    def __del__(self):
        os.close(self.file)


def _tensor_over(memory, dtype, shape, stride, offset):
    flat = _C.from_numpy(memory)
    flat = flat[: flat.numel() // dtype.itemsize * dtype.itemsize].view(dtype)
    return flat.as_strided(shape, stride, offset)


def is_shared(tensor):
    """Whether the tensor's memory is shared with other processes; that of a device always is."""
    return tensor.device.type in ("cuda", "vgpu") or isinstance(_C._buffer_owner(tensor), _SharedMap)


def share(tensor):
    """Moves the tensor's values into memory that other processes can map. Views made before keep the old memory."""
    if is_shared(tensor):
        return tensor
    if tensor.is_meta:
        raise RuntimeError("share_memory_: a meta tensor has no memory to share")
    file = os.memfd_create("strata")
    size = max(tensor.numel() * tensor.itemsize, tensor.itemsize)
    os.ftruncate(file, size)
    stride = tensor.stride() if tensor.is_contiguous() else _C.ops["empty_like"](tensor, device="meta").stride()
    moved = _tensor_over(_SharedMap(file, size), tensor.dtype, tensor.shape, stride, 0)
    from .autograd import no_grad

    with no_grad():
        moved.copy_(tensor.detach())
    tensor.data = moved
    return tensor


def _rebuild(cls, file, size, layout, requires_grad, state):
    from ._tensor import _finish

    return _finish(cls, _tensor_over(_SharedMap(file.detach(), size), *layout), requires_grad, state)


def _reduce(tensor):
    """For queues, pipes and arguments of processes: a shared tensor by its memory, another by its values."""
    memory = _C._buffer_owner(tensor)
    if not isinstance(memory, _SharedMap):
        return tensor.__reduce_ex__(2)
    if not tensor.is_leaf and tensor.requires_grad:
        raise RuntimeError("a computed tensor that requires a gradient cannot be sent to another process; detach() it")
    layout = (tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.storage_offset())
    state = tensor.__dict__ or None
    return _rebuild, (type(tensor), DupFd(memory.file), len(memory), layout, tensor.requires_grad, state)


def _register():
    from .nn.parameter import Buffer, Parameter

    for kind in (_C.Tensor, Parameter, Buffer):
        ForkingPickler.register(kind, _reduce)


_register()


def get_all_sharing_strategies():
    """The one that exists: file descriptors."""
    return {"file_descriptor"}


def get_sharing_strategy():
    """How memory is shared: through file descriptors."""
    return "file_descriptor"


def set_sharing_strategy(new_strategy):
    """Accepts the strategy that exists."""
    if new_strategy not in ("file_descriptor", "file_system"):
        raise ValueError(f"set_sharing_strategy: unknown strategy {new_strategy!r}; there is 'file_descriptor'")


class ProcessRaisedException(Exception):
    """A process that spawn() started raised an exception."""


def _run(fn, index, args):
    fn(index, *args)


def spawn(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    """Starts nprocs processes that call fn(index, *args); with join, waits for them and raises if one fails."""
    context = _standard.get_context(start_method)
    processes = [context.Process(target=_run, args=(fn, i, args), daemon=daemon) for i in range(nprocs)]
    for process in processes:
        process.start()
    if not join:
        return processes
    for index, process in enumerate(processes):
        process.join()
        if process.exitcode:
            raise ProcessRaisedException(f"process {index} ended with exit code {process.exitcode}; its error is above")
    return None


start_processes = spawn  # PyTorch's name of the same function


def __getattr__(name):
    if name.startswith("__"):  # not its __path__: submodules of the standard module stay there
        raise AttributeError(f"module 'strata.multiprocessing' has no attribute {name!r}")
    return getattr(_standard, name)
