"""The optimizers' rules in float64 NumPy, written from their papers and PyTorch's documentation, as references for tests.

Each function takes a parameter, its gradient, a dict of state, the count of the step (from 1) and options, and returns the new
parameter."""

import numpy as np


def _penalty(p, g, o):
    g = -g if o.get("maximize") else g
    return g + o.get("weight_decay", 0) * p


def _moments(s, g, o):
    b1, b2 = o.get("betas", (0.9, 0.999))
    s["m"] = b1 * s.get("m", 0) + (1 - b1) * g
    s["v"] = b2 * s.get("v", 0) + (1 - b2) * g * g
    return b1, b2


def _split(p, g, o):
    """The gradient and the parameter, with the decay in one of them."""
    if o.get("decoupled_weight_decay"):
        return p - o["lr"] * o.get("weight_decay", 0) * p, (-g if o.get("maximize") else g)
    return p, _penalty(p, g, o)


def SGD(p, g, s, t, **o):
    g = _penalty(p, g, o)
    if o.get("momentum"):
        s["b"] = g if "b" not in s else o["momentum"] * s["b"] + (1 - o.get("dampening", 0)) * g
        g = g + o["momentum"] * s["b"] if o.get("nesterov") else s["b"]
    return p - o["lr"] * g


def Adam(p, g, s, t, **o):
    p, g = _split(p, g, o)
    b1, b2 = _moments(s, g, o)
    s["top"] = np.maximum(s.get("top", 0), s["v"])
    v = s["top"] if o.get("amsgrad") else s["v"]
    return p - o["lr"] * (s["m"] / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + o.get("eps", 1e-8))


def AdamW(p, g, s, t, **o):
    return Adam(p, g, s, t, **({"weight_decay": 1e-2} | o | {"decoupled_weight_decay": True}))


def NAdam(p, g, s, t, **o):
    p, g = _split(p, g, o)
    b1, b2 = _moments(s, g, o)
    mu, after = (b1 * (1 - 0.5 * 0.96 ** (k * o.get("momentum_decay", 4e-3))) for k in (t, t + 1))
    s["product"] = s.get("product", 1) * mu
    root = np.sqrt(s["v"] / (1 - b2**t)) + o.get("eps", 1e-8)
    step = (1 - mu) * g / (1 - s["product"]) + after * s["m"] / (1 - s["product"] * after)
    return p - o["lr"] * step / root


def RAdam(p, g, s, t, **o):
    p, g = _split(p, g, o)
    b1, b2 = _moments(s, g, o)
    longest = 2 / (1 - b2) - 1
    rho = longest - 2 * t * b2**t / (1 - b2**t)
    mean = s["m"] / (1 - b1**t)
    if rho <= 5:
        return p - o["lr"] * mean
    rect = np.sqrt((rho - 4) * (rho - 2) * longest / ((longest - 4) * (longest - 2) * rho))
    return p - o["lr"] * mean * rect * np.sqrt(1 - b2**t) / (np.sqrt(s["v"]) + o.get("eps", 1e-8))


def Adamax(p, g, s, t, **o):
    g = _penalty(p, g, o)
    b1, b2 = o.get("betas", (0.9, 0.999))
    s["m"] = b1 * s.get("m", 0) + (1 - b1) * g
    s["u"] = np.maximum(b2 * s.get("u", 0), np.abs(g) + o.get("eps", 1e-8))
    return p - o["lr"] / (1 - b1**t) * s["m"] / s["u"]


def Adagrad(p, g, s, t, **o):
    g = _penalty(p, g, o)
    s["sum"] = s.get("sum", o.get("initial_accumulator_value", 0)) + g * g
    return p - o["lr"] / (1 + (t - 1) * o.get("lr_decay", 0)) * g / (np.sqrt(s["sum"]) + o.get("eps", 1e-10))


def Adadelta(p, g, s, t, **o):
    g, rho, eps = _penalty(p, g, o), o.get("rho", 0.9), o.get("eps", 1e-6)
    s["v"] = rho * s.get("v", 0) + (1 - rho) * g * g
    step = np.sqrt(s.get("d", 0) + eps) / np.sqrt(s["v"] + eps) * g
    s["d"] = rho * s.get("d", 0) + (1 - rho) * step * step
    return p - o.get("lr", 1.0) * step


def RMSprop(p, g, s, t, **o):
    g, a = _penalty(p, g, o), o.get("alpha", 0.99)
    s["v"] = a * s.get("v", 0) + (1 - a) * g * g
    s["mean"] = a * s.get("mean", 0) + (1 - a) * g
    v = s["v"] - s["mean"] ** 2 if o.get("centered") else s["v"]
    s["b"] = o.get("momentum", 0) * s.get("b", 0) + g / (np.sqrt(v) + o.get("eps", 1e-8))
    return p - o["lr"] * s["b"]


def ASGD(p, g, s, t, **o):
    g, lr, lambd = _penalty(p, g, o), o["lr"], o.get("lambd", 1e-4)
    eta, mu = s.get("eta", lr), s.get("mu", 1)
    p = p - lambd * eta * p - eta * g
    s["ax"] = s.get("ax", 0) + mu * (p - s.get("ax", 0))
    s["eta"] = lr / (1 + lambd * lr * t) ** o.get("alpha", 0.75)
    s["mu"] = 1 / max(1, t - o.get("t0", 1e6))
    return p


def Rprop(p, g, s, t, **o):
    g = -g if o.get("maximize") else g
    shrink, grow = o.get("etas", (0.5, 1.2))
    low, high = o.get("step_sizes", (1e-6, 50))
    before = s.get("g", np.zeros_like(g))
    factor = np.where(g * before > 0, grow, np.where(g * before < 0, shrink, 1))
    s["step"] = np.clip(s.get("step", o["lr"]) * factor, low, high)
    s["g"] = np.where(g * before < 0, 0, g)
    return p - np.sign(s["g"]) * s["step"]


CASES = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.2, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "maximize": True}),
    ("Adam", {"lr": 0.1}),
    ("Adam", {"lr": 0.1, "betas": (0.8, 0.9), "amsgrad": True, "weight_decay": 0.1}),
    ("Adam", {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True}),
    ("AdamW", {"lr": 0.1}),
    ("AdamW", {"lr": 0.1, "weight_decay": 0.2, "amsgrad": True, "eps": 1e-3}),
    ("NAdam", {"lr": 0.1, "weight_decay": 0.1}),
    (
        "NAdam",
        {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True, "momentum_decay": 0.1, "maximize": True},
    ),
    ("RAdam", {"lr": 0.1}),
    ("RAdam", {"lr": 0.1, "betas": (0.5, 0.9), "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("Adamax", {"lr": 0.1, "weight_decay": 0.1, "maximize": True}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.3}),
    ("Adadelta", {"lr": 0.5, "weight_decay": 0.1}),
    ("RMSprop", {"lr": 0.1, "weight_decay": 0.1}),
    ("RMSprop", {"lr": 0.1, "momentum": 0.9, "centered": True, "maximize": True, "alpha": 0.9}),
    ("ASGD", {"lr": 0.1, "lambd": 0.01, "t0": 2, "weight_decay": 0.1}),
    ("Rprop", {"lr": 0.1, "step_sizes": (0.05, 0.2)}),
]
