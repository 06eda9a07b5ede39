"""strata.cuda.load_inline with host functions: PyTorch's form, compiled by the system's C++ compiler and NVRTC."""

import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest
import strata
from gpu_tensors import DEVICE, host, on_gpu
from strata import cuda
from strata.utils import cpp_extension

MINE = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda_runtime.h>
#include <vector>

#define CHECK_CUDA(x) TORCH_CHECK(x.device().is_cuda(), #x " must be a CUDA tensor")
#define CHECK_INPUT(x) CHECK_CUDA(x); TORCH_CHECK(x.is_contiguous(), #x " must be contiguous")

namespace {  // kernels of an anonymous namespace
constexpr int kThreads = 64;

__device__ __forceinline__ float squared(float x) { return x * x; }

// A type that host and device share: "k<<<1, 1>>>(x)" in a comment is no launch.
struct Affine {
  float scale, shift;
  __device__ float operator()(float x) const { return fmaf(x, scale, shift); }
};

static __global__ void __launch_bounds__(kThreads) affine(const float* __restrict__ x, float* out, Affine f, int n, int) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = f(squared(x[i]));
}
}  // namespace

namespace mine {
template <typename scalar_t, int kTimes>
__global__ void times(const scalar_t* x, scalar_t* out, const size_t n) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) out[i] = x[i] * kTimes;
}
}  // namespace mine

template <typename scalar_t>
__global__ void transpose(
    const torch::PackedTensorAccessor32<scalar_t, 2, torch::RestrictPtrTraits> x,
    torch::PackedTensorAccessor32<scalar_t, 2, torch::RestrictPtrTraits> out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y;
  if (i < x.size(1) && j < x.size(0)) out[i][j] = x[j][i];
}

__global__ void row_sums(const float* x, float* out, int columns) {
  extern __shared__ float part[];
  part[threadIdx.x] = threadIdx.x < columns ? x[blockIdx.x * columns + threadIdx.x] : 0.f;
  __syncthreads();
  for (int step = blockDim.x / 2; step > 0; step /= 2) {
    if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}

int blocks_for(int64_t n) { return static_cast<int>((n + kThreads - 1) / kThreads); }

torch::Tensor squares(torch::Tensor x, double scale, float shift) {
  CHECK_INPUT(x);
  auto out = torch::empty_like(x);
  const Affine f{static_cast<float>(scale), shift};
  if (x.numel() > 0)
    affine<<<blocks_for(x.numel()), kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), out.data_ptr<float>(), f, x.numel(), 0);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

torch::Tensor threefold(const torch::Tensor& x) {
  const at::cuda::OptionalCUDAGuard guard(device_of(x));
  auto out = torch::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "threefold", ([&] {
    mine::times<scalar_t, 3><<<4, 32>>>(x.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), x.numel());
  }));
  return out;
}

std::vector<at::Tensor> transposed(std::vector<at::Tensor> all) {
  std::vector<at::Tensor> out;
  for (const auto& x : all) {
    out.push_back(torch::zeros({x.size(1), x.size(0)}, x.options()));
    const dim3 grid(blocks_for(x.size(1)), x.size(0));
    AT_DISPATCH_FLOATING_TYPES(x.type(), "transposed", [&] {
      transpose<scalar_t><<<grid, dim3(kThreads)>>>(
          x.packed_accessor32<scalar_t, 2, torch::RestrictPtrTraits>(),
          out.back().packed_accessor32<scalar_t, 2, torch::RestrictPtrTraits>());
    });
  }
  return out;
}

// Template arguments that are types of the source, enums and bools; structs of one byte.
enum class Mode : int { Plain, Twice };
template <class T> struct Box { T value; };
template <class F, class T, Mode kMode, bool kNegative>
__global__ void applied(F f, Box<T> box, float* out) {
  out[threadIdx.x] = f(float(threadIdx.x)) * box.value * (kMode == Mode::Twice ? 2 : 1) * (kNegative ? -1 : 1);
}
torch::Tensor with_types(torch::Tensor like) {
  auto out = torch::empty({4}, like.options());
  applied<Affine, uint8_t, Mode::Twice, true><<<dim3{1}, dim3{4, 1}>>>(Affine{2, 1}, Box<uint8_t>{3}, out.data_ptr<float>());
  return out;
}

