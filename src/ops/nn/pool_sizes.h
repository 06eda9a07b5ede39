// The number of windows of a pool, shared by the pooling ops.
#pragma once
#include <cstdint>

namespace strata {

// Along one dimension; throws if the window or the result is invalid.
int64_t pooled_size(const char* op, int64_t in, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation,
                    bool ceil_mode);

}  // namespace strata
