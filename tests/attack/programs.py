"""Random programs of tensor ops, as lines of Python text that run under any module with PyTorch's names.

A line uses T (the module), F (its nn.functional), D (the device), leaf(i) (the program's i-th input), log (a list hooks write to) and variables v0, v1, ...
`Writer.line` picks the next line by the shapes and dtypes of the program so far, so that most lines are valid."""

import math

FLOATS = ("float64", "float64", "float64", "float32", "float32", "float16", "bfloat16")
INTEGERS = ("int64", "int64", "int32", "int16", "int8", "uint8", "bool")
SHAPES = (
    (),
    (1,),
    (3,),
    (4,),
    (2, 3),
    (3, 3),
    (1, 3),
    (3, 1),
    (2, 3, 4),
    (0,),
    (2, 0),
    (1, 1),
    (2, 1, 3),
    (2, 2, 3, 3),
)

SMOOTH = ("T.sin({0})", "T.cos({0})", "T.tanh({0})", "T.sigmoid({0})", "T.erf({0})", "T.atan({0})", "F.softplus({0})", "F.gelu({0})", "F.silu({0})",
          "F.elu({numbers})", "F.celu({numbers})", "F.selu({numbers})", "F.mish({0})", "F.logsigmoid({0})", "T.rsqrt(1 + {0} * {0})", "T.log1p({0}.abs())", "T.expm1(-{0}.abs())",
          "T.sqrt({0}.square() + 1)", "T.exp(-{0}.abs())", "T.sinc({0}.abs() * 0.61 + 0.3)", "T.asinh({0})", "T.softmax({0}, {dim})", "T.log_softmax({0}, {dim})",
          "T.logsumexp({0}, {dim})", "F.normalize({0}, dim={dim}, eps=0.25)", "T.logit({0}.sigmoid() * 0.5 + 0.25)", "T.special.xlog1py({0}, {0}.abs())", "T.float_power({0}, 2)",
          "T.reciprocal(1 + {0}.abs())", "F.softsign({signed})", "F.tanhshrink({0})")  # fmt: skip
EXACT = ("-{0}", "{0}.abs()", "T.relu({0})", "{0}.clamp(-1, 2)", "T.clamp({0}, min=0.5)", "F.hardtanh({0})", "F.relu6({0})", "F.threshold({0}, 0.25, 7)",
         "F.leaky_relu({0}, 0.5)", "T.nan_to_num({0})", "{0}.clone()", "{0}.contiguous()", "{0} * 2", "{0} + 1", "1 - {0}", "{0} - 0.5", "{0} * True", "{0}.square()",
         "{0}.flip({dim})", "{0}.roll(1, {dim})", "T.tril({0})", "T.triu({0}, 1)", "{0}.cumsum({dim})", "T.diff({0}, dim={dim})", "T.heaviside({0}, {0})", "T.deg2rad({0}) * 0",
         "T.maximum({0}, T.zeros_like({0}))", "T.ones_like({0}) + {0}", "{0}.double()", "{0}.float()", "{0}.to(T.bfloat16)", "{0}.half()", "{whole}.long()", "{whole}.int()", "{0}.bool()",
         "{0}.sum()", "{0}.sum({dim})", "{0}.sum({dim}, keepdim=True)", "{0}.amax({dim})", "{0}.amin({dim}, keepdim=True)", "{0}.max({dim}).values", "{0}.min({dim})[0]", "{0}.max()",
         "{distinct}.sort({dim}).values", "{0}.argmax({dim})", "{0}.argsort(dim={dim}, stable=True)", "{0}.cummax({dim})[0]", "{0}.cummin({dim}).values", "{0}.any({dim})", "{0}.all()",
         "T.count_nonzero({0}, {dim})", "{distinct}.median()", "{distinct}.median({dim}).values", "{distinct}.kthvalue(1, {dim}).values", "T.aminmax({0})[1]", "{0}.unique()",
         "{0}.floor()", "{0}.ceil()", "{0}.round()", "{0}.trunc()", "{0}.frac()", "{0}.sign()", "{0} // 2", "{0} % 3", "T.fmod({0}, 2)", "{0} > 0", "{0} == {0}", "{0} <= 1", "{0}.isnan()",
         "T.logical_not({0})", "{0}.repeat(2, *[1] * {0}.dim())", "T.repeat_interleave({0}, 2, {dim})", "{0}.tile((2,))", "F.pad({0}, (1, 2))", "{0}.nonzero()",
         "T.nansum({0}, {dim})", "T.where({0} > 0, {0}, -{0})", "{0}.new_zeros(2) + {0}.sum()", "T.fmax({0}, 0 * {0})", "T.full_like({0}, 3) * {0}", "{whole}.to(T.uint8)", "{whole}.to(T.int8)", "T.topk({distinct}, 1, {dim}).values",
         "{0}.expand_as({0})", "T.meshgrid({0}.flatten(), {0}.flatten(), indexing='ij')[0]", "T.atleast_2d({0})", "T.trace({0})")  # fmt: skip