std::tuple<torch::Tensor, int64_t> sums(torch::Tensor x) {
  auto out = torch::empty({x.size(0)}, x.options());
  row_sums<<<x.size(0), 64, 64 * sizeof(float)>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.size(1));
  return {out, x.size(1)};
}

void bad_grid(torch::Tensor x) { row_sums<<<0, 64>>>(x.data_ptr<float>(), x.data_ptr<float>(), 1); }
void large_grid(torch::Tensor x, int64_t n) { row_sums<<<n, 64>>>(x.data_ptr<float>(), x.data_ptr<float>(), 1); }
void unconfigured(torch::Tensor x) { row_sums(x.data_ptr<float>(), x.data_ptr<float>(), 1); }
"""
FUNCTIONS = "squares threefold transposed with_types sums bad_grid large_grid unconfigured".split()

HOST = r"""
#include <torch/extension.h>
#include <stdexcept>

torch::Tensor cubed(torch::Tensor x) { return x * x * x; }
torch::Tensor loop(torch::Tensor x, double by) {
  TORCH_CHECK(x.dim() == 2, "loop: expected 2 dimensions, got ", x.dim());
  auto out = torch::zeros_like(x);
  auto from = x.accessor<double, 2>(), to = out.accessor<double, 2>();
  for (int64_t i = 0; i < x.size(0); ++i)
    for (int64_t j = 0; j < x.size(1); ++j) to[i][j] = from[i][j] * by;
  return out;
}
std::string describe(int n, bool flag, std::string text, std::optional<double> maybe, torch::ScalarType type) {
  return text + std::to_string(n) + (flag ? "yes" : "no") + (maybe ? "some" : "none") + std::string(name_of(type));
}
int64_t total(std::vector<int64_t> values, at::Scalar by) {
  int64_t sum = 0;
  for (int64_t v : values) sum += v * by.to<int64_t>();
  return sum;
}
double half_of(float x) { return x / 2; }
uint8_t small(uint8_t x) { return x; }
void nothing() {}
torch::Tensor undefined() { return {}; }
void throws(int kind) {
  if (kind == 0) throw std::invalid_argument("wrong value");
  if (kind == 1) throw std::out_of_range("too far");
  if (kind == 2) throw std::runtime_error("no luck");
  throw 3;
}
void checks(bool value, bool type) {
  TORCH_CHECK_VALUE(value);
  TORCH_CHECK_TYPE(type, "a", 1, "b");
}
"""
HOST_FUNCTIONS = "cubed loop describe total half_of small nothing undefined throws checks".split()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A cache for this file: the tests see what is compiled and what is found."""
    folder = tmp_path_factory.mktemp("cache")
    before = os.environ.get("STRATA_CACHE_DIR")
    os.environ["STRATA_CACHE_DIR"] = str(folder)
    yield folder
    if before is None:
        del os.environ["STRATA_CACHE_DIR"]
    else:
        os.environ["STRATA_CACHE_DIR"] = before


@pytest.fixture(scope="module")
def mine(folder):
    return cuda.load_inline("mine", "", MINE, FUNCTIONS)


@pytest.fixture(scope="module")
def on_host(folder):
    return cuda.load_inline("on_host", HOST, functions={f: f"The function {f}." for f in HOST_FUNCTIONS})


