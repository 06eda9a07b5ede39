"""Hostile and broken models: each is refused with a typed error that says what is wrong, and never ends the process."""

import os
import resource

import models
import numpy as np
import pytest
import strata
import strata.onnx
from models import BOOL, FLOAT, INT64, constant, node, value

import onnx
from onnx import helper

RELU = node("Relu", ["x"], ["y"])


def refused(source, *words, kinds=(RuntimeError,), **options):
    with pytest.raises(kinds) as error:
        strata.onnx.load(source, **options)
    for word in words:
        assert word in str(error.value), str(error.value)


def fails(source, *words, kinds=(RuntimeError, ValueError, TypeError, IndexError), inputs=(), **options):
    loaded = strata.onnx.load(source, **options)
    with pytest.raises(kinds) as error:
        loaded(*inputs)
    for word in words:
        assert word in str(error.value), str(error.value)


def external(location, **entries):
    weight = onnx.TensorProto(name="w", data_type=FLOAT, dims=[4], data_location=onnx.TensorProto.EXTERNAL)
    for key, text in {"location": location, **entries}.items():
        weight.external_data.add(key=key, value=str(text))
    return models.data([node("Add", ["x", "w"], ["y"])], weights=[weight])


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "model"
    place.mkdir()
    (place / "w.bin").write_bytes(np.arange(8, dtype=np.float32).tobytes())
    (tmp_path / "secret.bin").write_bytes(bytes(64))

    def save(location="w.bin", **entries):
        (place / "m.onnx").write_bytes(external(location, **entries))
        return str(place / "m.onnx")

    save.place = place
    return save


def test_external_data_is_read(folder):
    loaded = strata.onnx.load(folder(offset=16, length=16))
    assert loaded(strata.zeros(4)).tolist() == [4, 5, 6, 7]
    inner = folder.place / "below"
    inner.mkdir()
    os.rename(folder.place / "w.bin", inner / "w.bin")
    assert strata.onnx.load(folder("below/w.bin", length=16))(strata.zeros(4)).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("location", ["../secret.bin", "a/../../secret.bin", "", "/etc/passwd", "w.bin\0x"])
def test_external_data_outside_of_the_folder_is_refused(folder, location):
    refused(folder(location, length=16), kinds=(RuntimeError, OSError))


def test_external_data_of_bytes_is_refused():
    refused(external("w.bin"), "its folder is unknown")


def test_links_and_devices_are_refused(folder):
    place = folder.place
    os.symlink(place.parent / "secret.bin", place / "link")
    os.symlink(place.parent, place / "up")
    os.link(place.parent / "secret.bin", place / "hard")
    os.mkfifo(place / "pipe")
    for name, word in [("link", "link"), ("up/secret.bin", "link"), ("hard", "hard links"), ("pipe", "a pipe")]:
        refused(folder(name, length=16), word, kinds=(RuntimeError, OSError))
    refused(folder("missing", length=16), "missing", kinds=(OSError,))


@pytest.mark.parametrize(
    "entries",
    [
        {"offset": 28, "length": 16},
        {"offset": 33},
        {"offset": -1},
        {"length": -16},
        {"offset": 2**64 - 8, "length": 16},
        {"offset": 2**63, "length": 2**63},
        {"offset": "1e3"},
        {"length": 15},
        {"unknown": "1"},
    ],
)
def test_external_ranges_are_checked(folder, entries):
    refused(folder(**entries), "tensor 'w'")


def weighted(**fields):
    weight = onnx.TensorProto(name="w", **fields)
    return models.data([node("Add", ["x", "w"], ["y"])], weights=[weight])


def test_contents_of_tensors_are_checked():
    refused(weighted(data_type=FLOAT, dims=[4], raw_data=bytes(15)), "15 bytes", "needs 16")
    refused(weighted(data_type=FLOAT, dims=[4], float_data=[1, 2, 3]), "12 bytes", "needs 16")
    refused(weighted(data_type=FLOAT, dims=[1], raw_data=bytes(4), float_data=[1]), "two places")
    refused(weighted(data_type=FLOAT, dims=[1], int64_data=[1]), "not that of the element type")
    refused(weighted(data_type=999, dims=[1], raw_data=bytes(4)), "999", kinds=(NotImplementedError,))
    refused(weighted(data_type=0, dims=[1], raw_data=bytes(4)), "undefined", kinds=(NotImplementedError,))
    refused(weighted(data_type=FLOAT, dims=[-1], raw_data=b""), "not negative")
    refused(weighted(data_type=FLOAT, dims=[2**40, 2**40], raw_data=bytes(4)), kinds=(RuntimeError, ValueError))
    refused(weighted(data_type=FLOAT, dims=[2**40], raw_data=bytes(4)), "needs")
    refused(weighted(data_type=FLOAT, dims=[1] * 100, raw_data=bytes(4)), kinds=(RuntimeError, ValueError))


