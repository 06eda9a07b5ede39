"""torch.ao.quantization.quantize_dynamic: layers with int8 or float16 weights, against NumPy."""

import copy
import io
import pickle

import numpy as np
import pytest
import strata
from strata import nn

quantization, dynamic = strata.ao.quantization, strata.ao.nn.quantized.dynamic
devices = pytest.mark.parametrize("device", ["cpu", "vgpu"])


def rounded(weight):
    """One scale per row, from -127 to 127."""
    scales = np.abs(weight).max(1, keepdims=True) / 127
    return np.round(weight / scales) * scales


@devices
@pytest.mark.parametrize("bias", [True, False])
def test_linear_layers_round_their_weights_by_rows(bias, device):
    layer = nn.Linear(24, 5, bias=bias).to(device)
    made = quantization.quantize_dynamic(nn.Sequential(layer))[0]
    x = strata.randn(2, 3, 24, device=device, requires_grad=True)
    weight = rounded(layer.weight.detach().cpu().numpy().astype(np.float64))
    want = x.detach().cpu().numpy() @ weight.T + (layer.bias.detach().cpu().numpy() if bias else 0)
    got = made(x)
    np.testing.assert_allclose(got.detach().cpu().numpy(), want, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(made.weight().cpu().numpy(), weight, rtol=1e-5, atol=1e-7)
    assert made._weight.dtype is strata.int8 and (made.bias() is None) == (not bias)
    got.sum().backward()
    np.testing.assert_allclose(x.grad[0, 0].cpu().numpy(), weight.sum(0), rtol=1e-4, atol=1e-5)


RECURRENT = {
    "LSTM": (lambda: nn.LSTM(6, 4, 2, bidirectional=True, batch_first=True), (3, 5, 6)),
    "GRU": (lambda: nn.GRU(6, 4), (5, 3, 6)),
    "LSTMCell": (lambda: nn.LSTMCell(6, 4), (3, 6)),
    "GRUCell": (lambda: nn.GRUCell(6, 4), (3, 6)),
    "RNNCell": (lambda: nn.RNNCell(6, 4), (3, 6)),
}


def first(out):
    return out[0] if isinstance(out, tuple) else out


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layers_round_their_matrices(name):
    make, shape = RECURRENT[name]
    plain, x = make(), strata.randn(*shape)
    made = quantization.quantize_dynamic(plain)
    by_hand = copy.deepcopy(plain)
    with strata.no_grad():
        for p in by_hand.parameters():
            if p.dim() == 2:
                p.copy_(strata.tensor(rounded(p.numpy())))
    assert type(made) is getattr(dynamic, name) and repr(made) == f"DynamicQuantized{plain!r}"
    assert strata.allclose(first(made(x)), first(by_hand(x)), atol=1e-6) and made.hidden_size == 4
    assert not list(made.parameters()) and len(made.get_weight()) + len(made.get_bias()) == len(
        list(plain.parameters())
    )


def test_layers_are_chosen_by_type_or_name():
    class Linear(nn.Linear):
        pass

    model = nn.ModuleDict({"a": nn.Linear(4, 4), "b": nn.Sequential(nn.Linear(4, 4), nn.LSTM(4, 4)), "c": Linear(4, 4)})
    q, half = quantization.default_dynamic_qconfig, quantization.float16_dynamic_qconfig
    for spec, expected in (
        (None, (dynamic.Linear, dynamic.Linear, dynamic.LSTM)),
        ({nn.Linear}, (dynamic.Linear, dynamic.Linear, nn.LSTM)),
        ({nn.LSTM, nn.Conv2d}, (nn.Linear, nn.Linear, dynamic.LSTM)),
        ({"b"}, (nn.Linear, dynamic.Linear, dynamic.LSTM)),
        ({nn.Linear: q, "b.0": None}, (dynamic.Linear, nn.Linear, nn.LSTM)),
    ):
        made = quantization.quantize_dynamic(model, spec)
        assert (type(made["a"]), type(made["b"][0]), type(made["b"][1])) == expected
        assert type(made["c"]) is Linear and type(model["a"]) is nn.Linear and not made.training and model.training
    assert quantization.quantize_dynamic(model, {nn.Linear: half})["a"].dtype is strata.float16
    attention = quantization.quantize_dynamic(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True))
    assert type(attention.linear1) is dynamic.Linear and isinstance(attention.self_attn.out_proj, nn.Linear)
    assert attention(strata.randn(2, 3, 8)).shape == (2, 3, 8)
    assert quantization.quantize_dynamic(model, inplace=True) is model and type(model["a"]) is dynamic.Linear


@devices
def test_float16_weights(device):
    strata.backends.quantized.engine = "fbgemm"  # programs choose one; there is one kind of kernel
    layer = nn.Linear(8, 3).to(device)
    made = quantization.quantize_dynamic(nn.Sequential(layer), dtype=strata.float16)[0]
    x = strata.randn(2, 8, device=device)
    want = nn.functional.linear(x, layer.weight.half().float(), layer.bias)
    assert strata.allclose(made(x), want, atol=1e-6) and made._weight.dtype is strata.float16


def test_files_and_copies():
    model, x = nn.Sequential(nn.Linear(6, 8), nn.LSTM(8, 4)), strata.randn(3, 6)
    made = quantization.quantize_dynamic(model)
    memory = io.BytesIO()
    strata.save(made.state_dict(), memory)
    memory.seek(0)
    again = quantization.quantize_dynamic(nn.Sequential(nn.Linear(6, 8), nn.LSTM(8, 4)))
    again.load_state_dict(strata.load(memory))
    for other in (again, copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert strata.equal(other(x)[0], made(x)[0])
    assert made.double()[0]._weight.dtype is strata.int8 and made(x.double())[0].dtype is strata.float64
    assert pickle.loads(pickle.dumps(strata.qint8)) is strata.qint8


@pytest.mark.parametrize(
    "call, error, text",
    [
        (
            lambda: quantization.quantize_dynamic(nn.Linear(2, 2), dtype=strata.quint8),
            NotImplementedError,
            "embeddings",
        ),
        (lambda: quantization.quantize_dynamic(nn.Linear(2, 2), dtype=strata.int8), ValueError, "must be torch.qint8"),
        (lambda: quantization.quantize_dynamic(nn.Linear(2, 2), {nn.Linear: 8}), TypeError, "default_dynamic_qconfig"),
        (lambda: quantization.quantize_dynamic(lambda x: x), TypeError, "expected a Module"),
        (lambda: dynamic.Linear(2, 2, dtype=strata.quint8), NotImplementedError, "qint8 and float16"),
        (lambda: dynamic.Linear.from_float(nn.ReLU()), TypeError, "expected a Linear"),
        (lambda: dynamic.LSTM.from_float(nn.GRU(2, 2)), TypeError, "expected LSTM"),
        (lambda: quantization.prepare(nn.ReLU()), NotImplementedError, "no quantized tensors"),
        (lambda: quantization.unknown, AttributeError, "unknown"),
        (lambda: setattr(strata.backends.quantized, "engine", "mine"), RuntimeError, "'mine' is not supported"),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()
