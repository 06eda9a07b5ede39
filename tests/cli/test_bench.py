"""`strata bench`: rows, rates, the peer beside it (a stand-in, so that PyTorch is not needed), and wrong uses."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

BUILD = pathlib.Path(os.environ.get("STRATA_BUILD_DIR", pathlib.Path(__file__).parents[2] / "build" / "release"))
STRATA = str(BUILD / "bin" / "strata")
# The parts of PyTorch that the command calls, over NumPy. Its tensors note what was computed.
STAND_IN = """
import contextlib, numpy, sys, types
__version__ = "stand-in"
calls = []
float32 = float64 = uint8 = None
class T:
    def __init__(self, a): self.a, self.device, self.requires_grad = a, "cpu", False
    def requires_grad_(self): self.requires_grad = True; return self
    def detach(self): return T(self.a)
    def backward(self, g): pass
    def copy_(self, o): self.a[:] = o.a
    def __matmul__(self, o): return T(self.a @ o.a)
    __mul__ = __add__ = lambda self, o: self
def from_numpy(a): return T(a)
def zeros(n, dtype, device): return T(numpy.zeros(n, "u1"))
def add(input, other, alpha=1):
    assert isinstance(input, T)
    out = T(input.a + other.a); out.requires_grad = input.requires_grad; return out
def softmax(input, dim): raise RuntimeError("not today")
@contextlib.contextmanager
def set_grad_enabled(on): yield
class Module:
    def __init__(self): pass
    def load_state_dict(self, d): assert all(isinstance(v, T) for v in d.values())
    def to(self, device): return self
    def train(self, on=True): return self
    def __call__(self, *a): return self.forward(*a)
class Linear(Module):
    def __init__(self, i, o): pass
    def forward(self, x): return T(x.a[:, :2])
nn = types.ModuleType("torch.nn"); nn.Module, nn.Linear = Module, Linear
sys.modules["torch.nn"] = nn
"""


def bench(*words, status=0, torch=None):
    path = [str(BUILD / "python"), *([str(torch)] if torch else [])]
    done = subprocess.run(
        [STRATA, "bench", *map(str, words)],
        env={**os.environ, "STRATA_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join(path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == status, done
    assert "Traceback" not in done.stderr
    return done


def rows(*words, **options):
    return json.loads(bench(*words, "--json", **options).stdout)


@pytest.fixture
def torch(tmp_path):
    (tmp_path / "torch.py").write_text(STAND_IN)
    return tmp_path


@pytest.mark.parametrize("device", ["cpu", "vgpu"])
def test_every_kind_of_bench(device, tmp_path):
    (op,) = rows("op", "mm", "f(8,16), f(16,4)", "--device", device, "--alone")
    assert op["name"] == "mm(f(8,16), f(16,4))" and op["seconds"] > 0 and op["kernels"] and op["peer_seconds"] is None
    assert op["tflop_per_second"] == pytest.approx(2 * 8 * 16 * 4 / op["seconds"] / 1e12)
    assert op["gb_per_second"] == pytest.approx(4 * (8 * 16 + 16 * 4 + 8 * 4) / op["seconds"] / 1e9)
    gemm = rows("gemm", "--sizes", "8,24", "--device", device, "--alone")
    assert [r["name"] for r in gemm] == ["8 x 8 x 8, float32", "24 x 24 x 24, float32"]
    copies = rows("copy", "--sizes", "1000", "--device", device, "--alone")
    assert len(copies) == (1 if device == "cpu" else 3)
    assert copies[0]["gb_per_second"] == pytest.approx(2000 / copies[0]["seconds"] / 1e9)
    model = tmp_path / "model.py"
    model.write_text("from strata import nn\nclass Net(nn.Linear):\n    def __init__(self): super().__init__(3, 2)\n")
    words = ["model", f"{model}:Net", "--input", "f(4,3)", "--device", device, "--alone"]
    assert rows(*words)[0]["name"] == "Net on f(4,3)" and rows(*words, "--backward")[0]["seconds"] > 0


def test_the_peer_beside_it(torch):
    (row,) = rows("op", "add", "f(20), f(20)", "--backward", torch=torch)
    assert row["peer"] == "PyTorch stand-in" and row["peer_seconds"] > 0
    text = bench("op", "add", "f(20), f(20)", torch=torch).stdout
    assert "PyTorch stand-in" in text and "x  " in text
    assert rows("gemm", "--sizes", "8", torch=torch)[0]["peer_seconds"] > 0
    assert rows("copy", "--sizes", "100", torch=torch)[0]["peer_seconds"] > 0
    assert "PyTorch raised RuntimeError: not today" in bench("op", "softmax", "f(3,4), 1", torch=torch).stdout
    assert "PyTorch has no sub" in bench("op", "sub", "f(3), f(3)", torch=torch).stdout
    assert "no virtual GPU" in bench("op", "add", "--device", "vgpu", torch=torch).stdout
    assert "left out" in bench("op", "add", "--alone", torch=torch).stdout
    assert "is not installed" in bench("op", "add").stdout
    model = torch / "model.py"
    model.write_text(
        "from strata import nn\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.l = nn.Linear(3, 2)\n    def forward(self, x): return self.l(x)\n"
    )
    (row,) = rows("model", f"{model}:Net", "--input", "f(4,3)", torch=torch)
    assert row["peer_seconds"] > 0 and row["peer"] == "PyTorch stand-in"
    model.write_text(model.read_text() + "import strata\nstrata.explain\n")
    assert "in its place raised" in bench("model", f"{model}:Net", "--input", "f(4,3)", torch=torch).stdout


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (["zork"], 1, "zork"),
        (["op"], 1, "name an op"),
        (["op", "zork"], 1, "there is no op"),
        (["op", "add", "f(3"], 1, "fit no form"),
        (["op", "add", "f(3), f(4)"], 1, "raised RuntimeError"),
        (["op", "argmax", "f(3)", "--backward"], 1, "requires no gradient"),
        (["op", "add", "--dtype", "zork"], 1, "--dtype zork"),
        (["op", "add", "--device", "zork"], 1, "zork"),
        (["gemm", "--sizes", "0"], 1, "whole numbers above 0"),
        (["gemm", "--sizes", "a,b"], 1, "whole numbers above 0"),
        (["gemm", "--dtype", "int64"], 1, "floating"),
        (["copy", "--sizes", "1e9"], 1, "whole numbers"),
        (["copy", "--sizes", "9999999999999999"], 1, "whole numbers"),
        (["model"], 1, "name a network"),
        (["model", "nothing.py:Net", "--input", "f(3)"], 1, "there is no file"),
    ],
)
def test_wrong_uses(words, status, says):
    assert says in bench(*words, status=status).stderr
