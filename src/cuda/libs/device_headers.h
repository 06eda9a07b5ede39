// The headers of src/device and some of src/cuda, embedded for kernels that are compiled at run time; see cmake/EmbedCuda.cmake.
#pragma once
#include <vector>

namespace strata::cuda {

struct DeviceHeader {
  const char* name;  // as included: "device/philox.h"
  const char* text;
};
const std::vector<DeviceHeader>& device_headers();

}  // namespace strata::cuda
