"""Functions for vmap(), each with arguments whose first dimension is the batch: {name: (function, arguments)}."""

import strata
import strata.nn as nn
import strata.nn.functional as F

strata.manual_seed(0)
A, B, P = strata.randn(3, 4, 5), strata.randn(3, 4, 5), strata.rand(3, 4, 5) + 0.1
V, S, M = strata.randn(3, 5), strata.randn(3), strata.randn(3, 5, 6)
I, Mask = strata.randint(0, 4, (3, 5)), A > 0
W, Bias = strata.randn(3, 6, 5), strata.randn(3, 6)
Q = A[:, :, :4] @ A[:, :, :4].mT + strata.eye(4)
X, G = strata.randn(3, 2, 4, 6, 6), strata.randn(3, 4)
Wc, Bc = strata.randn(3, 8, 4, 3, 3), strata.randn(3, 8)
C, Weights = strata.randint(0, 5, (3, 4)), strata.rand(5)
INT, D = strata.ones(3, 2, dtype=strata.int64), strata.float64
index = strata.tensor

CASES = {}


def case(name, function, *arguments):
    assert name not in CASES, name
    CASES[name] = function, arguments


# --- elements -------------------------------------------------------------------------------------------------------------

for (
    _n
) in "abs exp log1p sin tanh sigmoid relu neg sqrt floor round square erf isnan sign clone contiguous detach".split():
    case(_n, lambda a, n=_n: getattr(a.abs(), n)(), A)
for (
    _n
) in "gelu silu elu leaky_relu softplus hardtanh hardswish mish selu celu logsigmoid relu6 softsign softshrink".split():
    case(_n, lambda a, n=_n: getattr(F, n)(a), A)
case("add", lambda a, b: a + b, A, B)
case("add of another rank", lambda a, b: a + b, A, V)
case("add of numbers", lambda a, b: a + b, A, S)
case("arithmetic with numbers", lambda a: (2 * a + 1 - 3 / (a + 9)) ** 2 - 2**a, A)
case("tensors that are not batched", lambda a: a * strata.ones(4, 5) * strata.ones(5) * strata.tensor(2.0), A)
case("integers times a number", lambda a, s: a * s, INT, S)
case("float32 times a float64 number", lambda a, s: a * s, A, S.double())
case("numbers of two types", lambda a: a * strata.tensor(2.0, dtype=D), S)
case("an integer number times float64", lambda a: a * strata.tensor(2.0, dtype=D), strata.arange(3))
case("where", lambda m, a: strata.where(m, a, strata.zeros(())), Mask, A)
case("where with a number", lambda m, a: strata.where(m, a, 0.0), Mask, A)
case("masked_fill", lambda m, a: a.masked_fill(m, -1.0), Mask, A)
case("clamp", lambda a, s: strata.clamp(a.clamp(-1.5, 0.5), min=s), A, S)
case("lerp", lambda a, b: strata.lerp(a, b, 0.3), A, B)
case("comparisons", lambda a, b: ((a > b) & (a > 0)) | ~(b <= 0), A, B)
case("maximum", lambda a, b: strata.maximum(a, b), A, V)
case("max of two", lambda a, b: strata.max(a, b), A, B)
case("prelu", lambda a: F.prelu(a[None], strata.tensor([0.1, 0.2, 0.3, 0.4])), A)
case("conversions", lambda a: ((a * 3).long() + a.double() + a.to(strata.float16)).type_as(a), A)


def _in_place(a, b):
    c = a.clone()
    c.add_(b)
    c *= 2
    c.clamp_(min=0)
    c[0].zero_()
    c.copy_(c + 1)
    c += b
    return c


case("in place", _in_place, A, V)
case("a new tensor in place", lambda a: a.new_zeros(5).add_(a.sum()), A)

# --- reductions -----------------------------------------------------------------------------------------------------------

