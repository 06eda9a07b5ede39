"""References of losses, embeddings, image and distance modules, with NumPy in float64 from their definitions."""

import itertools
import math

import numpy as np


def reduced(values, how):
    return {"mean": np.mean, "sum": np.sum, "none": np.asarray}[how](values)


def loss(f):
    return lambda state, a, *xs: reduced(f(a, *xs), a["reduction"])


def log_softmax(x):
    return x - np.log(np.exp(x).sum(1, keepdims=True))


def cross_entropy(state, a, x, target):
    logs, s = log_softmax(x), a["label_smoothing"]
    picked = -logs[np.arange(len(target)), target] * (1 - s) - s * logs.mean(1)
    return reduced(picked, a["reduction"])


def cosine(x, y, eps=1e-8):
    return (x * y).sum(-1) / np.maximum(np.linalg.norm(x, axis=-1) * np.linalg.norm(y, axis=-1), eps)


def distance(x, y, p=2.0, eps=1e-6):
    return (abs(x - y + eps) ** p).sum(-1) ** (1 / p)


def ctc(state, a, logs, targets, input_lengths, target_lengths):
    """By summing over every path of labels, which needs no recursion: sizes here are small."""
    totals = []
    for b in range(logs.shape[1]):
        steps, label = input_lengths[b], [int(v) for v in targets[b][: target_lengths[b]]]
        total = -math.inf
        for path in itertools.product(range(logs.shape[2]), repeat=int(steps)):
            merged = [c for i, c in enumerate(path) if i == 0 or c != path[i - 1]]
            if [c for c in merged if c != a["blank"]] == label:
                total = np.logaddexp(total, sum(logs[t, b, c] for t, c in enumerate(path)))
        totals.append(-total / max(1, len(label)))
    return np.mean(totals)


def multi_margin(state, a, x, target):
    rows = []
    for row, t in zip(x, target, strict=True):
        others = np.delete(np.maximum(0, a["margin"] - row[t] + row) ** a["p"], t)
        rows.append(others.sum() / len(row))
    return reduced(rows, a["reduction"])


def multilabel_margin(state, a, x, target):
    labels = [int(t) for t in itertools.takewhile(lambda t: t >= 0, target)]
    others = [i for i in range(len(x)) if i not in labels]
    return sum(max(0.0, 1 - (x[j] - x[i])) for j in labels for i in others) / len(x)


def bce_logits(x, y):
    return np.log1p(np.exp(-abs(x))) + np.maximum(x, 0) - x * y


def triplet(state, a, anchor, positive, negative):
    near, far = distance(anchor, positive, a["p"], a["eps"]), distance(anchor, negative, a["p"], a["eps"])
    return reduced(np.maximum(near - far + a["margin"], 0), a["reduction"])


LOSSES = {
    "L1Loss": loss(lambda a, x, y: abs(x - y)),
    "MSELoss": loss(lambda a, x, y: (x - y) ** 2),
    "SmoothL1Loss": loss(
        lambda a, x, y: np.where(abs(x - y) < a["beta"], (x - y) ** 2 / 2 / a["beta"], abs(x - y) - a["beta"] / 2)
    ),
    "HuberLoss": loss(
        lambda a, x, y: np.where(abs(x - y) < a["delta"], (x - y) ** 2 / 2, a["delta"] * (abs(x - y) - a["delta"] / 2))
    ),
    "NLLLoss": loss(lambda a, x, y: -x[np.arange(len(y)), y]),
    "CrossEntropyLoss": cross_entropy,
    "BCELoss": loss(lambda a, x, y: -(y * np.log(x) + (1 - y) * np.log(1 - x))),
    "BCEWithLogitsLoss": loss(lambda a, x, y: bce_logits(x, y)),
    "KLDivLoss": lambda state, a, x, y: (y * (np.log(y) - x)).sum() / len(x),  # the sample asks for batchmean
    "PoissonNLLLoss": loss(lambda a, x, y: np.exp(x) - y * x),
    "GaussianNLLLoss": loss(
        lambda a, x, y, v: 0.5 * (np.log(np.maximum(v, a["eps"])) + (x - y) ** 2 / np.maximum(v, a["eps"]))
    ),
    "HingeEmbeddingLoss": loss(lambda a, x, y: np.where(y == 1, x, np.maximum(0, a["margin"] - x))),
    "MarginRankingLoss": loss(lambda a, x, y, t: np.maximum(0, -t * (x - y) + a["margin"])),
    "CosineEmbeddingLoss": loss(
        lambda a, x, y, t: np.where(t == 1, 1 - cosine(x, y), np.maximum(0, cosine(x, y) - a["margin"]))
    ),
    "TripletMarginLoss": triplet,
    "MultiMarginLoss": multi_margin,
    "MultiLabelMarginLoss": multilabel_margin,
    "MultiLabelSoftMarginLoss": lambda state, a, x, y: reduced(bce_logits(x, y).mean(-1), a["reduction"]),
    "SoftMarginLoss": loss(lambda a, x, y: np.log1p(np.exp(-y * x))),
    "CTCLoss": ctc,
}


