"""The kernels for Hopper (wgmma, TMA, clusters) on a virtual one: the tests of products and attention, run again with that profile."""

import os
import pathlib
import subprocess
import sys

import pytest

# Few multiprocessors: small products then take the tiles of large ones, and blocks compute several.
HOPPER = '{"base": "hopper", "multiprocessors": 4}'
FOLDER = pathlib.Path(__file__).parent
# Tests, and which of them: NVRTC takes seconds for each kernel of gemm.compile.
FILES = {
    "device_products": "",
    "grouped_mm": "",
    "byte_products": "",
    "device_attention": "",
    "gemm_compile": "batches_broadcast",
    "gemm_types": "not bad_configurations",
    "linear_activation": "vgpu or tf32 or one_kernel",
    "parts_products": "",
    "convolution_relu": "kernels_of_devices",
}


def run(*args, **env):
    here = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    here |= {"STRATA_VGPU_DEVICES": HOPPER, "STRATA_TEST_DEVICE": "vgpu", **env}
    done = subprocess.run(
        [sys.executable, *args], env=here, cwd=FOLDER.parent.parent, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", FILES)
def test_device_tests_pass_on_a_virtual_hopper(name):
    run("-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", "-k", FILES[name], str(FOLDER / f"test_{name}.py"))


def test_the_kernels_of_hopper_are_chosen_and_keep_all_checks():
    code = """
import strata
from strata.nn import functional as F
x = strata.ones(200, 136, dtype=strata.bfloat16, device="vgpu")
offsets = strata.tensor([60, 200], dtype=strata.int32, device="vgpu")
q = strata.ones(1, 2, 70, 64, dtype=strata.float16, device="vgpu")
print(strata.explain(lambda: strata.mm(x, x.t()))[-1][1])
print(strata.explain(lambda: strata._grouped_mm(x, strata.stack([x.t(), x.t()]), offsets))[-1][1])
print(strata.explain(lambda: F.scaled_dot_product_attention(q, q, q))[-1][1])
print(strata.explain(lambda: strata._int_mm(x.to(strata.int8), x.to(strata.int8).t()))[-1][1])
strata.vgpu.synchronize()
"""
    assert run("-c", code, STRATA_VGPU_CHECK="all").split() == ["hopper_ahead", "hopper", "hopper", "hopper_ahead"]
