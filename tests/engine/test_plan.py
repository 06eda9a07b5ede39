"""Plans: the same results from the file, files that are damaged, of other versions, or made to harm."""

import json
import os

import models
import numpy as np
import pytest
import strata
from models import FLOAT, constant, node, value
from strata import engine, nn
from strata.safetensors import safe_open


def small():
    return engine.build(
        models.data(
            [node("MatMul", ["x", "w"], ["y"])],
            [value("x", FLOAT, ["n", 4])],
            weights=[constant("w", np.arange(80, dtype=np.float32).reshape(4, 20))],
        ),
        profiles={"x": ((1, 4), (2, 4), (8, 4))},
        level=1,
    )


def mixed():
    """Weights of several types, in graphs of nodes and in attributes too."""
    branch = models.graph(
        [node("Add", ["x", "b"], ["r"])], [], ["r"], weights=[constant("b", np.arange(100.0, dtype=np.float32))]
    )
    other = models.graph([node("Sub", ["x", "b"], ["r"])], [], ["r"], weights=[constant("b", np.ones(100, np.float32))])
    nodes = [
        node("ReduceSum", ["x"], ["s"], keepdims=0),
        node("Greater", ["s", "zero"], ["c"]),
        node("If", ["c"], ["z"], then_branch=branch, else_branch=other),
        node("Constant", [], ["k"], value=constant("", np.full(100, 2, np.float16))),
        node("Cast", ["k"], ["k32"], to=FLOAT),
        node("Mul", ["z", "k32"], ["v"]),
        node("Gather", ["v", "i"], ["y"]),
    ]
    weights = [constant("zero", np.float32(0)), constant("i", np.arange(99, -1, -1))]
    return models.data(nodes, [value("x", FLOAT, [100])], weights=weights)


def header_of(data):
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def changed(data, change):
    """The plan with another header, and the sum that belongs to it."""
    import hashlib

    header, rest = header_of(data)
    change(header)
    header["__metadata__"]["sha256"] = "0" * 64
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    whole = len(text).to_bytes(8, "little") + text + rest
    digits = hashlib.sha256(whole).hexdigest().encode()
    return whole.replace(b"0" * 64, digits, 1)


# --- round trips ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("device", ["cpu", "vgpu"])
def test_a_plan_gives_the_same_bits(device, tmp_path):
    fast = small()
    path = tmp_path / "m.plan"
    fast.save(path)
    again = engine.load(path, device)
    there = engine.build(
        models.data(
            [node("MatMul", ["x", "w"], ["y"])],
            [value("x", FLOAT, ["n", 4])],
            weights=[constant("w", np.arange(80, dtype=np.float32).reshape(4, 20))],
        ),
        device=device,
        level=0,
    )
    for n in (1, 2, 5):
        x = strata.randn(n, 4)
        assert again(x).equal(there(x))
        if device == "cpu":
            assert again(x).equal(fast(x))
    with pytest.raises(ValueError, match="in no profile"):
        again(strata.ones(9, 4))
    assert again.describe()["profiles"] == fast.describe()["profiles"]


def test_weights_of_all_places_are_kept():
    data = mixed()
    fast, plain = engine.build(data), strata.onnx.load(data)
    again = engine.load(engine.load(fast.save()).save())  # a plan of a plan
    for x in (strata.randn(100).abs(), -strata.randn(100).abs()):
        assert again(x).equal(plain(x)) and fast(x).equal(plain(x))
    header, _ = header_of(fast.save())
    assert sum(name.startswith("weight.") for name in header) == 3


def test_plans_of_modules():
    net = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8)).eval()
    fast = engine.compile(net, [engine.Input(min_shape=(1, 4), opt_shape=(2, 4), max_shape=(64, 4))])
    again = engine.load(fast.save())
    for n in (1, 2, 33):
        x = strata.randn(n, 4)
        assert again(x).equal(fast(x))
    assert again.inputs == fast.inputs and again.outputs == fast.outputs


def test_other_readers_open_a_plan(tmp_path):
    path = tmp_path / "m.plan"
    small().save(path)
    with safe_open(path, framework="np") as f:
        assert set(f.keys()) == {"network", "weight.w"}
        assert f.get_tensor("weight.w").shape == (4, 20)
        assert f.metadata()["format"] == "strata plan"


def test_the_kernels_that_were_measured_are_used_again():
    fast = small()
    tactics = fast.describe()["tactics"]
    assert tactics == engine.load(fast.save()).describe()["tactics"] and "cpu" in tactics


# --- damage -----------------------------------------------------------------------------------------------------------
def test_every_changed_byte_is_noticed():
    data = small().save()
    for at in range(len(data)):
        for bit in (1, 0x80):
            wrong = bytearray(data)
            wrong[at] ^= bit
            with pytest.raises(RuntimeError):
                engine.load(bytes(wrong))


