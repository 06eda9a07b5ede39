// The checks themselves, and their messages.
#include "cuda/vgpu/checks.h"

#include <fmt/core.h>

#include "base/error.h"
#include "cuda/vgpu/warp.h"

namespace strata::cuda::vgpu {

uint32_t checks_named(std::string_view list) {
  constexpr std::pair<std::string_view, uint32_t> kNames[] = {{"memory", kCheckMemory}, {"race", kCheckRace},
                                                              {"init", kCheckInit},     {"sync", kCheckSync},
                                                              {"host", kCheckHost},     {"all", 15}};
  uint32_t out = 0;
  while (!list.empty()) {
    const size_t comma = list.find(',');
    const std::string_view word = list.substr(0, comma);
    list = comma == list.npos ? std::string_view() : list.substr(comma + 1);
    if (word.empty()) continue;
    uint32_t found = 0;
    for (const auto& [name, bit] : kNames)
      if (name == word) found = bit;
    STRATA_CHECK(found, Value, "vgpu: there is no check '{}'; the checks are memory, race, init, sync, host and all",
                 word);
    out |= found;
  }
  return out;
}

namespace {
std::string thread_of(const BlockState& b, uint32_t thread) {
  return fmt::format("thread ({},{},{})", thread % b.threads[0], thread / b.threads[0] % b.threads[1],
                     thread / b.threads[0] / b.threads[1]);
}
}  // namespace

void SharedHistory::reset(size_t bytes, uint32_t checks) {
  checks_ = checks & (kCheckRace | kCheckInit);
  epoch_ = 1;
  bytes_.assign(checks_ ? bytes : 0, Byte{});
}

void SharedHistory::touch(const Warp& w, uint32_t address, uint32_t bytes, uint32_t lane, Access access) {
  if (!checks_) return;
  const uint32_t thread = w.index * kLanes + lane;
  const auto same_warp = [&](uint32_t other) { return other / kLanes == w.index; };
  for (uint32_t k = address; k < address + bytes; ++k) {
    Byte& b = bytes_[k];
    if (checks_ & kCheckInit && access != Access::Write && !b.written)
      fault(w, kLaunchFailed, fmt::format("read of shared memory at 0x{:x}, which no thread has written", k), lane);
    if (checks_ & kCheckRace) {
      const bool both_atomic = access == Access::Atomic && b.atomic;
      if (b.write_epoch == epoch_ && !same_warp(b.writer) && !both_atomic)
        fault(w, kLaunchFailed,
              fmt::format("race in shared memory at 0x{:x}: this {} and a write by {} have no barrier between them", k,
                          access == Access::Read ? "read" : "write", thread_of(*w.block, b.writer)),
              lane);
      if (access != Access::Read && b.read_epoch == epoch_ && (b.many || !same_warp(b.reader)))
        fault(w, kLaunchFailed,
              fmt::format("race in shared memory at 0x{:x}: this write and a read by {} have no barrier between them",
                          k, thread_of(*w.block, b.reader)),
              lane);
    }
    if (access == Access::Read) {
      if (b.read_epoch != epoch_) {
        b.many = false;
        b.reader = thread;
      } else if (!same_warp(b.reader)) b.many = true;
      b.read_epoch = epoch_;
    } else {
      b.write_epoch = epoch_;
      b.writer = thread;
      b.atomic = access == Access::Atomic;
      b.written = true;
    }
  }
}

void SharedHistory::written(uint32_t address, uint32_t bytes) {
  for (uint32_t k = address; checks_ && k < address + bytes; ++k) bytes_[k].written = true;
}

void check_global(const Warp& w, uint64_t address, uint32_t bytes, uint32_t lane, Access access) {
  const BlockState& b = *w.block;
  if (b.checks & kCheckMemory && !b.memory->valid(address, bytes))
    fault(
      w, kIllegalAddress,
      fmt::format("{} bytes at 0x{:x}, outside of every allocation: {}", bytes, address, b.memory->describe(address)),
      lane);
  if (!(b.checks & kCheckInit)) return;
  if (access != Access::Write)
    if (const int64_t k = b.memory->first_unwritten(address, bytes); k >= 0)
      fault(w, kLaunchFailed,
            fmt::format("read of device memory at 0x{:x}, which nobody has written: {}",
                        address + static_cast<uint64_t>(k), b.memory->describe(address)),
            lane);
  if (access != Access::Read) b.memory->mark_written(address, bytes);
}

}  // namespace strata::cuda::vgpu
