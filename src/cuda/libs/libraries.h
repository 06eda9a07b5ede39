// NVIDIA's libraries that Strata can use: opened on first use, with their versions checked. All are optional; see
// docs/internals/dependencies.md for their purposes.
#pragma once
#include "base/library.h"

namespace strata::cuda {

enum class Vendor : uint8_t { Nvrtc, CublasLt, Cudnn, Nccl, Nvml };
constexpr size_t kVendors = 5;

struct VendorLibrary {
  Library library;
  std::string version;  // "9.5.1"; empty if it was not found
};
STRATA_API const VendorLibrary& vendor_library(Vendor which);

// Looks functions up: list(find) calls find(pointer, symbol) for each of them. Whether the library is usable and has
// all of them.
template <class List> bool find_all(const Library& library, List list) {
  bool complete = static_cast<bool>(library);
  list([&]<class F>(F& function, const char* symbol) {
    if (complete) function = library.find<F>(symbol);
    complete &= function != nullptr;
  });
  return complete;
}

}  // namespace strata::cuda
