"""Engines in int8 and 16 bits: accuracy, tables, layers that stay in float32, and models for other programs."""

import os
import warnings

import numpy as np
import pytest
import strata
from strata import _C, engine, nn

DEVICE = os.environ.get("STRATA_TEST_DEVICE", "vgpu")
F = nn.functional


class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        return F.relu(self.second(F.relu(self.norm(self.first(x)))) + x)


def network(seed=0):
    strata.manual_seed(seed)
    net = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.ReLU(),
        Block(16),
        nn.MaxPool2d(2),
        Block(16),
        nn.Flatten(),
        nn.Linear(256, 10),
    )
    for norm in (m for m in net.modules() if isinstance(m, nn.BatchNorm2d)):
        norm.running_mean.copy_(strata.randn(16) * 0.2)
        norm.running_var.copy_(strata.rand(16) + 0.5)
    return net.eval()


def batches(count=4, n=2, seed=5):
    generator = strata.Generator().manual_seed(seed)
    return [strata.randn(n, 3, 8, 8, generator=generator) for _ in range(count)]


def relative(got, want):
    got, want = got.detach().cpu().double().numpy(), want.detach().cpu().double().numpy()
    return np.linalg.norm(got - want) / np.linalg.norm(want)


def in_bytes(net, table, shape=(2, 3, 8, 8), **options):
    return engine.compile(net, [shape], enabled_precisions={strata.int8}, calibration=table, level=1, **options)


@pytest.mark.parametrize("method", ["entropy", "min-max", "percentile"])
def test_a_calibrated_network(method):
    net = network()
    table = engine.calibrate(engine.compile(net, [(2, 3, 8, 8)], level=0), batches(), method=method)
    assert table.method == method and table.samples == 4 and len(table.errors) == 6 and not table.floats
    assert all(0 < threshold <= largest for largest, threshold in table.values.values())
    fast = in_bytes(net, table)
    for x in batches(seed=9):
        assert relative(fast(x), net(x)) < 0.06
    text = str(fast.describe((x,)))
    assert text.count("_int8_convolution") >= 5 and "_int8_linear" in text


def test_other_sizes_use_the_same_table():
    net = network()
    sizes = engine.Input(min_shape=(1, 3, 8, 8), opt_shape=(2, 3, 8, 8), max_shape=(7, 3, 8, 8))
    table = engine.calibrate(engine.compile(net, [sizes], level=0), batches(n=3))
    fast = engine.compile(net, [sizes], enabled_precisions={strata.int8}, calibration=table, level=1)
    for n in (1, 2, 7):
        x = batches(1, n)[0]
        assert relative(fast(x), net(x)) < 0.06
        assert "_int8_convolution" in str(fast.describe((x,)))


def test_tables_are_texts_and_part_of_plans(tmp_path):
    net = network()
    table = engine.calibrate(engine.compile(net, [(2, 3, 8, 8)], level=0), batches())
    table.save(tmp_path / "table.txt")
    again = engine.Calibration.load(tmp_path / "table.txt")
    assert again.values == table.values and again.errors == table.errors and "entropy" in repr(again)
    fast = in_bytes(net, again)
    x = batches()[0]
    loaded = engine.load(fast.save())
    assert (loaded(x) == fast(x)).all() and "_int8_convolution" in str(loaded.describe((x,)))


@pytest.mark.parametrize(
    "text", ["", "strata calibration 2\n", "strata calibration 1\nvalue x\n", "strata calibration 1\nvalue nan 1 x\n",
             "strata calibration 1\nvalue 1 1 x\nvalue 1 1 x\n", "strata calibration 1\nother 3\n", "strata calibration 1\nvalue -1 1 x\n"]
)  # fmt: skip
def test_broken_tables_are_refused(text):
    with pytest.raises(ValueError, match="calibration"):
        in_bytes(network(), text)


