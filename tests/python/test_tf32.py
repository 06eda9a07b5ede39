"""The switches of strata.backends: TF32, and the choice of convolutions by time."""

import re

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
        for wrong in (None, 3):
            with pytest.raises(TypeError, match="expected a str"):
                strata.set_float32_matmul_precision(wrong)
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
    assert set(before) == {"cublaslt_tf32", "hopper_tf32", "cudnn_tf32"}
    assert all("TF32 is off" in r for r in before.values())
    try:
        strata.set_float32_matmul_precision("high")
        strata.backends.cudnn.allow_tf32 = True
        after = reasons()  # the next objections
        assert after.pop("hopper_tf32") == "for GPUs of compute capability 9.0 (Hopper)"
        assert all("runs on device cuda" in r for r in after.values())
    finally:
        strata.set_float32_matmul_precision("highest")
        strata.backends.cudnn.allow_tf32 = False


@pytest.fixture
def cudnn():
    switches = strata.backends.cudnn
    yield switches
    switches.benchmark = switches.deterministic = False
    strata.tune.forget()


@pytest.mark.parametrize("kind", ["forward", "transposed", "gradients"])
def test_benchmark_measures_convolutions_on_gpus(cudnn, kind):
    strata.manual_seed(0)

    def run(device):
        strata.manual_seed(1)
        image = strata.randn(2, 8, 6, 6).bfloat16().to(device).requires_grad_()
        weight = strata.randn(8, 8, 3, 3).bfloat16().to(device).requires_grad_()
        call = strata.conv_transpose2d if kind == "transposed" else strata.conv2d
        y = call(image, weight)
        if kind == "gradients":
            y.sum().backward()
            return image.grad, weight.grad
        return (y,)

    def times(device):
        lines = strata.explain(run, device)
        return [text for op, _, text in lines if "convolution" in op and re.search(r"\d us", text)]

    want = [t.float() for t in run("cpu")]
    assert not times("vgpu")
    cudnn.benchmark = True
    assert cudnn.benchmark and strata._C._benchmark_convolutions()
    for _ in range(2):
        for got, expected in zip(run("vgpu"), want, strict=True):
            assert strata.allclose(got.float().cpu(), expected, rtol=2e-2, atol=2e-1)
    assert times("vgpu") and not times("cpu")
    a = strata.randn(96, 96, device="vgpu")
    assert not any(re.search(r"\d us", text) for _, _, text in strata.explain(strata.mm, a, a))
    cudnn.benchmark = False
    assert not strata._C._benchmark_convolutions()
    strata.tune.forget()
    assert not times("vgpu")


def test_benchmark_leaves_captured_graphs_alone(cudnn):
    cudnn.benchmark = True
    image, weight = strata.randn(1, 4, 9, 9, device="vgpu"), strata.randn(4, 4, 3, 3, device="vgpu")
    want = strata.conv2d(image.cpu(), weight.cpu())
    stream = strata.vgpu.Stream()
    with strata.vgpu.stream(stream):
        strata.conv2d(image[:, :, :8], weight)
    graph = strata.vgpu.CUDAGraph()
    with strata.vgpu.graph(graph):
        y = strata.conv2d(image, weight)  # a shape that has not been measured
    graph.replay()
    assert strata.allclose(y.cpu(), want, rtol=1e-4, atol=1e-4)


def test_switches_of_cudnn(cudnn):
    with cudnn.flags(benchmark=True, deterministic=True):
        assert cudnn.benchmark and cudnn.deterministic
    assert not cudnn.benchmark and not cudnn.deterministic
    for name in ("benchmark", "deterministic", "allow_tf32"):
        with pytest.raises(TypeError, match=f"{name} must be a bool"):
            setattr(cudnn, name, "yes")
    assert cudnn.rnn.fp32_precision == "ieee"
    with pytest.warns(UserWarning, match="no effect"):
        cudnn.rnn.fp32_precision = "tf32"
    with pytest.raises(RuntimeError, match="expected 'tf32'"):
        cudnn.rnn.fp32_precision = "bf16"
    with pytest.raises(AttributeError):
        cudnn.zork = 1
    assert not strata.backends.cuda.fp16_bf16_reduction_math_sdp_allowed()