ROUNDED = ("{0}.mean()", "{0}.mean({dim}, keepdim=True)", "{0}.var({dim})", "{0}.std({dim}, correction=0)", "{0}.norm()", "T.linalg.vector_norm({0}, 3, {dim})", "{0}.prod({dim})", "{0}.cumprod({dim})",
           "F.layer_norm({0}, {0}.shape[-1:])", "T.var_mean({0}, {dim})[0]", "{0} / 3", "2 / ({0}.abs() + 1)", "T.hypot({0}, {0}.abs() + 1)", "{0} ** 2", "{0} ** 3", "T.pow(2, {0}.clamp(-3, 3))", "T.lerp({0}, {0} + 1, 0.3)",
           "T.atan2({signed}, {signed}.abs() + 1)", "T.true_divide({0}, 7)", "{0}.addcmul({0}, {0}, value=0.5)", "{0}.addcdiv({0}, {0}.abs() + 1)", "F.mse_loss({0}, {0} * 0.5)", "F.smooth_l1_loss({0}, {0} * 0 + 1)",
           "F.huber_loss({0}, 2 * {0})", "F.hardswish({0})", "F.hardsigmoid({0})", "F.softshrink({0}, 0.3)", "F.hardshrink({0}, 0.3)", "F.prelu({0}, T.full((1,), 0.25, dtype={0}.dtype, device=D))", "F.cosine_similarity({0}, {0} + 1, dim={dim})",
           "T.cdist({0}.reshape(-1, 1), {0}.reshape(-1, 1))", "F.rms_norm({0}, {0}.shape[-1:], eps=1e-3)", "F.group_norm({0}.reshape(1, 1, -1), 1)", "T.quantile({distinct}, 0.3)", "T.renorm({0}, 2, 0, 1.0)", "F.dropout({0}, 0.0)", "T.logcumsumexp({0}, {dim})")  # fmt: skip
VIEWS = ("{0}[:]", "{0}[...]", "{0}[None]", "{0}[..., None]", "{0}.reshape(-1)", "{0}.flatten()", "{0}.view(-1)", "{0}.unsqueeze({dim})", "{0}.squeeze()", "{0}.t()", "{0}.mT", "{0}.transpose(0, -1)", "{0}.movedim(0, -1)",
         "{0}.select({dim}, 0)", "{0}.narrow({dim}, 0, 1)", "{0}[::2]", "{0}[1:]", "{0}[..., :-1]", "{0}[0]", "{0}[-1:]", "{0}.diagonal()", "{0}.expand(2, *{0}.shape)", "{0}.permute(*reversed(range({0}.dim())))",
         "{0}.chunk(2, {dim})[-1]", "{0}.split(1, {dim})[0]", "{0}.unbind({dim})[0]", "{0}.unfold({dim}, 1, 1)", "{0}.swapaxes(0, -1)", "{0}.view({0}.shape)", "{0}.view_as({0})", "{0}.detach()", "{0}.data",
         "{0}.as_strided((2,), (1,))", "{0}[..., 0]", "{0}.tensor_split(2, {dim})[0]", "{0}.hsplit(1)[0]", "{0}.ravel()", "{0}.unflatten({dim}, (1, -1))", "{0}.broadcast_to({0}.shape)", "{0}.adjoint()")  # fmt: skip
