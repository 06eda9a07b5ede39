// cp.async.bulk and cp.async.bulk.tensor: issues copies and waits for them. bulk.cpp moves the bytes.
#include "cuda/vgpu/bulk.h"

#include <fmt/core.h>

#include "cuda/vgpu/lanes/access.h"
#include "cuda/vgpu/lanes/pick.h"
#include "cuda/vgpu/mbarrier.h"

namespace strata::cuda::vgpu {

namespace {

// places: [more] the other address, its size of cells and offset, then the coordinates; op: see below. a: the shared
// address; b: the mbarrier's; c: bytes; d: the multicast mask. count: coordinates, 0 for consecutive bytes.
enum : uint8_t { kStore = 1, kMulticast = 2, kFromShared = 4 };
enum : uint32_t { kOther, kOtherBytes, kOtherOffset, kBarrierBytes, kBarrierOffset, kCoordinates };

const uint32_t* extra(const Inst& i, const Warp& w) { return &w.block->program->places[i.more]; }

uint64_t other_address(const Inst& i, Warp& w, int lane) {
  const uint32_t* p = extra(i, w);
  return wide(w, p[kOther], static_cast<uint8_t>(p[kOtherBytes]), lane) +
         static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(p[kOtherOffset])));
}

[[noreturn]] void misaligned(const Warp& w, const char* what, uint64_t value, uint32_t to, int lane) {
  fault(w, kMisaligned, fmt::format("{} 0x{:x} is not a multiple of {}", what, value, to), static_cast<uint32_t>(lane));
}

TensorMap read_map(const Inst& i, Warp& w, int lane) {
  const uint64_t address = other_address(i, w, lane);
  if (address % alignof(TensorMap)) misaligned(w, "the address of a tensor map", address, alignof(TensorMap), lane);
  TensorMap m;
  for (uint32_t k = 0; k < sizeof m; k += 16)
    std::memcpy(reinterpret_cast<uint8_t*>(&m) + k, resolve(w, Space::Generic, address + k, 16, lane, Access::Read),
                16);
  if (m.magic != TensorMap::kMagic)
    fault(w, kIllegalInstruction, fmt::format("there is no tensor map at 0x{:x}: see cuTensorMapEncodeTiled", address),
          static_cast<uint32_t>(lane));
  if (m.rank != i.count)
    fault(w, kIllegalInstruction, fmt::format("{} coordinates for a tensor of {} dimensions", i.count, m.rank),
          static_cast<uint32_t>(lane));
  return m;
}

uint64_t sectors_of(uint64_t address, uint64_t bytes) {
  return bytes ? (address + bytes - 1) / 32 - address / 32 + 1 : 0;
}

// Checks the device memory of a copy and counts its sectors.
void touch(const Inst& i, Warp& w, BulkCopy& c, uint64_t address, int lane) {
  const Access access = i.op & kStore ? Access::Write : Access::Read;
  Site& site = w.block->tally.sites[i.site];
  ++site.requests;
  if (c.map.rank == 0) {
    c.from = resolve_global(w, address, c.bytes, lane, access);
    site.parts += sectors_of(address, c.bytes);
    return;
  }
  each_row(c.map, c.at, [&](uint64_t row, uint32_t, uint32_t bytes, uint32_t) {
    if (bytes) resolve_global(w, row, bytes, lane, access);
    site.parts += sectors_of(row, bytes);
  });
}

BulkCopy describe(const Inst& i, Warp& w, uint64_t shared, int lane) {
  BulkCopy c;
  const bool tensor = i.count != 0;
  if (tensor) {
    c.map = read_map(i, w, lane);
    c.bytes = c.map.box_bytes();
    for (uint32_t d = 0; d < i.count; ++d) c.at[d] = cells<int32_t>(w, extra(i, w)[kCoordinates + d])[lane];
    if (shared % 128) misaligned(w, "shared address", shared, 128, lane);
  } else {
    c.bytes = cells<uint32_t>(w, i.c)[lane];
    if (c.bytes % 16 || c.bytes > Mbarrier::kMostCount) misaligned(w, "the number of bytes", c.bytes, 16, lane);
    if (shared % 16) misaligned(w, "shared address", shared, 16, lane);
  }
  c.lane = static_cast<uint32_t>(lane);
  return c;
}

// A copy must not overwrite what matrix instructions in flight read.
void check_reads(const Warp& w, const BlockState& b, const BulkCopy& c) {
  for (const Warp& other : b.warps)
    for (const MatrixRead& r : other.matrix_reads)
      if (r.begin < c.shared + c.bytes && c.shared < r.end)
        fault(
          w, kLaunchFailed,
          fmt::format("race in shared memory at 0x{:x}: this copy and wgmma of warp {}, for which wgmma.wait_group has "
                      "not waited",
                      std::max(r.begin, c.shared), other.index),
          c.lane);
}

