"""What functions, methods and operators do with sparse tensors: the table HANDLERS, by the names of the functions."""

from .. import _C
from ._create import to_sparse
from ._shapes import cat, permute, squeeze, stack, unsqueeze
from ._tensor import COMPRESSED, SparseTensor, compressed, coordinates

ops, Tensor = _C.ops, _C.Tensor
_sum_of = ops["sum"]


def _refuse(name, why):
    raise NotImplementedError(f"{name}: {why}; convert with to_dense() first")


def _is(x):
    return isinstance(x, SparseTensor)


def _same_shape(name, a, b):
    if tuple(a.shape) != tuple(b.shape):
        raise RuntimeError(f"{name}: expected sparse tensors of equal shapes, got {list(a.shape)} and {list(b.shape)}")


def _matrix(name, x):
    if x.dim() != 2 or x.sparse_dim() != 2:
        _refuse(name, f"expected a sparse matrix, got shape {list(x.shape)} with {x.sparse_dim()} sparse dimensions")
    return x


def _common(a, b):
    dtype = _C.promote_types(a.dtype, b.dtype)
    return a.to(dtype), b.to(dtype)


# --- products -----------------------------------------------------------------------------------------------------------


def _times_dense(name, a, b):
    rows = _matrix(name, a).to_sparse_csr()
    if b.dim() != 2 or a.shape[1] != b.shape[0]:
        raise RuntimeError(f"{name}: shapes {list(a.shape)} and {list(b.shape)} do not fit")
    if not a.is_floating_point():
        _refuse(name, f"not implemented for {a.dtype}")
    return ops["_compressed_product"](*rows._places, rows._held, b)


def _times_sparse(name, a, b):
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(f"{name}: shapes {list(a.shape)} and {list(b.shape)} do not fit")
    first, second = _matrix(name, a).to_sparse_coo(), _matrix(name, b).to_sparse_csr()
    rows, columns = first._places
    indices, values = ops["_sparse_product"](rows, columns, first._held, *second._places, second._held)
    product = coordinates(indices, values, (a.shape[0], b.shape[1])).coalesce()
    return product if a.layout == "sparse_coo" else product._in_layout("sparse_csr")


def mm(mat1, mat2):
    """The product of two matrices, the first of which is sparse. It is sparse if both are."""
    if mat1.dim() == 2 and mat2.dim() == 2:
        if _is(mat1) and _is(mat2):
            return _times_sparse("mm", *_common(mat1, mat2))
        if _is(mat1):
            return _times_dense("mm", mat1, mat2)
        if _is(mat2):
            return _times_dense("mm", mat2.t(), mat1.t()).t()
    raise RuntimeError(f"mm: expected two matrices, got shapes {list(mat1.shape)} and {list(mat2.shape)}")


spmm = smm = hspmm = mm


def _mv(input, vec):
    if vec.dim() != 1:
        raise RuntimeError(f"mv: expected a matrix and a vector, got shapes {list(input.shape)} and {list(vec.shape)}")
    return _times_dense("mv", input, vec.unsqueeze(1)).squeeze(1)


def _matmul(input, other):
    if _is(input) and other.dim() == 1 and not _is(other):
        return _mv(input, other)
    if _is(other) and input.dim() == 1 and not _is(input):
        return _mv(other.t(), input)
    return mm(input, other)


def addmm(input, mat1, mat2, *, beta=1.0, alpha=1.0):
    """beta * input + alpha * (mat1 @ mat2), with a sparse mat1."""
    return input * beta + mm(mat1, mat2) * alpha


def sampled_addmm(input, mat1, mat2, *, beta=1.0, alpha=1.0):
    """beta * input + alpha * (mat1 @ mat2) at the elements of a sparse input."""
    coo = _matrix("sampled_addmm", input).to_sparse_coo().coalesce()
    if (
        mat1.dim() != 2
        or mat2.dim() != 2
        or (mat1.shape[0], mat2.shape[1]) != tuple(input.shape)
        or mat1.shape[1] != mat2.shape[0]
    ):
        raise RuntimeError(
            f"sampled_addmm: shapes {list(mat1.shape)} and {list(mat2.shape)} do not fit a result of shape {list(input.shape)}"
        )
    products = ops["_row_products"](mat1, mat2.t(), coo._places[0].contiguous(), coo._places[1].contiguous())
    return coo._with(coo._held * beta + products * alpha)._like(input)


# --- elements -----------------------------------------------------------------------------------------------------------


