// ld and st of every size, space and vector width.
#include "cuda/vgpu/lanes/access.h"
#include "cuda/vgpu/lanes/pick.h"

namespace strata::cuda::vgpu {

namespace {

template <class T> void put(Warp& w, uint32_t place, uint8_t bytes, int lane, T v) {
  if (bytes == 8)
    cells<uint64_t>(w, place)[lane] =
      static_cast<uint64_t>(static_cast<std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>(v));
  else cells<uint32_t>(w, place)[lane] = static_cast<uint32_t>(v);
}

// Lane k touches the bytes behind those of lane k - 1: one check and one copy serve all.
bool side_by_side(const uint64_t* address, uint32_t bytes) {
  uint64_t differs = 0;
  for (int k = 0; k < kLanes; ++k) differs |= address[k] ^ (address[0] + static_cast<uint64_t>(k) * bytes);
  return differs == 0;
}

// The host memory of the whole warp's access when it is one piece that needs no check per lane; otherwise null.
uint8_t* one_piece(Warp& w, Space space, const uint64_t* address, uint32_t mask, uint32_t bytes) {
  const BlockState& b = *w.block;
  if (mask != kFull || address[0] % bytes || b.check_memory || !side_by_side(address, bytes)) return nullptr;
  if (space == Space::Global || space == Space::Const)
    return b.memory->reachable(address[0], uint64_t{bytes} * kLanes) ? reinterpret_cast<uint8_t*>(address[0]) : nullptr;
  if (space == Space::Shared)
    return address[0] + uint64_t{bytes} * kLanes <= b.shared_bytes ? b.shared + address[0] : nullptr;
  return nullptr;
}

bool counted(Space s) { return s == Space::Global || s == Space::Const || s == Space::Shared || s == Space::Generic; }

template <class T> void load(const Inst& i, Warp& w) {
  const uint32_t m = active(i, w);
  if (!m) return;
  alignas(64) uint64_t address[kLanes];
  addresses(i, w, address);
  const uint32_t* p = &w.block->program->places[i.more];
  const uint32_t bytes = static_cast<uint32_t>(sizeof(T)) * i.count;
  if (const uint8_t* from = one_piece(w, i.space, address, m, bytes)) {
    T values[kLanes * 4];
    std::memcpy(values, from, static_cast<size_t>(bytes) * kLanes);
    for (uint32_t e = 0; e < i.count; ++e)
      for (int k = 0; k < kLanes; ++k) put<T>(w, p[e], i.d_bytes, k, values[static_cast<uint32_t>(k) * i.count + e]);
  } else {
    each_lane(m, [&](int k) {
      T values[4];
      std::memcpy(values, resolve(w, i.space, address[k], bytes, k), bytes);
      for (uint32_t e = 0; e < i.count; ++e) put<T>(w, p[e], i.d_bytes, k, values[e]);
    });
  }
  if (counted(i.space)) count_request(i, w, i.space, address, m, bytes);
}

template <class T> void store(const Inst& i, Warp& w) {
  const uint32_t m = active(i, w);
  if (!m) return;
  alignas(64) uint64_t address[kLanes];
  addresses(i, w, address);
  const uint32_t* p = &w.block->program->places[i.more];
  const uint32_t bytes = static_cast<uint32_t>(sizeof(T)) * i.count;
  if (uint8_t* to = one_piece(w, i.space, address, m, bytes)) {
    T values[kLanes * 4];
    for (uint32_t e = 0; e < i.count; ++e)
      for (int k = 0; k < kLanes; ++k)
        values[static_cast<uint32_t>(k) * i.count + e] = static_cast<T>(wide(w, p[e], i.d_bytes, k));
    std::memcpy(to, values, static_cast<size_t>(bytes) * kLanes);
  } else {
    each_lane(m, [&](int k) {
      T values[4];
      for (uint32_t e = 0; e < i.count; ++e) values[e] = static_cast<T>(wide(w, p[e], i.d_bytes, k));
      std::memcpy(resolve(w, i.space, address[k], bytes, k), values, bytes);
    });
  }
  if (counted(i.space)) count_request(i, w, i.space, address, m, bytes);
}

Handler load_of(Type t) {
  switch (size_of(t)) {
    case 1: return is_signed(t) ? Handler(load<int8_t>) : load<uint8_t>;
    case 2: return is_signed(t) ? Handler(load<int16_t>) : load<uint16_t>;
    case 4: return is_signed(t) ? Handler(load<int32_t>) : load<uint32_t>;
    case 8: return load<uint64_t>;
    default: return nullptr;
  }
}
Handler store_of(Type t) {
  switch (size_of(t)) {
    case 1: return store<uint8_t>;
    case 2: return store<uint16_t>;
    case 4: return store<uint32_t>;
    case 8: return store<uint64_t>;
    default: return nullptr;
  }
}

Class class_of(Space s) {
  return s == Space::Shared  ? Class::Shared
         : s == Space::Local ? Class::Local
         : s == Space::Param ? Class::Param
                             : Class::Global;
}

}  // namespace

bool select_memory(Builder& b) {
  const std::string& op = b.in.op;
  const bool loads = op == "ld" || op == "ldu";
  if (!loads && op != "st") return false;
  b.ignore({"volatile",
            "relaxed",
            "acquire",
            "release",
            "weak",
            "gpu",
            "cta",
            "sys",
            "cluster",
            "nc",
            "ca",
            "cg",
            "cs",
            "lu",
            "cv",
            "wb",
            "wt",
            "L1::evict_normal",
            "L1::evict_unchanged",
            "L1::evict_first",
            "L1::evict_last",
            "L1::no_allocate",
            "L2::64B",
            "L2::128B",
            "L2::256B"});
  const Space space = b.space();
  const bool two = b.flag("v2"), four = b.flag("v4");
  const Type t = b.type();
  b.operands(2, 2);
  const size_t data = loads ? 0 : 1;
  const ptx::Operand& o = b.operand(data);
  const std::vector<ptx::Operand> one{o};
  const auto& items = o.kind == ptx::Operand::Vector ? o.items : one;
  if (items.size() != (four ? 4u : two ? 2u : 1u))
    b.wrong("the vector has another number of elements than the instruction");
  b.out.count = static_cast<uint8_t>(items.size());
  if (size_of(t) * b.out.count > 16) b.unsupported();
  std::vector<uint32_t> places;
  for (size_t k = 0; k < items.size(); ++k) {
    uint8_t bytes = 0;
    if (loads && items[k].name == "_") {
      bytes = k ? b.out.d_bytes : (size_of(t) == 8 ? 8 : 4);
      places.push_back(b.scratch(bytes));
    } else {
      places.push_back(loads ? b.any_dst(items[k], bytes) : b.any_src(items[k], t, bytes));
    }
    if (k && bytes != b.out.d_bytes) b.wrong("the elements of a vector are registers of one size");
    b.out.d_bytes = bytes;
  }
  if (b.out.d_bytes * 1 < size_of(t)) b.wrong("the register is smaller than the type");
  b.out.more = b.place_all(places);
  b.address(1 - data, space);
  b.memory(b.out.space);
  const Handler h = loads ? load_of(t) : store_of(t);
  if (!h) b.unsupported();
  b.emit(h, class_of(b.out.space));
  return true;
}

}  // namespace strata::cuda::vgpu
