// The dtype check of composites whose parts accept more dtypes than they do: integers would be rounded somewhere inside.
#pragma once
#include "tensor/tensor.h"

namespace strata {

inline void refuse_integers(const Tensor& t, const char* op) {
  const DType type = t.dtype();
  STRATA_CHECK(is_floating(type) || is_complex(type), NotImplemented,
               "\"{}\" not implemented for '{}': expected a floating-point tensor; convert it with to(float32)", op,
               name_of(type));
}

}  // namespace strata