BINARY = ("{0} + {1}", "{0} - {1}", "{0} * {1}", "T.maximum({0}, {1})", "T.minimum({0}, {1})", "T.where({0} > {1}, {0}, {1})", "{0} < {1}", "{0} >= {1}", "{0} != {1}", "T.logical_and({0}, {1})", "T.logical_xor({0}, {1})",
          "T.add({0}, {1}, alpha=2)", "T.sub({0}, {1}, alpha=3)", "T.rsub({0}, {1})", "T.fmin({0}, {1})", "{0}.copysign({1})", "T.eq({0}, {1})", "{0} & {1}", "{0} | {1}", "{0} ^ {1}", "T.isclose({0}, {1})", "T.dist({0}, {1})",
          "T.cat([{0}, {1}])", "T.stack([{0}, {1}])", "T.cat([{0}, {1}], -1)", "{0}.masked_fill({1} > 0, 2)", "T.broadcast_tensors({0}, {1})[0]", "T.outer({0}.flatten(), {1}.flatten())", "{0} @ {1}", "T.matmul({0}, {1})",
          "F.linear({0}, {1})", "T.einsum('...i,...i->...', {0}, {1})", "T.tensordot({0}, {1}, dims=0)", "T.kron({0}, {1})", "T.hypot({0}, {1}.abs() + 1)", "T.atan2({signed}, {signed1}.abs() + 1)", "T.lerp({0}, {1}, 0.25)", "F.mse_loss({0}, {1})", "F.l1_loss({0}, {1}, reduction='sum')",
          "{0}[{1} > 0]", "{0}.masked_select({1} > 0)", "T.take_along_dim({0}, {1}.long() * 0, -1)", "{0}.index_select(0, ({1}.flatten()[:2].long() * 0))", "T.take({0}, {1}.long() * 0)", "{0}.gather(0, {1}.long() * 0)",
          "{0}.scatter(0, {1}.long() * 0, 2)", "{0}.scatter_add(0, {1}.long() * 0, {1})", "{0}.index_add(0, T.zeros(1, dtype=T.long, device=D), {1}[:1])", "T.addmm({0}, {1}, {1})", "T.floor_divide({0}, {1}.abs() + 1)", "T.remainder({0}, {1}.abs() + 1)",
          "{0} / ({1}.abs() + 1)", "T.logaddexp({0}, {1})", "{0} << ({1} & 3)", "T.bitwise_and({0}, {1})", "T.searchsorted({0}.flatten().sort().values, {1})", "T.bucketize({1}, {0}.flatten().sort()[0])", "T.polygamma(1, {0}.abs() + 1)",
          "{0}.index_put((T.tensor([0], device=D),), {1}[:1])", "T.xlogy({0}, {1}.abs() + 1)", "T.cross({0}, {1} + 1, dim=-1)", "T.dot({0}, {1})", "T.bmm({0}, {1})", "T.vdot({0}, {1})")  # fmt: skip