SEED = """
import torch
from torch.utils.cpp_extension import load_inline

# Custom CUDA kernel source
cuda_source = '''
__global__ void vector_add_kernel(float* a, float* b, float* c, int n) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < n) {
        c[idx] = a[idx] + b[idx];
    }
}

torch::Tensor vector_add_cuda(torch::Tensor a, torch::Tensor b) {
    auto c = torch::zeros_like(a);
    int n = a.numel();

    dim3 block(256);
    dim3 grid((n + block.x - 1) / block.x);

    vector_add_kernel<<<grid, block>>>(
        a.data_ptr<float>(),
        b.data_ptr<float>(),
        c.data_ptr<float>(),
        n
    );

    return c;
}
'''

cpp_source = '''
torch::Tensor vector_add_cuda(torch::Tensor a, torch::Tensor b);
'''

# Compile and load the extension
vector_add = load_inline(
    name='vector_add',
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=['vector_add_cuda']
)

# Usage
a = torch.randn(1000, device='DEVICE')
b = torch.randn(1000, device='DEVICE')
c = vector_add.vector_add_cuda(a, b)
assert torch.equal(c, a + b) and c.device.type == 'DEVICE'
"""


def test_a_program_for_pytorch(folder):
    """The documented example of PyTorch, as it is."""
    program = "import strata.torch_alias\n" + SEED.replace("DEVICE", DEVICE)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_same_under_our_own_name(folder):
    program = SEED.replace("from torch.utils.cpp_extension import load_inline", "load_inline = torch.cuda.load_inline")
    exec(program.replace("import torch\n", "import strata as torch\n").replace("DEVICE", DEVICE), {})


@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 1000])
def test_kernels_with_a_struct(mine, n):
    x = on_gpu(n)
    out = mine.squares(x, 2.5, 1)
    assert out.device == x.device
    np.testing.assert_allclose(host(out), host(x).astype(np.float64) ** 2 * 2.5 + 1, rtol=1e-6)


@pytest.mark.parametrize("dtype", [strata.float32, strata.float64, strata.float16])
def test_templates_by_dtype(mine, dtype):
    x = strata.arange(-50, 50, device=DEVICE).to(dtype)
    out = mine.threefold(x)
    assert out.dtype == dtype and strata.equal(out, x * 3)


def test_dtypes_without_a_kernel(mine):
    with pytest.raises(NotImplementedError, match="\"threefold\" not implemented for 'Long'"):
        mine.threefold(strata.arange(3, device=DEVICE))
    with pytest.raises(TypeError, match="elements of float64, and was read as float32"):
        mine.squares(strata.ones(3, dtype=strata.float64, device=DEVICE), 1, 1)


def test_accessors_of_strided_tensors(mine):
    x = on_gpu(5, 70)
    a, b = mine.transposed([x, x.t().double()])
    assert strata.equal(a, x.t()) and strata.equal(b, x.double())
    with pytest.raises(RuntimeError, match="expected 2 dimensions, but the tensor has 3"):
        mine.transposed((x, strata.ones(2, 3, 4, device=DEVICE)))


def test_types_of_the_source(mine):
    assert mine.with_types(strata.ones(1, device=DEVICE)).tolist() == [-6, -18, -30, -42]


def test_other_streams(mine):
    x = on_gpu(100)
    gpu = getattr(strata, DEVICE)
    with gpu.stream(gpu.Stream()):
        out = mine.squares(x, 1, 0)
        gpu.synchronize()
    np.testing.assert_allclose(host(out), host(x) ** 2, rtol=1e-6)


def test_shared_memory_and_tuples(mine):
    x = on_gpu(7, 40)
    out, columns = mine.sums(x)
    assert columns == 40
    np.testing.assert_allclose(host(out), host(x).sum(1), rtol=1e-5, atol=1e-6)


def test_wrong_launches(mine):
    x = strata.ones(4, device=DEVICE)
    with pytest.raises(ValueError, match="the grid is 0x1x1"):
        mine.bad_grid(x)
    for n in (-1, 2**32 + 1):
        with pytest.raises(ValueError, match="out of the range of an unsigned int"):
            mine.large_grid(x, n)
    with pytest.raises(RuntimeError, match="called without <<<grid, block>>>"):
        mine.unconfigured(x)
    with pytest.raises(RuntimeError, match="x must be a CUDA tensor"):
        mine.squares(strata.ones(3), 1, 1)
    with pytest.raises(RuntimeError, match="x must be contiguous"):
        mine.squares(strata.ones(3, 4, device=DEVICE).t(), 1, 1)
    if strata.cuda.device_count() == 0:
        with pytest.raises(RuntimeError, match="no argument of the function is a tensor on a GPU"):
            mine.sums(strata.ones(3, 4))


