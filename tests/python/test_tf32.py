"""The switches of TF32: names and kernels."""

import pytest
import strata


def test_the_tf32_switch_has_pytorchs_names():
    matmul, cudnn = strata.backends.cuda.matmul, strata.backends.cudnn
    assert strata.get_float32_matmul_precision() == "highest" and not matmul.allow_tf32 and not cudnn.allow_tf32
    try:
        for level in ("high", "medium"):
            strata.set_float32_matmul_precision(level)
            assert matmul.allow_tf32 and matmul.fp32_precision == "tf32"
            assert strata.get_float32_matmul_precision() == level
        with pytest.warns(UserWarning, match="has no effect"):
            strata.set_float32_matmul_precision("low")
        matmul.allow_tf32 = False
        assert strata.get_float32_matmul_precision() == "highest" and matmul.fp32_precision == "ieee"
        cudnn.conv.fp32_precision = "tf32"
        assert cudnn.allow_tf32 and not matmul.allow_tf32
        with pytest.raises(RuntimeError, match="expected 'tf32'"):
            matmul.fp32_precision = "bf16"
        with pytest.raises(TypeError):
            matmul.allow_tf32 = "yes"
        with pytest.raises(AttributeError):
            matmul.allow_tf23 = True
    finally:
        strata.set_float32_matmul_precision("highest")
        cudnn.allow_tf32 = False


def test_tf32_kernels_are_candidates_only_if_allowed():
    a = strata.randn(8, 8, device="vgpu")
    image, weight = strata.randn(1, 2, 5, 5, device="vgpu"), strata.randn(2, 2, 3, 3, device="vgpu")

    def reasons():
        lines = strata.explain(strata.mm, a, a) + strata.explain(strata.conv2d, image, weight)
        return {kernel: reason for _, kernel, reason in lines if "tf32" in kernel}

    before = reasons()
    assert all("TF32 is off" in r for r in before.values()) and set(before) == {"cublaslt_tf32", "cudnn_tf32"}
    try:
        strata.set_float32_matmul_precision("high")
        strata.backends.cudnn.allow_tf32 = True
        assert all("runs on device cuda" in r for r in reasons().values())  # the next objection
    finally:
        strata.set_float32_matmul_precision("highest")
        strata.backends.cudnn.allow_tf32 = False
