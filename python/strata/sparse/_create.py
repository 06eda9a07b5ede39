"""Functions that make sparse tensors."""

import functools
import inspect

from .. import _C
from ._tensor import BLOCKS, COLUMNS, COMPRESSED, compressed, coordinates

ops, Tensor = _C.ops, _C.Tensor


def _index_tensor(data, device, what):
    t = data if isinstance(data, Tensor) else _C.tensor(data)
    if t.numel() == 0:
        t = t.to(_C.int64)
    if t.dtype not in (_C.int64, _C.int32, _C.int16, _C.int8, _C.uint8):
        raise RuntimeError(f"{what}: expected integers, got {t.dtype}")
    return t.detach().to(device=device, dtype=_C.int64)


def _value_tensor(data, dtype, device):
    t = data if isinstance(data, Tensor) else _C.tensor(data)
    device = t.device if device is None else device
    return t.to(device=device, dtype=t.dtype if dtype is None else dtype)


def _finished(made, requires_grad):
    return made.requires_grad_() if requires_grad else made


def sparse_coo_tensor(
    indices=None,
    values=None,
    size=None,
    *,
    dtype=None,
    device=None,
    pin_memory=False,
    requires_grad=False,
    check_invariants=None,
    is_coalesced=None,
):
    """A tensor with values at the coordinates in the columns of indices. Coordinates may repeat: their values add up.

    Without a size it is just large enough for the indices. sparse_coo_tensor(size) has no elements."""
    if values is None:
        if indices is None and size is None:
            raise TypeError("sparse_coo_tensor: expected indices and values, or a size")
        size = tuple(size if size is not None else indices)
        indices = ops["zeros"]((len(size), 0), dtype=_C.int64, device=device)
        values = ops["zeros"]((0,), dtype=dtype, device=device)
    values = _value_tensor(values, dtype, device)
    indices = _index_tensor(indices, values.device, "sparse_coo_tensor")
    if indices.dim() == 1 and indices.numel() == 0:
        indices = indices.reshape(0 if size is None else len(size) - values.dim() + 1, 0)
    if indices.dim() != 2:
        raise RuntimeError(f"sparse_coo_tensor: indices must be sparse_dim x nnz, but got shape {list(indices.shape)}")
    if values.dim() == 0:
        values = values.expand(indices.shape[1])
    if size is None:
        largest = (indices.amax(1) + 1).tolist() if indices.shape[1] else [0] * indices.shape[0]
        size = (*largest, *values.shape[1:])
    size = tuple(size)
    indices = ops["_sparse_check"](indices, values.detach(), size)
    made = coordinates(indices, values.detach() if requires_grad else values, size)
    if is_coalesced:  # checked: products of a tensor that is not would be wrong
        ordered = made.detach().coalesce()._indices()
        if ordered.shape != indices.shape or not bool((ordered == indices).all()):
            raise RuntimeError("sparse_coo_tensor: is_coalesced=True, but the indices are not in order, each once")
        made._coalesced_(True)
    return _finished(made, requires_grad)


def sparse_compressed_tensor(
    compressed_indices,
    plain_indices,
    values,
    size=None,
    *,
    dtype=None,
    layout=None,
    device=None,
    pin_memory=False,
    requires_grad=False,
    check_invariants=None,
):
    """A matrix in one of the compressed layouts, of elements or of blocks [count, rows, columns].

    compressed_indices has the place of each row's (or column's) first element, and one after the last. The indices are
    always checked: they rise within a row or column, and are within the size."""
    if layout not in COMPRESSED:
        raise RuntimeError(f"sparse_compressed_tensor expected sparse compressed tensor layout but got {layout}")
    name = f"{layout}_tensor"
    values = _value_tensor(values, dtype, device)
    starts = _index_tensor(compressed_indices, values.device, name)
    plain = _index_tensor(plain_indices, values.device, name)
    by_columns, blocks = layout in COLUMNS, layout in BLOCKS
    if starts.dim() != 1 or plain.dim() != 1 or values.dim() != (3 if blocks else 1) or starts.numel() == 0:
        raise RuntimeError(
            f"{name}: expected vectors of indices, at least one of them compressed, and {'a block' if blocks else 'a number'} "
            f"for each plain one, got shapes {list(starts.shape)}, {list(plain.shape)} and {list(values.shape)}"
        )
    if size is None:
        lines = [starts.numel() - 1, int(plain.max()) + 1 if plain.numel() else 0]
        block = values.shape[1:] if blocks else (1, 1)
        size = [n * b for n, b in zip(reversed(lines) if by_columns else lines, block, strict=True)]
    size = tuple(size)
    _C._check_compressed(starts, plain, values.detach(), size, by_columns)
    made = compressed(starts, plain, values.detach() if requires_grad else values, size, layout)
    return _finished(made, requires_grad)


def _with_options(function):
    """The function with the keyword arguments of sparse_compressed_tensor but layout, in its signature and in errors."""
    keywords = inspect.signature(sparse_compressed_tensor).parameters.values()
    options = [p for p in keywords if p.kind is p.KEYWORD_ONLY and p.name != "layout"]
    own = [p for p in inspect.signature(function).parameters.values() if p.kind is not p.VAR_KEYWORD]
    names = {p.name for p in [*own, *options]}

    @functools.wraps(function)
    def checked(*args, **kwargs):
        for name in kwargs:
            if name not in names:
                raise TypeError(f"{function.__name__}() got an unexpected keyword argument {name!r}")
        return function(*args, **kwargs)

    checked.__signature__ = inspect.Signature([*own, *options])
    return checked


@_with_options
def sparse_csr_tensor(crow_indices, col_indices, values, size=None, **options):
    """A matrix in compressed rows: crow_indices has the place of each row's first element, and one after the last."""
    return sparse_compressed_tensor(crow_indices, col_indices, values, size, layout="sparse_csr", **options)


@_with_options
def sparse_csc_tensor(ccol_indices, row_indices, values, size=None, **options):
    """A matrix in compressed columns: ccol_indices has the place of each column's first element, and one after the last."""
    return sparse_compressed_tensor(ccol_indices, row_indices, values, size, layout="sparse_csc", **options)


@_with_options
def sparse_bsr_tensor(crow_indices, col_indices, values, size=None, **options):
    """A matrix of blocks in compressed rows; values is [count, rows, columns] of the blocks."""
    return sparse_compressed_tensor(crow_indices, col_indices, values, size, layout="sparse_bsr", **options)


@_with_options
def sparse_bsc_tensor(ccol_indices, row_indices, values, size=None, **options):
    """A matrix of blocks in compressed columns; values is [count, rows, columns] of the blocks."""
    return sparse_compressed_tensor(ccol_indices, row_indices, values, size, layout="sparse_bsc", **options)


def to_sparse(input, sparse_dim=None, *, layout=None, blocksize=None):
    """The elements of a dense tensor that are not zero; of its first sparse_dim dimensions, if it is given."""
    if isinstance(sparse_dim, str):
        sparse_dim, layout = None, sparse_dim
    n = input.dim() if sparse_dim is None else sparse_dim
    if not 0 < n <= input.dim() and not (n == 0 == input.dim()):
        raise RuntimeError(f"to_sparse: expected between 1 and {input.dim()} sparse dimensions, got {n}")
    rest = tuple(range(n, input.dim()))
    found = input.detach() != 0
    places = ops["nonzero"](found.any(rest) if rest else found).t().contiguous()
    values = input[tuple(places)] if n else input.reshape(1)[: places.shape[1]]
    made = coordinates(places, values, input.shape, True)
    return made._in_layout(layout or "sparse_coo", blocksize)
