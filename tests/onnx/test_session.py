"""strata.onnxruntime: the other's names, its exceptions, its command."""

import subprocess
import sys

import models
import numpy as np
import pytest
import strata.onnxruntime as ort
from models import FLOAT, constant, node, value

from onnx import helper


@pytest.fixture
def source():
    made = models.model(
        [node("Mul", ["x", "w"], ["y"]), node("Add", ["y", "x"], ["z"])],
        [value("x", FLOAT, ["batch", 2])],
        ["y", "z"],
        [constant("w", np.float32([2, 3]))],
        producer_name="tests",
    )
    helper.set_model_props(made, {"author": "nobody"})
    return made.SerializeToString()


def test_sessions_describe_and_run(source, tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(source)
    session = ort.InferenceSession(path, ort.SessionOptions(), providers=["CPUExecutionProvider"])
    (x,) = session.get_inputs()
    assert (x.name, x.type, x.shape) == ("x", "tensor(float)", ["batch", 2])
    assert [o.name for o in session.get_outputs()] == ["y", "z"]
    assert session.get_providers() == ["CPUExecutionProvider"]
    about = session.get_modelmeta()
    assert about.custom_metadata_map == {"author": "nobody"} and about.producer_name == "tests"
    array = np.ones((1, 2), np.float32)
    y, z = session.run(None, {"x": array})
    assert isinstance(y, np.ndarray) and y.tolist() == [[2, 3]] and z.tolist() == [[3, 4]]
    (z,) = session.run(["z"], {"x": array})
    assert z.tolist() == [[3, 4]]
    (z,) = session.run_with_ort_values(["z"], {"x": ort.OrtValue.ortvalue_from_numpy(array)})
    assert z.numpy().tolist() == [[3, 4]] and z.data_type() == "tensor(float)" and z.shape() == [1, 2]


def test_bindings(source):
    session = ort.InferenceSession(source)
    binding = session.io_binding()
    binding.bind_cpu_input("x", np.ones((1, 2), np.float32))
    target = ort.OrtValue.ortvalue_from_shape_and_type([1, 2], np.float32)
    binding.bind_output("y")
    binding.bind_ortvalue_output("z", target)
    session.run_with_iobinding(binding)
    assert binding.copy_outputs_to_cpu()[0].tolist() == [[2, 3]]
    assert target.numpy().tolist() == [[3, 4]]


def test_errors_are_the_others(source, tmp_path):
    state = ort.capi.onnxruntime_pybind11_state
    with pytest.raises(state.NoSuchFile, match="doesn't exist"):
        ort.InferenceSession(tmp_path / "missing.onnx")
    with pytest.raises(state.InvalidGraph, match="damaged"):
        ort.InferenceSession(b"nonsense")
    with pytest.raises(state.NotImplemented, match="Foo"):
        ort.InferenceSession(models.data([node("Foo", ["x"], ["y"])]))
    session = ort.InferenceSession(source)
    with pytest.raises(state.InvalidArgument, match="missing from input feed"):
        session.run(None, {})
    with pytest.raises(state.InvalidArgument, match="Invalid output name"):
        session.run(["q"], {"x": np.ones((1, 2), np.float32)})
    with pytest.raises(state.InvalidArgument, match="no input 'q'"):
        session.run(None, {"x": np.ones((1, 2), np.float32), "q": np.ones(1)})
    with pytest.raises(state.InvalidArgument, match="expected a tensor of float"):
        session.run(None, {"x": np.ones((1, 2), np.float64)})
    with pytest.raises(ValueError, match="no provider 'TensorrtExecutionProvider'"):
        ort.InferenceSession(source, providers=["TensorrtExecutionProvider"])


def test_a_device_that_is_not_there_is_an_error(source, monkeypatch):
    monkeypatch.setattr(ort._providers, "get_available_providers", lambda: ["CPUExecutionProvider"])
    with pytest.raises(RuntimeError, match="is not available on this machine"):
        ort.InferenceSession(source, providers=["CUDAExecutionProvider", "CPUExecutionProvider"])


def test_programs_run_unchanged(source, tmp_path):
    (tmp_path / "m.onnx").write_bytes(source)
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, numpy, onnxruntime as rt\n"
        "from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument\n"
        "session = rt.InferenceSession(sys.argv[1], providers=rt.get_available_providers())\n"
        "print(session.run(None, {'x': numpy.ones((1, 2), 'float32')})[0].tolist())\n"
    )
    command = [sys.executable, "-m", "strata.onnxruntime", str(program), str(tmp_path / "m.onnx")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == "[[2.0, 3.0]]\n", done.stderr


@pytest.mark.parametrize("level", ["ORT_DISABLE_ALL", "ORT_ENABLE_ALL"])
def test_sizes_that_come_again_have_the_same_results(source, level):
    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    session = ort.InferenceSession(source, options)
    rng = np.random.default_rng(0)
    for n in (1, 2, 1, 3, 2, 1, 1, 0, 0):
        x = rng.standard_normal((n, 2)).astype(np.float32)
        y, z = session.run(None, {"x": x})
        np.testing.assert_array_equal(y, x * np.float32([2, 3]))
        np.testing.assert_array_equal(z, x * np.float32([2, 3]) + x)
    with pytest.raises(ort.capi.onnxruntime_pybind11_state.InvalidArgument):
        session.run(None, {"x": np.zeros((1, 3), np.float32)})
