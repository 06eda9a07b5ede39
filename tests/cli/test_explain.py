"""`strata explain` and `strata libraries`: the contents of the tables."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

BUILD = pathlib.Path(os.environ.get("STRATA_BUILD_DIR", pathlib.Path(__file__).parents[2] / "build" / "release"))
STRATA = BUILD / "bin" / "strata"


def run(*arguments):
    return subprocess.run([STRATA, *arguments], capture_output=True, text=True, check=True).stdout


def test_explain_lists_every_entry_of_a_device():
    found = json.loads(run("explain", "matmul", "f(64,512), f(512,64)", "--device", "vgpu", "--json"))
    kernels = {k["kernel"]: k for k in found["kernels"]}
    assert list(kernels)[-2:] == ["tiles_in_parts", "tiles"]
    assert kernels["cublaslt"]["reason"] == "cuBLASLt runs on device cuda"
    assert kernels["tiles_in_parts"]["reason"].startswith("chosen") and kernels["tiles_in_parts"]["workspace"] > 0
    assert kernels["tiles"]["reason"] == "ready, but tiles_in_parts comes first"
    text = run("explain", "matmul", "f(8,8), f(8,8)", "--device", "vgpu")
    assert "the sums are short" in text and "own" in text


def test_explain_tells_sources_and_numbers():
    text = run("explain", "conv2d", "f(1,8,32,32), f(8,8,3,3), None, 1, 1")
    assert "3x the rounding error" in text and "oneDNN" in text


def test_libraries_are_listed():
    found = json.loads(run("libraries", "--json"))
    assert [entry["library"] for entry in found] == ["NVRTC", "cuBLASLt", "cuDNN", "NCCL", "NVML"]
    text = run("libraries")
    for entry in found:
        assert entry["library"] in text and (entry["path"] or entry["why_not"]) in text


@pytest.mark.parametrize(
    "command", [("explain", "mm", "f(2,2), f(2,2)"), ("tune", "mm", "f(2,2), f(2,2)"), ("tune", "--list")]
)
def test_devices_that_do_not_exist_and_that_are_missing(command):
    for device, status, says in [("zork", 1, "--device zork: no such device"), ("mps", 3, "is not available")]:
        done = subprocess.run([STRATA, *command, "--device", device], capture_output=True, text=True)
        assert done.returncode == status and says in done.stderr, done.stderr


# --- one call on every layer --------------------------------------------------------------------------------------------


def explain(*arguments, status=0):
    done = subprocess.run(
        [STRATA, "explain", *map(str, arguments)],
        env={**os.environ, "STRATA_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == status, done
    assert "Traceback" not in done.stderr
    return done


@pytest.mark.parametrize("device", ["cpu", "vgpu"])
def test_an_op_by_shapes_and_as_an_expression_has_the_same_layers(device):
    op = json.loads(explain("add", "--shape", "20,30", "--device", device, "--backward", "--json").stdout)
    text = json.loads(explain("f(20,30) + f(20,30)", "--device", device, "--json").stdout)
    assert op["device"] == text["device"] == ("cpu" if device == "cpu" else "vgpu:0")
    layers = [[x["layer"] for x in found["steps"][0]["layers"]] for found in (op, text)]
    assert layers[0] == layers[1] and layers[0][0] == "call" and layers[0][-1] == "cost"
    assert {s["direction"] for s in op["steps"]} == {"forward", "backward"}
    assert text["steps"][0]["layers"][0]["facts"]["file"] == "<expression>"
    assert op["results"][0]["type"] == text["results"][0]["type"] == "float32[20, 30]"
    # The values of one sample are the same in both languages.
    whole = json.loads(explain("add", "f(2), f(2)", "--json").stdout)["results"]
    assert len(whole[0]["values"].split(",")) == 2


def test_dtype_and_shapes_of_every_tensor():
    found = json.loads(explain("matmul", "--shape", "3,4", "--shape", "4,5", "--dtype", "float64", "--json").stdout)
    assert found["results"][0]["type"] == "float64[3, 5]"
    found = json.loads(explain("F.softmax(f(3, 4) @ f(4, 5), -1)", "--dtype", "float64", "--json").stdout)
    assert found["results"][0]["type"] == "float64[3, 5]" and [s["op"] for s in found["steps"]][0] == "matmul"


def test_the_list_has_every_op_with_its_kernels():
    listed = {e["op"]: e for e in json.loads(explain("--list", "--json").stdout)}
    shown = json.loads(explain("add", "f(3), f(3)", "--json").stdout)["kernels"]
    assert [k["kernel"] for k in listed["add"]["cpu"]] == [k["kernel"] for k in shown]
    assert listed["conv2d"]["kind"] == "composite" and listed["add"]["kind"] == "pointwise" and len(listed) > 500
    text = explain("--list").stdout.splitlines()
    assert len(text) == len(listed) + 1 and any(line.split()[0] == "add" and "cuda: pointwise" in line for line in text)


def test_pages(tmp_path):
    for words in (["add", "f(3), f(3)"], ["f(3) + f(3)"]):
        page = tmp_path / "page.html"
        assert explain(*words, "--html", page).stdout == f"written: {page}\n"
        assert "prefers-color-scheme:dark" in page.read_text() and "<ol>" in page.read_text()
    explain("add", "f(3), f(3)", "--html", "/nonexistent/x.html", status=2)


def test_layers_of_a_network(tmp_path):
    model = tmp_path / "model.py"
    model.write_text(
        "from strata import nn\nclass Net(nn.Sequential):\n    def __init__(self):\n"
        "        super().__init__(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))\nf = lambda x: x\n"
    )
    for device in ("cpu", "vgpu"):
        words = [f"{model}:Net", "--input", "f(2,1,8,8)", "--device", device]
        found = json.loads(explain(*words, "--json").stdout)
        assert [layer["module"] for layer in found["layers"]] == ["Conv2d", "ReLU", "Linear"]
        assert "What would help most" in explain(*words, "--backward").stdout
    explain(*words, "--html", tmp_path / "net.html")
    assert "MFLOP" in (tmp_path / "net.html").read_text()
    assert "is no module" in explain(f"{model}:f", "--input", "f(3)", status=1).stderr
    assert "there is no file" in explain("nothing.py:Net", status=1).stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["f(3) +"], "is no expression"),
        (["f(3) + undefined"], "NameError"),
        (["(3)"], "computes nothing"),
        (["f(-1) + f(2)"], "a size cannot be negative"),
        (["f(3) + f(4)"], "raised RuntimeError"),
        (["ones(3) + 1", "--dtype", "zork"], "--dtype zork"),
        (["add", "f(3)", "--shape", "3"], "have shapes already"),
        (["ones", "--shape", "3"], "takes no tensors"),
        (["zork", "--shape", "3"], "takes no tensors"),
        (["zork"], "there is no op"),
        (["argmax", "f(3)", "--backward"], "no gradient"),
        (["argmax(f(3))", "--backward"], "no result requires a gradient"),
        ([], "name an op"),
    ],
)
def test_wrong_uses(words, says):
    assert says in explain(*words, status=1).stderr
