"""Batching rules of convolutions, pools, norms and attention: the batch joins the samples, or the channels."""

import math

from .core import Tensor, VmapError, by_slices, decomposed, name_of, ops, padded, rule, wrap_tree

# --- ops of [N, C, ...]: the batch joins the samples ----------------------------------------------------------------------

# Name: dimensions of one sample; None if a slice always has samples.
_SAMPLES = {
    **{f"{kind}{n}d": n + 1 for kind in ("avg_pool", "max_pool", "adaptive_avg_pool", "lp_pool") for n in (1, 2, 3)},
    **{f"max_pool{n}d_with_indices": n + 1 for n in (1, 2, 3)},
    **{f"adaptive_max_pool{n}d_with_indices": n + 1 for n in (1, 2, 3)},
    **{f"max_unpool{n}d": n + 1 for n in (1, 2, 3)},
    "adaptive_max_pool1d": 2,
    "interpolate": None,
    "upsample_nearest": None,
    "upsample_bilinear": None,
    "grid_sample": None,
    "nn.functional.unfold": 3,
    "fold": 2,
    "local_response_norm": None,
    "channel_shuffle": None,
}


@rule(*_SAMPLES)
def samples(level, func, args, kwargs):
    """Runs func with the slices as further samples."""
    sample = _SAMPLES[name_of(func)]
    if not level.is_batched(args[0] if args else kwargs["input"]) and not level.has_batched(args, kwargs):
        return func(*args, **kwargs)
    rank = level.rank(args[0] if args else kwargs["input"])
    fold = sample is None or rank > sample

    def one(x):
        if not isinstance(x, Tensor):
            return x
        held = level.full(x)
        return held.reshape(-1, *held.shape[2:]) if fold else held

    out = func(*[one(x) for x in args], **{k: one(x) for k, x in kwargs.items()})
    if not fold:
        return wrap_tree(out, level)

    def back(y):
        return level.wrap(y.reshape(level.size, -1, *y.shape[1:]) if level.size else y.unsqueeze(0).expand(0, *y.shape))

    return tuple(back(y) for y in out) if isinstance(out, tuple) else back(out)


# --- convolutions ---------------------------------------------------------------------------------------------------------

_CONV = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
_TRANSPOSED = ("input", "weight", "bias", "stride", "padding", "output_padding", "groups", "dilation")


@rule(*[f"{kind}{n}d" for kind in ("conv", "conv_transpose") for n in (1, 2, 3)])
def _convolution(level, func, args, kwargs):
    name = func.__name__
    transposed = "transpose" in name
    given = {**dict(zip(_TRANSPOSED if transposed else _CONV, args, strict=False)), **kwargs}
    x, weight, bias = given.pop("input"), given.pop("weight"), given.pop("bias", None)
    dims, groups = int(name[-2]), given.pop("groups", 1)
    single = level.rank(x) == dims + 1  # a slice without samples
    size = level.size
    bias_after = bias is not None and (level.is_batched(bias) or level.is_batched(weight))
    if not level.is_batched(weight):
        if not level.is_batched(x):
            out = func(x, weight, None, groups=groups, **given).unsqueeze(0)
        else:
            held = x._held if single else x._held.reshape(-1, *x._held.shape[2:])
            out = func(held, weight, None if bias_after else bias, groups=groups, **given)
            out = out if single else out.reshape(size, -1, *out.shape[1:])
    else:
        w = weight._held
        held = level.full(x)
        held = held.unsqueeze(1) if single else held  # [batch, N, C, ...]
        joined = held.transpose(0, 1).reshape(held.shape[1], -1, *held.shape[3:])
        out = func(joined, w.reshape(-1, *w.shape[2:]), None, groups=groups * size, **given)
        out = out.reshape(out.shape[0], size, -1, *out.shape[2:]).transpose(0, 1)
        out = out.squeeze(1) if single else out
    if bias_after or bias is not None and not level.is_batched(x):
        full = level.full(bias)
        out = out + full.reshape(full.shape[0], *([] if single else [1]), -1, *[1] * dims)
    return level.wrap(out)


# --- norms ----------------------------------------------------------------------------------------------------------------


def _affine(level, out, weight, bias, shape_of):
    """out * weight + bias, of parameters that may be batched."""
    for value, run in ((weight, "mul"), (bias, "add")):
        if value is not None:
            out = ops[run](out, shape_of(level.held(value), level.is_batched(value)))
    return out


