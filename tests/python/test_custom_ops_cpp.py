"""Libraries of ops in C++, loaded by strata.ops.load_library."""

import os
import pathlib
import re
import subprocess

import numpy as np
import pytest
import strata
from gpu_tensors import DEVICE, host, on_gpu
from strata.autograd import gradcheck

ROOT = pathlib.Path(__file__).parent.parent.parent
BUILD = pathlib.Path(os.environ.get("STRATA_BUILD_DIR", ROOT / "build" / "release"))

LIBRARY = r"""
#include <strata/strata.h>

using namespace strata;

STRATA_LIBRARY() {
  library::custom_op("cpp_mine::twice(Tensor input, *, int times=1) -> Tensor")
    .doc("Doubles a tensor, times times.")
    .composite([](const Tensor& input, int64_t times) {
      Tensor out = input;
      for (int64_t i = 0; i < times; ++i) out = out * 2;
      return out;
    });
  library::custom_op("cpp_mine::cube(Tensor input) -> Tensor")
    .infer([](const Call& c) {
      c.outs[0]->dtype = c.args.tensor(0).dtype;
      c.outs[0]->set_shape(c.args.tensor(0).sizes());
    })
    .kernel("loop",
            [](const Call& c) {
              const Tensor x = to(contiguous(c.args.share(0)), kFloat64), out = c.out();
              const Tensor cubes = x * x * x;
              copy_(out, cubes);
            })
    .cuda("nvrtc",
          [](const Call& c) {
            const Tensor x = contiguous(c.args.share(0));
            const auto cube = cuda::Elementwise::of("out = x * x * x");
            const Tensor outs[] = {c.out()};
            const Operand inputs[] = {x};
            cube(inputs, outs);
          })
    .saves({"input"})
    .grad([](const GradContext& c, const Tensor& g) -> Grads { return {g * 3 * c.input(0) * c.input(0)}; });
  library::custom_op("cpp_mine::add_one(Tensor(a!) x) -> ()")
    .infer([](const Call&) {})
    .kernel("plain", [](const Call& c) {
      const Tensor x = c.args.share(0);
      for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] += 1;
    });
  library::custom_op("cpp_mine::halves(Tensor input) -> Tensor[]").composite([](const Tensor& input) {
    return std::vector<Tensor>{input / 2, input / 2};
  });
}
"""
THROWS = """
#include <strata/strata.h>
STRATA_LIBRARY() { strata::library::custom_op("cpp_throws::bad(Zork x) -> Tensor"); }
"""
OTHER_HEADERS = """
#include <cstddef>
#define EXPORT extern "C" __attribute__((visibility("default")))
EXPORT size_t strata_layout() { return 1; }
EXPORT void strata_define_ops() {}
"""


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ops")
    cache = BUILD / "CMakeCache.txt"
    found = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", cache.read_text(), re.M) if cache.exists() else None

    def make(name, text):
        source, library = folder / f"{name}.cpp", folder / f"lib{name}.so"
        source.write_text(text)
        paths = [f"-I{p}" for p in (ROOT / "include", ROOT / "src", BUILD / "gen")]
        link = [f"-L{BUILD}/lib", "-lstrata", f"-Wl,-rpath,{BUILD}/lib"]
        compiler = [found[1] if found else "c++", "-std=c++20", "-DFMT_HEADER_ONLY", "-shared", "-fPIC"]
        done = subprocess.run([*compiler, *paths, source, "-o", library, *link], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return library

    return make


@pytest.fixture(scope="module")
def mine(build):
    library = build("mine", LIBRARY)
    strata.ops.load_library(library)
    strata.ops.load_library(str(library))  # a second time changes nothing
    assert str(library) in strata.ops.loaded_libraries
    return strata.ops.cpp_mine


def test_composites(mine):
    x = strata.ones(3, requires_grad=True)
    y = mine.twice(x, times=3)
    y.sum().backward()
    assert y.tolist() == [8] * 3 and x.grad.tolist() == [8] * 3
    assert "Doubles" in mine.twice.__doc__ and "cpp_mine::twice" in repr(mine.twice)
    assert [t.tolist() for t in mine.halves(strata.ones(1))] == [[0.5], [0.5]]
    with pytest.raises(TypeError, match="missing required argument 'input'"):
        mine.twice()
    with pytest.raises(TypeError, match="must be Tensor, not str"):
        mine.twice("x")
    assert not hasattr(strata.Tensor, "twice") and "twice" not in dir(strata)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (5, 7)], ids=str)
@pytest.mark.parametrize("device", ["cpu", DEVICE])
def test_kernels_per_device(mine, shape, device):
    x = on_gpu(*shape).to(device)
    np.testing.assert_allclose(host(mine.cube(x)), host(x) ** 3, rtol=1e-5)
    if len(shape) == 2:
        np.testing.assert_allclose(host(mine.cube(x.t())), host(x).T ** 3, rtol=1e-5)
    assert mine.cube(x.to("meta")).shape == x.shape


def test_gradients_and_explanations(mine):
    x = strata.linspace(-1, 1, 4, dtype=strata.float64, requires_grad=True)
    assert gradcheck(mine.cube, (x,))
    assert ("cpp_mine::cube", "loop", "chosen") in strata.explain(mine.cube, x)
    with strata.tracing() as t:
        mine.cube(x)
    assert ("op", "cpp_mine::cube") in [(e["layer"], e["name"]) for e in t.events]


def test_writes(mine):
    x = strata.zeros(3)
    version = x._version
    assert mine.add_one(x) is None
    assert x.tolist() == [1] * 3 and x._version > version
    with pytest.raises(NotImplementedError, match="add_one"):
        mine.add_one(strata.zeros(3, device=DEVICE))


def test_names_of_other_languages(mine):
    with pytest.raises(ValueError, match="defined already, by a library in C"):
        strata.library.custom_op("cpp_mine::cube", lambda x: x, mutates_args=(), schema="(Tensor x) -> Tensor")
    with pytest.raises(TypeError, match="is defined in C"):
        strata.library.register_autograd("cpp_mine::cube", lambda ctx, g: g)


def test_files_that_are_no_libraries(build, tmp_path):
    with pytest.raises(OSError, match="no_such.so"):
        strata.ops.load_library(tmp_path / "no_such.so")
    text = tmp_path / "text.so"
    text.write_text("no library")
    with pytest.raises(OSError, match="text.so"):
        strata.ops.load_library(text)
    with pytest.raises(ValueError, match="STRATA_LIBRARY"):
        strata.ops.load_library("libc.so.6")
    with pytest.raises(ValueError, match="headers of another version"):
        strata.ops.load_library(build("other", OTHER_HEADERS))
    with pytest.raises(ValueError, match="unknown type"):
        strata.ops.load_library(build("throws", THROWS))
    for wrong in (None, 1):
        with pytest.raises(TypeError):
            strata.ops.load_library(wrong)