def test_structure_is_checked():
    refused(b"", "no graph")
    refused(b"not a model at all", "damaged")
    refused(models.data([node("Relu", ["z"], ["y"])]), "'z'", "not computed before")
    refused(models.data([node("Relu", ["b"], ["a"]), node("Relu", ["a"], ["b"])], outputs=["b"]), "cycle")
    refused(models.data([RELU, RELU]), "'y' is computed twice")
    refused(models.data([RELU], outputs=["other"]), "'other'")
    refused(models.data([node("Add", ["x"], ["y"])]), "1 inputs; expected 2 to 2")
    refused(models.data([node("Add", ["x", ""], ["y"])]), "input 1 is missing")
    refused(models.data([RELU], opset=29), "opset 29", kinds=(NotImplementedError,))
    fails(models.data([node("LeakyRelu", ["x"], ["y"], alpha="much")]), "'alpha' is a text", inputs=[strata.ones(2)])
    fails(models.data([RELU], inputs=[value("x", FLOAT, [2, 3])]), "[2, 3]", inputs=[strata.ones(3, 2)])
    fails(models.data([RELU]), "expected a tensor of float", inputs=[strata.ones(2, dtype=strata.int64)])
    with pytest.raises(ValueError, match="is missing"):
        strata.onnx.load(models.data([RELU]))()


def test_unknown_ops_are_named_together():
    nodes = [
        node("Foo", ["x"], ["a"], name="first"),
        node("Bar", ["a"], ["b"], domain="my.domain"),
        node("Foo", ["b"], ["y"]),
    ]
    source = models.data(nodes, opsets=[helper.make_opsetid("my.domain", 3)])
    refused(
        source,
        "Foo (domain 'ai.onnx', version 18): 2 nodes 'first'",
        "Bar (domain 'my.domain', version 3)",
        kinds=(NotImplementedError,),
    )


def deep_if(levels):
    """The bytes of Ifs inside of each other, written by hand: the package's recursion ends before."""

    def field(number, data):
        size, text = len(data), b""
        while size >= 128:
            text, size = text + bytes([size % 128 + 128]), size // 128
        return bytes([number * 8 + 2]) + text + bytes([size]) + data

    body = b""
    for _ in range(levels):
        attribute = field(1, b"then_branch") + field(6, body) + bytes([20 * 8 % 128 + 128, 1, 5])
        body = field(1, field(4, b"If") + field(5, attribute))
    return field(7, body)


def test_nesting_is_limited():
    for levels in (65, 1000, 10_000):
        refused(deep_if(levels), "nested deeper")


def function(name, nodes, inputs=("a",), outputs=("b",)):
    return helper.make_function(
        "f", name, list(inputs), list(outputs), nodes, [helper.make_opsetid("", 18), helper.make_opsetid("f", 1)]
    )


def test_recursive_and_exploding_functions_are_refused():
    ids = [helper.make_opsetid("f", 1)]
    own = function("Self", [node("Self", ["a"], ["b"], domain="f")])
    refused(models.data([node("Self", ["x"], ["y"], domain="f")], functions=[own], opsets=ids), "call itself")
    bombs = [function("F0", [node("Relu", ["a"], ["b"])])]
    for i in range(1, 40):
        calls = [node(f"F{i - 1}", ["a"], ["m"], domain="f"), node(f"F{i - 1}", ["m"], ["b"], domain="f")]
        bombs.append(function(f"F{i}", calls))
    refused(models.data([node("F39", ["x"], ["y"], domain="f")], functions=bombs, opsets=ids), "expands to more than")


@pytest.mark.parametrize(
    "attributes",
    [
        {"strides": [0, 1]},
        {"strides": [1]},
        {"dilations": [1, 1, 1]},
        {"dilations": [0, 0]},
        {"group": 0},
        {"group": 3},
        {"pads": [-1, 0, 0, 0]},
        {"pads": [2**62, 2**62, 2**62, 2**62]},
        {"kernel_shape": [5, 5]},
        {"auto_pad": "SOMETIMES"},
    ],
)
def test_convolutions_check_their_attributes(attributes):
    weights = [constant("w", np.zeros((2, 2, 3, 3), np.float32))]
    for op in ("Conv", "ConvTranspose"):
        fails(
            models.data([node(op, ["x", "w"], ["y"], **attributes)], weights=weights),
            op,
            inputs=[strata.ones(1, 2, 8, 8)],
            kinds=(RuntimeError, ValueError, MemoryError, NotImplementedError, strata.OutOfMemoryError),
        )


