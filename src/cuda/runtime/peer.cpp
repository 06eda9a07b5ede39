#include "cuda/runtime/peer.h"

#include "cuda/runtime/event.h"

namespace strata::cuda {

bool can_access_peer(Gpu& gpu, Gpu& peer) {
  int can = 0;
  gpu.activate();
  gpu.check(gpu.table().cuDeviceCanAccessPeer(&can, gpu.handle, peer.handle), "ask for access to a peer");
  return can != 0;
}

namespace {

// Once for each pair: then copies need no host memory.
void open_access(Gpu& gpu, Gpu& peer) {
  const uint64_t bit = uint64_t{1} << (peer.index % 64);
  if (gpu.peers.load(std::memory_order_acquire) & bit) return;
  if (can_access_peer(gpu, peer)) {
    constexpr driver::CUresult kTooManyPeers = 711;  // the driver then stages copies
    const driver::CUresult r = gpu.table().cuCtxEnablePeerAccess(peer.context, 0);
    if (r != driver::kPeerAccessAlreadyEnabled && r != kTooManyPeers) gpu.check(r, "open its access to a peer");
  }
  gpu.peers.fetch_or(bit);
}
}  // namespace

void copy_between(Gpu& to_gpu, void* to, Gpu& from_gpu, const void* from, size_t bytes) {
  const Stream source = Stream::current(from_gpu), target = Stream::current(to_gpu);
  const Event ready(to_gpu), done(from_gpu);  // created before the copy: once it is queued, nothing may fail
  ready.record(target);
  ready.wait_in(source);
  open_access(from_gpu, to_gpu);
  from_gpu.activate();
  from_gpu.check(from_gpu.table().cuMemcpyPeerAsync(reinterpret_cast<driver::CUdeviceptr>(to), to_gpu.context,
                                                    reinterpret_cast<driver::CUdeviceptr>(from), from_gpu.context,
                                                    bytes, source.handle()),
                 "copy to a peer");
  try {
    done.record(source);
    done.wait_in(target);
  } catch (...) {  // completion cannot be tracked by the other device: wait for the copy
    if (from_gpu.enter()) from_gpu.table().cuStreamSynchronize(source.handle());
    throw;
  }
}

}  // namespace strata::cuda
