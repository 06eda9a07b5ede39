// Sizes of grids and blocks.
#pragma once
#include <cstdint>

namespace strata::cuda {

struct Grid {
  uint32_t x = 1, y = 1, z = 1;
};

}  // namespace strata::cuda
