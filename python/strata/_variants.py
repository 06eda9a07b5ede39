"""Functions whose results depend on their flags; they wrap ops that always return everything."""

from . import _C

ops = _C.ops
Tensor = _C.Tensor


def nonzero(input, *, as_tuple=False, out=None):
    """The coordinates of the elements that are not zero: one row each, or with as_tuple one tensor per dimension."""
    if not as_tuple:
        return ops["nonzero"](input) if out is None else ops["nonzero"](input, out=out)
    if input.dim() == 0:
        return ops["nonzero"](input.unsqueeze(0)).unbind(1)
    return ops["nonzero"](input).unbind(1)


def where(condition, input=None, other=None, *, out=None):
    """input where the condition holds, other elsewhere; with the condition alone, its coordinates."""
    if input is None and other is None:
        return nonzero(condition, as_tuple=True)
    return ops["where"](condition, input, other) if out is None else ops["where"](condition, input, other, out=out)


def _pick(result, *flags):
    kept = (result[0], *[r for r, wanted in zip(result[1:], flags, strict=True) if wanted])
    return kept if len(kept) > 1 else kept[0]


def lu(A, pivot=True, get_infos=False, out=None):
    """The compact LU decomposition and its pivots; with get_infos also 0 or the position of each first zero pivot."""
    result = _pick(ops["lu"](A, pivot), True, get_infos)
    if out is None:
        return result
    for target, value in zip(out, result, strict=True):
        target.copy_(value)
    return tuple(out)


def histogramdd(input, bins, *, range=None, weight=None, density=False):
    """The weight of the rows of input in each cell of a grid, and the edges of the grid along each column. bins: a number of
    cells, one per column, or the edges themselves."""
    if isinstance(bins, int):
        bins = [bins] * (input.shape[-1] if input.dim() else 0)
    ranged = {} if range is None else {"range": range}
    hist, *edges = ops["histogramdd"](input, list(bins), **ranged, weight=weight, density=density)
    return hist, tuple(edges)


def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """The distinct elements, or with dim the distinct slices; optionally the inverse indices and the counts."""
    return _pick(ops["unique"](input, sorted, return_inverse, return_counts, dim), return_inverse, return_counts)


def unique_consecutive(input, return_inverse=False, return_counts=False, dim=None):
    """Like unique(), but only merges runs of equal consecutive elements."""
    return _pick(ops["unique_consecutive"](input, return_inverse, return_counts, dim), return_inverse, return_counts)


def einsum(equation, *operands):
    """Sums of products over the indices that the equation names, e.g. einsum('ij,jk->ik', a, b)."""
    if not isinstance(equation, str):  # einsum(a, [0, 1], b, [1, 2], [0, 2])
        items = [equation, *operands]
        result = items.pop() if len(items) % 2 else None

        def letters(places):
            return "".join("..." if p is Ellipsis else chr(65 + p) if p < 26 else chr(71 + p) for p in places)

        equation = ",".join(letters(p) for p in items[1::2]) + ("" if result is None else "->" + letters(result))
        operands = items[0::2]
    elif len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = operands[0]
    return ops["einsum"](equation, list(operands))


def meshgrid(*tensors, indexing=None):
    """Coordinate grids of one-dimensional tensors."""
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tensors[0]
    return ops["meshgrid"](list(tensors), indexing=indexing or "ij")


def split(tensor, split_size_or_sections, dim=0):
    """Pieces of the given size, or of the given sizes, along a dimension."""
    return tensor.split(split_size_or_sections, dim)


def equal(input, other):
    """Whether shapes and elements are the same."""
    return tuple(input.shape) == tuple(other.shape) and bool(ops["eq"](input, other).all())


def allclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Whether all elements are close."""
    return bool(ops["isclose"](input, other, rtol=rtol, atol=atol, equal_nan=equal_nan).all())


FUNCTIONS = dict(
    histogramdd=histogramdd,
    lu=lu,
    nonzero=nonzero,
    where=where,
    unique=unique,
    unique_consecutive=unique_consecutive,
    einsum=einsum,
    meshgrid=meshgrid,
    split=split,
    equal=equal,
    allclose=allclose,
)
for _name, _function in FUNCTIONS.items():
    FUNCTIONS[_name] = _C._overridable(_function)


def _where_method(self, condition, other):
    return ops["where"](condition, self, other)


Tensor.inverse = ops["inverse"]
for _name in ("lu", "nonzero", "unique", "unique_consecutive", "equal", "allclose"):
    setattr(Tensor, _name, FUNCTIONS[_name])
Tensor.where = _where_method
