// Checks of addresses, and counting of sectors and bank conflicts.
#include "cuda/vgpu/lanes/access.h"

#include <fmt/core.h>

#include <algorithm>

#include "cuda/vgpu/cache.h"

namespace strata::cuda::vgpu {

uint8_t* resolve(Warp& w, Space space, uint64_t address, uint32_t bytes, int lane, Access access) {
  const auto at = static_cast<uint32_t>(lane);
  BlockState& b = *w.block;
  if (space == Space::Generic) {
    space = space_of(address);
    address -= window_of(space);
  }
  if (address & (bytes - 1))
    fault(w, kMisaligned, fmt::format("address 0x{:x} is not a multiple of {}", address, bytes), at);
  switch (space) {
    case Space::Shared: {
      const SharedPlace place = shared_place(w, address, bytes, lane);
      // The history of a block knows the threads of that block only.
      if (place.block == &b && b.checks) b.history.touch(w, place.address, bytes, at, access);
      else if (b.checks && access != Access::Read) place.block->history.written(place.address, bytes);
      return place.block->shared + place.address;
    }
    case Space::Local:
      if (address >= b.program->local_bytes || bytes > b.program->local_bytes - address)
        fault(w, kIllegalAddress,
              fmt::format("{} bytes at local address 0x{:x}, of {} bytes of the thread", bytes, address,
                          b.program->local_bytes),
              at);
      return b.local + (static_cast<uint64_t>(w.index) * kLanes + at) * b.program->local_bytes + address;
    case Space::Param:
      if (address >= b.program->param_bytes || bytes > b.program->param_bytes - address)
        fault(w, kIllegalAddress, fmt::format("{} bytes at parameter offset {}", bytes, address), at);
      return const_cast<uint8_t*>(b.params) + address;
    default: return resolve_global(w, address, bytes, lane, access);
  }
}

uint8_t* resolve_global(Warp& w, uint64_t address, uint32_t bytes, int lane, Access access) {
  const auto at = static_cast<uint32_t>(lane);
  BlockState& b = *w.block;
  if (!b.memory->reachable(address, bytes))
    fault(
      w, kIllegalAddress,
      fmt::format("{} bytes at 0x{:x}, which is not device memory: {}", bytes, address, b.memory->describe(address)),
      at);
  if (b.checks) check_global(w, address, bytes, at, access);
  if (b.cache) b.cache->touch(address, bytes, access);
  return reinterpret_cast<uint8_t*>(address);
}

SharedPlace mbarrier_place(Warp& w, Space space, uint64_t address, int lane, Access access) {
  if (space == Space::Generic && space_of(address) == Space::Shared) address -= kSharedWindow;
  else if (space != Space::Shared)
    fault(w, kIllegalAddress, fmt::format("0x{:x} is not an address of shared memory", address),
          static_cast<uint32_t>(lane));
  resolve(w, Space::Shared, address, sizeof(uint64_t), lane, access);
  return shared_place(w, address, sizeof(uint64_t), lane);
}

namespace {

uint32_t sectors(const uint64_t* address, uint32_t mask, uint32_t bytes) {
  uint64_t ids[2 * kLanes];
  size_t n = 0;
  each_lane(mask, [&](int k) {
    for (uint64_t s = address[k] / 32; s <= (address[k] + bytes - 1) / 32; ++s)
      if (n == 0 || ids[n - 1] != s) ids[n++] = s;
  });
  if (!std::is_sorted(ids, ids + n)) std::sort(ids, ids + n);
  return static_cast<uint32_t>(std::unique(ids, ids + n) - ids);
}

// Lanes are served 128 bytes at a time: 32 lanes of 4 bytes, 16 of 8, 8 of 16. Equal words cost one pass.
uint32_t passes(const uint64_t* address, uint32_t mask, uint32_t bytes) {
  const int lanes = bytes <= 4 ? 32 : bytes == 8 ? 16 : 8;
  uint32_t total = 0;
  for (int first = 0; first < kLanes; first += lanes) {
    uint64_t words[4 * kLanes];
    size_t n = 0;
    for (int k = first; k < first + lanes; ++k)
      if (mask >> k & 1)
        for (uint64_t word = address[k] / 4; word <= (address[k] + bytes - 1) / 4; ++word) words[n++] = word;
    std::sort(words, words + n);
    const size_t distinct = static_cast<size_t>(std::unique(words, words + n) - words);
    uint32_t banks[32] = {}, most = 0;
    for (size_t k = 0; k < distinct; ++k) most = std::max(most, ++banks[words[k] % 32]);
    total += most;
  }
  return total;
}

}  // namespace

void move_phase(Site& site, uint64_t base, uint32_t bytes) {
  site.phase = phase_of(Space::Global, base);
  if (site.kind == Pattern::Linear && site.mask == kFull) {
    site.known = (site.phase + kLanes * bytes + 31) / 32;
    return;
  }
  uint64_t address[kLanes];
  for (size_t k = 0; k < kLanes; ++k)
    address[k] = base + static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(site.pattern[k])));
  site.known = sectors(address, site.mask, bytes);
}

void learn(Site& site, Space space, uint64_t base, const uint32_t* offsets, uint32_t mask, uint32_t bytes) {
  std::copy(offsets, offsets + kLanes, site.pattern.begin());
  site.mask = mask;
  site.low = site.high = 0;
  bool linear = true, uniform = true, words = true;
  uint32_t bits = 0;
  for (uint32_t k = 0; k < kLanes; ++k) {
    const auto offset = static_cast<int32_t>(offsets[k]);
    site.low = std::min(site.low, offset);
    site.high = std::max(site.high, offset);
    linear = linear && offsets[k] == k * bytes;
    uniform = uniform && offsets[k] == 0;
    words = words && offset % 4 == 0;
    bits |= offsets[k];
  }
  site.aligned = (bits & (bytes - 1)) == 0;
  const int64_t span = int64_t{site.high} - site.low + bytes;
  site.kind = linear                               ? Pattern::Linear
              : uniform                            ? Pattern::Uniform
              : words && bytes >= 4 && span <= 256 ? Pattern::Window
                                                   : Pattern::Any;
  for (size_t k = 0; k < kLanes; ++k)
    site.words[k] = static_cast<uint32_t>((static_cast<int32_t>(offsets[k]) - site.low) / 4);
  if (space != Space::Shared) return move_phase(site, base, bytes);
  uint64_t address[kLanes];
  for (size_t k = 0; k < kLanes; ++k)
    address[k] = base + static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(offsets[k])));
  site.phase = 0;
  site.known = passes(address, mask, bytes);
}

void count_request(const Inst& i, Warp& w, Space space, const uint64_t* address, uint32_t mask, uint32_t bytes) {
  Site& site = w.block->tally.sites[i.site];
  const uint64_t base = address[std::countr_zero(mask)];
  uint32_t offsets[kLanes], differs = 0;
  for (uint32_t k = 0; k < kLanes; ++k) {
    offsets[k] = mask >> k & 1 ? static_cast<uint32_t>(address[k] - base) : 0;
    differs |= offsets[k] ^ site.pattern[k];
  }
  if (differs || site.mask != mask) learn(site, space, base, offsets, mask, bytes);
  else if (site.phase != phase_of(space, base)) move_phase(site, base, bytes);
  ++site.requests;
  site.parts += site.known;
}

}  // namespace strata::cuda::vgpu
