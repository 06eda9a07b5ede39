// SHA-256, for downloaded files and for plans.
#pragma once
#include <string>

#include "base/file.h"

namespace strata {

STRATA_API std::string sha256(Bytes bytes);  // 64 hexadecimal digits

}  // namespace strata