void load(const Inst& i, Warp& w) {
  uint64_t to[kLanes];
  addresses(i, w, to);
  const uint32_t* p = extra(i, w);
  each_lane(active(i, w), [&](int k) {
    BulkCopy c = describe(i, w, to[k], k);
    if (c.bytes == 0) return;
    const uint64_t barrier = wide(w, i.b, static_cast<uint8_t>(p[kBarrierBytes]), k) +
                             static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(p[kBarrierOffset])));
    const uint64_t from = c.map.rank ? 0 : other_address(i, w, k);
    if (c.map.rank == 0 && from % 16) misaligned(w, "address", from, 16, k);
    if (i.op & kFromShared) {
      const SharedPlace place = shared_place(w, from, c.bytes, k);
      c.from = place.block->shared + place.address;
    } else {
      touch(i, w, c, from, k);
    }
    const auto send = [&](uint64_t target) {
      const SharedPlace data = shared_place(w, target | (to[k] & kOffsetMask), c.bytes, k),
                        bar = mbarrier_place(w, Space::Shared, target | (barrier & kOffsetMask), k);
      read_mbarrier(w, *bar.block, bar.address, k);
      BulkCopy one = c;
      one.shared = data.address;
      one.barrier = bar.address;
      if (data.block->checks & kCheckRace) check_reads(w, *data.block, one);
      data.block->loads.push_back(one);
    };
    if (!(i.op & kMulticast)) {
      if (to[k] >> kRankAt != barrier >> kRankAt)
        fault(w, kIllegalAddress, "a bulk copy into one block, with the mbarrier of another", static_cast<uint32_t>(k));
      return send(to[k] & ~uint64_t{kOffsetMask});
    }
    const uint32_t mask = cells<uint32_t>(w, i.d)[k] & 0xffff;
    for (uint32_t rank = 0; rank < 16; ++rank)
      if (mask >> rank & 1) send(uint64_t{rank + 1} << kRankAt);
  });
}

void store(const Inst& i, Warp& w) {
  uint64_t from[kLanes];
  addresses(i, w, from);
  each_lane(active(i, w), [&](int k) {
    BulkCopy c = describe(i, w, from[k], k);
    if (c.bytes == 0) return;
    c.shared = shared_place(w, from[k], c.bytes, k).address;
    const uint64_t to = c.map.rank ? 0 : other_address(i, w, k);
    if (to % 16) misaligned(w, "address", to, 16, k);
    touch(i, w, c, to, k);
    if (w.block->checks) w.block->history.touch(w, c.shared, c.bytes, c.lane, Access::Read);
    c.group = w.bulk_group[static_cast<size_t>(k)];
    w.stores.push_back(c);
  });
}

void commit(const Inst& i, Warp& w) {
  each_lane(active(i, w), [&](int k) { ++w.bulk_group[static_cast<size_t>(k)]; });
}

void wait(const Inst& i, Warp& w) {  // imm: groups that may remain open
  const uint32_t m = active(i, w);
  std::erase_if(w.stores, [&](const BulkCopy& c) {
    const bool done = m >> c.lane & 1 && c.group + i.imm < w.bulk_group[c.lane];
    if (done) copy_out(*w.block, c);
    return done;
  });
}

// Operands: [to], [from] (and coordinates), bytes of a plain copy, [mbarrier] of a load, the multicast mask.
void copy(Builder& b) {
  const bool tensor = b.flag("tensor"), stores = b.flag("bulk_group");
  b.ignore(
    {"tile", "global", "shared::cta", "mbarrier::complete_tx::bytes", "1d", "2d", "3d", "4d", "5d", "L2::cache_hint"});
  const bool into_shared = b.flag("shared::cluster"), multicast = b.flag("multicast::cluster"),
             from_shared = into_shared && b.in.has("shared::cta") && !b.in.has("global");
  if (into_shared == stores) b.unsupported();
  b.out.op =
    static_cast<uint8_t>((stores ? kStore : 0) | (multicast ? kMulticast : 0) | (from_shared ? kFromShared : 0));
  const bool hint = b.in.has("L2::cache_hint");  // where the data stays in L2: the last operand
  const size_t wanted = (tensor ? 2u : 3u) + (stores ? 0 : 1) + (multicast ? 1 : 0) + (hint ? 1 : 0);
  b.operands(wanted, wanted);
  const size_t there = stores ? 0 : 1;
  std::vector<uint32_t> places(kCoordinates);
  const auto offset = [&] {
    if (b.out.imm != static_cast<int32_t>(b.out.imm)) b.unsupported();
    return static_cast<uint32_t>(b.out.imm);
  };
  b.address(there, tensor ? Space::Generic : from_shared ? Space::Shared : Space::Global);
  places[kOther] = b.out.a;
  places[kOtherBytes] = b.out.a_bytes;
  places[kOtherOffset] = offset();
  if (!stores) {
    b.address(tensor ? 2 : 3, Space::Shared);
    b.out.b = b.out.a;
    places[kBarrierBytes] = b.out.a_bytes;
    places[kBarrierOffset] = offset();
  }
  const auto& at = b.operand(there).items;
  if (tensor) {
    if (at.empty() || at.size() > TensorMap::kMostDims || !b.in.has(fmt::format("{}d", at.size())))
      b.wrong("the number of coordinates is not that of the instruction");
    for (const auto& item : at) places.push_back(b.src(item, Type::S32));
  } else {
    b.out.c = b.src(2, Type::U32);
  }
  if (multicast) b.out.d = b.src(wanted - 1 - (hint ? 1 : 0), Type::U16);
  b.out.count = static_cast<uint8_t>(at.size());
  b.out.more = b.place_all(places);
  b.address(1 - there, Space::Shared);
  b.memory(from_shared ? Space::Shared : Space::Global);
  b.emit(stores ? store : load, from_shared ? Class::Shared : Class::Global);
}

}  // namespace

bool select_bulk(Builder& b) {
  if (b.in.op != "cp" || !b.flag("async") || !b.flag("bulk")) return false;
  if (b.flag("commit_group")) {
    b.operands(0, 0);
    b.emit(commit, Class::Control);
  } else if (b.flag("wait_group")) {
    b.ignore({"read"});
    b.operands(1, 1);
    if (b.operand(0).kind != ptx::Operand::Integer) b.wrong("cp.async.bulk.wait_group takes a number");
    b.out.imm = static_cast<int64_t>(b.operand(0).bits & 0x7fffffff);
    b.emit(wait, Class::Control);
  } else {
    copy(b);
  }
  return true;
}

}  // namespace strata::cuda::vgpu
