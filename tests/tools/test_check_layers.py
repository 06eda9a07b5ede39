import pathlib
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).parents[2] / "tools" / "check_layers.py"


def check(root, file, include):
    (root / file).parent.mkdir(parents=True)
    (root / file).write_text(f"// a comment\n#include <vector>\n#include {include}\n")
    return subprocess.run([sys.executable, SCRIPT, root], capture_output=True, text=True)


@pytest.mark.parametrize(
    "file, include",
    [
        ("src/ops/add.cpp", '"cpu/loops.h"'),
        ("src/ops/add.cpp", '"strata/ops.h"'),
        ("src/ops/add.cpp", '"strata/ops/reduce.h"'),
        ("src/cpu/onednn/matmul.cpp", '"cpu/parallel.h"'),
        ("src/cpu/loops.cpp", '"strata/pointwise.inc"'),
        ("src/cuda/nn/softmax.cpp", '"cuda/runtime/stream.h"'),
        ("src/cuda/nn/softmax.cpp", '"cuda/reduce/reduce.h"'),
        ("src/tensor/tensor.h", "<fmt/core.h>"),
        ("include/strata/strata.h", '"tensor/tensor.h"'),
    ],
)
def test_includes_that_point_down_pass(tmp_path, file, include):
    done = check(tmp_path, file, include)
    assert done.returncode == 0, done.stderr
    assert "1 files, 0 problems" in done.stdout


@pytest.mark.parametrize(
    "file, include, message",
    [
        ("src/base/error.h", '"tensor/tensor.h"', "points up, from base to tensor"),
        ("src/autograd/engine.cpp", '"strata/ops.h"', "points up, from autograd to ops"),
        ("src/autograd/engine.cpp", '"strata/ops/reduce.h"', "points up, from autograd to ops"),
        ("src/ops/add.cpp", '"strata/strata.h"', "points up, from ops to public"),
        ("src/device/math.h", '"base/error.h"', "points up, from device to base"),
        ("src/cpu/loops.cpp", '"cuda/driver/api.h"', "cpu may not include cuda"),
        ("src/cuda/runtime/stream.cpp", '"cuda/nn/softmax.h"', "points up, from cuda/runtime to cuda/nn"),
        ("src/cuda/vgpu/launch.inl", '"cuda/driver/api.h"', "points up, from cuda/vgpu to cuda/driver"),
        ("src/cpu/loops.cpp", '"loops.h"', "as a path from src/"),
        ("src/cpu/loops.cpp", '"fmt/core.h"', "use <fmt/core.h>"),
        ("src/novel/a.cpp", '"base/error.h"', "src/novel is no layer"),
    ],
)
def test_other_includes_fail_with_file_and_line(tmp_path, file, include, message):
    done = check(tmp_path, file, include)
    assert done.returncode == 1
    assert message in done.stderr
    assert done.stderr.startswith(f"{file}:")


@pytest.mark.parametrize(
    "line, problems",
    [
        ("Scoped mode(thread_state.grad_mode, false);", 0),
        ("const bool recorded = thread_state.grad_mode && weight.requires_grad();", 1),
    ],
)
def test_ops_do_not_read_the_gradient_mode(tmp_path, line, problems):
    (tmp_path / "src/ops").mkdir(parents=True)
    (tmp_path / "src/ops/add.cpp").write_text(f"// a comment\n  {line}\n")
    done = subprocess.run([sys.executable, SCRIPT, tmp_path], capture_output=True, text=True)
    assert done.returncode == problems
    assert ("src/ops/add.cpp:2: an op reads the gradient mode" in done.stderr) == bool(problems)