for _n in "sum mean amax amin prod all any var std nansum argmax argmin max min median count_nonzero".split():
    case(f"{_n} of all", lambda a, n=_n: getattr(a, n)(), A)
    if _n not in ("var", "std"):
        case(f"{_n} of a number", lambda a, n=_n: getattr(a, n)(), S)
    case(f"{_n} by name", lambda a, n=_n: getattr(a, n)(dim=1), A)
    case(f"{_n} by position", lambda a, n=_n: getattr(a, n)(0), A)
    if _n != "count_nonzero":
        case(f"{_n} with keepdim", lambda a, n=_n: getattr(a, n)(dim=-1, keepdim=True), A)
case("sum of dims", lambda a: a.sum((0, 1)) + a.sum(1, True).sum(), A)
case("logsumexp", lambda a: a.logsumexp((0, 1)), A)
case("var unbiased", lambda a: a.var(unbiased=False) + a.var(1, False).sum(), A)
case("var_mean", lambda a: strata.var_mean(a, dim=0, correction=0), A)
for _n in "softmax log_softmax cumsum cumprod cummax sort argsort".split():
    case(f"{_n} by name", lambda a, n=_n: getattr(a, n)(dim=1), A)
    case(f"{_n} by position", lambda a, n=_n: getattr(a, n)(0), A)
    case(f"{_n} of a number", lambda a, n=_n: getattr(a, n)(0), S)
case("sort downwards", lambda a: a.sort(descending=True), A)
case("topk", lambda a: a.topk(2), A)
case("topk of a dim", lambda a: a.topk(2, dim=0, largest=False), A)
case("kthvalue", lambda a: a.kthvalue(2, dim=0), A)
case("quantile", lambda a: a.quantile(0.3), A)
case("quantiles", lambda a: a.quantile(strata.tensor([0.3, 0.5]), dim=1), A)
case("norm", lambda a: a.norm() + a.norm(1) + a.norm(2, dim=1).sum() + a.norm(dim=-1, keepdim=True).sum(), A)
case("linalg.norm", lambda a: strata.linalg.norm(a) + strata.linalg.norm(a, ord="nuc") + strata.linalg.norm(a, 2), A)
case("vector_norm", lambda a: strata.linalg.vector_norm(a, 3, dim=0), A)
case("matrix_norm", lambda a: strata.linalg.matrix_norm(a), A)
case("normalize", lambda a: F.normalize(a, dim=0), A)
case("cosine_similarity", lambda a, b: F.cosine_similarity(a, b, dim=-1), A, B)
case("diff", lambda a: a.diff(), A)
case("glu", lambda a: F.glu(a, 0), A)
case("trapezoid", lambda a: strata.trapezoid(a, dx=0.5) + strata.trapezoid(a, strata.arange(5.0)), A)

# --- shapes ---------------------------------------------------------------------------------------------------------------

case("view", lambda a: a.view(5, 4), A)
case("reshape", lambda a: a.reshape(20) + a.reshape(2, -1).flatten() + a.ravel(), A)
case("flatten of a number", lambda a: a.flatten(), S)
case(
    "transposes",
    lambda a: a.T + a.mT + a.t() + a.permute(1, 0) + a.transpose(0, 1) + a.movedim(0, 1) + a.swapaxes(0, 1),
    A,
)
case("squeeze", lambda a: a[None].squeeze() + a[None].squeeze(0), A)
case("unsqueeze", lambda a: a.unsqueeze(-1), A)
case("unsqueeze of a number", lambda a: a.unsqueeze(0), S)
case("expand", lambda a, b: a.expand(4, 5) + a.expand_as(b) + b.expand(2, -1, -1).sum(0), V, A)
case("split", lambda a: a.split(2), A)
case("split by sizes", lambda a: a.split([2, 3], dim=1), A)
case("chunk", lambda a: a.chunk(2, dim=-1), A)
case("unbind", lambda a: a.unbind(1), A)
case("iteration", lambda a: [r.sum() for r in a], A)
case("tril", lambda a: a.tril() + a.triu(1), A)
case("diagonals", lambda a: a.diagonal().sum() + a[0].diag() + strata.diag_embed(a[1]) + a[:, :4].trace(), A)
case("unfold", lambda a: a.unfold(1, 2, 1), A)
case("flips", lambda a: a.flip(0) + strata.flip(a, [0, 1]) + a.roll(1, 0) + a.roll(2), A)
case("rot90", lambda a: a.rot90(), A)
case("repeats", lambda a: a.repeat(2, 1, 1).sum(0) + a.tile(2)[:, :5] + a.repeat_interleave(2, dim=0)[::2], A)
case("repeat_interleave of all", lambda a: a.repeat_interleave(2), A)
case("cat", lambda a, b: strata.cat([strata.cat([a, b], -1), strata.zeros(1, 10)]), A, B)
case("stack", lambda a, b: strata.stack([a, b], 1), A, B)
for _n in "hstack vstack dstack column_stack".split():
    case(_n, lambda a, b, n=_n: getattr(strata, n)([a, b]), V, V)
case("meshgrid", lambda a, b: strata.meshgrid(a, b, indexing="ij"), V, V)
case("meshgrid xy", lambda a, b: strata.meshgrid(a, b[:3], indexing="xy"), V, V)
case("broadcast_tensors", lambda a, b: strata.broadcast_tensors(a, b), V, A)
case("atleast_2d", lambda a: strata.atleast_2d(a), V)
case("new tensors", lambda a: a.new_zeros(2) + a.sum() + strata.zeros_like(a).sum() + strata.ones_like(a)[0, 0], A)
case("pad", lambda a: F.pad(a, (1, 2)), A)
case("pad of an image", lambda a: F.pad(a[None], (1, 1, 1, 1), mode="reflect"), A)
case("pad of rows", lambda a: F.pad(a, (1, 1), mode="replicate"), A)
case("unflatten", lambda a: a.unflatten(1, (5, 1)), A)
case("narrow", lambda a: a.narrow(1, 1, 2) + a.select(1, 2).unsqueeze(1), A)

# --- indexing -------------------------------------------------------------------------------------------------------------

case("x[1]", lambda a: a[1], A)
case("x[1:, ::2]", lambda a: a[1:, ::2], A)
case("x[..., 1]", lambda a: a[..., 1], A)
case("x[None, :, None]", lambda a: a[None, :, None], A)
case("x[list]", lambda a: a[[0, 2]] + a[index([0, 2])], A)
case("x[:, tensor]", lambda a: a[:, index([0, 2])], A)
case("x[tensor, tensor]", lambda a: a[index([0, 2]), index([1, 3])], A)
case("x[mask]", lambda a: a[index([True, False, True, True])], A)
case("x[batched]", lambda a, i: a[i], A, I)
case("x[:, batched]", lambda a, i: a[:, i], A, I)
case("plain[batched]", lambda i: strata.arange(12.0).reshape(4, 3)[i], I)
case("plain[:, batched]", lambda i: strata.arange(12.0).reshape(3, 4)[:, i], I)
case("x[batched, tensor]", lambda a, i: a[i, index([0, 1, 2, 3, 4])], A, I)
case("x[tensor, :, tensor]", lambda a: a[None][index([0, 0]), :, index([1, 2])], A)
case("x[batched, :, batched]", lambda a, i: a[None][i * 0, :, i], A, I)
case("plain[batched, :, batched]", lambda i: strata.arange(24.0).reshape(2, 3, 4)[i % 2, :, i], I)
case("x[number]", lambda a, i: a[i], A, strata.tensor([0, 1, 2]))


def _assign(a, b):
    c = a.clone()
    c[1:] = b
    c[0, 0] = 5.0
    c[:, index([1, 2])] = 7.0
    return c


def _assign_at(a, i, b):
    c = a.clone()
    c[i[:2] % 2, 1] = b[0]
    c[:, i[2]] = 3.0
    return c


case("x[...] = y", _assign, A, S)
case("x[batched] = y", _assign_at, A, I, V)
case("index_select", lambda a, i: a.index_select(1, index([0, 2])).sum() + a.index_select(1, i), A, I)
case("gather", lambda a, i: a.gather(0, i[None]), A, I)
case("plain.gather", lambda i: strata.arange(20.0).reshape(4, 5).gather(0, i[None]), I)
case("scatter", lambda a, i: a.scatter(0, i[None], 1.0), A, I)
case("scatter_add", lambda a, i, v: a.scatter_add(0, i[None], v[None]), A, I, V)
case("scatter_reduce", lambda a, i, v: a.scatter_reduce(0, i[None], v[None], reduce="amax"), A, I, V)
case("index_add", lambda a, v: a.index_add(0, index([1]), v[None], alpha=2), A, V)
case("index_add of a batched index", lambda a, i, v: a.index_add(0, i[:1], v[None]), A, I, V)
case("index_fill", lambda a: a.index_fill(0, index([1]), 2.0), A)
case("index_copy", lambda a, v: a.index_copy(0, index([1]), v[None]), A, V)
case("index_put", lambda a, v: a.index_put((index([1]),), v[None]), A, V)
case("take", lambda a, i: a.take(index([0, 5])).sum() + a.take(i), A, I)
case("take_along_dim", lambda a: a.take_along_dim(a.argsort(1), 1), A)
case("one_hot", lambda i: F.one_hot(i, 4), I)
case("embedding", lambda i: F.embedding(i, strata.arange(8.0).reshape(4, 2)), I)
case("embedding of batched weights", lambda i, w: F.embedding(i, w, padding_idx=1), I, A)
case("searchsorted", lambda v: strata.searchsorted(strata.arange(5.0), v), V)
case("searchsorted of batched rows", lambda s, v: strata.searchsorted(s.sort().values, v), V, A)
case("bucketize", lambda v: strata.bucketize(v, strata.arange(5.0)), A)
case("select_scatter", lambda a, v: a.select_scatter(v, 0, 1), A, V)

# --- products -------------------------------------------------------------------------------------------------------------

case("matrix @ matrix", lambda a, b: a @ b, A, M)
case("matrix @ vector", lambda a, b: a @ b, A, V)
case("vector @ vector", lambda a, b: a @ b + strata.dot(a, b), V, V)
case("vector @ matrix", lambda a, b: a @ b, V, M)
case("matrix @ plain", lambda a: a @ strata.ones(5, 2), A)
case("plain @ matrix", lambda a: strata.ones(2, 4) @ a, A)
case("vector @ plain", lambda a: a @ strata.ones(5, 2), V)
case("plain @ vector", lambda a: strata.ones(2, 5) @ a, V)
case("vector @ plain vector", lambda a: a @ strata.arange(5.0), V)
case("bmm", lambda a, b: strata.bmm(a[None], b[None]), A, M)
case("matrices @ matrix", lambda a, b: a.expand(2, 4, 5) @ b, A, M)
case("plain matrices @ matrix", lambda b: strata.ones(2, 4, 5) @ b, M)
case("linear", lambda a: F.linear(a, strata.ones(6, 5), strata.ones(6)), A)
case("linear of a vector", lambda a: F.linear(a, strata.ones(6, 5), strata.ones(6)), V)
case("linear of batched weights", lambda a, w, b: F.linear(a, w, b), A, W, Bias)
case("linear of a vector and batched weights", lambda a, w, b: F.linear(a, w, b), V, W, Bias)
case("linear of a plain input", lambda w, b: F.linear(strata.ones(2, 5), w, b), W, Bias)
case("linear of a batched bias", lambda a, b: F.linear(a, strata.ones(6, 5), b), A, Bias)
case("outer", lambda a, b: strata.outer(a, b), V, V)
case("addmm", lambda a, m: strata.addmm(strata.ones(6), a, m, beta=2, alpha=0.5), A, M)
case("einsum", lambda a, b: strata.einsum("ij,jk->ik", a, b) + strata.einsum("ij,jk", a, b), A, M)
case("einsum with ...", lambda a, b: strata.einsum("...j,jk->...k", a, b), A, M)
case("einsum with a plain tensor", lambda a: strata.einsum("ij,kj->ik", a, strata.ones(2, 5)), A)
case("tensordot", lambda a, b: strata.tensordot(a, b, dims=1), A, M)
case("inner", lambda a, b: strata.inner(a, b), A, B)
case("kron", lambda a, b: strata.kron(a, b), A, V)
case("multi_dot", lambda a, b: strata.linalg.multi_dot([a, b, strata.ones(6, 2)]), A, M)
case("bilinear", lambda a, b: F.bilinear(a, b, strata.ones(2, 5, 5)), A, B)
case("cross", lambda a: strata.linalg.cross(a[:, :3], a[:, :3] + 1), A)
case("matrix_power", lambda a: strata.linalg.matrix_power(a[:, :4], 2), A)
for _n in "det inv cholesky eigvalsh svdvals pinv matrix_exp slogdet qr".split():
    case(f"linalg.{_n}", lambda a, n=_n: getattr(strata.linalg, n)(a), Q)
