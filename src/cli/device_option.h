// The option --device of commands.
#pragma once
#include <string>

#include "tensor/device.h"

namespace strata::cli {

// The device that --device names. Throws Value if there is no such device, NotImplemented if it is not available.
Device device_of_option(const std::string& name);

}  // namespace strata::cli
