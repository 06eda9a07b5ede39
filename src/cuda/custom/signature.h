// The parameters of a compiled kernel: sizes and kinds from its PTX; pointers and const from its declaration in the
// source, where that can be found.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/api.h"

namespace strata::cuda {

struct Parameter {
  enum class Kind : uint8_t { Integer, Float, Bytes };  // Bytes: a struct, or a 16-bit float
  enum class Pointer : uint8_t { Unknown, No, Yes, ToConst };
  Kind kind = Kind::Integer;
  uint32_t size = 0;  // bytes
  Pointer pointer = Pointer::Unknown;
  std::string text;  // for messages: "const float* x", or describe()

  STRATA_API std::string describe() const;  // "4-byte integer"
  bool takes_tensor() const {               // every pointer is 8 bytes wide
    return kind == Kind::Integer && size == 8 && pointer != Pointer::No;
  }
  bool takes_number() const { return pointer == Pointer::Unknown || pointer == Pointer::No; }
};

// The kernels of PTX, in its order.
STRATA_API std::vector<std::string> kernels_of(std::string_view ptx);

// `entry`: the kernel's name in the PTX; `name`: its name in the source. Throws Internal if the PTX has no such kernel.
STRATA_API std::vector<Parameter> parameters_of(std::string_view ptx, const std::string& entry, std::string_view source,
                                                std::string_view name);

}  // namespace strata::cuda
