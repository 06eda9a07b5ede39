// Initializer helpers besides ops: the gain of an activation.
#pragma once
#include <optional>
#include <string_view>

#include "base/api.h"

namespace strata::nn::init {

// The factor that preserves the variance of a signal through a layer followed by the named nonlinearity. `param` is the
// slope of leaky_relu (0.01 unless given).
STRATA_API double calculate_gain(std::string_view nonlinearity, std::optional<double> param = std::nullopt);

}  // namespace strata::nn::init