def test_the_worst_layers_stay_in_float32():
    net = network()
    with strata.no_grad():  # one channel of the weights is much larger than an input that matters
        net[2].first.weight[:, 0] *= 300
        net[0].weight[0] *= 0.01
    exact = engine.compile(net, [(2, 3, 8, 8)], level=0)
    free = engine.calibrate(exact, batches())
    strict = engine.calibrate(exact, batches(), max_error=0.002)
    assert not free.floats and strict.floats and set(strict.floats) <= set(strict.errors)
    assert strict.floats[0] == max(strict.errors, key=strict.errors.get)
    x = batches(seed=5)[0]
    assert relative(in_bytes(net, strict)(x), net(x)) <= 0.0021
    assert relative(in_bytes(net, strict)(x), net(x)) < relative(in_bytes(net, free)(x), net(x))


def test_calibrations_that_cannot_be():
    exact = engine.compile(network(), [(2, 3, 8, 8)], level=0)
    with pytest.raises(ValueError, match="no samples"):
        engine.calibrate(exact, [])
    with pytest.raises(ValueError, match="unknown"):
        engine.calibrate(exact, batches(), method="mean")
    with pytest.raises(ValueError, match="percentile"):
        engine.calibrate(exact, batches(), method="percentile", percentile=0)
    with pytest.raises(ValueError, match="max_error"):
        engine.calibrate(exact, batches(), max_error=-1)
    with pytest.raises(ValueError, match="no convolution"):
        engine.calibrate(engine.compile(nn.ReLU().eval(), [(3,)], level=0), [strata.ones(3)])

    def fails():
        yield batches()[0]
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        engine.calibrate(exact, fails())


def test_samples_from_a_folder(tmp_path):
    net = network()
    exact = engine.compile(net, [(2, 3, 8, 8)], level=0)
    given = batches()
    for i, x in enumerate(given[:2]):
        np.save(tmp_path / f"{i}.npy", x.numpy())
    for i, x in enumerate(given[2:]):
        strata.save({exact.inputs[0].name: x}, tmp_path / f"more{i}.safetensors")
    (tmp_path / "notes.txt").write_text("no sample")
    assert engine.calibrate(exact, tmp_path).text == engine.calibrate(exact, given).text
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="has no .npy"):
        engine.calibrate(exact, tmp_path / "empty")
    np.save(tmp_path / "empty" / "objects.npy", np.array([{}], dtype=object))
    with pytest.raises(ValueError, match="pickle"):
        engine.calibrate(exact, tmp_path / "empty")


def test_values_of_zeros_and_infinities():
    net = network()
    exact = engine.compile(net, [(2, 3, 8, 8)], level=0)
    nothing = engine.calibrate(exact, [strata.zeros(2, 3, 8, 8)])
    assert in_bytes(net, nothing)(strata.zeros(2, 3, 8, 8)).isfinite().all()
    odd = batches()[0]
    odd[0, 0, 0, 0] = float("inf")
    odd[1, 0, 0, 0] = float("nan")
    table = engine.calibrate(exact, [odd, *batches()])
    assert all(np.isfinite(v).all() for v in table.values.values())


def test_int8_without_scales_says_so(tmp_path):
    net = network()
    with pytest.warns(UserWarning, match="int8 needs a calibration"):
        made = engine.compile(net, [(2, 3, 8, 8)], enabled_precisions={strata.int8}, level=0)
    x = strata.randn(2, 3, 8, 8)
    assert relative(made(x), net(x)) < 1e-5
    strata.onnx.export(net, (batches()[0],), tmp_path / "net.onnx", input_names=["x"], output_names=["y"])
    table = engine.quantize(tmp_path / "net.onnx", tmp_path / "bytes.onnx", batches())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        engine.build(tmp_path / "bytes.onnx", int8=True, level=0)
        engine.build(tmp_path / "net.onnx", int8=True, calibration=table, level=0)