BOMBS = {
    "Reshape": ([node("Reshape", ["x", "n"], ["y"])], [2**62, 2**62]),
    "Expand": ([node("Expand", ["x", "n"], ["e"]), node("Exp", ["e"], ["y"])], [2**45, 4]),
    "Tile": ([node("Tile", ["x", "n"], ["y"])], [2**60, 1]),
    "ConstantOfShape": ([node("ConstantOfShape", ["n"], ["y"])], [2**31, 2**31]),
    "Range": ([node("Gather", ["n", "zero"], ["s"]), node("Range", ["zero", "s", "one"], ["y"])], [2**62, 1]),
    "Resize": ([node("Resize", ["x", "", "", "n"], ["y"], mode="linear")], [2**40, 2**20]),
    "Pad": ([node("Pad", ["x", "n4"], ["y"], mode="reflect")], [2**40, 1]),
    "Pad constant": ([node("Pad", ["x", "n4"], ["y"])], [2**62, 2**62]),
    "OneHot": ([node("Gather", ["n", "zero"], ["s"]), node("OneHot", ["n", "s", "values"], ["y"])], [2**60, 1]),
    "HannWindow": ([node("Gather", ["n", "zero"], ["s"]), node("HannWindow", ["s"], ["y"])], [2**60, 1]),
    "Slice": ([node("Slice", ["x", "n", "n"], ["y"])], [2**63 - 1]),
    "EyeLike": ([node("Expand", ["x", "n"], ["e"]), node("EyeLike", ["e"], ["y"])], [2**24, 2**24]),
    "Gather": ([node("Gather", ["x", "n"], ["y"])], [7]),
    "GatherND": ([node("GatherND", ["x", "n"], ["y"])], [9]),
    "ScatterElements": ([node("ScatterElements", ["x", "nn", "x"], ["y"])], [7, 7]),
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_of_run_time_values_are_stopped(name):
    nodes, sizes = BOMBS[name]
    sizes = np.array(sizes, np.int64)
    weights = [
        constant("n", sizes),
        constant("n4", np.concatenate([sizes, sizes])),
        constant("nn", sizes.reshape(1, -1)),
        constant("zero", np.int64(0)),
        constant("one", np.int64(1)),
        constant("values", np.array([0, 1], np.float32)),
    ]
    source = models.data(
        nodes, weights=weights, inputs=[value("x", FLOAT, [1, 2] if name == "ScatterElements" else None)]
    )
    x = strata.ones(1, 2) if name == "ScatterElements" else strata.ones(1, 1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if name == "Slice":
        assert strata.onnx.load(source)(x).numel() == 0
        return
    fails(source, inputs=[x], kinds=(RuntimeError, ValueError, IndexError, MemoryError, strata.OutOfMemoryError))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20  # in KiB


def endless():
    body = models.graph(
        [node("Identity", ["c"], ["c2"]), node("Add", ["v", "v"], ["v2"])],
        [value("i", INT64, []), value("c", BOOL, []), value("v")],
        [value("c2", BOOL, []), value("v2")],
    )
    weights = [constant("true", np.array(True))]
    return models.data([node("Loop", ["", "true", "x"], ["y"], body=body)], weights=weights)


def test_loops_have_a_limit():
    fails(endless(), "ran 1000 times", "limit", inputs=[strata.ones(2)], max_loop_iterations=1000)
    source = models.data([node("Tile", ["x", "n"], ["y"])], weights=[constant("n", np.array([1000]))])
    fails(source, "limit of 100 bytes", kinds=(strata.OutOfMemoryError,), inputs=[strata.ones(2)], max_value_bytes=100)


def test_every_flip_and_truncation_is_read_or_refused():
    weights = [constant("w", np.ones((3, 2), np.float32)), constant("n", np.array([1, -1]))]
    nodes = [
        node("MatMul", ["x", "w"], ["a"]),
        node("Softmax", ["a"], ["b"], axis=1),
        node("Reshape", ["b", "n"], ["y"]),
    ]
    good = models.data(nodes, inputs=[value("x", FLOAT, [2, 3])], weights=weights)
    x = strata.ones(2, 3)
    read = 0
    for bad in [good[:n] for n in range(len(good))] + [
        good[:i] + bytes([good[i] ^ bit]) + good[i + 1 :] for i in range(len(good)) for bit in (1, 8, 64, 128, 255)
    ]:
        try:
            strata.onnx.load(bad, max_value_bytes=1 << 24)(x)
            read += 1
        except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError, strata.OutOfMemoryError) as error:
            assert str(error) and "bug in Strata" not in str(error), error
    assert 0 < read < 6 * len(good)
