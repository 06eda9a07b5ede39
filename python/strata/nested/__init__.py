"""Nested tensors: batches of tensors of different lengths, by the names of torch.nested."""

from .. import _C
from ._irregular import from_components
from ._tensor import NestedTensor, packed

ops, Tensor = _C.ops, _C.Tensor

__all__ = [
    "NestedTensor",
    "as_nested_tensor",
    "masked_select",
    "narrow",
    "nested_tensor",
    "nested_tensor_from_jagged",
    "to_padded_tensor",
]
_LAYOUTS = ("strided", "jagged")


def _check_layout(layout):
    if layout not in (None, *_LAYOUTS):
        raise RuntimeError(f"nested tensors have the layouts strided and jagged, got {layout}")
    return layout or "strided"


def _packed_list(tensors, layout):
    if not tensors:
        raise RuntimeError("a nested tensor needs at least one component; found an empty list")
    first = tensors[0]
    for t in tensors:
        if t.dim() == 0 or t.dim() != first.dim() or t.dtype is not first.dtype or t.device != first.device:
            raise RuntimeError(
                "nested tensors need components of one dtype, device and number of dimensions, at least one; got "
                f"{first.dtype} of {list(first.shape)} and {t.dtype} of {list(t.shape)}"
            )
    return from_components(tensors, layout)


def nested_tensor(tensor_list, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    """A nested tensor of copies of the given tensors, arrays or lists; it has no history.

    >>> strata.nested.nested_tensor([[1.0, 2.0], [3.0]]).to_padded_tensor(0)
    tensor([[1., 2.],
            [3., 0.]])
    """
    layout = _check_layout(layout)
    parts = [t.detach() if isinstance(t, Tensor) else _C.tensor(t) for t in tensor_list]
    parts = [t.to(device=device or t.device, dtype=dtype or t.dtype) for t in parts]
    return _packed_list(parts, layout).requires_grad_(requires_grad)


def as_nested_tensor(ts, dtype=None, device=None, layout=None):
    """A nested tensor of the given tensors, to which gradients flow; a dense tensor is a batch of equal lengths."""
    layout = _check_layout(layout)
    if isinstance(ts, NestedTensor):
        return ts.to(device=device or ts.device, dtype=dtype or ts.dtype)
    if isinstance(ts, Tensor) and ts.dim() < 2:
        raise RuntimeError(f"as_nested_tensor: expected a tensor of at least 2 dimensions, got {ts.dim()}")
    parts = list(ts.unbind(0)) if isinstance(ts, Tensor) else list(ts)
    if not all(isinstance(t, Tensor) for t in parts):
        raise TypeError("as_nested_tensor: expected a list of Tensors; nested_tensor() takes numbers")
    return _packed_list([t.to(device=device or t.device, dtype=dtype or t.dtype) for t in parts], layout)


def nested_tensor_from_jagged(values, offsets=None, lengths=None, jagged_dim=None, min_seqlen=None, max_seqlen=None):
    """A nested tensor over packed rows: values [rows, ...] and the place of each component's first row, or the lengths."""
    if jagged_dim not in (None, 1):
        raise NotImplementedError(f"nested_tensor_from_jagged: jagged_dim must be 1, got {jagged_dim}")
    if offsets is None and lengths is None:
        raise RuntimeError("nested_tensor_from_jagged: at least one of offsets or lengths is required")
    if offsets is None:
        offsets = ops["cat"]([lengths.new_zeros(1), lengths.cumsum(0)])
    elif lengths is not None:
        raise NotImplementedError(
            "nested_tensor_from_jagged: gaps between components (lengths with offsets) are missing"
        )
    offsets = offsets.detach().to(_C.int64)
    if offsets.dim() != 1 or offsets.numel() == 0 or values.dim() == 0:
        raise RuntimeError(
            "nested_tensor_from_jagged: expected a vector of offsets, and values with a dimension of rows"
        )
    steps = offsets[1:] - offsets[:-1]
    if int(offsets[0]) != 0 or int(offsets[-1]) != values.shape[0] or bool((steps < 0).any()):
        raise RuntimeError(
            f"nested_tensor_from_jagged: offsets must rise from 0 to the number of rows, {values.shape[0]}, got "
            f"{offsets.tolist()[:8]}"
        )
    longest = int(steps.max()) if steps.numel() else 0
    return packed(values, offsets, longest, 1, "jagged")


def narrow(tensor, dim, start, length, layout="strided"):
    """Pieces of the rows tensor[i], from start to start + length along dim, as a nested tensor; start and length are numbers for all
    rows or a vector with one for each. The pieces are copies through which gradients flow.

    >>> strata.nested.narrow(strata.arange(6).reshape(2, 3), 1, strata.tensor([0, 1]), strata.tensor([1, 2])).unbind()
    (tensor([0]), tensor([4, 5]))
    """
    if not isinstance(tensor, Tensor) or isinstance(tensor, NestedTensor) or tensor.dim() < 2:
        raise RuntimeError("nested.narrow: expected a dense tensor of at least 2 dimensions")
    place = dim + tensor.dim() if dim < 0 else dim
    if not 0 < place < tensor.dim():
        raise RuntimeError(f"nested.narrow: dim must be one of 1 to {tensor.dim() - 1}, found {dim}")
    rows = tensor.unbind(0)

    def numbers(name, given):
        found = given.tolist() if isinstance(given, Tensor) and given.dim() else [int(given)] * len(rows)
        if len(found) != len(rows):
            raise RuntimeError(f"nested.narrow: expected {len(rows)} numbers in {name}, found {len(found)}")
        return found

    starts, lengths = numbers("start", start), numbers("length", length)
    pieces = [row.narrow(place - 1, a, n) for row, a, n in zip(rows, starts, lengths, strict=True)]
    return from_components(pieces, _check_layout(layout))


def masked_select(tensor, mask):
    """The elements of each row tensor[i] at which mask[i] is true, as a nested tensor of the layout jagged.

    >>> strata.nested.masked_select(strata.ones(2, 2), strata.eye(2).bool()).unbind()
    (tensor([1.]), tensor([1.]))
    """
    if mask.dtype is not _C.bool or mask.dim() != 2:
        raise ValueError(
            f"nested.masked_select: expected a mask of bool with 2 dimensions, got {mask.dtype}, {mask.dim()}"
        )
    values = tensor.expand(mask.shape).masked_select(mask)
    return nested_tensor_from_jagged(values, lengths=mask.sum(1))


def to_padded_tensor(input, padding, output_size=None):
    """A dense tensor with padding after each component."""
    if not isinstance(input, NestedTensor):
        raise RuntimeError("to_padded_tensor: expected a nested tensor")
    return input.to_padded_tensor(padding, output_size)