case("solve", lambda a, b: strata.linalg.solve(a, b), Q, A)
case("solve for a vector", lambda a, b: strata.linalg.solve(a, b[:, 0]), Q, A)
case("solve_triangular", lambda a, b: strata.linalg.solve_triangular(a.tril(), b, upper=False), Q, A)
case("cholesky_solve", lambda a, b: strata.cholesky_solve(b, strata.linalg.cholesky(a)), Q, A)
case("cdist", lambda a, b: strata.cdist(a, b), A, B)
case("fft", lambda a: strata.view_as_real(strata.fft.fft(a)), A)
case("rfft2", lambda a: strata.view_as_real(strata.fft.rfft2(a)), A)
case("fftn", lambda a: strata.view_as_real(strata.fft.fftn(a, dim=(0,))), A)
case("fftshift", lambda a: strata.fft.fftshift(a), A)

# --- layers ---------------------------------------------------------------------------------------------------------------

case("conv2d", lambda x: F.conv2d(x, strata.ones(2, 4, 3, 3), strata.ones(2), padding=1), X)
case("conv2d of one image", lambda x: F.conv2d(x[0], strata.ones(2, 4, 3, 3)), X)
case("conv2d of batched weights", lambda x, w, b: F.conv2d(x, w, b, stride=2), X, Wc, Bc)
case("conv2d of a plain input", lambda w, b: F.conv2d(strata.ones(2, 4, 6, 6), w, b), Wc, Bc)
case("conv2d with groups", lambda x, w: F.conv2d(x, w[:, :2], groups=2), X, Wc)
case("conv2d of one image and batched weights", lambda x, w: F.conv2d(x[0], w), X, Wc)
case("conv2d of a batched bias", lambda x, b: F.conv2d(x, strata.ones(8, 4, 3, 3), b), X, Bc)
case("conv_transpose2d", lambda x, w, b: F.conv_transpose2d(x, w[:4], b[:4], stride=2), X, Wc, Bc)
case("conv1d", lambda x, w: F.conv1d(x[..., 0], w[..., 0], padding="same"), X, Wc)
for _n, _a in {"max_pool2d": 2, "avg_pool2d": 2, "adaptive_avg_pool2d": 3, "adaptive_max_pool2d": 3}.items():
    case(_n, lambda x, n=_n, a=_a: getattr(F, n)(x, a), X)
    case(f"{_n} of one image", lambda x, n=_n, a=_a: getattr(F, n)(x[0], a), X)