def embedding_bag(state, a, rows, offsets=None):
    w = state["weight"]
    how = {"mean": np.mean, "sum": np.sum, "max": np.max}[a["mode"]]
    if offsets is None:
        return np.stack([how(w[r], 0) for r in rows])
    ends = [*offsets[1:], len(rows)]
    return np.stack([how(w[rows[i:j]], 0) for i, j in zip(offsets, ends, strict=True)])


def resized(x, size, bilinear):
    def places(n_in, n_out):
        if not bilinear:
            return [(i * n_in // n_out, i * n_in // n_out, 0.0) for i in range(n_out)]
        scale = (n_in - 1) / (n_out - 1) if n_out > 1 else 0.0
        return [(int(i * scale), min(int(i * scale) + 1, n_in - 1), i * scale - int(i * scale)) for i in range(n_out)]

    out = np.zeros((*x.shape[:2], *size))
    for (i, (u, v, s)), (j, (w, z, t)) in itertools.product(
        enumerate(places(x.shape[2], size[0])), enumerate(places(x.shape[3], size[1]))
    ):
        top = x[:, :, u, w] * (1 - t) + x[:, :, u, z] * t
        low = x[:, :, v, w] * (1 - t) + x[:, :, v, z] * t
        out[:, :, i, j] = top * (1 - s) + low * s
    return out


def upsample(bilinear):
    def ref(state, a, x):
        scale = a.get("scale_factor")
        size = a.get("size") or [int(n * scale) for n in x.shape[2:]]
        return resized(x, size, bilinear or a.get("mode") == "bilinear")

    return ref


def pixel_shuffle(state, a, x):
    r, (n, c, h, w) = a["upscale_factor"], x.shape
    out = np.zeros((n, c // r**2, h * r, w * r))
    for k, i, j in itertools.product(range(c // r**2), range(h * r), range(w * r)):
        out[:, k, i, j] = x[:, k * r * r + (i % r) * r + j % r, i // r, j // r]
    return out


def pixel_unshuffle(state, a, x):
    r, (n, c, h, w) = a["downscale_factor"], x.shape
    out = np.zeros((n, c * r**2, h // r, w // r))
    for k, i, j in itertools.product(range(c), range(h), range(w)):
        out[:, k * r * r + (i % r) * r + j % r, i // r, j // r] = x[:, k, i, j]
    return out


OTHERS = {
    "Embedding": lambda state, a, i: state["weight"][i],
    "EmbeddingBag": embedding_bag,
    "PixelShuffle": pixel_shuffle,
    "PixelUnshuffle": pixel_unshuffle,
    "ChannelShuffle": lambda state, a, x: x[:, [0, 2, 1, 3]],  # 4 channels, 2 groups
    "Upsample": upsample(False),
    "UpsamplingNearest2d": upsample(False),
    "UpsamplingBilinear2d": upsample(True),
    "CosineSimilarity": lambda state, a, x, y: cosine(x, y, a["eps"]),
    "PairwiseDistance": lambda state, a, x, y: distance(x, y, a["p"], a["eps"]),
}