def test_host_functions(on_host):
    x = strata.linspace(-1, 1, 6, dtype=strata.float64, requires_grad=True)
    y = on_host.cubed(x)
    y.sum().backward()  # ops inside are recorded
    assert strata.allclose(y, x**3) and strata.allclose(x.grad, 3 * x.detach() ** 2)
    m = strata.arange(6, dtype=strata.float64).reshape(2, 3)
    assert strata.equal(on_host.loop(m.t(), 2), m.t() * 2)
    assert strata.equal(on_host.cubed(strata.ones(2, device=DEVICE)).cpu(), strata.ones(2))
    assert on_host.loop(strata.zeros(0, 3, dtype=strata.float64), 2).shape == (0, 3)


def test_values(on_host):
    assert on_host.describe(3, True, "n", None, strata.float16) == "n3yesnonefloat16"
    assert on_host.describe(np.int32(-3), False, "ü", 1, strata.int64) == "ü-3nosomeint64"
    assert on_host.total([1, 2, 3], 2) == 12 and on_host.total((), 2) == 0
    assert on_host.half_of(3) == 1.5 and on_host.half_of(np.float32(1)) == 0.5
    assert on_host.nothing() is None and on_host.undefined() is None
    assert "describe(int of 32 bits, bool, str, float or None, dtype)" in repr(on_host.describe)
    assert on_host.total.__doc__ == "The function total." and on_host.total.__name__ == "total"


@pytest.mark.parametrize(
    "name, args, error, message",
    [
        ("cubed", (), TypeError, r"cubed\(\) takes 1 arguments \(Tensor\), but got 0"),
        ("cubed", (1,), TypeError, r"cubed\(\): argument 1 must be Tensor, not int 1"),
        ("cubed", (None,), TypeError, "must be Tensor, not None"),
        ("cubed", (object(),), TypeError, "values of type object cannot be passed"),
        ("small", (256,), TypeError, "must be int of 8 bits, not int 256"),
        ("small", (-1,), TypeError, "must be int of 8 bits, not int -1"),
        ("small", (2**70,), ValueError, "does not fit into 64 bits"),
        ("small", (1.0,), TypeError, "not float"),
        ("half_of", ("1",), TypeError, "must be float, not str"),
        ("total", ([1, "2"], 1), TypeError, "list of int, not list"),
        ("loop", (strata.ones(3), 1.0), RuntimeError, "loop: expected 2 dimensions, got 1"),
        ("loop", (strata.ones(3, 3), 1.0), TypeError, "read as float64"),
        ("loop", (strata.ones(3, 3, dtype=strata.float64, device=DEVICE), 1.0), NotImplementedError, "cpu"),
        ("throws", (0,), ValueError, "wrong value"),
        ("throws", (1,), IndexError, "too far"),
        ("throws", (2,), RuntimeError, "no luck"),
        ("throws", (3,), RuntimeError, "no std::exception"),
        ("checks", (False, True), ValueError, "Expected value to be true"),
        ("checks", (True, False), TypeError, "a1b"),
    ],
)
def test_wrong_arguments(on_host, name, args, error, message):
    with pytest.raises(error, match=message):
        getattr(on_host, name)(*args)


def test_nested_lists_end(on_host):
    deep = []
    deep.append(deep)
    with pytest.raises(ValueError, match="nested too deeply"):
        on_host.total(deep, 1)