case("interpolate", lambda x: F.interpolate(x, scale_factor=2), X)
case("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), X)
case("unfold of images", lambda x: F.unfold(x, 2), X)
case("grid_sample", lambda x: F.grid_sample(x, strata.zeros(2, 3, 3, 2), align_corners=False), X)
case("layer_norm", lambda x: F.layer_norm(x, (6,)) + F.layer_norm(x, (6,), strata.ones(6) * 2, strata.ones(6)), X)
case("layer_norm of batched weights", lambda x, w: F.layer_norm(x, (5,), w, w + 1), A, V)
case("rms_norm", lambda x, w: F.rms_norm(x, (5,), w), A, V)
case("group_norm", lambda x, w: F.group_norm(x, 2, strata.ones(4), strata.zeros(4)) + F.group_norm(x, 2, w, w), X, G)
case("instance_norm", lambda x: F.instance_norm(x), X)
case("batch_norm in training", lambda x, w: F.batch_norm(x, None, None, w, w, training=True), X, G)
case("batch_norm", lambda x: F.batch_norm(x, strata.zeros(4), strata.ones(4) * 2, strata.ones(4), strata.ones(4)), X)
case("attention", lambda q, k: F.scaled_dot_product_attention(q, k, k, is_causal=True), X[:, 0], X[:, 1])
case(
    "attention to plain keys",
    lambda q: F.scaled_dot_product_attention(q, strata.ones(4, 6, 6), strata.ones(4, 6, 6)),
    X[:, 0],
)
_heads = nn.MultiheadAttention(6, 2, batch_first=True)
case("multi-head attention", lambda x: _heads(x, x, x), X[:, :, 0])
case("multi-head attention of one sequence", lambda x: _heads(x, x, x), X[:, 0, 0])
_encoder = nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0, batch_first=True)
case("transformer layer", lambda x: _encoder(x), X[:, :, 0])
_cells = nn.LSTMCell(5, 4), nn.GRUCell(5, 4), nn.RNNCell(5, 4)
case("cells", lambda x: (*_cells[0](x), _cells[1](x), _cells[2](x)), A)
_norms = nn.BatchNorm2d(4).eval(), nn.BatchNorm2d(4, track_running_stats=False), nn.InstanceNorm2d(4)
case("norm modules", lambda x: [m(x) for m in _norms], X)

# --- losses ---------------------------------------------------------------------------------------------------------------

for _r in ("mean", "sum", "none"):
    for _n in "mse_loss l1_loss smooth_l1_loss huber_loss".split():
        case(f"{_n} {_r}", lambda a, b, n=_n, r=_r: getattr(F, n)(a, b, reduction=r), A, B)
    case(f"cross_entropy {_r}", lambda a, t, r=_r: F.cross_entropy(a, t, reduction=r), A, C)
    case(
        f"cross_entropy with weights {_r}",
        lambda a, t, r=_r: F.cross_entropy(a, t, weight=Weights, reduction=r, ignore_index=1),
        A,
        C,
    )
    case(
        f"cross_entropy with smoothing {_r}",
        lambda a, t, r=_r: F.cross_entropy(a, t, reduction=r, label_smoothing=0.1, weight=Weights),
        A,
        C,
    )
    case(
        f"cross_entropy of chances {_r}",
        lambda a, b, r=_r: F.cross_entropy(a, b.softmax(-1), reduction=r, weight=Weights),
        A,
        B,
    )
    case(f"nll_loss {_r}", lambda a, t, r=_r: F.nll_loss(a, t, reduction=r), A, C)
case("mse_loss with a plain target", lambda a: F.mse_loss(a, strata.zeros(4, 5)), A)
case("binary_cross_entropy_with_logits", lambda a: F.binary_cross_entropy_with_logits(a, strata.ones(4, 5)), A)
case("binary_cross_entropy", lambda a, b: F.binary_cross_entropy(a.sigmoid(), b.sigmoid()), A, B)
case("kl_div", lambda a, b: F.kl_div(a.log_softmax(-1), b.softmax(-1), reduction="batchmean"), A, B)
case("cross_entropy of one sample", lambda a, t: F.cross_entropy(a, t), V, strata.tensor([0, 1, 4]))
case("cross_entropy of images", lambda a, t: F.cross_entropy(a[None].mT, t[None]), A, C)
case("gaussian_nll_loss", lambda a, b: F.gaussian_nll_loss(a, b, b.abs() + 0.1), A, B)
case("triplet_margin_loss", lambda a, b: F.triplet_margin_loss(a, b, -a, swap=True), A, B)
case("cosine_embedding_loss", lambda a, b: F.cosine_embedding_loss(a, b, strata.tensor([1, -1, 1, 1])), A, B)