def test_every_truncation_is_noticed():
    data = small().save()
    for size in range(len(data)):
        with pytest.raises(RuntimeError):
            engine.load(data[:size])
    with pytest.raises(RuntimeError, match="SHA-256"):
        engine.load(data + b"\0")


def test_ten_thousand_changes_of_a_larger_plan():
    data = engine.build(
        models.data(
            [node("MatMul", ["x", "w"], ["y"])],
            [value("x", FLOAT, ["n", 64])],
            weights=[constant("w", np.ones((64, 64), np.float32))],
        )
    ).save()
    rng = np.random.default_rng(5)
    for at, bit in zip(rng.integers(0, len(data), 10_000), rng.integers(0, 8, 10_000), strict=True):
        wrong = bytearray(data)
        wrong[at] ^= 1 << bit
        with pytest.raises(RuntimeError):
            engine.load(bytes(wrong))


# --- files with the right sum and wrong contents ---------------------------------------------------------------------
def set_metadata(**entries):
    def change(header):
        for key, entry in entries.items():
            if entry is None:
                del header["__metadata__"][key]
            else:
                header["__metadata__"][key] = entry

    return change


def set_engine(path, entry):
    def change(header):
        engine_json = json.loads(header["__metadata__"]["engine"])
        at = engine_json
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = entry
        header["__metadata__"]["engine"] = json.dumps(engine_json)

    return change


def rename(old, new):
    def change(header):
        header[new] = header.pop(old)

    return change


def reshape(name, shape):
    def change(header):
        header[name]["shape"] = shape

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_metadata(version="2"), "plan of version 2; this version of Strata reads 1. Build it again"),
        (set_metadata(format="other"), "is a safetensors file, but no plan"),
        (set_metadata(kind="tree"), "unknown kind 'tree'"),
        (set_metadata(engine="{"), "is no plan that this version reads"),
        (set_metadata(engine="[" * 10000), "is no plan that this version reads"),
        (set_metadata(engine=None), "has no 'engine'"),
        (set_metadata(device="moon:3"), "moon"),
        (set_metadata(kind="graph"), "<bytes>"),
        (set_engine(["config", "level"], 99), "level 99; expected 0 to 5"),
        (set_engine(["config", "level"], "three"), "is no plan that this version reads"),
        (set_engine(["config", "profiles"], [{"x": [[1, 4], [2, 4]]}]), "has no min, opt and max"),
        (set_engine(["config", "profiles"], [{"q": [[1], [2], [3]]}]), "names 'q', which is no input"),
        (set_engine(["config", "most_specializations"], 0), "most_specializations"),
        (set_engine(["tactics"], {"cpu": {"2x4": [[0]]}}), "is no plan that this version reads"),
        (rename("weight.w", "weight.v"), "weight 'w' is missing"),
        (rename("weight.w", "w"), "has the tensor 'w', which no plan has"),
        (rename("network", "weight.network"), "has no tensor 'network'"),
        (reshape("weight.w", [20, 4]), r"its values are float32 \[20, 4\]; the network has float \[4, 20\]"),
    ],
)
def test_contents_that_do_not_fit(change, message):
    data = small().save()
    engine.load(changed(data, lambda header: None))
    with pytest.raises((RuntimeError, ValueError), match=message) as error:
        engine.load(changed(data, change))
    assert "<bytes>" in str(error.value)


@pytest.mark.parametrize("rows", [[[0, "no such kernel"]], [[4_000_000_000, "naive"]], [[0, "\x00<script>"]]])
def test_kernels_of_other_versions_are_ignored(rows):
    data = changed(small().save(), set_engine(["tactics"], {"cpu": {"2x4": rows}, "another device": {"1x4": rows}}))
    x = strata.randn(2, 4)
    assert engine.load(data)(x).equal(small()(x))


def test_a_device_that_is_not_there_is_named():
    data = changed(small().save(), set_metadata(device="cuda:0"))
    if not strata.cuda.is_available():
        with pytest.raises(RuntimeError, match="cuda"):
            engine.load(data)
    assert engine.load(data, "cpu")(strata.ones(1, 4)).shape == (1, 20)


def test_saving_leaves_the_old_file_or_the_new_one(tmp_path):
    path = tmp_path / "m.plan"
    path.write_bytes(b"old")
    with pytest.raises(OSError):
        small().save(tmp_path / "missing" / "m.plan")
    small().save(path)
    assert engine.load(path)(strata.ones(1, 4)).shape == (1, 20)
    assert os.listdir(tmp_path) == ["m.plan"]


def test_files_that_are_no_plans(tmp_path):
    path = tmp_path / "t.safetensors"
    strata.save({"w": strata.ones(2)}, path)
    for source in (path, b"", b"{}", b"\0" * 100):
        with pytest.raises(RuntimeError):
            engine.load(source)
    with pytest.raises(OSError):
        engine.load(tmp_path / "nothing")
