"""Exported models give the results of the program: in ONNX's reference evaluator, and read back."""

import collections
import warnings

import exported
import numpy as np
import pytest
import strata
import strata.onnx
from exported import records
from onnx.reference import ReferenceEvaluator
from strata import nn

import onnx


class Sizes(nn.Module):
    def forward(self, x):
        n, t, c = x.shape
        return x.reshape(n * t, c).sum(-1).view(n, t) * t, x[:, -1], strata.zeros(n, t, 2)


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.linear = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Linear(128, 10)

    def forward(self, x):
        x = nn.functional.max_pool2d(strata.relu(self.norm(self.conv(x))), 2)
        return strata.softmax(self.linear(x.flatten(1)), -1)


def decoder():
    parts = [
        nn.ConvTranspose2d(4, 6, 3, 2, 1, 1),
        nn.GroupNorm(2, 6),
        nn.GELU(),
        nn.Upsample(scale_factor=2, mode="bilinear"),
    ]
    return nn.Sequential(*parts, nn.PReLU(6), nn.AdaptiveAvgPool2d(1))


MODULES = {
    "network": (Network, (2, 3, 8, 8), {0: "batch"}),
    "sizes": (Sizes, (2, 5, 3), {0: "batch", 1: "time"}),
    "lstm": (lambda: nn.LSTM(5, 7, 2, bidirectional=True, batch_first=True), (2, 6, 5), {0: "batch", 1: "time"}),
    "gru": (lambda: nn.GRU(5, 7), (6, 2, 5), {0: "time"}),
    "rnn": (lambda: nn.RNN(5, 7), (6, 2, 5), {0: "time"}),
    "encoder": (lambda: nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), (2, 6, 16), {0: "batch", 1: "time"}),
    "decoder": (decoder, (2, 4, 5, 6), {0: "batch"}),
}


@pytest.mark.parametrize("name", MODULES)
def test_modules_give_their_results_for_other_sizes(name):
    strata.manual_seed(0)
    make, shape, axes = MODULES[name]
    module = make().eval()
    data = strata.onnx.export(module, (strata.randn(*shape),), input_names=["x"], dynamic_axes={"x": axes})
    onnx.checker.check_model(onnx.load_from_string(data), full_check=True)
    loaded = strata.onnx.load(data)
    for more in (0, 3):
        x = strata.randn(*[n + more if d in axes else n for d, n in enumerate(shape)])
        want = records.tensors([module(x)])
        assert exported.differs(ReferenceEvaluator(data).run(None, {"x": x.numpy()}), want) is None
        assert exported.differs([t.numpy() for t in records.tensors([loaded(x)])], want) is None


def test_every_record_is_right_or_refused():
    counts = collections.Counter()
    wrong = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for record in records.PUBLIC:
            outcomes = list(exported.sweep(record, read_back))
            kinds = {outcome.split(":")[0] for _, outcome in outcomes}
            counts["ok" if "ok" in kinds else "refused" if kinds else "none"] += 1
            wrong += [f"{records.label(record)}({text}): {o}" for text, o in outcomes if o.startswith("wrong")]
    assert wrong == []
    assert counts["ok"] >= 345, counts


def read_back(data, feeds):
    model = strata.onnx.load(data)
    known = {v.name for v in model.inputs}
    outputs = model.run({n: v for n, v in feeds.items() if n in known})
    return [t.numpy() for t in outputs]


def test_weights_in_a_file_beside_the_model(tmp_path):
    module = nn.Linear(40, 30).eval()
    path = tmp_path / "m.onnx"
    x = strata.randn(2, 40)
    strata.onnx.export(module, (x,), path, external_data=True)
    assert path.stat().st_size < 2000 < (tmp_path / "m.onnx.data").stat().st_size
    assert strata.equal(strata.onnx.load(path)(x), module(x))
    assert onnx.load(path).graph.initializer[0].raw_data == module.weight.detach().numpy().tobytes()


def test_names_sources_and_unused_states():
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).eval()
    data = strata.onnx.export(module, strata.ones(2, 3), input_names=["in"], output_names=["out"], opset_version=18)
    model = onnx.load_from_string(data)
    assert [i.name for i in model.graph.input] == ["in"] and [o.name for o in model.graph.output] == ["out"]
    assert {t.name for t in model.graph.initializer} >= {"0.weight", "0.bias", "1.running_mean"}
    assert "1.num_batches_tracked" not in {t.name for t in model.graph.initializer}
    assert model.opset_import[0].version == 18 and any(".py:" in n.doc_string for n in model.graph.node)


def test_what_cannot_be_exported_is_refused():
    def refused(error, text, f, *args, **options):
        with pytest.raises(error, match=text):
            strata.onnx.export(f, args, **options)

    x = strata.randn(2, 3)
    refused(NotImplementedError, "no form in ONNX: lgamma", lambda x: strata.lgamma(x), x)
    refused(ValueError, "training mode", nn.Dropout(), x)
    refused(RuntimeError, "reads values", lambda x: x * 2 if x.sum() > 0 else x, x)
    other = {"input_names": ["x"], "dynamic_axes": {"x": {0: "n"}}}
    refused(RuntimeError, "test_export.py", lambda x: x.sum() if x.size(0) > 2 else x.exp().sum(), x, **other)
    refused(ValueError, "opset 99", lambda x: x + 1, x, opset_version=99)
    refused(ValueError, "no input", lambda x: x + 1, x, dynamic_axes={"z": {0: "n"}})
    refused(ValueError, "2 names for 1 inputs", lambda x: x + 1, x, input_names=["a", "b"])
    refused(NotImplementedError, "writes to", lambda x: x.add_(1), x)


def test_integers_and_bools_keep_their_types():
    def program(i, b):
        return i * 2 + 1, i / 2, ~b, strata.where(b, i, 0), i.float().mean(), (i > 1) & b

    i, b = strata.arange(6).reshape(2, 3), strata.tensor([[True, False, True]] * 2)
    data = strata.onnx.export(program, (i, b), input_names=["i", "b"])
    got = ReferenceEvaluator(data).run(None, {"i": i.numpy(), "b": b.numpy()})
    assert exported.differs([np.asarray(g) for g in got], list(program(i, b))) is None