def test_a_model_for_other_programs(tmp_path):
    net = network()
    strata.onnx.export(net, (batches()[0],), tmp_path / "net.onnx", input_names=["x"], output_names=["y"])
    table = engine.quantize(tmp_path / "net.onnx", tmp_path / "bytes.onnx", batches())
    model = strata.onnx.load(str(tmp_path / "bytes.onnx"))
    data = (tmp_path / "bytes.onnx").read_bytes()
    assert data.count(b"QuantizeLinear") > 10 and len(data) < 0.5 * (tmp_path / "net.onnx").stat().st_size
    fast = engine.build(tmp_path / "net.onnx", int8=True, calibration=table, level=1)
    as_bytes = engine.build(tmp_path / "bytes.onnx", level=1)
    for x in batches(seed=9):
        want, stated = fast(x), model(x)
        stated = stated[0] if isinstance(stated, (list, tuple)) else stated
        assert relative(stated, net(x)) < 0.06 and relative(stated, want) < 0.03
        got = as_bytes(x)
        assert relative(got, stated) < 0.02  # the same integers, rounded in another order
    assert str(as_bytes.describe({"x": x})).count("_int8_convolution") >= 5  # the conversions became products of bytes


# --- accuracy ------------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def trained():
    """A small CNN that reads synthetic digits, and 500 that it has not seen."""
    strata.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(), nn.Flatten(), nn.Linear(32 * 49, 10),
    )  # fmt: skip
    images, labels = _C._draw_digits(0, 1500, 1)
    images = images.float().reshape(-1, 1, 28, 28) / 255
    optimizer = strata.optim.Adam(net.parameters(), lr=3e-3)
    for _ in range(4):
        for i in range(0, 1000, 50):
            optimizer.zero_grad()
            F.cross_entropy(net(images[i : i + 50]), labels[i : i + 50]).backward()
            optimizer.step()
    return net.eval(), images[1000:], labels[1000:], images[:200]


def accuracy(run, images, labels):
    right = sum(int((run(images[i : i + 50]).cpu().argmax(1) == labels[i : i + 50]).sum()) for i in range(0, 500, 50))
    return 100 * right / 500


def test_int8_keeps_the_accuracy(trained):
    net, images, labels, seen = trained
    table = engine.calibrate(
        engine.compile(net, [(50, 1, 28, 28)], level=0), [seen[i : i + 50] for i in range(0, 200, 50)], method="entropy"
    )
    exact = accuracy(net, images, labels)
    assert exact > 80
    assert abs(accuracy(in_bytes(net, table, (50, 1, 28, 28)), images, labels) - exact) <= 0.2 + 1e-9


def test_float16_keeps_the_results(trained):
    net, images, *_ = trained
    x = images[:4]
    with strata.no_grad():
        want = net(x).softmax(1)
    fast = engine.compile(net.to(DEVICE), [(4, 1, 28, 28)], enabled_precisions={strata.float16}, level=1)
    got = fast(x.to(DEVICE)).cpu()
    net.to("cpu")
    assert got.dtype == strata.float32 and (got.softmax(1) - want).abs().max().item() < 0.02
    assert "float16" in str(fast.describe((x.to(DEVICE),)))


def test_bfloat16(trained):
    net, images, labels, _ = trained
    fast = engine.compile(net, [(50, 1, 28, 28)], enabled_precisions={strata.bfloat16}, level=1)
    assert abs(accuracy(fast, images, labels) - accuracy(net, images, labels)) <= 1


def test_values_that_float16_cannot_hold_stay_in_float32():
    strata.manual_seed(0)
    net = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16), nn.Linear(16, 4)).eval()
    with strata.no_grad():
        net[0].weight *= 1e6
        net[2].weight *= 1e-6
    x = strata.randn(8, 16)
    table = engine.calibrate(engine.compile(net, [(8, 16)], level=0), [x])
    assert "large" in str(table)
    want = net(x)
    options = {"enabled_precisions": {strata.float16}, "level": 1}
    net.to(DEVICE)
    safe = engine.compile(net, [(8, 16)], calibration=table, **options)(x.to(DEVICE)).cpu()
    unsafe = engine.compile(net, [(8, 16)], **options)(x.to(DEVICE)).cpu()
    assert relative(safe, want) < 0.01
    assert not relative(unsafe, want) < 0.01