@rule("layer_norm", "rms_norm")
def _layer_norm(level, func, args, kwargs):
    names = ("input", "normalized_shape", "weight", "bias", "eps")
    if func.__name__ == "rms_norm":
        names = ("input", "normalized_shape", "weight", "eps")
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    x, weight, bias = given.pop("input"), given.pop("weight", None), given.pop("bias", None)
    if not level.is_batched(weight) and not level.is_batched(bias):
        named = {} if func.__name__ == "rms_norm" else {"bias": bias}
        return level.wrap(func(x._held, given.pop("normalized_shape"), weight=weight, **named, **given))
    held = level.full(x)
    out = func(held, given.pop("normalized_shape"), **given)
    return level.wrap(_affine(level, out, weight, bias, lambda t, b: padded(t, out.dim() - 1) if b else t))


def _channels(out):
    """The shape of parameters of channels in results [batch, N, C, ...]."""

    def shape(t, is_batched):
        lead = t.shape[0] if is_batched else 1
        return t.reshape(lead, 1, -1, *[1] * (out.dim() - 3))

    return shape


@rule("group_norm")
def _group_norm(level, func, args, kwargs):
    given = {**dict(zip(("input", "num_groups", "weight", "bias", "eps"), args, strict=False)), **kwargs}
    weight, bias = given.pop("weight", None), given.pop("bias", None)
    held = level.full(given.pop("input"))
    out = func(held.reshape(-1, *held.shape[2:]), **given).reshape(held.shape)
    return level.wrap(_affine(level, out, weight, bias, _channels(out)))


def _check_unbatched_statistics(level, *statistics):
    if any(s is not None and not level.is_batched(s) for s in statistics):
        raise VmapError(
            "vmap: batch norm in training writes the statistics of each slice into one running mean; use "
            "track_running_stats=False, or func.replace_all_batch_norm_modules_(), or eval()"
        )


def _batch_norm_held(level, x, mean, var, weight, bias, training, momentum, eps, run):
    """The batch joins the channels, of which each has its own statistics."""
    held = level.full(x)
    if training:
        _check_unbatched_statistics(level, mean, var)
    joined = held.transpose(0, 1).reshape(held.shape[1], -1, *held.shape[3:])
    flat = [None if s is None else level.full(s).reshape(-1) for s in (mean, var)]
    if training and mean is not None:  # views, so that the statistics are written
        flat = [level.held(s).view(-1) for s in (mean, var)]
    out = run(joined, *flat, None, None, training, momentum, eps)
    out = out.reshape(held.shape[1], level.size, -1, *held.shape[3:]).transpose(0, 1)
    return level.wrap(_affine(level, out, weight, bias, _channels(out)))


@rule("batch_norm")
def _batch_norm(level, func, args, kwargs):
    names = ("input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps")
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    values = [given.get(n) for n in names[:5]]
    options = given.get("training", False), given.get("momentum", 0.1), given.get("eps", 1e-5)
    return _batch_norm_held(level, *values, *options, ops["nn.functional.batch_norm"])


@decomposed("_batch_norm_layer")
def _batch_norm_layer(input, mean, var, count, weight, bias, training, track, momentum, eps, ranks):
    if input.dim() not in ranks:
        raise ValueError(f"expected an input of {' or '.join(map(str, ranks))} dimensions, got {input.dim()}")
    use = training or mean is None
    if training and track and count is not None:
        _raise_if_plain(mean, var)
    return ops["nn.functional.batch_norm"](
        input,
        mean if not training or track else None,
        var if not training or track else None,
        weight,
        bias,
        use,
        momentum,
        eps,
    )


def _raise_if_plain(*statistics):
    from .core import active_levels

    _check_unbatched_statistics(active_levels()[-1], *statistics)


@rule("instance_norm")
def _instance_norm(level, func, args, kwargs):
    names = ("input", "running_mean", "running_var", "weight", "bias", "use_input_stats", "momentum", "eps")
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    if given.get("running_mean") is not None or not given.get("use_input_stats", True):
        return by_slices(level, func, args, kwargs)
    held = level.full(given["input"])
    out = func(held.reshape(-1, *held.shape[2:]), eps=given.get("eps", 1e-5)).reshape(held.shape)
    return level.wrap(_affine(level, out, given.get("weight"), given.get("bias"), _channels(out)))


