// Copies between two devices of one driver, without the host.
#pragma once
#include "cuda/runtime/stream.h"

namespace strata::cuda {

// Whether the two can reach each other's memory directly. Where not, the driver stages copies by itself.
STRATA_API bool can_access_peer(Gpu& gpu, Gpu& peer);
// In the order of both devices' current streams: the copy waits for what either was given before, and what either is given
// next waits for it. The host does not wait.
void copy_between(Gpu& to_gpu, void* to, Gpu& from_gpu, const void* from, size_t bytes);

}  // namespace strata::cuda
