#include "engine/config.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace strata::engine {

std::string to_string(const OptimizationProfile& profile) {
  std::string text;
  for (const auto& [name, r] : profile.ranges) {
    if (!text.empty()) text += ", ";
    text += fmt::format("{}: {} to {} (tuned for {})", name, fmt::join(r.min, "x"), fmt::join(r.max, "x"),
                        fmt::join(r.opt, "x"));
  }
  return text.empty() ? "no inputs" : text;
}

void check_profile(const OptimizationProfile& profile, const Network& network) {
  for (const auto& [name, r] : profile.ranges) {
    const auto port = std::ranges::find(network.inputs(), name, &Port::name);
    STRATA_CHECK(port != network.inputs().end(), Value, "engine: the profile names '{}', which is no input", name);
    STRATA_CHECK(r.min.size() == r.opt.size() && r.opt.size() == r.max.size(), Value,
                 "engine: the profile of '{}' has {} sizes for min, {} for opt and {} for max; expected equally many",
                 name, r.min.size(), r.opt.size(), r.max.size());
    STRATA_CHECK(!port->has_shape || port->dims.size() == r.opt.size(), Value,
                 "engine: the profile of '{}' has {} dimensions, the input {}", name, r.opt.size(), port->dims.size());
    for (size_t d = 0; d < r.opt.size(); ++d) {
      STRATA_CHECK(0 <= r.min[d] && r.min[d] <= r.opt[d] && r.opt[d] <= r.max[d], Value,
                   "engine: dimension {} of the profile of '{}' is {} to {} tuned for {}; expected min <= opt <= max",
                   d, name, r.min[d], r.max[d], r.opt[d]);
      const int64_t fixed = port->has_shape ? port->dims[d].size : -1;
      STRATA_CHECK(fixed < 0 || (r.min[d] == fixed && r.max[d] == fixed), Value,
                   "engine: dimension {} of '{}' is {} in the network; the profile has {} to {}", d, name, fixed,
                   r.min[d], r.max[d]);
    }
  }
}

}  // namespace strata::engine
