"""The LSTM layer on a device: all steps in one launch, or a launch for each, beside a plain float64 recurrence."""

import os

import numpy as np
import pytest
import strata

OPS = strata._C.ops
DEVICE = os.environ.get("STRATA_TEST_DEVICE", "vgpu")
ERRORS = {"float32": 2e-5, "bfloat16": 3e-2, "float16": 4e-3, "float64": 1e-10}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


class Plain:
    """Forward and backward of one layer, step by step."""

    def __init__(self, gates, h0, c0, weight, reverse):
        self.weight, self.c0 = weight, c0
        self.order = range(len(gates))[::-1] if reverse else range(len(gates))
        self.output, self.kept, self.cells = np.zeros((*gates.shape[:2], h0.shape[1])), {}, {}
        h, c = h0, c0
        for t in self.order:
            i, f, g, o = np.split(gates[t] + h @ weight.T, 4, axis=1)
            i, f, g, o = sigmoid(i), sigmoid(f), np.tanh(g), sigmoid(o)
            self.kept[t] = i, f, g, o, c
            c = f * c + i * g
            h = o * np.tanh(c)
            self.cells[t], self.output[t] = c, h
        self.last = c

    def backward(self, grad, grad_c):
        out, gh, gc = np.zeros((*grad.shape[:2], 4 * grad.shape[2])), 0, grad_c
        for t in reversed(self.order):
            i, f, g, o, before = self.kept[t]
            squashed, gh = np.tanh(self.cells[t]), grad[t] + gh
            gc = gc + gh * o * (1 - squashed**2)
            parts = [gc * g * i * (1 - i), gc * before * f * (1 - f), gc * i * (1 - g**2), gh * squashed * o * (1 - o)]
            out[t] = np.concatenate(parts, axis=1)
            gh, gc = out[t] @ self.weight, gc * f
        return out, gh, gc


def layer(steps, batch, hidden, dtype, reverse, seed=0):
    rng = np.random.default_rng(seed)

    def new(*shape, scale=1.0):
        a = strata.tensor(rng.standard_normal(shape) * scale).to(getattr(strata, dtype))
        return np.array(a.to(strata.float64).tolist()).reshape(shape), a.to(DEVICE)

    gates, h0, c0 = new(steps, batch, 4 * hidden), new(batch, hidden), new(batch, hidden)
    weight, grad, grad_c = new(4 * hidden, hidden, scale=hidden**-0.5), new(steps, batch, hidden), new(batch, hidden)
    plain = Plain(gates[0], h0[0], c0[0], weight[0], reverse)
    return plain, [t[1] for t in (gates, h0, c0, weight)], grad, grad_c


def close(got, want, dtype):
    got = np.array(got.detach().cpu().to(strata.float64).tolist()).reshape(want.shape)
    assert np.abs(got - want).max(initial=0) <= ERRORS[dtype] * max(1, np.abs(want).max(initial=0))


SIZES = [
    (1, 1, 1),
    (3, 2, 5),
    (4, 17, 16),
    (2, 40, 33),
    (5, 3, 20),
    (2, 1, 300),  # one chunk of the weight's rows forwards, three backwards
    (3, 50, 64),  # more blocks than the virtual GPU has processors, or several passes
]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64"])
@pytest.mark.parametrize("sizes", SIZES)
def test_a_layer(sizes, dtype, reverse):
    plain, (gates, h0, c0, weight), (grad, tg), (grad_c, tgc) = layer(*sizes, dtype, reverse)
    leaves = [t.requires_grad_() for t in (gates, h0, c0, weight)]
    output, last, _, _ = OPS["_lstm_layer"](gates, h0, c0, weight, reverse)
    close(output, plain.output, dtype)
    close(last, plain.last, dtype)
    with strata.no_grad():  # nothing is kept
        close(OPS["_lstm_layer"](gates, h0, c0, weight, reverse)[0], plain.output, dtype)
    gg, gh, gc, gw = strata.autograd.grad([output, last], leaves, [tg, tgc])
    want = plain.backward(grad, grad_c)
    for got, expected in zip((gg, gh, gc), want, strict=True):
        close(got, expected, dtype)
    states = np.stack([*plain.output])
    first = np.array(h0.detach().cpu().to(strata.float64).tolist()).reshape(1, *plain.output.shape[1:])
    before = np.concatenate([states[1:], first] if reverse else [first, states[:-1]])
    rows = want[0].reshape(-1, want[0].shape[-1])
    close(gw, rows.T @ before.reshape(len(rows), -1), dtype)


def test_the_choice_is_explained():
    _, tensors, _, _ = layer(2, 3, 16, "float32", False)
    lines = strata.explain(lambda: OPS["_lstm_layer"](*tensors, False))
    chosen = [line for line in lines if line[2].startswith("chosen")]
    assert any(line[1] == "persistent" for line in chosen), lines
    _, tensors, _, _ = layer(2, 3, 16, "float64", False)
    lines = strata.explain(lambda: OPS["_lstm_layer"](*tensors, False))
    assert any(line[1] == "persistent" and "float32 only" in line[2] for line in lines), lines


def test_the_module_beside_the_cpu():
    strata.manual_seed(3)
    net = strata.nn.LSTM(6, 20, 2, batch_first=True, bidirectional=True)
    x = strata.randn(5, 7, 6)
    there = strata.nn.LSTM(6, 20, 2, batch_first=True, bidirectional=True).to(DEVICE)
    there.load_state_dict(net.state_dict())
    results = []
    for module, data in ((net, x), (there, x.to(DEVICE))):
        y, (h, c) = module(data)
        (y.square().sum() + h.sum() + c.sum()).backward()
        results.append([y, h, c, *(p.grad for p in module.parameters())])
    for a, b in zip(*results, strict=True):
        assert (a - b.cpu()).abs().max().item() <= 2e-5 * max(1.0, a.abs().max().item())
