// The capsules of networks and of the engines that are built of them.
#pragma once
#include <memory>

#include "engine/engine.h"
#include "python/capsule.h"

namespace strata::python {

using SharedNetwork = std::shared_ptr<const engine::Network>;
using SharedEngine = std::shared_ptr<engine::Engine>;
template <> inline constexpr const char* kCapsule<SharedNetwork> = "strata.engine.network";
template <> inline constexpr const char* kCapsule<SharedEngine> = "strata.engine.engine";

}  // namespace strata::python
