// The libraries of NVIDIA that Strata can make use of: opened when first asked for, with their versions checked. Nothing needs
// them; see docs/internals/dependencies.md for what each is for.
#pragma once
#include "base/library.h"

namespace strata::cuda {

enum class Vendor : uint8_t { Nvrtc, CublasLt, Cudnn, Nccl, Nvml };
constexpr size_t kVendors = 5;

struct VendorLibrary {
  Library library;
  std::string version;  // "9.5.1"; empty where it was not found
};
STRATA_API const VendorLibrary& vendor_library(Vendor which);

}  // namespace strata::cuda
