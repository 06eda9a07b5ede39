"""Functions that change the shape of sparse tensors: they move indices and leave values as they are."""

from .. import _C
from ._tensor import SparseTensor, coordinates

ops = _C.ops


def _dimension(name, dim, count):
    if not -count <= dim < count:
        raise IndexError(f"{name}: dimension out of range (expected -{count} to {count - 1}, got {dim})")
    return dim % count


def cat(tensors, dim=0):
    """Sparse tensors joined along a dimension."""
    if not all(isinstance(t, SparseTensor) for t in tensors):
        raise NotImplementedError("cat: expected sparse tensors only; convert with to_dense() first")
    parts, at, first = [], 0, tensors[0].to_sparse_coo()
    d = dim + first.dim() if dim < 0 else dim
    if d >= first.sparse_dim():
        raise NotImplementedError("cat: only sparse dimensions can be joined; convert with to_dense() first")
    for t in tensors:
        coo = t.to_sparse_coo()
        if [n for k, n in enumerate(coo.shape) if k != d] != [n for k, n in enumerate(first.shape) if k != d]:
            raise RuntimeError(
                f"cat: sizes {list(first.shape)} and {list(coo.shape)} must be equal except in dimension {d}"
            )
        shift = ops["zeros"]((coo.sparse_dim(), 1), dtype=_C.int64, device=coo.device)
        shift[d] = at
        parts.append((coo._places + shift, coo._held))
        at += coo.shape[d]
    size = [at if k == d else n for k, n in enumerate(first.shape)]
    made = coordinates(ops["cat"]([p for p, _ in parts], 1), ops["cat"]([v for _, v in parts]), size)
    return made.coalesce()._like(tensors[0])


def unsqueeze(input, dim):
    """A dimension of size 1, sparse where it is among the sparse ones or next to them."""
    coo = input.to_sparse_coo()
    d = _dimension("unsqueeze", dim, coo.dim() + 1)
    size = [*coo.shape[:d], 1, *coo.shape[d:]]
    if d > coo.sparse_dim():
        return coordinates(coo._places, coo._held.unsqueeze(d - coo.sparse_dim() + 1), size, coo._coalesced)
    row = coo._places.new_zeros(1, coo._nnz())
    places = ops["cat"]([coo._places[:d], row, coo._places[d:]])
    return coordinates(places, coo._held, size, coo._coalesced)


def squeeze(input, dim=None):
    """Without dimensions of size 1: all, or those given."""
    coo = input.to_sparse_coo()
    given = range(coo.dim()) if dim is None else dim if isinstance(dim, (tuple, list)) else (dim,)
    gone = {_dimension("squeeze", d, coo.dim()) for d in given}
    gone = [d for d in sorted(gone) if coo.shape[d] == 1]
    sparse = [d for d in range(coo.sparse_dim()) if d not in gone]
    if not sparse:
        raise NotImplementedError("squeeze: at least one sparse dimension must remain; convert with to_dense() first")
    dense = [d - coo.sparse_dim() + 1 for d in gone if d >= coo.sparse_dim()]
    size = [n for d, n in enumerate(coo.shape) if d not in gone]
    return coordinates(coo._places[sparse], coo._held.squeeze(dense) if dense else coo._held, size, coo._coalesced)


def stack(tensors, dim=0):
    """Sparse tensors of equal shapes, joined along a new sparse dimension."""
    shapes = {tuple(t.shape) for t in tensors}
    if len(shapes) > 1:
        raise RuntimeError(f"stack: expected sparse tensors of equal shapes, got {sorted(map(list, shapes))}")
    return cat([unsqueeze(t, dim) for t in tensors], dim)


def permute(input, *dims):
    """Dimensions in another order; sparse ones stay before dense ones."""
    coo = input.to_sparse_coo()
    dims = dims[0] if len(dims) == 1 and isinstance(dims[0], (tuple, list)) else dims
    order = [_dimension("permute", d, coo.dim()) for d in dims]
    if sorted(order) != list(range(coo.dim())):
        raise RuntimeError(f"permute: expected each of {coo.dim()} dimensions once, got {list(dims)}")
    n = coo.sparse_dim()
    if any(d >= n for d in order[:n]):
        raise NotImplementedError("permute: sparse and dense dimensions cannot be exchanged; use to_dense() first")
    held = coo._held.permute(0, *(d - n + 1 for d in order[n:]))
    made = coordinates(coo._places[order[:n]], held, [coo.shape[d] for d in order])
    return made.coalesce() if coo._coalesced else made


def spdiags(diagonals, offsets, shape, layout=None):
    """A matrix whose diagonal offsets[i] has the elements of diagonals[i], each in its column; zeros elsewhere.

    >>> strata.sparse.spdiags(strata.tensor([[1.0, 2.0], [3.0, 4.0]]), strata.tensor([0, 1]), (2, 2)).to_dense()
    tensor([[1., 4.],
            [0., 2.]])
    """
    diagonals = diagonals.reshape(1, -1) if diagonals.dim() == 1 else diagonals
    offsets = ops["atleast_1d"](offsets).to(_C.int64)
    rows, columns = shape
    if diagonals.dim() != 2 or offsets.numel() != diagonals.shape[0]:
        raise RuntimeError(
            f"spdiags: expected one offset for each of {diagonals.shape[0]} diagonals, got {offsets.numel()}"
        )
    if offsets.unique().numel() != offsets.numel():
        raise RuntimeError("spdiags: offsets contains duplicate values")
    column = ops["arange"](diagonals.shape[1], device=diagonals.device).expand(diagonals.shape)
    row = column - offsets.to(diagonals.device).unsqueeze(1)
    inside = (row >= 0) & (row < rows) & (column < columns)
    made = coordinates(ops["stack"]([row[inside], column[inside]]), diagonals[inside], (rows, columns))
    return made if layout in (None, "sparse_coo") else made.to_sparse(layout=layout)
