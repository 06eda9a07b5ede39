"""Recurrent modules, attention and transformers against NumPy in float64."""

import numpy as np
import pytest
import strata
from strata import nn
from strata.nn.utils import rnn


def numbers(t):
    return t.detach().numpy()


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def weights_of(module, tail=""):
    return {name.removesuffix(tail): numbers(p) for name, p in module.named_parameters() if name.endswith(tail)}


def step(kind, x, h, c, w):
    """One step of a cell; w has weight_ih, weight_hh and perhaps bias_ih, bias_hh, weight_hr."""
    a = x @ w["weight_ih"].T + w.get("bias_ih", 0)
    b = h @ w["weight_hh"].T + w.get("bias_hh", 0)
    if kind in ("tanh", "relu"):
        return (np.tanh(a + b) if kind == "tanh" else np.maximum(a + b, 0)), c
    if kind == "gru":
        (ra, za, na), (rb, zb, nb) = np.split(a, 3, -1), np.split(b, 3, -1)
        z = sigmoid(za + zb)
        return (1 - z) * np.tanh(na + sigmoid(ra + rb) * nb) + z * h, c
    i, f, g, o = np.split(a + b, 4, -1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    h = sigmoid(o) * np.tanh(c)
    return (h @ w["weight_hr"].T if "weight_hr" in w else h), c


def run(kind, module, x, h0, c0):
    """[steps, batch, features] through all layers and directions."""
    directions, h_end, c_end = 2 if module.bidirectional else 1, [], []
    for layer in range(module.num_layers):
        sides = []
        for direction in range(directions):
            tail, k = f"_l{layer}" + ("_reverse" if direction else ""), layer * directions + direction
            w = weights_of(module, tail)
            h, c, out = h0[k], c0[k], [None] * len(x)
            for t in reversed(range(len(x))) if direction else range(len(x)):
                h, c = step(kind, x[t], h, c, w)
                out[t] = h
            h_end.append(h), c_end.append(c), sides.append(np.stack(out))
        x = np.concatenate(sides, -1)
    return x, np.stack(h_end), np.stack(c_end)


CASES = {
    "rnn": ("tanh", lambda: nn.RNN(3, 4)),
    "rnn relu, two layers": ("relu", lambda: nn.RNN(3, 4, 2, nonlinearity="relu", bias=False)),
    "gru both directions": ("gru", lambda: nn.GRU(3, 4, 2, bidirectional=True)),
    "lstm": ("lstm", lambda: nn.LSTM(3, 4)),
    "lstm two layers both directions": ("lstm", lambda: nn.LSTM(3, 4, 2, bidirectional=True)),
    "lstm projected": ("lstm", lambda: nn.LSTM(3, 4, 2, bidirectional=True, proj_size=2)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("given", [True, False])
def test_sequences(name, given):
    strata.manual_seed(1)
    kind, make = CASES[name]
    module = make().double()
    x = strata.randn(5, 2, 3, dtype=strata.float64)
    rows = module.num_layers * (2 if module.bidirectional else 1)
    h = strata.randn(rows, 2, module.proj_size or 4, dtype=strata.float64)
    c = strata.randn(rows, 2, 4, dtype=strata.float64)
    if not given:
        h, c = h * 0, c * 0
    state = ((h, c) if kind == "lstm" else h) if given else None
    out, end = module(x, state)
    expected = run(kind, module, numbers(x), numbers(h), numbers(c))
    np.testing.assert_allclose(numbers(out), expected[0], rtol=1e-7, atol=1e-9)
    ends = end if kind == "lstm" else (end,)
    for got, want in zip(ends, expected[1:], strict=False):
        np.testing.assert_allclose(numbers(got), want, rtol=1e-7, atol=1e-9)
    # batch first, and without a batch
    module.batch_first = True
    again, _ = module(x.transpose(0, 1), state)
    np.testing.assert_allclose(numbers(again.transpose(0, 1)), expected[0], rtol=1e-7, atol=1e-9)
    alone = tuple(s[:, 0] for s in (h, c))
    single, _ = module(x[:, 0], (alone if kind == "lstm" else alone[0]) if given else None)
    np.testing.assert_allclose(numbers(single), expected[0][:, 0], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_packed_sequences_are_sequences_of_their_own(name):
    strata.manual_seed(2)
    kind, make = CASES[name]
    module = make().double()
    sequences = [strata.randn(n, 3, dtype=strata.float64) for n in (2, 4, 3)]
    packed = rnn.pack_sequence(sequences, enforce_sorted=False)
    out, end = module(packed)
    pieces = rnn.unpack_sequence(out)
    ends = end if kind == "lstm" else (end,)
    for i, (sequence, piece) in enumerate(zip(sequences, pieces, strict=True)):
        rows = module.num_layers * (2 if module.bidirectional else 1)
        h0, c0 = np.zeros((rows, 1, module.proj_size or 4)), np.zeros((rows, 1, 4))
        want = run(kind, module, numbers(sequence)[:, None], h0, c0)
        np.testing.assert_allclose(numbers(piece), want[0][:, 0], rtol=1e-7, atol=1e-9)
        for got, expected in zip(ends, want[1:], strict=False):
            np.testing.assert_allclose(numbers(got)[:, i], expected[:, 0], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(
    ("kind", "make"),
    [("tanh", nn.RNNCell), ("gru", nn.GRUCell), ("lstm", nn.LSTMCell)],
)
def test_cells(kind, make):
    strata.manual_seed(3)
    cell = make(3, 4).double()
    x, h, c = (strata.randn(2, n, dtype=strata.float64) for n in (3, 4, 4))
    got = cell(x, (h, c) if kind == "lstm" else h)
    want = step(kind, numbers(x), numbers(h), numbers(c), weights_of(cell))
    np.testing.assert_allclose(numbers(got[0] if kind == "lstm" else got), want[0], rtol=1e-7)
    assert repr(cell) == f"{make.__name__}(3, 4)"
    assert cell(x[0])[0].shape == ((4,) if kind == "lstm" else ())


def test_recurrent_mistakes_are_explained():
    with pytest.raises(ValueError, match="proj_size"):
        nn.GRU(3, 4, proj_size=2)
    with pytest.raises(ValueError, match="input_size must be greater than zero"):
        nn.LSTM(0, 4)
    with pytest.raises(TypeError, match=r"LSTM: the state must be \(h, c\)"):
        nn.LSTM(3, 4)(strata.ones(5, 2, 3), strata.ones(1, 2, 4))
    with pytest.raises(TypeError, match="GRU: the state must be a tensor"):
        nn.GRU(3, 4)(strata.ones(5, 2, 3), (strata.ones(1, 2, 4), strata.ones(1, 2, 4)))
    with pytest.raises(ValueError, match="Unknown nonlinearity"):
        nn.RNN(3, 4, nonlinearity="sine")
    with pytest.raises(RuntimeError, match="input.size\\(-1\\) must be equal to input_size"):
        nn.LSTM(3, 4)(strata.randn(2, 2, 5))
    with pytest.raises(RuntimeError, match="Expected hidden"):
        nn.GRU(3, 4)(strata.randn(2, 2, 3), strata.randn(1, 3, 4))
    with pytest.raises(RuntimeError, match="sorted in decreasing order"):
        rnn.pack_padded_sequence(strata.randn(3, 2, 1), [1, 3])
    with pytest.raises(RuntimeError, match="greater than 0"):
        rnn.pack_padded_sequence(strata.randn(3, 2, 1), [3, 0])


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attention(query, key, value, w, heads, mask=0.0):
    """[steps, batch, features]; the weights of one module by name."""
    q, k, v = (
        x @ m.T + b
        for x, m, b in zip(
            (query, key, value), np.split(w["in_proj_weight"], 3), np.split(w["in_proj_bias"], 3), strict=True
        )
    )
    width = q.shape[-1] // heads
    out, weights = np.zeros_like(q), []
    for b in range(q.shape[1]):
        for h in range(heads):
            cut = slice(h * width, (h + 1) * width)
            p = softmax(q[:, b, cut] @ k[:, b, cut].T / np.sqrt(width) + mask)
            out[:, b, cut] = p @ v[:, b, cut]
            weights.append(p)
    average = np.stack(weights).reshape(q.shape[1], heads, len(q), len(k)).mean(1)
    return out @ w["out_proj.weight"].T + w["out_proj.bias"], average


def test_multihead_attention():
    strata.manual_seed(4)
    module = nn.MultiheadAttention(6, 2).double()
    nn.init.normal_(module.in_proj_bias)
    query, key, value = (strata.randn(n, 2, 6, dtype=strata.float64) for n in (3, 4, 4))
    mask = np.where(np.triu(np.ones((3, 4)), 1) > 0, -np.inf, 0.0)
    out, weights = module(query, key, value, attn_mask=strata.tensor(mask == -np.inf))
    want = attention(numbers(query), numbers(key), numbers(value), weights_of(module), 2, mask)
    np.testing.assert_allclose(numbers(out), want[0], rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(numbers(weights), want[1], rtol=1e-7, atol=1e-9)
    fast, none = module(query, key, value, attn_mask=strata.tensor(mask), need_weights=False)
    assert none is None
    np.testing.assert_allclose(numbers(fast), want[0], rtol=1e-7, atol=1e-9)
    with pytest.raises(RuntimeError, match="expecting embedding dimension of 6"):
        module(key[..., :4], key, key)


def norm(x, w, name):
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    return x * w[f"{name}.weight"] + w[f"{name}.bias"]


@pytest.mark.parametrize("norm_first", [False, True])
def test_transformer_encoder_layer(norm_first):
    strata.manual_seed(5)
    layer = nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0, norm_first=norm_first).double()
    x, w = strata.randn(3, 2, 6, dtype=strata.float64), weights_of(layer)
    own = {k.removeprefix("self_attn."): v for k, v in w.items() if k.startswith("self_attn.")}

    def feed(v):
        h = np.maximum(v @ w["linear1.weight"].T + w["linear1.bias"], 0)
        return h @ w["linear2.weight"].T + w["linear2.bias"]

    v = numbers(x)
    if norm_first:
        n = norm(v, w, "norm1")
        v = v + attention(n, n, n, own, 2)[0]
        want = v + feed(norm(v, w, "norm2"))
    else:
        v = norm(v + attention(v, v, v, own, 2)[0], w, "norm1")
        want = norm(v + feed(v), w, "norm2")
    np.testing.assert_allclose(numbers(layer(x)), want, rtol=1e-7, atol=1e-8)


def test_transformer_hides_the_future():
    strata.manual_seed(6)
    model = nn.Transformer(8, 2, 2, 2, 16, batch_first=True).eval()
    src, tgt = strata.randn(2, 4, 8), strata.randn(2, 5, 8)
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    before = model(src, tgt, tgt_mask=mask)
    changed = tgt.clone()
    changed[:, 3:] += 1
    after = model(src, changed, tgt_mask=mask)
    np.testing.assert_allclose(numbers(before)[:, :3], numbers(after)[:, :3], rtol=1e-5, atol=1e-6)
    assert not strata.allclose(before[:, 3:], after[:, 3:])
    layers = list(model.encoder.layers)
    assert not strata.equal(layers[0].linear1.weight, layers[1].linear1.weight)  # drawn anew after copying
    with pytest.raises(RuntimeError, match="equal to d_model"):
        model(src[..., :4], tgt)


def test_adaptive_log_softmax():
    strata.manual_seed(7)
    module = nn.AdaptiveLogSoftmaxWithLoss(6, 12, [4, 8], div_value=2.0).double()
    x, target = strata.randn(7, 6, dtype=strata.float64), strata.randint(12, (7,))
    logs = numbers(module.log_prob(x))
    np.testing.assert_allclose(np.exp(logs).sum(1), 1, rtol=1e-7)
    result = module(x, target)
    out, loss = result
    assert result.output is out and result.loss is loss
    np.testing.assert_allclose(numbers(out), logs[np.arange(7), numbers(target)], rtol=1e-7)
    np.testing.assert_allclose(loss.item(), -numbers(out).mean(), rtol=1e-7)
    assert module.predict(x).tolist() == logs.argmax(1).tolist()
    with pytest.raises(ValueError, match="cutoffs"):
        nn.AdaptiveLogSoftmaxWithLoss(6, 12, [8, 4])