def _add(input, other, *, alpha=1):
    if not _is(input):
        if _is(other) and isinstance(input, Tensor):
            return input + other.to_dense() * alpha
        _refuse("add", "a number and a sparse tensor have a dense sum")
    if not _is(other):
        if isinstance(other, Tensor) and other.dim():
            return input.to_dense() + other * alpha
        _refuse("add", "a number and a sparse tensor have a dense sum")
    _same_shape("add", input, other)
    a, b = (x.to_sparse_coo() for x in _common(input, other))
    if a.sparse_dim() != b.sparse_dim():
        _refuse("add", f"the tensors have {a.sparse_dim()} and {b.sparse_dim()} sparse dimensions")
    held = b._held if alpha == 1 else b._held * alpha
    made = coordinates(ops["cat"]([a._places, b._places], 1), ops["cat"]([a._held, held]), a.shape)
    return made.coalesce()._like(input)


def _sub(input, other, *, alpha=1):
    return _add(input, other, alpha=-alpha)


def _rsub(input, other, *, alpha=1):
    return _add(other, input, alpha=-alpha)


def _mul(input, other):
    if not _is(input):
        return _mul(other, input)
    if _is(other):
        _same_shape("mul", input, other)
        a, b = (x.to_sparse_coo().coalesce() for x in (input, other))
        values, there = _elements_at(b, a._places)
        both = there.nonzero().squeeze(1)  # places that only one of them has are dropped
        return coordinates(a._places[:, both], a._held[both] * values[both], a.shape, True)._like(input)
    if isinstance(other, Tensor) and other.dim():
        a = input.to_sparse_coo()
        return a._with(a._held * other.expand(a.shape)[tuple(a._places)])._like(input)
    return input._with(input._held * other)


def _elements_at(x, places):
    """The values of a coalesced tensor at coordinates, 0 where it has none, and where it has some."""
    if not x._nnz():
        values = x._held.new_zeros((places.shape[1], *x._held.shape[1:]))
        return values, ops["zeros"]((places.shape[1],), dtype=_C.bool, device=x.device)
    width, wanted, own = 1, places[0] * 0, x._places[0] * 0
    for d in reversed(range(x.sparse_dim())):
        wanted, own, width = wanted + places[d] * width, own + x._places[d] * width, width * x.shape[d]
    at = ops["searchsorted"](own, wanted).clamp(max=x._nnz() - 1)
    there = own[at] == wanted
    return ops["where"](there.reshape(-1, *[1] * x.dense_dim()), x._held[at], 0), there


def _div(input, other, *, rounding_mode=None):
    if not _is(input) or _is(other):
        _refuse("div", "a sparse tensor is not a divisor")
    if isinstance(other, Tensor) and other.dim():
        return _mul(input, 1 / other) if rounding_mode is None else _refuse("div", "rounding needs a number as divisor")
    return input._with(ops["div"](input._held, other, rounding_mode=rounding_mode))


def _elementwise(name):
    """A function with f(0) = 0: of the sums of equal coordinates, it is applied to the values."""
    function = ops[name]

    def apply(input, *args, **kwargs):
        x = input.coalesce() if input.is_sparse else input
        return x._with(function(x._held, *args, **kwargs))

    return apply


def _pow(input, exponent):
    if not _is(input) or isinstance(exponent, Tensor) or not exponent > 0:
        _refuse("pow", "expected a sparse base and a positive number as exponent")
    x = input.coalesce() if input.is_sparse else input
    return x._with(x._held**exponent)


# --- reductions ---------------------------------------------------------------------------------------------------------


def sum(input, dim=None, dtype=None):
    """The sum of all elements, or over dimensions: sparse, unless none of the sparse dimensions is left."""
    coo = input.to_sparse_coo()
    values = coo._held if dtype is None else coo._held.to(dtype)
    if dim is None:
        return _sum_of(values)
    dims = {d if d >= 0 else d + coo.dim() for d in ([dim] if isinstance(dim, int) else dim)}
    if any(d < 0 or d >= coo.dim() for d in dims):
        raise IndexError(f"sum: dimensions {sorted(dims)} are out of range for a tensor of {coo.dim()} dimensions")
    n = coo.sparse_dim()
    if inner := tuple(d - n + 1 for d in dims if d >= n):
        values = _sum_of(values, inner)
    left = [d for d in range(n) if d not in dims]
    if not left:
        return _sum_of(values, 0)
    size = [coo.shape[d] for d in range(coo.dim()) if d not in dims]
    return coordinates(coo._places[left], values, size, coo._coalesced and len(left) == n).coalesce()


def _dense_sum(input, dim=None, keepdim=False, *, dtype=None):
    if keepdim:
        _refuse("sum", "keepdim is not supported")
    return sum(input, dim, dtype)


def _norm(input, p=2.0, dim=None, keepdim=False, dtype=None):
    if dim is not None:
        _refuse("norm", "only the norm of all elements is supported")
    return ops["norm"](input.to_sparse_coo().coalesce()._held, p, dtype=dtype)


def _softmax(input, dim, log):
    coo = input.to_sparse_coo().coalesce()
    d = dim + coo.dim() if dim < 0 else dim
    if d >= coo.sparse_dim():
        if d >= coo.dim():
            raise IndexError(f"softmax: dimension {dim} is out of range for a tensor of {coo.dim()} dimensions")
        values = ops["log_softmax" if log else "softmax"](coo._held, d - coo.sparse_dim() + 1)
    else:
        values = ops["_sparse_softmax"](coo._places, coo._held, coo.shape, d, log)
    return coo._with(values)._like(input)


def softmax(input, dim, *, dtype=None):
    """The softmax along dim over the stored elements: the others count as minus infinity."""
    return _softmax(input if dtype is None else input.to(dtype), dim, False)


def log_softmax(input, dim, *, dtype=None):
    """The logarithm of softmax()."""
    return _softmax(input if dtype is None else input.to(dtype), dim, True)


# --- shapes -------------------------------------------------------------------------------------------------------------


def _transpose(input, dim0, dim1):
    a, b = (d + input.dim() if d < 0 else d for d in (dim0, dim1))
    if not (0 <= a < input.dim() and 0 <= b < input.dim()):
        raise IndexError(f"transpose: dimensions {dim0} and {dim1} are out of range for {input.dim()} dimensions")
    if a == b:
        return input._with(input._held)
    if input.layout in COMPRESSED:
        return input._transposed()
    coo = input
    n = coo.sparse_dim()
    if a >= n or b >= n:
        _refuse("transpose", "only sparse dimensions can be exchanged")
    order = list(range(n))
    order[a], order[b] = b, a
    size = list(coo.shape)
    size[a], size[b] = size[b], size[a]
    return coordinates(coo._places[order], coo._held, size, False)


def _t(input):
    if input.dim() > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 sparse and 0 dense dimensions, but self is {input.dim()}D")
    return input if input.dim() < 2 else _transpose(input, 0, 1)


def _index_select(input, dim, index):
    coo = input.to_sparse_coo().coalesce()
    d = dim + coo.dim() if dim < 0 else dim
    if coo.dim() != 2 or coo.sparse_dim() != 2:
        _refuse("index_select", "expected a sparse matrix")
    # The product with the matrix that has one 1 in each row, at the wanted index.
    index = index.reshape(-1)
    count = index.numel()
    if count and not (0 <= int(index.min()) and int(index.max()) < coo.shape[d]):
        raise IndexError(f"index_select: indices are out of range for dimension {dim} of size {coo.shape[d]}")
    ones = ops["ones"]((count,), dtype=coo.dtype, device=coo.device)
    pick = compressed(ops["arange"](count + 1, device=coo.device), index, ones, (count, coo.shape[d]))
    return (mm(pick, coo) if d == 0 else mm(coo, _t(pick)))._like(input)


def _select(input, dim, index):
    coo = input.to_sparse_coo().coalesce()
    d = dim + coo.dim() if dim < 0 else dim
    i = index + coo.shape[d] if index < 0 else index
    if not 0 <= i < coo.shape[d]:
        raise IndexError(f"select: index {index} is out of range for dimension {dim} of size {coo.shape[d]}")
    if d >= coo.sparse_dim():
        _refuse("select", "only sparse dimensions can be indexed")
    mine = (coo._places[d] == i).nonzero().squeeze(1)
    left = [k for k in range(coo.sparse_dim()) if k != d]
    size = [n for k, n in enumerate(coo.shape) if k != d]
    if not left:
        return _sum_of(coo._held[mine], 0)
    return coordinates(coo._places[left][:, mine], coo._held[mine], size, True)


def _getitem(input, index):
    return _select(input, 0, index) if isinstance(index, int) else _refuse("indexing", "only one integer is supported")


def _add_(input, other, *, alpha=1):
    """In place: the elements of a sparse tensor are added to a dense or sparse one."""
    if _is(input):
        if not _is(other):
            _refuse("add_", "a sparse tensor and a dense one or a number have a dense sum")
        return _in_place(_add)(input, other, alpha=alpha)
    _same_shape("add_", input, other)
    coo = other.to_sparse_coo()
    if coo.sparse_dim() == 0 or not (input.is_floating_point() or input.is_complex()):
        return input.add_(coo.to_dense(), alpha=alpha)
    return _C._sparse_add_rows(input, coo._places, coo._held.to(input.dtype), alpha)


def _sub_(input, other, *, alpha=1):
    return _add_(input, other, alpha=-alpha)


def _in_place(function):
    """The in-place form of a function with a sparse result: the object gets the elements of the result."""

    def apply(input, *args, **kwargs):
        if input.requires_grad and _C.is_grad_enabled():
            raise NotImplementedError(
                "a sparse tensor that requires a gradient is not written to; use the function without _"
            )
        result = function(input, *args, **kwargs)
        if result.dtype != input.dtype:
            raise RuntimeError(f"result type {result.dtype} can't be cast to the desired output type {input.dtype}")
        return input._become(result._like(input))

    return apply


def _zeros_like(input, **options):
    """Without elements, in the same layout."""
    values = input._held[:0].to(**options)
    if input.layout in COMPRESSED:
        return compressed(input._places[0] * 0, input._places[1][:0], values, input.shape, input.layout)
    return coordinates(input._places[:, :0], values, input.shape, True)


def _copy_(input, other, non_blocking=False):
    if not (_is(input) and _is(other)):
        _refuse("copy_", "expected two sparse tensors, or two dense ones")
    _same_shape("copy_", input, other)
    return input._become(other.detach().to(input.device, input.dtype).clone()._like(input))


def sparse_mask(input, mask):
    """The elements of input at the places of a sparse mask."""
    coo = mask.to_sparse_coo().coalesce()
    if _is(input):
        values, _ = _elements_at(input.to_sparse_coo().coalesce(), coo._places)
    else:
        _same_shape("sparse_mask", input, mask)
        values = input[tuple(coo._places)]
    return coo._with(values)._like(mask)


def _equal(input, other):
    return bool(ops["eq"](*(x.to_dense() if _is(x) else x for x in (input, other))).all())


def _allclose(input, other, *args, **kwargs):
    import strata

    return strata.allclose(*(x.to_dense() if _is(x) else x for x in (input, other)), *args, **kwargs)


def _to_sparse(input, *args, **kwargs):
    return input.to_sparse(*args, **kwargs) if _is(input) else to_sparse(input, *args, **kwargs)


_ZERO_AT_ZERO = """abs neg negative positive sgn sign sin sinh asin arcsin asinh tan tanh atan arctan atanh sqrt square expm1 log1p
erf floor ceil trunc round relu rad2deg deg2rad isnan isinf nan_to_num signbit leaky_relu""".split()

HANDLERS_OF_ELEMENTS = {name: _elementwise(name) for name in _ZERO_AT_ZERO if name in ops}

HANDLERS = {
    **HANDLERS_OF_ELEMENTS,
    "mm": mm,
    "matmul": _matmul,
    "mv": _mv,
    "spmm": mm,
    "smm": mm,
    "addmm": addmm,
    "add": _add,
    "sub": _sub,
    "subtract": _sub,
    "rsub": _rsub,
    "mul": _mul,
    "multiply": _mul,
    "div": _div,
    "divide": _div,
    "true_divide": _div,
    "pow": _pow,
    "sum": _dense_sum,
    "norm": _norm,
    "transpose": _transpose,
    "swapaxes": _transpose,
    "t": _t,
    "cat": cat,
    "stack": stack,
    "unsqueeze": unsqueeze,
    "squeeze": squeeze,
    "permute": permute,
    "index_select": _index_select,
    "select": _select,
    "__getitem__": _getitem,
    "add_": _add_,
    "sub_": _sub_,
    "mul_": _in_place(_mul),
    "div_": _in_place(_div),
    "neg_": _in_place(HANDLERS_OF_ELEMENTS["neg"]),
    "zero_": _in_place(_zeros_like),
    "copy_": _copy_,
    "detach_": _in_place(lambda input: input.detach()),
    "sparse_mask": sparse_mask,
    "softmax": softmax,
    "log_softmax": log_softmax,
    "equal": _equal,
    "allclose": _allclose,
    "to_sparse": _to_sparse,
    "zeros_like": _zeros_like,
    "is_same_size": lambda input, other: tuple(input.shape) == tuple(other.shape),
}
