"""C++ and Python modules give the same bits: initial values, results, gradients; and print the same text."""

import os
import pathlib
import subprocess

import pytest
import strata
from module_samples import LABELS, SAMPLES, inputs, made
from strata import _C, nn
from strata.nn.utils import rnn

PROGRAM = pathlib.Path(os.environ.get("STRATA_BUILD_DIR", "build/release")) / "bin/module_parity"


def hash_of(tensors):
    """FNV-1a of the bytes, as tests/parity/main.cpp computes it."""
    h = 14695981039346656037
    for t in tensors:
        if t is not None:
            for byte in _C._to_bytes(t.detach().contiguous()):
                h = ((h ^ byte) * 1099511628211) & 0xFFFFFFFFFFFFFFFF
    return f"{h:016x}"


@pytest.fixture(scope="module")
def lines():
    done = subprocess.run([str(PROGRAM)], capture_output=True, text=True, check=True)
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    return {name: (hashes.split(), text.replace("\\n", "\n")) for name, hashes, text in rows}


def line_of(make, call):
    strata.manual_seed(1234)
    module = make()
    state = hash_of(module.state_dict().values())
    out = call(module)
    grads = []
    if out.requires_grad:
        out.sum().backward()
        grads = [p.grad for p in module.parameters()]
    return [state, hash_of([out]), hash_of(grads)], module


@pytest.mark.parametrize("case", SAMPLES, ids=LABELS)
def test_records(case, lines):
    hashes, module = line_of(lambda: made(*case), lambda m: m(*inputs(*case)))
    assert lines[f"{case[0].name} {case[1]}"] == (hashes, repr(module))


def attend(m):
    x = strata.randn(3, 2, 8)
    return m(x, x, x)[0]


def transform(m):
    src = strata.randn(4, 2, 8)
    return m(src, strata.randn(3, 2, 8), tgt_mask=nn.Transformer.generate_square_subsequent_mask(3))


def packed_gru(m):
    x = strata.randn(5, 3, 4)
    return m(rnn.pack_padded_sequence(x, [2, 5, 3], enforce_sorted=False))[0].data


def packed_lstm(m):
    packed = rnn.pack_sequence([strata.randn(2, 4), strata.randn(4, 4)], enforce_sorted=False)
    output, (_, c) = m(packed, (strata.randn(1, 2, 2), strata.randn(1, 2, 5)))
    return strata.cat([rnn.pad_packed_sequence(output, True, 7)[0].reshape(-1), c.reshape(-1)])


def adaptive(m):
    output, loss = m(strata.randn(6, 8), strata.tensor([0, 3, 4, 7, 8, 11]))
    return strata.cat([output, loss.unsqueeze(0)])


def triplets(m):
    a = strata.randn(5, 4).requires_grad_()
    return m(a, strata.randn(5, 4), strata.randn(5, 4))


HAND_WRITTEN = {
    "GRU packed": (lambda: nn.GRU(4, 5, 2, bidirectional=True), packed_gru),
    "LSTM packed": (lambda: nn.LSTM(4, 5, proj_size=2), packed_lstm),
    "AdaptiveLogSoftmaxWithLoss hand": (
        lambda: nn.AdaptiveLogSoftmaxWithLoss(8, 12, [4, 8], div_value=2.0, head_bias=True),
        adaptive,
    ),
    "LinearCrossEntropyLoss hand": (
        lambda: nn.LinearCrossEntropyLoss(4, 3, out_features=(2,), bias=True, label_smoothing=0.1),
        lambda m: m(strata.randn(5, 4), (strata.arange(10) % 3).reshape(5, 2)),
    ),
    "TripletMarginWithDistanceLoss hand": (
        lambda: nn.TripletMarginWithDistanceLoss(margin=0.5, swap=True),
        triplets,
    ),
    "gumbel_softmax": (
        nn.Identity,
        lambda m: nn.functional.gumbel_softmax(m(strata.randn(3, 4)), tau=0.5, hard=True),
    ),
    "ParameterList hand": (
        lambda: nn.ParameterList([strata.randn(2, 3), strata.randn(4)]),
        lambda m: m[0].sum() * m[-1],
    ),
    "ParameterDict hand": (
        lambda: nn.ParameterDict({"b": strata.randn(2), "a": strata.randn(2)}),
        lambda m: m["a"] * m["b"],
    ),
    "RNN hand": (lambda: nn.RNN(4, 5, 2, nonlinearity="relu"), lambda m: m(strata.randn(3, 2, 4))[0]),
    "GRU hand": (lambda: nn.GRU(4, 5, bias=False, bidirectional=True), lambda m: m(strata.randn(3, 2, 4))[0]),
    "LSTM hand": (lambda: nn.LSTM(4, 5, 2, batch_first=True), lambda m: m(strata.randn(2, 3, 4))[0]),
    "LSTM projected": (
        lambda: nn.LSTM(4, 5, bidirectional=True, proj_size=2),
        lambda m: m(strata.randn(3, 2, 4))[0],
    ),
    "LSTMCell hand": (lambda: nn.LSTMCell(4, 5), lambda m: m(strata.randn(3, 4))[1]),
    "MultiheadAttention hand": (lambda: nn.MultiheadAttention(8, 2, add_bias_kv=True), attend),
    "Transformer hand": (lambda: nn.Transformer(8, 2, 2, 2, 16, norm_first=True), transform),
}


@pytest.mark.parametrize("name", HAND_WRITTEN)
def test_hand_written(name, lines):
    hashes, module = line_of(*HAND_WRITTEN[name])
    assert lines[name] == (hashes, repr(module).replace("NonDynamicallyQuantizableLinear", "Linear"))
