"""torch._utils: the functions that pickles of PyTorch name."""

from collections import OrderedDict

from .. import _C
from ..nn.parameter import Parameter


def _rebuild_tensor(storage, storage_offset, size, stride):
    flat = storage._elements
    return flat.as_strided(tuple(size), tuple(stride), storage_offset)


def _rebuild_tensor_v2(storage, storage_offset, size, stride, requires_grad, backward_hooks, metadata=None):
    tensor = _rebuild_tensor(storage, storage_offset, size, stride)
    return tensor.requires_grad_() if requires_grad else tensor


def _rebuild_tensor_v3(storage, storage_offset, size, stride, requires_grad, backward_hooks, dtype, metadata=None):
    flat = storage._bytes.view(dtype)
    tensor = flat.as_strided(tuple(size), tuple(stride), storage_offset)
    return tensor.requires_grad_() if requires_grad else tensor


def _rebuild_sparse_tensor(layout, data):
    from .. import sparse

    if layout == "sparse_coo":
        return sparse.sparse_coo_tensor(*data[:3], is_coalesced=data[3] if len(data) > 3 else None)
    return sparse.sparse_compressed_tensor(*data, layout=layout)


def _rebuild_parameter(data, requires_grad, backward_hooks):
    return Parameter(data, requires_grad)


def _rebuild_parameter_with_state(data, requires_grad, backward_hooks, state):
    made = Parameter(data, requires_grad)
    made.__dict__.update(state if isinstance(state, dict) else state[0] or {})
    return made


def _rebuild_from_type_v2(func, kind, args, state):
    made = func(*args)
    if kind is not _C.Tensor and type(made) is not kind:
        made = _C.Tensor._make_subclass(kind, made, made.requires_grad)
    made.__dict__.update(state if isinstance(state, dict) else (state or ({},))[0] or {})
    return made


def _flatten_dense_tensors(tensors):
    return _C.ops["cat"]([t.contiguous().view(-1) for t in tensors])


def _unflatten_dense_tensors(flat, tensors):
    pieces = flat.split([t.numel() for t in tensors])
    return tuple(p.view_as(t) for p, t in zip(pieces, tensors, strict=True))


__all__ = ["OrderedDict"]
