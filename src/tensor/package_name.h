// The name before the dot in printed types: "strata.float32", or "torch.float32" for programs that imported Strata as torch.
#pragma once
#include <string>

#include "base/api.h"

namespace strata {

STRATA_API extern std::string package_name;

}  // namespace strata
