"""`strata engine`: builds, runs, measures and compares; the options of trtexec; what is wrong with a call is said."""

import json
import os
import pathlib
import subprocess

import pytest
import strata
import strata.onnx
from strata import nn

BUILD = pathlib.Path(os.environ.get("STRATA_BUILD_DIR", pathlib.Path(__file__).parents[2] / "build" / "release"))
SHAPES = ["--minShapes", "x:1x4", "--optShapes", "x:2x4", "--maxShapes", "x:8x4"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("engine")
    strata.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)).eval()
    strata.onnx.export(
        net,
        (strata.randn(2, 4),),
        place / "m.onnx",
        input_names=["x"],
        output_names=["<b>\x1b[31m"],
        dynamic_axes={"x": {0: "n"}},
    )
    other = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)).eval()
    strata.onnx.export(
        other, (strata.randn(2, 4),), place / "other.onnx", input_names=["x"], dynamic_axes={"x": {0: "n"}}
    )
    call(place, "build", "--onnx", "m.onnx", *SHAPES, "--saveEngine", "m.plan", "--timingCacheFile", "times.json")
    strata.save({"x": strata.ones(5, 4)}, place / "x.safetensors")
    return place


def call(folder, *arguments, status=0):
    command = [BUILD / "bin" / "strata", "engine", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=120)
    assert done.returncode == status, done.stderr
    return done.stderr if status else done.stdout


def test_a_plan_is_run_and_measured(folder):
    assert json.loads((folder / "times.json").read_text())["format"] == "strata timing cache"
    ran = json.loads(
        call(folder, "run", "--loadEngine", "m.plan", "--json", "--loadInputs", "x.safetensors", "--dumpOutput")
    )
    assert (
        ran["mode"] == "graph" and ran["outputs"][0]["value"] == "a tensor float[5, 3]" and ran["outputs"][0]["values"]
    )
    measured = json.loads(call(folder, "bench", "m.plan", "--iterations", "5", "--warmUp", "0", "--json"))
    assert measured["runs"] == 5 and measured["throughput"] > 0
    latency = measured["latency_ms"]
    assert latency["min"] <= latency["median"] <= latency["p90"] <= latency["p99"] <= latency["max"]


def test_copies_are_measured_apart_on_devices(folder):
    measured = json.loads(
        call(folder, "bench", "m.plan", "--device", "vgpu", "--iterations", "2", "--warmUp", "0", "--json")
    )
    assert measured["device"] == "vgpu:0" and {"copy_in_ms", "compute_ms", "copy_out_ms"} <= set(measured)


@pytest.mark.parametrize("end", ["html", "json", "txt"])
def test_profiles_are_written(folder, end):
    text = call(folder, "bench", "m.plan", "--iterations", "2", "--dumpProfile", "--exportProfile", f"p.{end}")
    assert "linear" in text and "linear" in (folder / f"p.{end}").read_text()


def test_engines_are_inspected_and_compared(folder):
    about = json.loads(call(folder, "inspect", "m.plan", "--json"))
    assert about["profiles"] == [{"x": {"min": [1, 4], "opt": [2, 4], "max": [8, 4]}}] and about["graph"]["nodes"] > 0
    assert "profile    x: 1x4 to 8x4 (tuned for 2x4)" in call(folder, "inspect", "m.plan")
    assert json.loads(call(folder, "compare", "m.onnx", "m.plan", "--shapes", "x:3x4", "--json"))["agree"]
    assert not json.loads(
        subprocess.run(
            [BUILD / "bin" / "strata", "engine", "compare", "m.onnx", "other.onnx", "--shapes", "x:3x4", "--json"],
            capture_output=True,
            cwd=folder,
        ).stdout
    )["agree"]
    assert json.loads(call(folder, "accuracy", "m.onnx", "--shapes", "x:3x4", "--json"))["layers"]


def test_names_of_the_file_are_no_commands_for_the_terminal(folder):
    for command in ("build", "run", "inspect"):
        text = call(folder, command, "m.onnx", "--shapes", "x:3x4")
        assert "\x1b" not in text and "<b>?[31m" in text


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["run", "m.plan", "--shapes", "x:9x4"], 1, "in no profile"),
        (["run", "m.plan", "--shapes", "x:axb"], 1, "'a' is not a size"),
        (["run", "m.plan", "--shapes", "4x4"], 1, "expected NAME=1x3x224x224"),
        (["run", "m.plan", "--shapes", "z:4x4"], 1, "no input 'z'"),
        (["build", "m.onnx", "--minShapes", "x:3x4", "--optShapes", "x:2x4"], 1, "min <= opt <= max"),
        (["build", "m.onnx", "--level", "9"], 1, "level 9; expected 0 to 5"),
        (["build", "--loadEngine", "m.plan"], 1, "a plan is built already"),
        (["run"], 1, "give one file"),
        (["run", "m.plan", "--onnx", "m.onnx"], 1, "give one file"),
        (["run", "--loadEngine", "m.onnx"], 1, "is no plan"),
        (["run", "nothing.plan"], 2, "nothing.plan"),
        (["run", "x.safetensors"], 1, "x.safetensors"),
        (["bench", "m.plan", "--duration", "-1"], 1, "--duration -1"),
        (["build", "m.onnx", "--memPoolSize", "much"], 1, "expected a number of MiB"),
    ],
)
def test_errors_say_what_is_wrong(folder, arguments, status, message):
    assert message in call(folder, *arguments, status=status)


def test_networks_are_measured_for_int8(folder, tmp_path):
    samples = tmp_path / "samples"
    samples.mkdir()
    strata.manual_seed(1)
    for i in range(3):
        strata.save({"x": strata.randn(4, 4)}, samples / f"{i}.safetensors")
    text = call(
        folder, "quantize", "m.onnx", "--samples", samples, "--output", tmp_path / "bytes.onnx", "--saveTable",
        tmp_path / "int8.txt", "--method", "min-max",
    )  # fmt: skip
    assert "samples    3" in text and "(2 layers in int8)" in text and "\x1b" not in text
    about = json.loads(call(folder, "quantize", "m.onnx", "--samples", samples, "--maxError", "1e-6", "--json"))
    assert about["samples"] == 3 and about["method"] == "entropy" and len(about["float32"]) == len(about["errors"]) == 2
    calibrated = ("--int8", "--calib", tmp_path / "int8.txt", "--shapes", "x:4x4")
    assert "_int8_linear" in call(folder, "inspect", "m.onnx", *calibrated, "--json")
    compared = call(folder, "compare", "m.onnx", tmp_path / "bytes.onnx", "--shapes", "x:4x4", "--tolerance", "0.1")
    assert "they agree" in compared
    assert "int8 needs real inputs" in call(folder, "quantize", "m.onnx", status=1)
    assert "has no .safetensors" in call(folder, "quantize", "m.onnx", "--samples", tmp_path / "..", status=1)
    assert "is unknown" in call(folder, "quantize", "m.onnx", "--samples", samples, "--method", "x", status=1)
    assert "calibration table" in call(folder, "inspect", "m.onnx", "--int8", "--calib", "times.json", status=1)
    assert "needs a calibration" in call(folder, "inspect", "m.onnx", "--int8", "--shapes", "x:4x4")
