"""Layers of recurrent networks on a device and step by step, packed and not, beside a plain float64 recurrence."""

import os

import numpy as np
import pytest
import strata
from strata import nn
from strata.nn.utils.rnn import pack_padded_sequence, pack_sequence, pad_packed_sequence

OPS = strata._C.ops
DEVICE = os.environ.get("STRATA_TEST_DEVICE", "vgpu")
DEVICES = ["cpu", DEVICE]
ERRORS = {"float32": 3e-5, "bfloat16": 4e-2, "float16": 5e-3, "float64": 1e-10}
CELLS = {"tanh": 0, "relu": 1, "lstm": 2, "gru": 3}
GATES = {"tanh": 1, "relu": 1, "lstm": 4, "gru": 3}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def split(x, n):
    return np.split(x, n, axis=-1)


class Plain:
    """One sequence after the other, one step after the other; the gradient by the chain rule of each step."""

    def __init__(self, cell, gates, h0, c0, weight, bias, sizes, reverse):
        self.cell, self.weight, self.h0, self.c0, self.hidden = cell, weight, h0, c0, h0.shape[1]
        self.offsets = np.concatenate([[0], np.cumsum(sizes)])
        self.lengths = [sum(n > row for n in sizes) for row in range(len(h0))]
        self.reverse = reverse
        self.output = np.zeros((len(gates), self.hidden))
        self.last_h, self.last_c, self.steps = h0.copy(), c0.copy(), {}
        for row, length in enumerate(self.lengths):
            h, c = h0[row], c0[row]
            for t in self.order(length):
                at = self.offsets[t] + row
                h, c = self.step(at, gates[at], weight @ h + bias, h, c)
                self.output[at] = h
            self.last_h[row], self.last_c[row] = h, c

    def order(self, length):
        return range(length)[::-1] if self.reverse else range(length)

    def step(self, at, x, r, h, c):
        if self.cell == "lstm":
            i, f, g, o = split(x + r, 4)
            i, f, g, o = sigmoid(i), sigmoid(f), np.tanh(g), sigmoid(o)
            new = f * c + i * g
            self.steps[at] = h, (i, f, g, o, c, new)
            return o * np.tanh(new), new
        if self.cell == "gru":
            (xr, xz, xn), (rr, rz, rn) = split(x, 3), split(r, 3)
            reset, update = sigmoid(xr + rr), sigmoid(xz + rz)
            fresh = np.tanh(xn + reset * rn)
            self.steps[at] = h, (reset, update, fresh, rn)
            return (1 - update) * fresh + update * h, c
        y = np.tanh(x + r) if self.cell == "tanh" else np.maximum(x + r, 0)
        self.steps[at] = h, (y,)
        return y, c

    def backward(self, grad, grad_h, grad_c):
        n = len(self.weight)
        gates, weight, bias = np.zeros((len(grad), n)), np.zeros_like(self.weight), np.zeros(n)
        gh0, gc0 = np.zeros_like(self.h0), np.zeros_like(self.c0)
        for row, length in enumerate(self.lengths):
            gh, gc = grad_h[row], grad_c[row]
            for t in reversed(self.order(length)):
                at = self.offsets[t] + row
                h, kept = self.steps[at]
                g = gh + grad[at]
                if self.cell == "lstm":
                    i, f, gg, o, c, new = kept
                    gc = gc + g * o * (1 - np.tanh(new) ** 2)
                    parts = [gc * gg * i * (1 - i), gc * c * f * (1 - f), gc * i * (1 - gg**2)]
                    gates[at] = np.concatenate([*parts, g * np.tanh(new) * o * (1 - o)])
                    products, gc, through = gates[at], gc * f, 0
                elif self.cell == "gru":
                    reset, update, fresh, rn = kept
                    gn = g * (1 - update) * (1 - fresh**2)
                    gr, gz = gn * rn * reset * (1 - reset), g * (h - fresh) * update * (1 - update)
                    gates[at], products = np.concatenate([gr, gz, gn]), np.concatenate([gr, gz, gn * reset])
                    through = g * update
                else:
                    (y,) = kept
                    gates[at] = g * (1 - y**2) if self.cell == "tanh" else g * (y > 0)
                    products, through = gates[at], 0
                weight += np.outer(products, h)
                bias += products
                gh = products @ self.weight + through
            gh0[row], gc0[row] = gh, gc
        return gates, gh0, gc0, weight, bias


def close(got, want, dtype):
    got = np.array(got.detach().cpu().to(strata.float64).tolist()).reshape(want.shape)
    assert np.abs(got - want).max(initial=0) <= ERRORS[dtype] * max(1, np.abs(want).max(initial=0))


