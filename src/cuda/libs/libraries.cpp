#include "cuda/libs/libraries.h"

#include <fmt/core.h>

#include <array>
#include <memory>
#include <mutex>

namespace strata::cuda {
namespace {

// A version as one number: 1000000 * major + 1000 * minor + patch; 0: unknown.
int64_t packed(int64_t major, int64_t minor, int64_t patch) { return 1000000 * major + 1000 * minor + patch; }
std::string text_of(int64_t version) {
  return fmt::format("{}.{}.{}", version / 1000000, version / 1000 % 1000, version % 1000);
}

int64_t nvrtc_version(Library& l) {
  const auto ask = l.need<int (*)(int*, int*)>("nvrtcVersion");
  int major = 0, minor = 0;
  return ask && ask(&major, &minor) == 0 ? packed(major, minor, 0) : 0;
}
// cuBLAS and cuDNN return 10000 * major + 100 * minor + patch.
int64_t decimal_version(Library& l, const char* symbol) {
  const auto ask = l.need<size_t (*)()>(symbol);
  const auto n = static_cast<int64_t>(ask ? ask() : 0);
  return packed(n / 10000, n / 100 % 100, n % 100);
}
int64_t nccl_version(Library& l) {
  const auto ask = l.need<int (*)(int*)>("ncclGetVersion");
  int n = 0;
  return ask && ask(&n) == 0 ? packed(n / 10000, n / 100 % 100, n % 100) : 0;
}
// NVML returns the driver's version, as text.
int64_t nvml_version(Library& l) {
  const auto begin = l.need<int (*)()>("nvmlInit_v2");
  const auto ask = l.need<int (*)(char*, unsigned)>("nvmlSystemGetDriverVersion");
  char text[80] = "";
  if (!l || begin() != 0 || ask(text, sizeof text) != 0) return 0;
  int major = 0, minor = 0, patch = 0;
  std::sscanf(text, "%d.%d.%d", &major, &minor, &patch);
  return packed(major, minor, patch);
}

struct Kind {
  LibrarySpec spec;
  int64_t oldest;  // minimum supported version
  int64_t (*version)(Library&);
};
const Kind& kind_of(Vendor which) {
  static const auto* kinds = new std::array<Kind, kVendors>{{
    {{.name = "NVRTC",
      .files = {"libnvrtc.so.13", "libnvrtc.so.12"},
      .variable = "STRATA_NVRTC",
      .advice = "install the CUDA toolkit, or nvidia-cuda-nvrtc from PyPI"},
     packed(12, 0, 0),
     nvrtc_version},
    {{.name = "cuBLASLt",
      .files = {"libcublasLt.so.13", "libcublasLt.so.12"},
      .variable = "STRATA_CUBLASLT",
      .advice = "install the CUDA toolkit, or nvidia-cublas from PyPI"},
     packed(12, 0, 0),
     [](Library& l) { return decimal_version(l, "cublasLtGetVersion"); }},
    {{.name = "cuDNN",
      .files = {"libcudnn.so.9"},
      .variable = "STRATA_CUDNN",
      .advice = "install cuDNN 9, or nvidia-cudnn-cu13 from PyPI"},
     packed(9, 0, 0),
     [](Library& l) { return decimal_version(l, "cudnnGetVersion"); }},
    {{.name = "NCCL",
      .files = {"libnccl.so.2"},
      .variable = "STRATA_NCCL",
      .advice = "install libnccl2, or nvidia-nccl-cu13 from PyPI"},
     packed(2, 18, 0),
     nccl_version},
    {{.name = "NVML",
      .files = {"libnvidia-ml.so.1", "/usr/lib/wsl/lib/libnvidia-ml.so.1"},
      .advice = "it comes with NVIDIA's driver"},
     packed(525, 0, 0),
     nvml_version},
  }};
  return (*kinds)[static_cast<size_t>(which)];
}

VendorLibrary open(Vendor which) {
  const Kind& kind = kind_of(which);
  VendorLibrary out{Library(kind.spec), {}};
  if (!out.library) return out;
  const int64_t version = kind.version(out.library);
  if (!out.library) return out;
  out.version = text_of(version);
  if (version == 0) out.library.refuse("it does not report its version");
  else if (version < kind.oldest)
    out.library.refuse(fmt::format("its version is {}, but {} is required", out.version, text_of(kind.oldest)));
  return out;
}
}  // namespace

const VendorLibrary& vendor_library(Vendor which) {
  static std::mutex lock;
  static auto* opened = new std::array<std::unique_ptr<VendorLibrary>, kVendors>;
  const std::lock_guard hold(lock);
  std::unique_ptr<VendorLibrary>& one = (*opened)[static_cast<size_t>(which)];
  if (!one) one = std::make_unique<VendorLibrary>(open(which));
  return *one;
}

}  // namespace strata::cuda