IN_PLACE = ("{0}.add_(1)", "{0}.mul_(2)", "{0}.sub_(0.5)", "{0}.neg_()", "{0}.abs_()", "{0}.relu_()", "{0}.clamp_(-1, 1)", "{0}.zero_()", "{0}.fill_(3)", "{0}.square_()", "{0}[0] = 2", "{0}[..., 0] = 1.5", "{0}[{0} > 0] = 3", "{0}[:] = {0} * 2",
            "{0}.masked_fill_({0} > 1, -1)", "{0}.sigmoid_()", "{0}.tanh_()", "{0}.sin_()", "{0}.t_()", "{0}.unsqueeze_(0)", "{0}.squeeze_()", "{0}.tril_()", "{0}.cumsum_({dim})", "{0}.lt_(1)", "{0}.ge_(0)", "{0}.eq_({0})", "{0}.ne_(0)",
            "{cut}.logical_not_()", "{0}.nan_to_num_()", "F.relu({0}, inplace=True)", "F.elu({numbers}, inplace=True)", "F.relu6({0}, inplace=True)", "F.leaky_relu({0}, 0.5, inplace=True)", "F.hardtanh({0}, inplace=True)", "{0}.floor_()", "{0}.pow_(2)", "{0} += 1", "{0} *= 0.5",
            "{0}[1:] *= 2", "{0}[0].add_(1)", "{0}.index_fill_(0, T.zeros(1, dtype=T.long, device=D), 2)", "{0}.round_()", "{0}.sgn_()", "{0}.div_(2)", "{0}.transpose_(0, -1)", "{0}.data.mul_(2)", "{0}.detach().add_(1)", "{0}.select({dim}, 0).mul_(3)", "{0}.view(-1)[0] = 1",
            "F.selu({numbers}, inplace=True)", "F.celu({numbers}, inplace=True)", "F.silu({0}, inplace=True)", "F.hardswish({0}, inplace=True)", "F.hardsigmoid({0}, inplace=True)", "F.mish({0}, inplace=True)", "F.threshold({0}, 0.25, 7, inplace=True)", "F.dropout({0}, 0.0, inplace=True)",
            "{0}.remainder_(2)", "{0}.copysign_(-1)", "{0}.trunc_()", "{0}.diagonal().fill_(1)", "{0}.unbind({dim})[0].mul_(2)", "{0}.expand(2, *{0}.shape).add_(1)", "{0}.clamp_min_(0)", "{0}.reciprocal_()", "{0}.resize_(0)", "{0}.requires_grad_()")  # fmt: skip
IN_PLACE_BINARY = ("{0}.add_({1})", "{0}.mul_({1})", "{0}.copy_({fit1})", "{0}.sub_({1}, alpha=2)", "{0}[0] = {fit1}", "{0}[...] = {fit1}", "{0}.masked_fill_({1} > 0, 0)", "{0} += {1}", "{0} -= {1}", "{0}.maximum_({1})", "{0}.addcmul_({1}, {1})", "{0}[{1} > 0] = 0",
                   "{0}.lerp_({1}, 0.5)", "{0}.gt_({1})", "{cut}.logical_or_({1})", "{0}.div_({1}.abs() + 1)", "{0}.index_add_(0, T.zeros(1, dtype=T.long, device=D), {1}[:1])", "{0}.scatter_(0, {1}.long() * 0, 1)", "{0}.masked_scatter_({1} > 0, {0}.detach().clone())",
                   "{0}[..., :1].copy_({fit1})", "{0}.addmm_({1}, {1})", "{0}.index_copy_(0, T.zeros(1, dtype=T.long, device=D), {1}[:1])", "{0}.atan2_({signed1}.abs() + 1)", "{0}.put_(T.zeros(1, dtype=T.long, device=D), {1}.flatten()[:1])", "{0}[[0]] = {fit1}", "{0}.diagonal().copy_({fit1})",
                   "{0}.data = {like1}", "{0}.bitwise_and_({1})", "{0}.index_put_((T.zeros(1, dtype=T.long, device=D),), {1}[:1], accumulate=True)", "T.add({0}, {1}, out={0})", "T.mul({1}, {1}, out={0})")  # fmt: skip
TAPE = (
    "{0}.retain_grad()",
    "{0}.register_hook(lambda g: log.append(g.detach().clone()))",
    "{0}.register_hook(lambda g: g * 2)",
    "{0}.requires_grad_()",
)

COMPARISONS = (">", "<", "==", "!=", "lt_", "le_", "gt_", "ge_", "eq_", "ne_", "floor", "round", "trunc", "remainder", "logical", "sgn", "imum", "bitwise", "clamp", "copysign", "threshold", "hard", "relu", "eq(", "sort", "fmin", "isclose", "logical", "[{1}")  # fmt: skip