def test_errors_quote_the_source(folder):
    broken = "#include <torch/extension.h>\n\ntorch::Tensor f(torch::Tensor x) {\n  return zork(x);\n}\n"
    with pytest.raises(cuda.CompileError, match=r"broken.cpp:4:\d+: error: .*zork") as caught:
        cuda.load_inline("broken", broken, functions="f")
    assert "return zork(x);" in caught.value.log
    host_part = (
        "__global__ void k(float* x) { *x = 1; }\nvoid f(torch::Tensor x) {\n  k<<<1, 1>>>(x.data_ptr<int>());\n}\n"
    )
    with pytest.raises(cuda.CompileError, match=r"broken.cu:3:\d+: error: .*int") as caught:
        cuda.load_inline("broken", cuda_sources=host_part, functions=["f"])
    assert "k<<<1, 1>>>(x.data_ptr<int>());" in caught.value.log  # as written
    kernel = "// a comment\n__global__ void k(float* x) {\n  *x = zork;\n}\nvoid f(torch::Tensor x) { k<<<1, 1>>>(x.data_ptr<float>()); }\n"
    with pytest.raises(cuda.CompileError, match=r"broken.cu\(3\): error.*zork"):
        cuda.load_inline("broken", cuda_sources=kernel, functions=["f"])
    with pytest.raises(cuda.CompileError, match="missing"):
        cuda.load_inline("broken", "void f() {}", functions=["missing"])


def test_wrong_uses():
    for arguments, error, message in [
        (dict(name="a b", cpp_sources="void f() {}", functions="f"), ValueError, "not an identifier"),
        (dict(name="a", functions="f"), ValueError, "no sources"),
        (
            dict(name="a", cpp_sources=3, functions="f"),
            TypeError,
            "cpp_sources must be a str or a list of str, got int",
        ),
        (dict(name="a", cpp_sources=b"void f() {}", functions="f"), TypeError, "list of str, got bytes"),
        (dict(name="a" * 201, cpp_sources="void f() {}", functions="f"), ValueError, "201 characters; at most 200"),
        (
            dict(name="a", cpp_sources="void f() {}", functions="f", extra_include_paths="/tmp"),
            TypeError,
            "extra_include_paths must be a tuple or list",
        ),
        (dict(name=3, cuda_sources="", functions={"f": {"outputs": 1}}), TypeError, "name must be a str, got int"),
        (dict(name="a", cpp_sources=[b"void f() {}"], functions="f"), TypeError, "cpp_sources must be str, got bytes"),
        (dict(name="a", cpp_sources="void f() {}", functions=3), TypeError, "functions must be a list of names"),
        (dict(name="a", cpp_sources="void f() {}", functions=[3]), TypeError, "named by str"),
        (dict(name="a", cpp_sources="void f() {}", functions=["f)"]), ValueError, "not the name of a function"),
        (dict(name="a", cpp_sources="void f() {}\0", functions=["f"]), ValueError, "NUL"),
        (dict(name=3, cpp_sources="void f() {}", functions=["f"]), TypeError, "name must be a str"),
        (dict(name="a", cpp_sources="void f() {}", functions=["f"], extra_cflags="-O3"), TypeError, "extra_cflags"),
        (
            dict(name="a", cpp_sources="void f() {}", functions=["f"], is_python_module=False),
            NotImplementedError,
            "is_py",
        ),
        (dict(name="a", cpp_sources="void f() {}", functions={"f": {}}), TypeError, "cuda_sources alone"),
    ]:
        with pytest.raises(error, match=message):
            cuda.load_inline(**arguments)


def test_a_missing_compiler(monkeypatch, tmp_path, folder):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotImplementedError, match=r"no C\+\+ compiler.*install one.*g\+\+"):
        cuda.load_inline("alone", "void f() {}", functions="f")
    monkeypatch.setenv("CXX", "/no/such/compiler")
    with pytest.raises(NotImplementedError, match="CXX is /no/such/compiler"):
        cuda.load_inline("alone", "void f() {}", functions="f")


def test_definitions_by_the_source(folder):
    source = """
    #include <torch/extension.h>
    int twice(int n) { return 2 * n; }
    PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("doubled", &twice, "Doubles a number."); }
    """
    module = cuda.load_inline("by_source", [textwrap.dedent(source)])
    assert module.doubled(4) == 8 and module.doubled.__doc__ == "Doubles a number."
    with pytest.raises(ValueError, match="defines no functions"):
        cuda.load_inline("nothing", "int twice(int n) { return 2 * n; }")


