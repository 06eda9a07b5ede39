// The kernels embedded in libstrata: one image per .cu file. cmake/EmbedCuda.cmake generates the table.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/api.h"

namespace strata::cuda {

// A zstd frame in the library. unpack() throws Io if the bytes are not those that were built.
struct Packed {
  Packed(const char* begin, const char* end) : bytes(begin, static_cast<size_t>(end - begin)) {}
  STRATA_API size_t unpacked_bytes() const;  // 0 if the frame's header is damaged
  STRATA_API std::string unpack(const char* name) const;
  std::string_view bytes;
};

struct Image {
  const char* name;  // of the file, without .cu
  Packed ptx;        // text
  Packed machine;    // a fatbin; unpacks to nothing if no architecture was selected
};

STRATA_API const std::vector<Image>& images();                     // empty: built without CUDA
STRATA_API const char* built_architectures();                      // "80 90a": architectures with machine code
std::vector<const Image*> images_with(const std::string& kernel);  // those that have a kernel of this name
// The PTX of one kernel, "Add_f32", or "convolution.forward_f32" if several files have a kernel of that name. Throws
// Value.
STRATA_API std::string ptx_of(const std::string& kernel);

}  // namespace strata::cuda
