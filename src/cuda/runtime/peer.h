// Copies between two devices of one driver, without the host.
#pragma once
#include "cuda/runtime/stream.h"

namespace strata::cuda {

// Whether the two can access each other's memory directly. Otherwise the driver stages copies.
STRATA_API bool can_access_peer(Gpu& gpu, Gpu& peer);
// Ordered in both devices' current streams: the copy waits for earlier work of both, and later work of both waits for
// it. The host does not wait.
void copy_between(Gpu& to_gpu, void* to, Gpu& from_gpu, const void* from, size_t bytes);

}  // namespace strata::cuda
