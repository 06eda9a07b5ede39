"""Kernels in CUDA C++ compiled at run time: RawKernel and RawModule."""

import ctypes
import pathlib
import threading

import numpy as np
import pytest
import strata
from gpu_tensors import DEVICE, host, on_gpu
from processes import run as run_process
from strata import cuda

GPU = getattr(strata, DEVICE)

ADD = r"""
extern "C" __global__ void add(const float* x, const float* y, float* out, int n) {
  const int i = blockDim.x * blockIdx.x + threadIdx.x;
  if (i < n) out[i] = x[i] + y[i];
}
"""
KINDS = r"""
#include <stdint.h>
struct Pair { float a; int b; };
__global__ void kinds(double* out, bool b, int8_t c, uint16_t s, int i, int64_t l, float f, double d, Pair p) {
  const double all[] = {(double)b, (double)c, (double)s, (double)i, (double)l, f, d, p.a, (double)p.b};
  out[threadIdx.x] = all[threadIdx.x];
}
"""


class Pair(ctypes.Structure):
    _fields_ = [("a", ctypes.c_float), ("b", ctypes.c_int)]


@pytest.mark.parametrize("n", [1, 31, 256, 1000])
def test_a_raw_kernel_adds(n):
    x, y = on_gpu(n), on_gpu(n, seed=1)
    out = strata.empty_like(x)
    cuda.RawKernel(ADD, "add")((-(-n // 128),), (128,), (x, y, out, n))
    np.testing.assert_array_equal(host(out), (host(x) + host(y)).astype(np.float32))


def test_numbers_become_the_parameters_types():
    kernel = cuda.RawKernel(KINDS, "kinds")
    expected = [1, -7, 60000, -5, 2**40, 0.5, 0.1, 1.5, 9]
    for args in (
        (True, -7, 60000, -5, 2**40, 0.5, 0.1, Pair(1.5, 9)),
        (1, -7, 60000, -5, 2**40, 0.5, 0.1, Pair(1.5, 9)),
        tuple(t(v) for t, v in zip(
            (np.bool_, np.int8, np.uint16, np.int32, np.int64, np.float32, np.float64), expected, strict=False
        )) + (np.array((1.5, 9), dtype=[("a", "f4"), ("b", "i4")]),),
        tuple(t(v) for t, v in zip(
            (ctypes.c_bool, ctypes.c_int8, ctypes.c_uint16, ctypes.c_int, ctypes.c_longlong, ctypes.c_float, ctypes.c_double),
            expected, strict=False,
        )) + (Pair(1.5, 9),),
    ):  # fmt: skip
        out = strata.zeros(9, dtype=strata.float64, device=DEVICE)
        kernel(1, 9, (out, *args))
        assert out.tolist() == expected, args


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({2: 256}, ValueError, "does not fit into 8 bits"),
        ({3: -40000}, ValueError, "does not fit into 16 bits"),
        ({4: 2**32}, ValueError, "does not fit into 32 bits"),
        ({4: 2**64}, ValueError, "64 bits"),
        ({4: -(2**64)}, ValueError, "64 bits"),
        ({4: 1.0}, TypeError, "the parameter is an integer"),
        ({4: np.int64(1)}, TypeError, "an integer of 8 bytes, but the parameter is a 4-byte integer"),
        ({4: np.float32(1)}, TypeError, "a float of 4 bytes"),
        ({6: 1e300}, ValueError, "out of the range of float"),
        ({6: np.float64(1)}, TypeError, "a float of 8 bytes, but the parameter is a 4-byte float"),
        ({7: ctypes.c_float(1)}, TypeError, "a float of 4 bytes"),
        ({8: 1.0}, TypeError, "is a struct"),
        ({8: ctypes.c_byte(1)}, TypeError, "8-byte struct"),
        ({8: None}, TypeError, "got NoneType"),
        ({8: "text"}, TypeError, "got str"),
        ({8: b"12345678"}, TypeError, "got bytes"),
        ({8: [1, 2]}, TypeError, "got list"),
        ({8: np.ones(1)}, TypeError, "got an array"),
        ({8: 1j}, TypeError, "got complex"),
        ({8: ctypes.c_void_p(8)}, TypeError, "pointer"),
        ({8: object()}, TypeError, "got object"),
        ({0: 1}, TypeError, "pass a tensor"),
        ({0: None}, TypeError, "got NoneType"),
        ({5: "tensor"}, TypeError, "not a pointer"),
    ],
)
def test_wrong_arguments_of_a_launch(change, error, text):
    out = strata.zeros(9, dtype=strata.float64, device=DEVICE)
    args = [out, True, -7, 60000, -5, 2**40, 0.5, 0.1, Pair(1.5, 9)]
    for i, value in change.items():
        args[i] = out if value == "tensor" else value
    kernel = cuda.RawKernel(KINDS, "kinds")
    with pytest.raises(error, match=text), strata.device(DEVICE):  # a launch may have no tensor
        kernel(1, 9, args)
    assert out.tolist() == [0] * 9


def test_wrong_counts_devices_and_layouts():
    kernel = cuda.RawKernel(ADD, "add")
    x, out = on_gpu(8), strata.zeros(8, device=DEVICE)
    for args in [(x, x, out), (x, x, out, 8, 8), ()]:
        with pytest.raises((TypeError, RuntimeError), match="4 parameters|no tensor"):
            kernel(1, 32, args)
    with pytest.raises(TypeError, match="args must be a tuple"):
        kernel(1, 32, x)
    with pytest.raises(RuntimeError, match="on cpu"):
        kernel(1, 32, (x, x.cpu(), out, 8))
    with pytest.raises(RuntimeError, match="on cpu"):
        kernel(1, 32, (x.cpu(), x.cpu(), out.cpu(), 8))
    with pytest.raises(RuntimeError, match="on meta"):
        kernel(1, 32, (x, x.to("meta"), out, 8))
    strided = on_gpu(8, 2)[:, 0]
    with pytest.raises(ValueError, match="not contiguous"):
        kernel(1, 32, (x, strided, out, 8))
    kernel(1, 32, (x, strided, out, 1), strided=True)
    assert out[0].item() == x[0].item() + strided[0].item()
    kernel(1, 32, (x[:0], x[:0], out[:0], 0))


@pytest.mark.parametrize(
    ("grid", "block", "shared", "error", "text"),
    [
        (0, 1, 0, ValueError, "size 0"),
        (-1, 1, 0, ValueError, "size -1"),
        ((1, 1, 0), 1, 0, ValueError, "size 0"),
        (2**31, 1, 0, ValueError, "allows"),
        ((1, 65536), 1, 0, ValueError, "allows"),
        (2**80, 1, 0, ValueError, "out of range"),
        ((), 1, 0, ValueError, "0 sizes"),
        ((1, 1, 1, 1), 1, 0, ValueError, "4 sizes"),
        (1.0, 1, 0, TypeError, "int"),
        ("1", 1, 0, TypeError, "int"),
        (None, 1, 0, TypeError, "int"),
        (1, 0, 0, ValueError, "size 0"),
        (1, 1025, 0, ValueError, "allows"),
        (1, (1024, 2), 0, ValueError, "2048 threads"),
        (1, (1, 1, 65), 0, ValueError, "allows"),
        (1, 32, -1, ValueError, "shared_mem is -1"),
        (1, 32, 10**9, ValueError, "shared memory"),
        (1, 32, 2**70, OverflowError, None),
        (1, 32, "a", TypeError, None),
    ],
)
def test_wrong_geometry(grid, block, shared, error, text):
    x = on_gpu(8)
    with pytest.raises(error, match=text):
        cuda.RawKernel(ADD, "add")(grid, block, (x, x, strata.empty_like(x), 8), shared_mem=shared)


def test_dynamic_shared_memory_and_three_dimensions():
    code = r"""extern "C" __global__ void reverse(int* out) {
      extern __shared__ int kept[];
      const int i = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z), n = blockDim.x * blockDim.y * blockDim.z;
      kept[i] = i;
      __syncthreads();
      out[(blockIdx.y * gridDim.x + blockIdx.x) * n + i] = kept[n - 1 - i];
    }"""
    out = strata.zeros(6, 24, dtype=strata.int32, device=DEVICE)
    cuda.RawKernel(code, "reverse")((3, 2), (2, 3, 4), (out,), shared_mem=24 * 4)
    assert out.tolist() == [list(range(23, -1, -1))] * 6


def test_sources_that_do_not_compile():
    x = on_gpu(4)

    def run(code, name="f", **settings):
        cuda.RawKernel(code, name, **settings)(1, 1, (x,))

    with pytest.raises(cuda.CompileError, match=r'kernels.cu\(2\): error: identifier "zork" is undefined') as caught:
        run("__global__ void f(float* p) {\n  p[0] = zork + 1;\n}")
    assert "p[0] = zork + 1;" in caught.value.log and isinstance(caught.value, ValueError)
    for code in (
        "this is no C++",
        "}",
        "#error wanted",
        '#include "no_such_file.h"',
        "__global__ int f() {}",
        "\udcff",
    ):
        with pytest.raises((cuda.CompileError, UnicodeEncodeError)):
            run(code)
    with pytest.raises(cuda.CompileError, match="recursi|depth"):
        run(
            "template <int N> struct S { static const int v = S<N + 1>::v; };\n__global__ void f(int* p) { *p = S<0>::v; }"
        )
    with pytest.raises(ValueError, match="is empty"):
        run("")
    with pytest.raises(ValueError, match="NUL character at position 3"):
        run("abc\0def")
    with pytest.raises(ValueError, match="no kernel 'g'.*f\\(float\\*\\)"):
        run("__global__ void f(float* p) {}", "g")
    with pytest.raises(ValueError, match="its kernels are: none"):
        run("__device__ int x;")
    for name in ("f;int x", "f\n", 'f"', "", "f{}", "#define"):
        with pytest.raises(ValueError, match="not the name of a kernel"):
            run("__global__ void f(float* p) {}", name)
    with pytest.raises(cuda.CompileError):
        run("__global__ void f(float* p) {}", "g<float>")
    for options in (("x",), ("; rm",), ("-arch=sm_90",), ("--gpu-architecture=sm_90",), ("-dlto",), ("-DA\0",)):
        with pytest.raises(ValueError, match="compile:"):
            run("__global__ void f(float* p) {}", options=options)
    with pytest.raises(cuda.CompileError):
        run("__global__ void f(float* p) {}", options=("--no-such-option",))
    run("__global__ void f(float* p) { p[0] = A; }", options=("-DA=7",))
    assert x[0].item() == 7
    for code, name, options in (
        (None, "f", ()),
        (b"x", "f", ()),
        (ADD, None, ()),
        (ADD, "add", "-DA"),
        (ADD, "add", (1,)),
    ):
        with pytest.raises(TypeError):
            cuda.RawKernel(code, name, options)(1, 1, (x,))
    with pytest.raises(ValueError, match="backend"):
        cuda.RawKernel(ADD, "add", backend="nvcc")


def test_a_large_source_compiles():
    x = on_gpu(1)
    cuda.RawKernel("// " + "x" * 10_000_000 + "\n__global__ void f(float* p) { *p = 3; }", "f")(1, 1, (x,))
    assert x.item() == 3


def test_modules_with_templates_and_namespaces():
    code = r"""
    template <class T> __global__ void scale(T* x, T by) { x[threadIdx.x] *= by; }
    namespace deep { __global__ void fill(float* x) { x[threadIdx.x] = 4; } }
    """
    module = cuda.RawModule(code, name_expressions=("scale<float>", "scale<double>", "deep::fill"))
    x, d = on_gpu(5), on_gpu(5, dtype=strata.float64)
    expected, wide = 2 * host(x), 3 * host(d)
    module.get_function("scale<float>")(1, 5, (x, 2.0))
    module.get_function("scale<double>")(1, 5, (d, 3))
    np.testing.assert_array_equal(host(x), expected)
    np.testing.assert_array_equal(host(d), wide)
    module.get_function("deep::fill")(1, 5, (x,))
    assert x.tolist() == [4] * 5
    cuda.RawKernel(code, "scale<int>")(1, 1, (strata.ones(1, dtype=strata.int32, device=DEVICE), 2))
    with pytest.raises(ValueError, match="no kernel 'scale<int>'"):
        module.get_function("scale<int>")(1, 5, (x, 2))
    assert ".entry" in module.compile(DEVICE)
    for wrong in ("cpu", "meta"):
        with pytest.raises(ValueError, match="kernels run on cuda and vgpu"):
            module.compile(wrong)


def test_headers_that_are_built_in():
    code = r"""
    #include <math.h>
    #include "device/functors/activations.h"
    #include "device/functors/special.h"
    #include "device/philox.h"
    __global__ void f(float* x, int n) {
      const int i = threadIdx.x;
      if (i < n) x[i] = strata::fn::Softplus<float>{{}, 1, 20}(x[i]);
      if (i == n - 1) x[i] = INFINITY;
    }
    """
    x = on_gpu(9)
    expected = np.log1p(np.exp(host(x)))
    cuda.RawKernel(code, "f")(1, 32, (x, 9))
    np.testing.assert_allclose(host(x)[:8], expected[:8], rtol=1e-6)
    assert x[8].item() == float("inf")
    folder = str(pathlib.Path(__file__).parent)  # another folder beside them, and lines asked for twice
    cuda.RawKernel(code, "f", options=("-I" + folder, "-lineinfo"))(1, 32, (x, 9))


def test_a_fault_names_the_line_of_the_source():
    code = """
import strata
x = strata.ones(4, device="vgpu")
try:
    strata.cuda.RawKernel("__global__ void f(float* x) {\\n  x[1 << 30] = 1;\\n}", "f")(1, 1, (x,))
    strata.vgpu.synchronize()
except RuntimeError as error:
    print(error)
"""
    assert "kernels.cu:2" in run_process(code)


def test_streams_and_threads():
    kernel, x = cuda.RawKernel(ADD, "add"), on_gpu(64)
    out = strata.zeros(64, device=DEVICE)
    stream = GPU.Stream()
    stream.wait_stream(GPU.current_stream())
    with stream:
        kernel(1, 64, (x, x, out, 64))
    stream.synchronize()
    np.testing.assert_array_equal(host(out), 2 * host(x))
    outs = [strata.zeros(64, device=DEVICE) for _ in range(4)]
    code = ADD.replace("x[i] + y[i]", "x[i] - y[i] / 2")  # four threads compile the same source

    def work(one):
        cuda.RawKernel(code, "add")(1, 64, (x, x, one, 64))

    threads = [threading.Thread(target=work, args=(one,)) for one in outs]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for one in outs:
        np.testing.assert_array_equal(host(one), host(x) / 2)


def test_writes_are_visible_to_autograd():
    kernel, x = cuda.RawKernel(ADD, "add"), on_gpu(8).requires_grad_()
    plain = on_gpu(8)
    with pytest.raises(RuntimeError, match="requires a gradient"):
        kernel(1, 8, (plain, plain, x, 8))
    kernel(1, 8, (x, x, plain, 8))  # reading is allowed
    other = strata.ones(8, device=DEVICE)
    y = (x * other).sum()
    kernel(1, 8, (other, other, plain, 8))  # reads what is saved
    y.backward(retain_graph=True)
    kernel(1, 8, (plain, plain, other, 8))  # overwrites it
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_the_kernel_cache_keeps_ptx(tmp_path):
    code = f"""
import strata
from strata import cuda
x = strata.ones(4, device={DEVICE!r})
cuda.RawKernel({ADD!r}, "add")(1, 4, (x, x, x, 4))
assert x.tolist() == [2] * 4
"""
    environment = {"STRATA_CUDA_CACHE": "1", "STRATA_CACHE_DIR": str(tmp_path)}
    for _ in range(2):
        run_process(code, environment)
    files = [f for f in (tmp_path / "kernels").iterdir() if b".entry add(" in f.read_bytes()]
    assert files
    for f in files:
        f.write_bytes(f.read_bytes()[:-10])  # a truncated file is compiled again
    run_process(code, environment)


def test_without_nvrtc_the_error_says_what_to_install(tmp_path):
    code = f"""
import strata
x = strata.ones(4, device={DEVICE!r})
for run in (lambda: strata.cuda.RawKernel({ADD!r}, "add")(1, 4, (x, x, x, 4)), lambda: strata.cuda.elementwise("y = 2 * x")(x)):
    try:
        run()
    except NotImplementedError as error:
        assert "NVRTC" in str(error) and "no_such_library.so" in str(error), error
    else:
        raise AssertionError
"""
    run_process(code, {"STRATA_NVRTC": str(tmp_path / "no_such_library.so")})
