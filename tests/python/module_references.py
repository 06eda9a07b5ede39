"""References of modules, with NumPy in float64 from their mathematical definitions. ref(state, a, *inputs): the
module's tensors by name, its constructor arguments by name, and the inputs."""

import itertools
import math

import numpy as np

erf = np.vectorize(math.erf)


def per_dim(value, n):
    return (value,) * n if not isinstance(value, (tuple, list)) else tuple(value)


def offsets(kernel):
    return itertools.product(*map(range, kernel))


# --- convolutions -----------------------------------------------------------------------------------------------------


def conv(n):
    def ref(state, a, x):
        k, s, d = (per_dim(a[name], n) for name in ("kernel_size", "stride", "dilation"))
        w, groups = state["weight"], a["groups"]
        if a["padding"] == "same":
            total = [d[i] * (k[i] - 1) for i in range(n)]
            sides = [(t // 2, t - t // 2) for t in total]
        else:
            sides = [(p, p) for p in per_dim(a["padding"], n)]
        mode = {"zeros": "constant", "reflect": "reflect", "circular": "wrap", "replicate": "edge"}[a["padding_mode"]]
        x = np.pad(x, [(0, 0), (0, 0), *sides], mode=mode)
        size = [(x.shape[2 + i] - d[i] * (k[i] - 1) - 1) // s[i] + 1 for i in range(n)]
        out = np.zeros((x.shape[0], w.shape[0], *size))
        per_in, per_out = w.shape[1], w.shape[0] // groups
        for o in range(w.shape[0]):
            g = o // per_out
            for c in range(per_in):
                for at in offsets(k):
                    where = tuple(slice(at[i] * d[i], at[i] * d[i] + (size[i] - 1) * s[i] + 1, s[i]) for i in range(n))
                    out[:, o] += w[(o, c, *at)] * x[(slice(None), g * per_in + c, *where)]
        return out + bias_of(state, n)

    return ref


def bias_of(state, n):
    bias = state.get("bias")
    return 0 if bias is None else bias.reshape(1, -1, *[1] * n)


def conv_transpose(n):
    def ref(state, a, x):
        k, s, d, p, q = (
            per_dim(a[name], n) for name in ("kernel_size", "stride", "dilation", "padding", "output_padding")
        )
        w, groups = state["weight"], a["groups"]
        full = [(x.shape[2 + i] - 1) * s[i] + d[i] * (k[i] - 1) + 1 + q[i] for i in range(n)]
        per_in, per_out = w.shape[0] // groups, w.shape[1]
        out = np.zeros((x.shape[0], per_out * groups, *full))
        for c in range(w.shape[0]):
            for o in range(per_out):
                for at in offsets(k):
                    where = tuple(
                        slice(at[i] * d[i], at[i] * d[i] + (x.shape[2 + i] - 1) * s[i] + 1, s[i]) for i in range(n)
                    )
                    out[(slice(None), c // per_in * per_out + o, *where)] += w[(c, o, *at)] * x[:, c]
        crop = tuple(slice(p[i], full[i] - p[i]) for i in range(n))
        return out[(slice(None), slice(None), *crop)] + bias_of(state, n)

    return ref


def unfold(state, a, x):
    k, d, p, s = (per_dim(a[name], 2) for name in ("kernel_size", "dilation", "padding", "stride"))
    x = np.pad(x, [(0, 0), (0, 0), *[(i, i) for i in p]])
    size = [(x.shape[2 + i] - d[i] * (k[i] - 1) - 1) // s[i] + 1 for i in range(2)]
    columns = []
    for i, j in itertools.product(range(size[0]), range(size[1])):
        rows = [i * s[0] + u * d[0] for u in range(k[0])]
        window = x[:, :, rows][:, :, :, [j * s[1] + v * d[1] for v in range(k[1])]]
        columns.append(window.reshape(x.shape[0], -1))
    return np.stack(columns, -1)


def fold(state, a, x):
    k, d, p, s = (per_dim(a[name], 2) for name in ("kernel_size", "dilation", "padding", "stride"))
    size = per_dim(a["output_size"], 2)
    channels = x.shape[1] // (k[0] * k[1])
    out = np.zeros((x.shape[0], channels, size[0] + 2 * p[0], size[1] + 2 * p[1]))
    blocks = [(out.shape[2 + i] - d[i] * (k[i] - 1) - 1) // s[i] + 1 for i in range(2)]
    x = x.reshape(x.shape[0], channels, k[0], k[1], *blocks)
    for u, v in offsets(k):
        for i, j in itertools.product(range(blocks[0]), range(blocks[1])):
            out[:, :, i * s[0] + u * d[0], j * s[1] + v * d[1]] += x[:, :, u, v, i, j]
    return out[:, :, p[0] : p[0] + size[0], p[1] : p[1] + size[1]]


# --- pools ------------------------------------------------------------------------------------------------------------


def windows(x, n, k, s, p, d, ceil, fill):
    """Output shape, and for each output position the values of its window and how many of them lie in the padded input."""
    size = []
    for i in range(n):
        span = x.shape[2 + i] + 2 * p[i] - d[i] * (k[i] - 1) - 1
        steps = (-(-span // s[i]) if ceil else span // s[i]) + 1
        if ceil and (steps - 1) * s[i] >= x.shape[2 + i] + p[i]:
            steps -= 1
        size.append(steps)
    found = {}
    for at in itertools.product(*map(range, size)):
        values, inside = [], 0
        for o in offsets(k):
            place = [at[i] * s[i] + o[i] * d[i] - p[i] for i in range(n)]
            if all(0 <= place[i] < x.shape[2 + i] for i in range(n)):
                values.append(x[(slice(None), slice(None), *place)])
            elif all(place[i] < x.shape[2 + i] + p[i] for i in range(n)) and fill:
                inside += 1
        found[at] = (np.stack(values), len(values) + inside)
    return size, found


def pooled(x, n, a, reduce, fill=False):
    k = per_dim(a["kernel_size"], n)
    s = k if a.get("stride") is None else per_dim(a["stride"], n)
    p, d = per_dim(a.get("padding", 0), n), per_dim(a.get("dilation", 1), n)
    size, found = windows(x, n, k, s, p, d, a["ceil_mode"], fill)
    out = np.zeros((*x.shape[:2], *size))
    for at, (values, count) in found.items():
        out[(slice(None), slice(None), *at)] = reduce(values, count)
    return out


def max_pool(n):
    return lambda state, a, x: pooled(x, n, a, lambda v, count: v.max(0))


def avg_pool(n):
    def ref(state, a, x):
        divisor = a.get("divisor_override")
        return pooled(x, n, a, lambda v, count: v.sum(0) / (divisor or count), fill=a["count_include_pad"])

    return ref


def lp_pool(n):
    def ref(state, a, x):
        return pooled(x, n, a, lambda v, count: (v ** a["norm_type"]).sum(0) ** (1 / a["norm_type"]))

    return ref


def adaptive(n, reduce):
    def ref(state, a, x):
        size = [x.shape[2 + i] if o is None else o for i, o in enumerate(per_dim(a["output_size"], n))]
        out = np.zeros((*x.shape[:2], *size))
        for at in itertools.product(*map(range, size)):
            cut = tuple(
                slice(at[i] * x.shape[2 + i] // size[i], -(-(at[i] + 1) * x.shape[2 + i] // size[i])) for i in range(n)
            )
            piece = x[(slice(None), slice(None), *cut)].reshape(*x.shape[:2], -1)
            out[(slice(None), slice(None), *at)] = reduce(piece, -1)
        return out

    return ref


def unpool(n):
    def ref(state, a, x, indices):
        k = per_dim(a["kernel_size"], n)
        out = np.zeros((*x.shape[:2], math.prod((x.shape[2 + i]) * k[i] for i in range(n))))
        for b, c in itertools.product(*map(range, x.shape[:2])):
            out[b, c, indices[b, c].reshape(-1)] = x[b, c].reshape(-1)
        return out.reshape(*x.shape[:2], *[x.shape[2 + i] * k[i] for i in range(n)])

    return ref


# --- paddings, norms --------------------------------------------------------------------------------------------------


def padding(n, mode):
    def ref(state, a, x):
        amounts = per_dim(a["padding"], 2 * n)
        sides = [(amounts[2 * i], amounts[2 * i + 1]) for i in reversed(range(n))]
        options = {"constant_values": a.get("value", 0.0)} if mode == "constant" else {}
        return np.pad(x, [(0, 0), (0, 0), *sides], mode=mode, **options)

    return ref


def normalised(x, axes, eps):
    mean, var = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return (x - mean) / np.sqrt(var + eps)


def by_channel(x, state):
    shape = (1, -1, *[1] * (x.ndim - 2))
    for name, combine in (("weight", np.multiply), ("bias", np.add)):
        if state.get(name) is not None:
            x = combine(x, state[name].reshape(shape))
    return x


def batch_norm(state, a, x):  # in training: statistics of the batch
    return by_channel(normalised(x, (0, *range(2, x.ndim)), a["eps"]), state)


def instance_norm(state, a, x):
    return by_channel(normalised(x, tuple(range(2, x.ndim)), a["eps"]), state)


def group_norm(state, a, x):
    g = x.reshape(x.shape[0], a["num_groups"], -1)
    return by_channel(normalised(g, 2, a["eps"]).reshape(x.shape), state)


def layer_norm(state, a, x):
    y = normalised(x, tuple(range(x.ndim - len(per_dim(a["normalized_shape"], 1)), x.ndim)), a["eps"])
    y = y * state["weight"] if state.get("weight") is not None else y
    return y + state["bias"] if state.get("bias") is not None else y


def rms_norm(state, a, x):
    axes = tuple(range(x.ndim - len(per_dim(a["normalized_shape"], 1)), x.ndim))
    eps = np.finfo(np.float64).eps if a["eps"] is None else a["eps"]
    return x / np.sqrt((x * x).mean(axes, keepdims=True) + eps) * state["weight"]


def local_response(state, a, x):
    size, out = a["size"], np.zeros_like(x)
    for c in range(x.shape[1]):
        low = max(0, c - size // 2)
        total = (x[:, low : c + (size - 1) // 2 + 1] ** 2).sum(1)
        out[:, c] = x[:, c] / (a["k"] + a["alpha"] * total / size) ** a["beta"]
    return out


# --- activations ------------------------------------------------------------------------------------------------------


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def of(f):
    """A function of x and the arguments as a reference."""
    return lambda state, a, x: f(x, a)


def elu(x, alpha):
    return np.where(x > 0, x, alpha * np.expm1(x))


ACTIVATIONS = {
    "ReLU": of(lambda x, a: np.maximum(x, 0)),
    "ReLU6": of(lambda x, a: np.clip(x, 0, 6)),
    "Hardtanh": of(lambda x, a: np.clip(x, a["min_val"], a["max_val"])),
    "Sigmoid": of(lambda x, a: sigmoid(x)),
    "Hardsigmoid": of(lambda x, a: np.clip(x / 6 + 0.5, 0, 1)),
    "LogSigmoid": of(lambda x, a: -np.log1p(np.exp(-x))),
    "Tanh": of(lambda x, a: np.tanh(x)),
    "Tanhshrink": of(lambda x, a: x - np.tanh(x)),
    "SiLU": of(lambda x, a: x * sigmoid(x)),
    "Mish": of(lambda x, a: x * np.tanh(np.log1p(np.exp(x)))),
    "Hardswish": of(lambda x, a: x * np.clip(x / 6 + 0.5, 0, 1)),
    "ELU": of(lambda x, a: elu(x, a["alpha"])),
    "CELU": of(lambda x, a: np.where(x > 0, x, a["alpha"] * np.expm1(x / a["alpha"]))),
    "SELU": of(lambda x, a: 1.0507009873554805 * elu(x, 1.6732632423543772)),
    "GELU": of(
        lambda x, a: (
            x
            * 0.5
            * (
                1 + erf(x / math.sqrt(2))
                if a["approximate"] == "none"
                else 1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
            )
        )
    ),
    "GLU": of(lambda x, a: np.split(x, 2, a["dim"])[0] * sigmoid(np.split(x, 2, a["dim"])[1])),
    "Hardshrink": of(lambda x, a: np.where(abs(x) > a["lambd"], x, 0)),
    "Softshrink": of(lambda x, a: np.sign(x) * np.maximum(abs(x) - a["lambd"], 0)),
    "LeakyReLU": of(lambda x, a: np.where(x > 0, x, a["negative_slope"] * x)),
    "Softplus": of(
        lambda x, a: np.where(x * a["beta"] > a["threshold"], x, np.log1p(np.exp(a["beta"] * x)) / a["beta"])
    ),
    "Softsign": of(lambda x, a: x / (1 + abs(x))),
    "Threshold": of(lambda x, a: np.where(x > a["threshold"], x, a["value"])),
    "Softmax": of(lambda x, a: softmax(x, a["dim"])),
    "Softmax2d": of(lambda x, a: softmax(x, 1)),
    "LogSoftmax": of(lambda x, a: np.log(softmax(x, a["dim"]))),
    "Softmin": of(lambda x, a: softmax(-x, a["dim"])),
    "PReLU": lambda state, a, x: np.where(x > 0, x, x * state["weight"].reshape(1, -1, *[1] * (x.ndim - 2))),
}

LAYERS = {
    "Identity": of(lambda x, a: x),
    "Flatten": of(lambda x, a: x.reshape(2, 12) if a["start_dim"] == 1 else x.reshape(6, 4)),
    "Unflatten": of(lambda x, a: x.reshape(4, 2, 3)),
    "Linear": lambda state, a, x: x @ state["weight"].T + (0 if state.get("bias") is None else state["bias"]),
    "Bilinear": lambda state, a, x, y: np.einsum("ni,kij,nj->nk", x, state["weight"], y) + state["bias"],
    "Unfold": unfold,
    "Fold": fold,
    "LayerNorm": layer_norm,
    "RMSNorm": rms_norm,
    "GroupNorm": group_norm,
    "LocalResponseNorm": local_response,
    "CrossMapLRN2d": local_response,
}
for _n in (1, 2, 3):
    LAYERS |= {
        f"Conv{_n}d": conv(_n),
        f"ConvTranspose{_n}d": conv_transpose(_n),
        f"MaxPool{_n}d": max_pool(_n),
        f"AvgPool{_n}d": avg_pool(_n),
        f"LPPool{_n}d": lp_pool(_n),
        f"MaxUnpool{_n}d": unpool(_n),
        f"AdaptiveAvgPool{_n}d": adaptive(_n, np.mean),
        f"AdaptiveMaxPool{_n}d": adaptive(_n, np.max),
        f"ConstantPad{_n}d": padding(_n, "constant"),
        f"ZeroPad{_n}d": padding(_n, "constant"),
        f"ReflectionPad{_n}d": padding(_n, "reflect"),
        f"ReplicationPad{_n}d": padding(_n, "edge"),
        f"CircularPad{_n}d": padding(_n, "wrap"),
        f"BatchNorm{_n}d": batch_norm,
        f"InstanceNorm{_n}d": instance_norm,
    }