@decomposed("_instance_norm_layer")
def _instance_norm_layer(input, mean, var, weight, bias, use, momentum, eps, features, rank):
    single = input.dim() == rank - 1
    x = input.unsqueeze(0) if single else input
    out = ops["nn.functional.instance_norm"](x, mean, var, weight, bias, use, momentum, eps)
    return out.squeeze(0) if single else out


# --- attention ------------------------------------------------------------------------------------------------------------


@rule("scaled_dot_product_attention")
def _attention(level, func, args, kwargs):
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    if given.get("dropout_p"):
        from .random import _check

        if not _check(level):
            raise VmapError("vmap: attention with dropout needs randomness='different'")
    tensors = {k: v for k, v in given.items() if isinstance(v, Tensor)}
    rank = max(level.rank(t) for k, t in tensors.items() if k != "attn_mask")
    for k, t in tensors.items():
        if k != "attn_mask" or level.is_batched(t):
            given[k] = padded(level.full(t), rank)
    return level.wrap(func(**given))


@decomposed("_multi_head_attention")
def _multi_head(q, k, v, heads, in_proj, out_proj, bias_kv, static, add_zero, dropout, padding, mask, weights, average):
    linear, softmax = ops["nn.functional.linear"], ops["softmax"]
    if any(t is not None for t in (*bias_kv, *static)) or add_zero:
        raise VmapError("vmap: multi-head attention with bias_kv, add_zero_attn or static keys has no batching rule")
    if q.dim() == 2:
        grown = None if padding is None else padding.unsqueeze(0)
        out, found = _multi_head(
            *(t.unsqueeze(1) for t in (q, k, v)),
            heads, in_proj, out_proj, bias_kv, static, False, dropout, grown, mask, weights, average,
        )  # fmt: skip
        return out.squeeze(1), None if found is None else found.squeeze(0)
    *projections, bias = in_proj
    if len(projections) == 1:
        projections = projections[0].chunk(3, 0)
    biases = (None, None, None) if bias is None else bias.chunk(3, 0)
    q, k, v = (linear(t, w, b) for t, w, b in zip((q, k, v), projections, biases, strict=True))

    def by_head(t):  # [L, N, E] -> [N, heads, L, E / heads]
        return t.reshape(t.shape[0], t.shape[1], heads, -1).permute(1, 2, 0, 3)

    length, count = q.shape[0], q.shape[1]
    q, k, v = by_head(q), by_head(k), by_head(v)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if mask is not None:
        mask = mask.reshape(count, heads, *mask.shape[1:]) if mask.dim() == 3 else mask
        scores = scores.masked_fill(mask, -math.inf) if not mask.is_floating_point() else scores + mask
    if padding is not None:
        wide = padding.unsqueeze(1).unsqueeze(1)
        scores = scores.masked_fill(wide, -math.inf) if not padding.is_floating_point() else scores + wide
    chances = softmax(scores, -1)
    if dropout:
        chances = ops["nn.functional.dropout"](chances, dropout, True)
    out = (chances @ v).permute(2, 0, 1, 3).reshape(length, count, -1)
    shown = (chances.mean(1) if average else chances) if weights else ops["zeros"]([0])
    return linear(out, *out_proj), shown


@decomposed("lstm_cell")
def _lstm_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    linear = ops["nn.functional.linear"]
    i, f, g, o = (linear(input, w_ih, b_ih) + linear(hx[0], w_hh, b_hh)).chunk(4, -1)
    c = f.sigmoid() * hx[1] + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


@decomposed("gru_cell")
def _gru_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    linear = ops["nn.functional.linear"]
    (r, z, n), (hr, hz, hn) = linear(input, w_ih, b_ih).chunk(3, -1), linear(hx, w_hh, b_hh).chunk(3, -1)
    z = (z + hz).sigmoid()
    return (1 - z) * (n + (r + hr).sigmoid() * hn).tanh() + z * hx


@decomposed("rnn_tanh_cell")
def _rnn_tanh_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    return (ops["nn.functional.linear"](input, w_ih, b_ih) + ops["nn.functional.linear"](hx, w_hh, b_hh)).tanh()


@decomposed("rnn_relu_cell")
def _rnn_relu_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    return (ops["nn.functional.linear"](input, w_ih, b_ih) + ops["nn.functional.linear"](hx, w_hh, b_hh)).relu()
