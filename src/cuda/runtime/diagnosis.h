// For the doctor, a layer above, and from it: what it adds to the error when device cuda is requested and not available.
#pragma once
#include <string>
#include <vector>

#include "base/api.h"

namespace strata::cuda {

STRATA_API extern std::string (*diagnosis)();

// Devices of this process whose context is lost: "cuda:0".
STRATA_API std::vector<std::string> failed_devices();

}  // namespace strata::cuda