# Whole layers on their own inputs: lines of one statement over new leaves. Results with other strides than PyTorch's are made
# contiguous: whether reshape is a view depends on them.
LAYERS = (
    ("F.conv2d(leaf({0}), leaf({1}), padding={k})", ((2, 3, 5, 4), (4, 3, 3, 2))),
    ("F.conv2d(leaf({0}), leaf({1}), stride=2, dilation={d}, padding=2)", ((1, 2, 6, 5), (2, 2, 2, 3))),
    ("F.conv2d(leaf({0}), leaf({1}), groups=2)", ((1, 4, 3, 3), (2, 2, 1, 1))),
    ("F.conv1d(leaf({0}), leaf({1}), leaf({2}), padding={k})", ((2, 3, 5), (4, 3, 2), (4,))),
    ("F.conv_transpose2d(leaf({0}), leaf({1}), stride={d})", ((1, 2, 3, 3), (2, 3, 2, 2))),
    ("F.conv3d(leaf({0}), leaf({1}))", ((1, 2, 3, 4, 3), (2, 2, 2, 2, 2))),
    ("F.max_pool2d(leaf({0}), {d}, stride={d}, ceil_mode=True)", ((2, 3, 5, 4),)),
    ("F.max_pool2d(leaf({0}), 2, stride={d}, padding=1)", ((3, 4, 1),)),
    ("F.max_pool2d(leaf({0}), 2)", ((2, 3, 2, 2),)),
    ("F.avg_pool2d(leaf({0}), 2, stride={d}, padding=1, count_include_pad=False)", ((1, 2, 5, 3),)),
    ("F.max_pool1d(leaf({0}), 2, {d})", ((2, 3, 5),)),
    ("F.adaptive_avg_pool2d(leaf({0}), ({d}, 2))", ((2, 2, 5, 4),)),
    ("F.adaptive_max_pool2d(leaf({0}), {d})", ((2, 2, 5, 4),)),
    ("F.lp_pool2d(leaf({0}).abs() + 1, 2, 2)", ((1, 2, 4, 4),)),
    ("F.batch_norm(leaf({0}), None, None, leaf({1}), leaf({2}), training=True)", ((3, 2, 4), (2,), (2,))),
    ("F.instance_norm(leaf({0}))", ((2, 3, 4),)),
    ("F.group_norm(leaf({0}), 2, leaf({1}), leaf({2}))", ((2, 4, 3), (4,), (4,))),
    ("F.layer_norm(leaf({0}), (3,), leaf({1}))", ((4, 3), (3,))),
    ("F.cross_entropy(leaf({0}), T.tensor([0, 2, 1], device=D), label_smoothing=0.1)", ((3, 4),)),
    ("F.nll_loss(F.log_softmax(leaf({0}), 1), T.tensor([0, 2, -100], device=D))", ((3, 4),)),
    ("F.binary_cross_entropy_with_logits(leaf({0}), leaf({1}).sigmoid().detach())", ((3, 4), (3, 4))),
    ("F.kl_div(F.log_softmax(leaf({0}), -1), F.softmax(leaf({1}), -1), reduction='batchmean')", ((3, 4), (3, 4))),
    ("F.embedding(T.tensor([[0, 2], [1, 0]], device=D), leaf({0}), padding_idx=1)", ((3, 4),)),
    (
        "F.embedding_bag(T.tensor([0, 2, 1, 1], device=D), leaf({0}), T.tensor([0, 3], device=D), mode='mean')",
        ((3, 4),),
    ),
    (
        "F.scaled_dot_product_attention(leaf({0}), leaf({1}), leaf({2}), is_causal=True).clone(memory_format=T.contiguous_format)",
        ((1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4)),
    ),
    ("F.interpolate(leaf({0}), scale_factor={d}, mode='bilinear')", ((1, 2, 3, 4),)),
    ("F.interpolate(leaf({0}), size=(5, 2), mode='nearest')", ((1, 2, 3, 4),)),
    ("F.interpolate(leaf({0}), size=(5, 2), mode='bicubic', align_corners=True)", ((1, 2, 3, 4),)),
    ("F.grid_sample(leaf({0}), leaf({1}).tanh())", ((1, 2, 3, 4), (1, 2, 2, 2))),
    ("F.pad(leaf({0}), (1, 2, 0, 1), mode='reflect')", ((1, 2, 3, 4),)),
    ("F.pad(leaf({0}), (1, 2, 0, 1), mode='circular')", ((1, 2, 3, 4),)),
    ("F.unfold(leaf({0}), 2, padding=1)", ((1, 2, 3, 4),)),
    ("F.fold(leaf({0}), (3, 3), 2)", ((1, 8, 4),)),
    ("F.pixel_shuffle(leaf({0}), 2)", ((1, 4, 2, 3),)),
    ("F.glu(leaf({0}))", ((3, 4),)),
    ("F.bilinear(leaf({0}), leaf({1}), leaf({2}))", ((3, 2), (3, 4), (5, 2, 4))),
    ("F.triplet_margin_loss(leaf({0}), leaf({1}), leaf({2}))", ((3, 4), (3, 4), (3, 4))),
    ("F.cosine_embedding_loss(leaf({0}), leaf({1}), T.tensor([1, -1, 1], device=D))", ((3, 4), (3, 4))),
    ("F.multi_margin_loss(leaf({0}), T.tensor([1, 0, 3], device=D))", ((3, 4),)),
    ("F.gaussian_nll_loss(leaf({0}), leaf({1}), leaf({2}).abs() + 1)", ((3, 4), (3, 4), (3, 4))),
    ("F.poisson_nll_loss(leaf({0}), leaf({1}).abs())", ((3, 4), (3, 4))),
    (
        "T.linalg.solve(leaf({0}) + 5 * T.eye(3, dtype=leaf({0}).dtype, device=D), leaf({1})).clone(memory_format=T.contiguous_format)",
        ((3, 3), (3, 2)),
    ),
    (
        "T.linalg.inv(leaf({0}) + 5 * T.eye(3, dtype=leaf({0}).dtype, device=D)).clone(memory_format=T.contiguous_format)",
        ((2, 3, 3),),
    ),
    ("T.linalg.det(leaf({0}))", ((3, 3),)),
    (
        "T.linalg.cholesky(leaf({0}) @ leaf({0}).mT + 3 * T.eye(3, dtype=leaf({0}).dtype, device=D)).clone(memory_format=T.contiguous_format)",
        ((3, 3),),
    ),
    ("T.linalg.svdvals(leaf({0}))", ((3, 4),)),
    ("T.linalg.eigvalsh(leaf({0}) + leaf({0}).mT)", ((3, 3),)),
    ("T.linalg.matrix_exp(leaf({0}))", ((3, 3),)),
    ("T.baddbmm(leaf({0}), leaf({1}), leaf({2}), beta=0.5)", ((2, 3, 2), (2, 3, 4), (2, 4, 2))),
)