def check(device, cell, sizes, hidden, dtype, reverse, packed, bias=True):
    rng = np.random.default_rng(0)
    batch, rows, columns = sizes[0], sum(sizes), GATES[cell] * hidden

    def new(*shape, scale=1.0):
        a = strata.tensor(rng.standard_normal(shape) * scale).to(getattr(strata, dtype))
        return np.array(a.to(strata.float64).tolist()).reshape(shape), a.to(device)

    gates, h0, c0 = new(rows, columns), new(batch, hidden), new(batch, hidden)
    weight, b = new(columns, hidden, scale=hidden**-0.5), new(columns)
    grad, gh, gc = new(rows, hidden), new(batch, hidden), new(batch, hidden)
    plain = Plain(cell, gates[0], h0[0], c0[0], weight[0], b[0] if bias else 0, sizes, reverse)
    lstm = cell == "lstm"
    leaves = [t[1].requires_grad_() for t in (gates, h0, c0, weight, b)]
    g, h, c, w, bb = leaves
    data = g if packed else g.reshape(len(sizes), batch, columns)
    arguments = (data, h, c if lstm else None, w, bb if bias else None, sizes if packed else [], CELLS[cell], reverse)
    output, last, last_c, _, _ = OPS["_recurrent_layer"](*arguments)
    close(output, plain.output, dtype)
    close(last, plain.last_h, dtype)
    if lstm:
        close(last_c, plain.last_c, dtype)
    with strata.no_grad():  # nothing is kept
        close(OPS["_recurrent_layer"](*arguments)[0], plain.output, dtype)
    ends = [output, last, last_c] if lstm else [output, last]
    seeds = [grad[1].reshape(output.shape), gh[1], gc[1]][: len(ends)]
    used = [g, h, w] + ([c] if lstm else []) + ([bb] if bias else [])
    got = strata.autograd.grad(ends, used, seeds)
    gg, gh0, gc0, gw, gb = plain.backward(grad[0], gh[0], gc[0])
    for a, e in zip(got, [gg, gh0, gw] + ([gc0] if lstm else []) + ([gb] if bias else []), strict=True):
        close(a, e, dtype)


SIZES = [  # sequences at each step, hidden units
    ([1], 1),
    ([3, 2, 1], 5),
    ([17, 17, 4, 1], 16),
    ([40, 33, 16, 3], 33),
    ([20, 20, 20], 24),
    ([2, 1], 300),  # several chunks of the weight's rows
    ([50, 49, 1], 64),  # more blocks than the virtual GPU has processors, or several passes
]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_packed_layers(sizes, cell, reverse, device):
    check(device, cell, *sizes, "float32", reverse, True)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("dtype", ERRORS)
@pytest.mark.parametrize("cell", CELLS)
def test_dtypes(cell, dtype, packed, device):
    for reverse in (False, True):
        check(device, cell, [5, 5, 2] if packed else [5, 5, 5], 9, dtype, reverse, packed, bias=reverse)


@pytest.mark.parametrize("cell", ["tanh", "relu", "gru"])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (4, 17, 16), (3, 50, 64), (2, 3, 300)], ids=str)
def test_whole_batches(sizes, cell):
    steps, batch, hidden = sizes
    for reverse in (False, True):
        check(DEVICE, cell, [batch] * steps, hidden, "float32", reverse, False)


@pytest.mark.parametrize("cell", CELLS)
def test_the_choice_is_explained(cell):
    def lines(dtype, hidden=16, device=DEVICE):
        rows, state = strata.zeros(5, GATES[cell] * hidden, dtype=dtype), strata.zeros(3, hidden, dtype=dtype)
        weight = strata.zeros(GATES[cell] * hidden, hidden, dtype=dtype)
        c0 = state.to(device) if cell == "lstm" else None
        arguments = (rows.to(device), state.to(device), c0, weight.to(device), None, [3, 2], CELLS[cell], False)
        found = strata.explain(lambda: OPS["_recurrent_layer"](*arguments))
        return [line for line in found if "_recurrent_layer" in line[0]]

    assert [line[1] for line in lines(strata.float32) if line[2].startswith("chosen")] == ["persistent"]
    assert "one launch" in lines(strata.bfloat16)[0][2]
    assert "float32 only" in lines(strata.float64)[0][2]
    if cell == "lstm":
        assert "does not fit into shared memory" in lines(strata.float32, 1900)[0][2]
    assert lines(strata.float32, device="cpu")[0][1:] == ("reference", "chosen")


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("sizes", [[], [3, 2, 1]], ids=str)
def test_gradients_and_their_gradients(cell, sizes):
    strata.manual_seed(0)
    hidden, columns = 2, GATES[cell] * 2
    shape = (6, columns) if sizes else (2, 3, columns)
    double = {"dtype": strata.float64, "requires_grad": True}
    c0 = strata.randn(3, hidden, **double) if cell == "lstm" else None
    inputs = [
        strata.randn(*shape, **double),
        strata.randn(3, hidden, **double),
        strata.randn(columns, hidden, **double),
        strata.randn(columns, **double),
    ] + ([c0] if cell == "lstm" else [])

    for reverse in (False, True):

        def layer(gates, h, weight, bias, c=None, reverse=reverse):
            out = OPS["_recurrent_layer"](gates, h, c, weight, bias, sizes, CELLS[cell], reverse)
            return out[:3] if c is not None else out[:2]

        assert strata.autograd.gradcheck(layer, inputs)
        if cell != "relu":  # its second derivative is zero
            assert strata.autograd.gradgradcheck(layer, inputs)