def test_flags_and_folders(folder, tmp_path):
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "seven.h").write_text("inline int seven() { return 7; }\n")
    (tmp_path / "build").mkdir()
    module = cuda.load_inline(
        "flags",
        '#include "seven.h"\nint f() { return seven() + EXTRA; }\nnamespace inner { int g() { return 1; } }',
        functions=["f", "inner::g"],
        extra_cflags=["-DEXTRA=3", "-O3"],
        extra_include_paths=[tmp_path / "include"],
        build_directory=tmp_path / "build",
    )
    assert module.f() == 10 and module.g() == 1
    assert list((tmp_path / "build").glob("flags-*/flags.so"))


def test_files(folder, tmp_path):
    """Their headers may change, so they are compiled each time."""
    header, source, kernels = tmp_path / "by.h", tmp_path / "a.cpp", tmp_path / "b.cu"
    source.write_text(
        '#include <torch/extension.h>\n#include "by.h"\ntorch::Tensor filled(torch::Tensor x);\nint by() { return BY; }\n'
        'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("filled", &filled); m.def("by", &by); }\n'
    )
    kernels.write_text(
        '#include "by.h"\n__global__ void fill(float* x) { x[threadIdx.x] = BY; }\n'
        "torch::Tensor filled(torch::Tensor x) { fill<<<1, BY - BY + 3>>>(x.data_ptr<float>()); return x; }\n"
    )
    for by in (7, 8):
        header.write_text(f"#pragma once\n#define BY {by}\n")
        module = cpp_extension.load("from_files", [source, str(kernels)])
        assert module.by() == by and module.filled(strata.zeros(3, device=DEVICE)).tolist() == [by] * 3
    assert not list((folder / "extensions").glob("from_files-*"))
    with pytest.raises(FileNotFoundError):
        cpp_extension.load("from_files", tmp_path / "no.cpp")


def test_the_cache(folder):
    source = "int f() { return 41; }"
    assert cuda.load_inline("kept", source, functions="f").f() == 41
    (library,) = (folder / "extensions").glob("kept-*/kept.so")
    made = library.stat().st_mtime_ns
    assert cuda.load_inline("kept", source, functions="f").f() == 41
    assert library.stat().st_mtime_ns == made
    assert cuda.load_inline("kept", source.replace("41", "42"), functions="f").f() == 42  # the name alone is no key
    assert len(list((folder / "extensions").glob("kept-*"))) == 2
    assert not list((folder / "extensions").glob(".build-*"))


def test_a_damaged_library_is_built_again(folder):
    call = "from strata import cuda; assert cuda.load_inline('hurt', 'int f() { return 5; }', functions='f').f() == 5"
    subprocess.run([sys.executable, "-c", call], check=True)
    (library,) = (folder / "extensions").glob("hurt-*/hurt.so")
    library.write_bytes(library.read_bytes()[:100])
    subprocess.run([sys.executable, "-c", call], check=True)
    assert library.stat().st_size > 1000


def test_without_a_cache(folder, monkeypatch):
    monkeypatch.setenv("STRATA_CUDA_CACHE", "0")
    assert cuda.load_inline("uncached", "int f() { return 6; }", functions="f").f() == 6
    assert not list((folder / "extensions").glob("uncached-*"))


def test_threads_and_processes_that_compile_the_same(folder):
    call = "from strata import cuda; assert cuda.load_inline('same', 'int f() { return 8; }', functions='f').f() == 8"
    others = [subprocess.Popen([sys.executable, "-c", call]) for _ in range(2)]
    found = []
    threads = [threading.Thread(target=lambda: exec(call + "; found.append(1)", {"found": found})) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert [p.wait() for p in others] == [0, 0] and found == [1, 1]
    assert len(list((folder / "extensions").glob("same-*"))) == 1
    assert not list((folder / "extensions").glob(".build-*"))


def test_threads(mine, on_host):
    x = on_gpu(1000)
    expected, failures = host(mine.squares(x, 2, 1)), []

    def work():
        for _ in range(5):
            if not np.array_equal(host(mine.squares(x, 2, 1)), expected) or on_host.total([1, 2], 3) != 9:
                failures.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures
