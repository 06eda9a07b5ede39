"""Batching rules of matrix products and linear algebra."""

from .. import _C
from ..amp.autocast_mode import cast_floating
from ..autograd import Function
from .core import RULES, Tensor, decomposed, ops, padded, rule, wrap_tree


class _SharedProduct(Function):
    """x @ w for matrices w that are all the same, as in per-sample gradients: one large product, one gradient per matrix."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return ops["matmul"](x, w[0])

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        wanted = ctx.needs_input_grad
        grad_x = _SharedProduct.apply(grad, w.mT) if wanted[0] else None
        grad_w = None
        if wanted[1]:
            rows, columns = (t.reshape(t.shape[0], -1, t.shape[-1]) for t in (x, grad))
            grad_w = ops["matmul"](rows.mT, columns)
        return grad_x, grad_w


class _SharedCast(Function):
    """The same matrices in another dtype, of which one is converted."""

    @staticmethod
    def forward(ctx, w, dtype):
        ctx.dtype = w.dtype
        return w[0].to(dtype).expand(w.shape)

    @staticmethod
    def backward(ctx, grad):
        return grad.to(ctx.dtype), None


def _shared_product(x, w):
    kind = w.device.type
    if kind != "meta" and _C._is_autocast_enabled(kind):  # before the product, whose gradient runs outside of the scope
        lower = _C.get_autocast_dtype(kind)
        x = cast_floating(x, kind, lower)
        if w.dtype not in (lower, _C.float64) and w.is_floating_point():
            w = _SharedCast.apply(w, lower)
    return _SharedProduct.apply(x, w)


def _is_shared(w):
    """Whether slices are one matrix in memory, which only an expanded tensor is."""
    return type(w) is Tensor and w.dim() == 3 and w.shape[0] > 1 and w.stride(0) == 0


def product(level, a, b):
    """matmul of slices."""
    rank_a, rank_b = level.rank(a), level.rank(b)
    if rank_a == 0 or rank_b == 0:
        raise RuntimeError(f"both arguments to matmul need to be at least 1D, but they are {rank_a}D and {rank_b}D")
    if not level.is_batched(b) and rank_a <= 2 and rank_b <= 2:
        held = a._held
        return ops["matmul"](held, b) if rank_a == 2 or rank_b == 2 else ops["mv"](held, b)
    x, y = level.held(a), level.held(b)
    if level.is_batched(a) and level.is_batched(b) and rank_b == 2 and _is_shared(y):
        if rank_a == 1:
            return _shared_product(x.unsqueeze(1), y).squeeze(1)
        return _shared_product(x, y)
    if rank_a == 1:
        x = x.unsqueeze(-2)
    if rank_b == 1:
        y = y.unsqueeze(-1)
    rank = max(rank_a, rank_b, 2)
    x = padded(x, rank) if level.is_batched(a) else x
    y = padded(y, rank) if level.is_batched(b) else y
    out = ops["matmul"](x, y)
    if rank_b == 1:
        out = out.squeeze(-1)
    if rank_a == 1:
        out = out.squeeze(-1 if rank_b == 1 else -2)
    return out


@rule("matmul", "__rmatmul__")
def _matmul(level, func, args, kwargs):
    a, b = (*args, *kwargs.values())
    return level.wrap(product(level, a, b))


def _of_ranks(name, first, second):
    @rule(name)
    def run(level, func, args, kwargs):
        a, b = (*args, *kwargs.values())
        if (level.rank(a), level.rank(b)) != (first, second):
            raise RuntimeError(
                f"{name}: expected {first}-D and {second}-D tensors, got {level.rank(a)}-D and {level.rank(b)}-D"
            )
        return level.wrap(product(level, a, b))


for _name, _ranks in {"mm": (2, 2), "bmm": (3, 3), "mv": (2, 1), "dot": (1, 1)}.items():
    _of_ranks(_name, *_ranks)


def _with_bias(out, bias):
    kind = out.device.type
    if kind != "meta" and _C._is_autocast_enabled(kind):
        bias = cast_floating(bias, kind, out.dtype)
    return out + bias


@rule("linear")
def _linear(level, func, args, kwargs):
    given = {**dict(zip(("input", "weight", "bias"), args, strict=False)), **kwargs}
    x, weight, bias = given["input"], given["weight"], given.get("bias")
    if not level.is_batched(weight):
        plain = bias if bias is not None and not level.is_batched(bias) else None
        out = ops["nn.functional.linear"](x._held, weight, plain) if level.is_batched(x) else None
        if out is None:  # only the bias is batched
            out = ops["nn.functional.linear"](x, weight).unsqueeze(0)
        if plain is None and bias is not None:
            out = _with_bias(out, padded(bias._held, out.dim() - 1))
        return level.wrap(out)
    if level.rank(weight) == 1:
        out = product(level, x, weight)
    else:
        out = product(level, x, level.wrap(weight._held.transpose(1, 2)))
    if bias is not None:
        out = _with_bias(out, padded(bias._held, out.dim() - 1) if level.is_batched(bias) else bias)
    return level.wrap(out)


@decomposed("vdot", "linalg.vecdot")
def _vecdot(x, y, *, dim=-1):
    return (x.conj() * y).sum(dim)


@decomposed("outer", "ger")
def _outer(input, vec2):
    return input.unsqueeze(1) * vec2.unsqueeze(0)


@decomposed("inner")
def _inner(input, other):
    if input.dim() == 0 or other.dim() == 0:
        return input * other
    return tensordot(input, other, [-1], [-1])


def _added(input, product, beta, alpha):
    product = product if alpha == 1 else product * alpha
    return product if beta == 0 else product + (input if beta == 1 else input * beta)


@decomposed("addmm", "addmv", "baddbmm")
def _addmm(input, mat1, mat2, *, beta=1, alpha=1):
    return _added(input, mat1 @ mat2, beta, alpha)


@decomposed("addbmm")
def _addbmm(input, batch1, batch2, *, beta=1, alpha=1):
    return _added(input, (batch1 @ batch2).sum(0), beta, alpha)


@decomposed("addr")
def _addr(input, vec1, vec2, *, beta=1, alpha=1):
    return _added(input, _outer(vec1, vec2), beta, alpha)


@decomposed("linalg.multi_dot", "chain_matmul")
def _chain(tensors, *more):
    tensors = [*([tensors] if isinstance(tensors, Tensor) else tensors), *more]
    out = tensors[0]
    for t in tensors[1:]:
        out = out @ t
    return out


# --- einsum ---------------------------------------------------------------------------------------------------------------


def batched_equation(equation, operands, is_batched):
    """An equation with a letter for the batch in front of the batched operands and of the result."""
    equation = equation.replace(" ", "")
    inputs, arrow, result = equation.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(operands):
        raise RuntimeError(f"einsum(): {len(terms)} terms in the equation for {len(operands)} operands")
    letters = {c for c in equation if c.isalpha()}
    free = next(c for c in "bBzZyYxXwWvVuUtTsSrRqQpPoOnNmMlLkKjJiIhHgGfFeEdDcCaA" if c not in letters)
    if not arrow:  # letters that occur once, in order; `...` before them
        once = sorted(c for c in letters if inputs.count(c) == 1)
        result = ("..." if "..." in inputs else "") + "".join(once)
    terms = [free + t if b else t for t, b in zip(terms, is_batched, strict=True)]
    return ",".join(terms) + "->" + free + result


@rule("einsum")
def _einsum(level, func, args, kwargs):
    equation, *operands = args
    if len(operands) == 1 and isinstance(operands[0], (tuple, list)):
        operands = operands[0]
    new = batched_equation(equation, operands, [level.is_batched(t) for t in operands])
    return level.wrap(ops["einsum"](new, [level.held(t) for t in operands]))


_LETTERS = "abcdefghijklmnopqrstuvwxyz"


@decomposed("tensordot")
def tensordot(a, b, dims=2, dims_other=None):
    """Sums of products over pairs of dimensions."""
    if isinstance(dims, int):
        dims = list(range(-dims, 0)), list(range(dims))
    dims_self, dims_other = dims if dims_other is None else (dims, dims_other)
    of_a = list(_LETTERS[: a.dim()])
    of_b = list(_LETTERS[a.dim() : a.dim() + b.dim()])
    for i, j in zip(dims_self, dims_other, strict=True):
        of_b[j] = of_a[i]
    kept = [c for c in of_a + of_b if (of_a + of_b).count(c) == 1]
    return ops["einsum"](f"{''.join(of_a)},{''.join(of_b)}->{''.join(kept)}", [a, b])


@decomposed("bilinear")
def _bilinear(input1, input2, weight, bias=None):
    out = ops["einsum"]("...i,oij,...j->...o", [input1, weight, input2])
    return out if bias is None else out + bias


@decomposed("kron")
def _kron(input, other):
    rank = max(input.dim(), other.dim())
    a = input.reshape([1] * (rank - input.dim()) + list(input.shape))
    b = other.reshape([1] * (rank - other.dim()) + list(other.shape))
    pairs = [n for s, _ in zip(a.shape, b.shape, strict=True) for n in (s, 1)]
    others = [n for _, s in zip(a.shape, b.shape, strict=True) for n in (1, s)]
    return (a.reshape(pairs) * b.reshape(others)).reshape([m * n for m, n in zip(a.shape, b.shape, strict=True)])


@rule("linalg.cross", "cross")
def _cross(level, func, args, kwargs):
    from .core import place

    given = {**dict(zip(("input", "other", "dim"), args, strict=False)), **kwargs}
    a, b, dim = given["input"], given["other"], given.get("dim")
    rank = max(level.rank(a), level.rank(b))
    if dim is None:
        shape = a.shape
        dim = -1 if repr(func) == "<op linalg.cross>" else next((d for d, n in enumerate(shape) if n == 3), -1)
    return level.wrap(
        ops["linalg.cross"](padded(level.full(a), rank), padded(level.full(b), rank), dim=place(dim, rank))
    )


# --- functions of matrices: the batch is one more dimension in front ------------------------------------------------------

_MATRICES = """
linalg.det linalg.slogdet logdet slogdet det linalg.inv linalg.inv_ex inverse linalg.cholesky linalg.cholesky_ex cholesky linalg.qr qr
linalg.svd svd linalg.svdvals linalg.eigh linalg.eigvalsh linalg.eig linalg.eigvals linalg.matrix_exp matrix_exp
linalg.matrix_power matrix_power linalg.pinv linalg.matrix_rank linalg.cond linalg.lu linalg.lu_factor linalg.lu_factor_ex
cholesky_inverse linalg.vander linalg.polar linalg.matrix_sqrth linalg.ldl_factor pixel_shuffle pixel_unshuffle pinverse
linalg.householder_product
"""


@rule(*_MATRICES.split())
def _matrix_function(level, func, args, kwargs):
    given = [level.full(x) if isinstance(x, Tensor) else x for x in args]
    named = {k: level.full(x) if isinstance(x, Tensor) else x for k, x in kwargs.items()}
    return wrap_tree(func(*given, **named), level)


@rule(
    "linalg.solve",
    "linalg.solve_ex",
    "linalg.solve_triangular",
    "cholesky_solve",
    "linalg.lu_solve",
    "triangular_solve",
)
def _solve(level, func, args, kwargs):
    vectors = func.__name__ in ("solve", "solve_ex") and level.rank(args[1]) == 1
    given = [level.full(x) if isinstance(x, Tensor) else x for x in args]
    if vectors:
        given[1] = given[1].unsqueeze(-1)
    else:
        rank = max(level.rank(x) for x in args if isinstance(x, Tensor))
        given = [padded(x, rank) if isinstance(x, Tensor) and func.__name__ != "lu_solve" else x for x in given]
    out = func(*given, **kwargs)
    if vectors:
        out = type(out)([out[0].squeeze(-1), out[1]]) if isinstance(out, tuple) else out.squeeze(-1)
    return wrap_tree(out, level)


@rule("cdist")
def _cdist(level, func, args, kwargs):
    a, b, *rest = args
    rank = max(level.rank(a), level.rank(b))
    return level.wrap(func(padded(level.full(a), rank), padded(level.full(b), rank), *rest, **kwargs))


RULES["python tensordot"] = RULES["tensordot"]