class Writer:
    """Writes the lines of one program. `tensor_of(name)` shows the tensor a name stands for in the program so far."""

    def __init__(self, rng, smooth=False):
        self.rng, self.smooth = (
            rng,
            smooth,
        )  # smooth: float64 only and nothing that is not differentiable, for finite differences
        self.leaves = []  # (shape, dtype, requires_grad)
        self.names = []
        self.exact = {}  # values known without rounding: only these are compared, rounded or sorted
        self.count = 0
        self.finite = set()  # leaves without NaN and infinity

    def new_name(self):
        self.count += 1
        return f"v{self.count - 1}"

    def new_leaf(self, shape=None, floating=None):
        rng = self.rng
        floating = rng.random() < 0.8 if floating is None else floating
        dtype = "float64" if self.smooth else rng.choice(FLOATS if floating else INTEGERS)
        self.leaves.append(
            (rng.choice(SHAPES) if shape is None else shape, dtype, self.smooth or (floating and rng.random() < 0.8))
        )
        return len(self.leaves) - 1

    def begin(self):
        """The lines that take in the leaves."""
        lines = []
        for _ in range(self.rng.choice((1, 2, 2, 3))):
            name, leaf = self.new_name(), self.new_leaf()
            lines.append((f"{name} = leaf({leaf})", name))
            self.exact[name] = True
        return lines

    def dim(self, t):
        return self.rng.choice(range(-t.dim(), t.dim())) if t.dim() else self.rng.choice((0, -1))

    def pick(self, tensor_of):
        recent = self.names[-4:] if self.rng.random() < 0.6 else self.names
        name = self.rng.choice(recent)
        return name, tensor_of(name)

    def filled(self, text, name, other, tensor_of):
        """The line with its variables. Where a result would be ambiguous, an operand is changed so that it is not:
        whole and fit1: a float becomes a number that every integer type holds, as what others become depends on the machine;
        distinct: which of equal elements gets the gradient is not said, so those get none;
        numbers: PyTorch's slope at NaN depends on the place of the element;
        cut: PyTorch lets the gradient of the old value through an in-place logical op;
        like1: data of another shape does not fit the recorded gradient;
        signed: PyTorch's gradient negates unsigned numbers, and softsign adds 1 to them, which wraps."""
        t, u = tensor_of(name), tensor_of(other)
        nans = t.dtype.is_floating_point and t.isnan().any().item()
        tied = nans or t.numel() != t.detach().unique().numel()
        if self.smooth and tied and "{distinct}" in text:  # finite differences would see what detach() hides
            text = "T.sin({0})"
        small = "{}.nan_to_num(0.5, 3, -3).abs().clamp(0, 100)"
        return text.format(
            name,
            other,
            dim=self.dim(t),
            whole=small.format(name) if t.dtype.is_floating_point else name,
            fit1=small.format(other) if u.dtype.is_floating_point and not t.dtype.is_floating_point else other,
            distinct=f"{name}.detach()" if t.requires_grad and tied else name,
            numbers=f"{name}.nan_to_num()" if nans else name,
            cut=f"{name}.detach()" if t.requires_grad else name,
            like1=other if t.shape == u.shape or not t.requires_grad else f"{name}.detach().clone()",
            signed=f"{name}.int()" if t.dtype.itemsize == 1 and not t.dtype.is_floating_point else name,
            signed1=f"{other}.int()" if u.dtype.itemsize == 1 and not u.dtype.is_floating_point else other,
        )

    def line(self, tensor_of):
        """The next line, and the name it defines (None: it changes something)."""
        rng = self.rng
        name, t = self.pick(tensor_of)
        other, _ = self.pick(tensor_of)
        kind = rng.random()
        exact = self.exact[name] and self.exact[other]
        if kind < 0.06 and not self.smooth:
            return rng.choice(TAPE).format(name), None
        if kind < 0.28:
            group = IN_PLACE if rng.random() < 0.65 else IN_PLACE_BINARY
            if self.smooth and rng.random() < 0.5:
                group = (
                    "{0}.mul_({1})",
                    "{0}.sin_()",
                    "{0}[0] = {fit1}",
                    "{0}[1:] *= 2",
                    "{0}.select({dim}, 0).mul_(3)",
                    "{0}.tanh_()",
                )
            if not exact:  # rounded values are not compared: the last bit would decide
                group = [g for g in group if not any(w in g for w in COMPARISONS)]
            text = self.filled(rng.choice(group), name, other, tensor_of)
            if self.smooth and (".data" in text or "detach" in text or "set_" in text):
                text = f"{name}.mul_(2)"
            if rng.random() < 0.06 and not self.smooth:
                text = f"with T.no_grad(): {text}"
            if any(
                w in text
                for w in (
                    "sigmoid_",
                    "tanh_",
                    "sin_",
                    "elu",
                    "mish",
                    "silu",
                    "div_",
                    "lerp",
                    "recip",
                    "pow_",
                    "atan2",
                    "hardswish",
                    "hardsig",
                )
            ):
                self.exact = dict.fromkeys(self.exact, False)  # it may be seen through any view
            elif not exact:
                self.exact = {n: False for n in self.exact}
            return text, None
        new = self.new_name()
        if kind < 0.50:
            text, result = rng.choice(VIEWS), self.exact[name]
            if self.smooth and ("detach" in text or ".data" in text):
                text = "{0}[:]"
            if (
                self.smooth and "as_strided" in text
            ):  # the gradient of elements that {0} does not have gets lost, as in PyTorch
                text = "{0}.clone().as_strided((2,), (1,))"
        elif kind < 0.64:
            text, result = rng.choice(EXACT), self.exact[name]
            rounds = self.smooth and any(w in text for w in ("bfloat16", "half", ".float()"))
            if not result or rounds:
                text = rng.choice(SMOOTH)
        elif kind < 0.74:
            text, result = rng.choice(SMOOTH), False
        elif kind < 0.82:
            text, result = rng.choice(ROUNDED), False
        elif kind < 0.96:
            text, result = rng.choice(BINARY), exact and rng.random() < 0.5
            if not exact:
                text = rng.choice([b for b in BINARY if not any(w in b for w in COMPARISONS)])
        else:
            # The gradients of these are not derivatives, by definition.
            layers = [x for x in LAYERS if not self.smooth or not any(w in x[0] for w in ("detach", "padding_idx"))]
            text, shapes = rng.choice(layers)
            places = [self.new_leaf(shape, True) for shape in shapes]
            self.finite.update(places)  # sums of a layer may be taken in any order, and 0 * inf left out
            _, dtype, wants = self.leaves[places[0]]
            for p in places:
                self.leaves[p] = (self.leaves[p][0], "float64" if dtype in ("float16", "bfloat16") else dtype, wants)
            self.exact[new] = False
            return f"{new} = " + text.format(*places, k=rng.choice((0, 1)), d=rng.choice((1, 2))), new
        self.exact[new] = result and t.numel() < 1000
        return f"{new} = " + self.filled(text, name, other, tensor_of), new

    def end(self, tensor_of):
        """How the program is differentiated: lines that leave results in `grads` and in the leaves' .grad."""
        rng = self.rng
        floating = [n for n in self.names if tensor_of(n).requires_grad and tensor_of(n).numel()]
        if not floating:
            return []
        roots = rng.sample(floating, min(len(floating), rng.choice((1, 1, 2, 3))))
        if self.smooth:
            roots = [self.names[-1]] if self.names[-1] in floating else roots
        loss = " + ".join(f"({n} * {n}).sum().double()" if rng.random() < 0.5 else f"{n}.double().sum()" for n in roots)
        wanted = rng.sample(self.names, min(len(self.names), rng.choice((1, 2, 3))))
        inputs = ", ".join(n for n in wanted if tensor_of(n).requires_grad) or roots[0]
        leaves = "[x for x in leaves if x.requires_grad]"
        lines = [f"loss = {loss}"]
        mode = rng.randrange(5) if not self.smooth else rng.choice((0, 4))
        if mode == 0:
            lines.append("loss.backward()")
        elif mode == 1:
            lines += ["loss.backward(retain_graph=True)", "loss.backward()"]
        elif mode == 2:
            lines.append(f"grads = T.autograd.grad(loss, [{inputs}], allow_unused=True)")
        elif mode == 3:
            lines.append(f"loss.backward(inputs=[{inputs}])")
        else:
            lines.append(f"grads = T.autograd.grad(loss, {leaves}, create_graph=True, allow_unused=True)")
            lines.append(
                "second = sum((g.double() * g.double()).sum() for g in grads if g is not None and g.requires_grad)"
            )
            lines.append(
                f"more = T.autograd.grad(second, {leaves}, allow_unused=True) if not isinstance(second, int) else ()"
            )
        return lines


def values(rng, shape, dtype, generic=False, finite=False):
    """Numbers for a leaf: multiples of a quarter, so that sums and products are exact; or generic ones."""
    n = math.prod(shape)
    if dtype == "bool":
        return [rng.random() < 0.5 for _ in range(n)]
    if not dtype.startswith(("float", "bfloat")):
        return [rng.randrange(0 if dtype == "uint8" else -4, 6) for _ in range(n)]
    if generic:
        return [rng.uniform(-1.5, 1.5) for _ in range(n)]
    special = rng.random()
    if special < 0.04 and not finite:
        return [rng.choice((0.0, 1.0, float("nan"), float("inf"), -float("inf"), -0.0)) for _ in range(n)]
    return [rng.randrange(-8, 9) / 4 for _ in range(n)]