MODULES = {
    "RNN": lambda **o: nn.RNN(6, 20, **o),
    "RNN relu": lambda **o: nn.RNN(6, 20, nonlinearity="relu", **o),
    "GRU": lambda **o: nn.GRU(6, 20, **o),
    "LSTM": lambda **o: nn.LSTM(6, 20, **o),
}


def flat(state):
    return list(state) if isinstance(state, tuple) else [state]


@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True}, {"bias": False}], ids=str)
@pytest.mark.parametrize("name", MODULES)
def test_modules_on_packed_sequences(name, options):
    """Each sequence alone on the CPU in float64, beside all of them packed on the device."""
    strata.manual_seed(3)
    net = MODULES[name](**options)
    there, exact = MODULES[name](**options).to(DEVICE), MODULES[name](**options).double()
    there.load_state_dict(net.state_dict())
    exact.load_state_dict({k: v.double() for k, v in net.state_dict().items()})
    sequences = [strata.randn(n, 6) for n in (4, 7, 1, 7, 3)]
    packed, state = there(pack_sequence([s.to(DEVICE) for s in sequences], enforce_sorted=False))
    padded, lengths = pad_packed_sequence(packed, batch_first=True)
    assert lengths.tolist() == [4, 7, 1, 7, 3]
    loss, expected_loss = padded.square().sum() + sum(s.sum() for s in flat(state)), 0
    for i, s in enumerate(sequences):
        y, last = exact(s.double())
        assert (padded[i, : len(s)].cpu().double() - y).abs().max().item() < 1e-5
        for a, b in zip(flat(state), flat(last), strict=True):
            assert (a[:, i].cpu().double() - b).abs().max().item() < 1e-5
        expected_loss = expected_loss + y.square().sum() + sum(e.sum() for e in flat(last))
    loss.backward()
    expected_loss.backward()
    for a, b in zip(there.parameters(), exact.parameters(), strict=True):
        assert (a.grad.cpu().double() - b.grad).abs().max().item() <= 2e-5 * max(1.0, b.grad.abs().max().item())


@pytest.mark.parametrize("name", MODULES)
def test_a_layer_is_one_launch_each_way(name):
    net = MODULES[name]().to(DEVICE)
    x = pack_padded_sequence(strata.randn(9, 4, 6), [9, 5, 5, 2]).to(DEVICE)

    def both_ways():
        y, _ = net(x)
        y.data.sum().backward()

    layers = [line for line in strata.explain(both_ways) if line[2].startswith("chosen") and "_layer" in line[0]]
    assert [line[1] for line in layers] == ["persistent"] * 2, layers
    assert all("one launch" in line[2] for line in layers), layers


def test_mistakes():
    rows, state, weight = strata.ones(6, 15), strata.ones(3, 5), strata.ones(15, 5)
    layer = OPS["_recurrent_layer"]
    for arguments, message in [
        ((rows, state, None, weight, None, [3, 2, 2], 3, False), "add up to 7, but there are 6 rows"),
        ((rows, state, None, weight, None, [4, 2], 3, False), "be at most 3"),
        ((rows, state, None, weight, None, [3, 0, 3], 3, False), "must be positive"),
        ((rows, state, state, weight, None, [3, 2, 1], 3, False), "an LSTM has cells"),
        ((rows, state, None, weight, None, [3, 2, 1], 2, False), "expected a weight of shape"),
        ((rows, state, None, weight, strata.ones(5), [3, 2, 1], 3, False), "expected a bias of shape"),
        ((rows.double(), state, None, weight, None, [3, 2, 1], 3, False), "dtype float64"),
        ((rows, state, None, weight, None, [], 3, False), "expected rows"),
    ]:
        for device in DEVICES:
            moved = [a.to(device) if isinstance(a, strata.Tensor) else a for a in arguments]
            with pytest.raises(RuntimeError, match=message):
                layer(*moved)
    with pytest.raises(ValueError, match="cell is -1"):
        layer(rows, state, None, weight, None, [3, 2, 1], -1, False)
