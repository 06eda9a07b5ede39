// ld and st of every size, space and vector width.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cuda/vgpu/lanes/memory.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cuda/vgpu/lanes/access.h"
#include "cuda/vgpu/lanes/pick.h"

#include "cuda/vgpu/lanes/loops.inl"

HWY_BEFORE_NAMESPACE();
namespace strata::cuda::vgpu {
namespace HWY_NAMESPACE {

namespace {

// The lanes' bytes in host memory: base + offset[lane].
struct Located {
  uint8_t* base = nullptr;
  const uint32_t* offsets = nullptr;
  const Site* site = nullptr;
  bool windows = false;  // up to 256 bytes after each byte may be read
};

// One check for all lanes, and the counters, if the addresses are close together; false: lane by lane instead. The
// address pattern of an instruction is cached, so that a loop only compares 32 numbers.
HWY_INLINE bool locate(const Inst& i, Warp& w, uint32_t m, uint32_t bytes, uint32_t* offsets, Located& out) {
  BlockState& b = *w.block;
  if (b.checks) return false;
  Space space = i.space;
  const int first = std::countr_zero(m);
  uint64_t base = 0, far = 0;
  if (i.a_bytes == 8) {
    const auto* a = cells<uint64_t>(w, i.a);
    base = a[first];
    for (int k = 0; k < kLanes; ++k) {
      const uint64_t d = m >> k & 1 ? a[k] - base : 0;
      offsets[k] = static_cast<uint32_t>(d);
      far |= d + 0x80000000u;
    }
    base += static_cast<uint64_t>(i.imm);
  } else {
    const auto* a = cells<uint32_t>(w, i.a);
    base = a[first];
    for (int k = 0; k < kLanes; ++k) offsets[k] = m >> k & 1 ? a[k] - static_cast<uint32_t>(base) : 0;
    base = static_cast<uint32_t>(base + static_cast<uint64_t>(i.imm));
  }
  if (far >> 32) return false;
  if (space == Space::Generic) {
    space = space_of(base);
    base -= window_of(space);
  }
  Site& s = b.tally.sites[i.site];
  uint32_t differs = s.mask ^ m;
  for (int k = 0; k < kLanes; ++k) differs |= offsets[k] ^ s.pattern[static_cast<size_t>(k)];
  if (differs) learn(s, space, base, offsets, m, bytes);
  else if (s.phase != phase_of(space, base)) move_phase(s, base, bytes);
  if (!s.aligned || base % bytes) return false;
  const uint64_t low = base + static_cast<uint64_t>(int64_t{s.low}),
                 size = static_cast<uint64_t>(int64_t{s.high} - s.low) + bytes;
  switch (space) {
    case Space::Shared:
      if (low >= b.shared_bytes || size > b.shared_bytes - low) return false;
      out.base = b.shared + base;
      out.windows = true;
      break;
    case Space::Local: {
      const uint32_t stride = b.program->local_bytes;
      if (low >= stride || size > stride - low) return false;
      out.base = b.local + static_cast<uint64_t>(w.index) * kLanes * stride + base;
      for (uint32_t k = 0; k < kLanes; ++k) offsets[k] += k * stride;
      out.offsets = offsets;
      return true;  // not counted, and not a pattern of host addresses
    }
    case Space::Param: return false;
    default:
      if (!b.memory->reachable(low, size)) return false;
      out.base = reinterpret_cast<uint8_t*>(base);
      out.windows = b.memory->readable_beyond(low);
  }
  ++s.requests;
  s.parts += s.known;
  out.offsets = offsets;
  out.site = &s;
  return true;
}

template <class T, class C> HWY_INLINE C extended(T v) {
  return static_cast<C>(static_cast<std::conditional_t<std::is_signed_v<T>, std::make_signed_t<C>, C>>(v));
}

// values: `N` elements of lane 0, of lane 1, ...; into N registers of 32 cells.
template <class T, class C, int N> HWY_INLINE void spread(Warp& w, const uint32_t* p, const T* values, uint32_t m) {
  for (int e = 0; e < N; ++e) {
    C* d = cells<C>(w, p[e]);
    if (m == kFull) {
      for (int k = 0; k < kLanes; ++k) d[k] = extended<T, C>(values[k * N + e]);
    } else {
      for (int k = 0; k < kLanes; ++k) d[k] = m >> k & 1 ? extended<T, C>(values[k * N + e]) : d[k];
    }
  }
}

#if HWY_TARGET <= HWY_AVX3
// All words are within 256 bytes: two or four vectors are read once, and each register is a permutation of them.
template <int N> HWY_INLINE void window(Warp& w, const uint32_t* p, const Located& at) {
  const Site& s = *at.site;
  const uint8_t* from = at.base + s.low;
  const bool small = s.high - s.low + 4 * N <= 128;
  const __m512i x0 = _mm512_loadu_si512(from), x1 = _mm512_loadu_si512(from + 64);
  __m512i i0 = _mm512_load_si512(s.words.data()), i1 = _mm512_load_si512(s.words.data() + 16);
  const __m512i one = _mm512_set1_epi32(1), top = _mm512_set1_epi32(32);
  if (small) {
    for (int e = 0; e < N; ++e) {
      uint32_t* d = cells<uint32_t>(w, p[e]);
      _mm512_store_si512(d, _mm512_permutex2var_epi32(x0, i0, x1));
      _mm512_store_si512(d + 16, _mm512_permutex2var_epi32(x0, i1, x1));
      i0 = _mm512_add_epi32(i0, one);
      i1 = _mm512_add_epi32(i1, one);
    }
    return;
  }
  const __m512i x2 = _mm512_loadu_si512(from + 128), x3 = _mm512_loadu_si512(from + 192);
  for (int e = 0; e < N; ++e) {
    uint32_t* d = cells<uint32_t>(w, p[e]);
    const __m512i l0 = _mm512_permutex2var_epi32(x0, i0, x1), l1 = _mm512_permutex2var_epi32(x0, i1, x1);
    const __m512i h0 = _mm512_permutex2var_epi32(x2, i0, x3), h1 = _mm512_permutex2var_epi32(x2, i1, x3);
    _mm512_store_si512(d, _mm512_mask_blend_epi32(_mm512_test_epi32_mask(i0, top), l0, h0));
    _mm512_store_si512(d + 16, _mm512_mask_blend_epi32(_mm512_test_epi32_mask(i1, top), l1, h1));
    i0 = _mm512_add_epi32(i0, one);
    i1 = _mm512_add_epi32(i1, one);
  }
}
#endif

template <class T, class C, int N> HWY_INLINE void load_located(const Inst& i, Warp& w, uint32_t m, const Located& at) {
  const uint32_t* p = &w.block->program->places[i.more];
  const Pattern kind = at.site ? at.site->kind : Pattern::Any;
  if (m == kFull && kind == Pattern::Linear) {
    if constexpr (sizeof(T) == sizeof(C) && N == 1) {
      std::memcpy(cells<C>(w, p[0]), at.base, sizeof(T) * kLanes);
    } else {
      T values[kLanes * N];
      std::memcpy(values, at.base, sizeof values);
      spread<T, C, N>(w, p, values, m);
    }
    return;
  }
  if (m == kFull && kind == Pattern::Uniform) {
    T values[N];
    std::memcpy(values, at.base, sizeof values);
    for (int e = 0; e < N; ++e) std::fill_n(cells<C>(w, p[e]), kLanes, extended<T, C>(values[e]));
    return;
  }
#if HWY_TARGET <= HWY_AVX3
  if constexpr (sizeof(T) == 4 && sizeof(C) == 4)
    if (m == kFull && kind == Pattern::Window && at.windows) return window<N>(w, p, at);
#endif
  T values[kLanes * N];
  if (m == kFull) {
    for (int k = 0; k < kLanes; ++k)
      std::memcpy(&values[k * N], at.base + static_cast<int32_t>(at.offsets[k]), sizeof(T) * N);
  } else {
    std::memset(values, 0, sizeof values);
    each_lane(
      m, [&](int k) { std::memcpy(&values[k * N], at.base + static_cast<int32_t>(at.offsets[k]), sizeof(T) * N); });
  }
  spread<T, C, N>(w, p, values, m);
}

template <class T, class C, int N>
HWY_INLINE void store_located(const Inst& i, Warp& w, uint32_t m, const Located& at) {
  const uint32_t* p = &w.block->program->places[i.more];
  const bool linear = m == kFull && at.site && at.site->kind == Pattern::Linear;
  if constexpr (sizeof(T) == sizeof(C) && N == 1)
    if (linear) {
      std::memcpy(at.base, cells<C>(w, p[0]), sizeof(T) * kLanes);
      return;
    }
  T values[kLanes * N];
  for (int e = 0; e < N; ++e) {
    const C* from = cells<C>(w, p[e]);
    for (int k = 0; k < kLanes; ++k) values[k * N + e] = static_cast<T>(from[k]);
  }
  if (linear) std::memcpy(at.base, values, sizeof values);
  else
    each_lane(
      m, [&](int k) { std::memcpy(at.base + static_cast<int32_t>(at.offsets[k]), &values[k * N], sizeof(T) * N); });
}

template <class T> void put(Warp& w, uint32_t place, uint8_t bytes, int lane, T v) {
  if (bytes == 8) cells<uint64_t>(w, place)[lane] = extended<T, uint64_t>(v);
  else cells<uint32_t>(w, place)[lane] = extended<T, uint32_t>(v);
}

bool counted(Space s) { return s == Space::Global || s == Space::Const || s == Space::Shared || s == Space::Generic; }

// Lane by lane, with all checks; faults are detected here.
template <class T> void load_each(const Inst& i, Warp& w, uint32_t m) {
  alignas(64) uint64_t address[kLanes];
  addresses(i, w, address);
  const uint32_t* p = &w.block->program->places[i.more];
  const uint32_t bytes = static_cast<uint32_t>(sizeof(T)) * i.count;
  each_lane(m, [&](int k) {
    T values[4];
    std::memcpy(values, resolve(w, i.space, address[k], bytes, k, Access::Read), bytes);
    for (uint32_t e = 0; e < i.count; ++e) put<T>(w, p[e], i.d_bytes, k, values[e]);
  });
  if (counted(i.space)) count_request(i, w, i.space, address, m, bytes);
}
template <class T> void store_each(const Inst& i, Warp& w, uint32_t m) {
  alignas(64) uint64_t address[kLanes];
  addresses(i, w, address);
  const uint32_t* p = &w.block->program->places[i.more];
  const uint32_t bytes = static_cast<uint32_t>(sizeof(T)) * i.count;
  each_lane(m, [&](int k) {
    T values[4];
    for (uint32_t e = 0; e < i.count; ++e) values[e] = static_cast<T>(wide(w, p[e], i.d_bytes, k));
    std::memcpy(resolve(w, i.space, address[k], bytes, k, Access::Write), values, bytes);
  });
  if (counted(i.space)) count_request(i, w, i.space, address, m, bytes);
}

// f<Cell, count>() for the registers' size and the number of elements that the instruction moves.
template <class T, class F> HWY_INLINE void by_shape(const Inst& i, const F& f) {
  if constexpr (sizeof(T) < 8)
    if (i.d_bytes == 4) {
      if (i.count == 1) return f.template operator()<uint32_t, 1>();
      if (i.count == 2) return f.template operator()<uint32_t, 2>();
      return f.template operator()<uint32_t, 4>();
    }
  if (i.count == 1) return f.template operator()<uint64_t, 1>();
  if (i.count == 2) return f.template operator()<uint64_t, 2>();
  if constexpr (sizeof(T) < 8) f.template operator()<uint64_t, 4>();
}

template <class T> void load(const Inst& i, Warp& w) {
  const uint32_t m = active(i, w);
  if (!m) return;
  alignas(64) uint32_t offsets[kLanes];
  Located at;
  if (!locate(i, w, m, static_cast<uint32_t>(sizeof(T)) * i.count, offsets, at)) return load_each<T>(i, w, m);
  by_shape<T>(i, [&]<class Cell, int count>() HWY_ATTR { load_located<T, Cell, count>(i, w, m, at); });
}

template <class T> void store(const Inst& i, Warp& w) {
  const uint32_t m = active(i, w);
  if (!m) return;
  alignas(64) uint32_t offsets[kLanes];
  Located at;
  if (!locate(i, w, m, static_cast<uint32_t>(sizeof(T)) * i.count, offsets, at)) return store_each<T>(i, w, m);
  by_shape<T>(i, [&]<class Cell, int count>() HWY_ATTR { store_located<T, Cell, count>(i, w, m, at); });
}

// The launch's arguments: the address is almost always the same in all lanes.
template <class T> void load_param(const Inst& i, Warp& w) {
  const uint32_t m = active(i, w);
  const auto* a = cells<uint64_t>(w, i.a);
  const BlockState& b = *w.block;
  const uint32_t bytes = static_cast<uint32_t>(sizeof(T)) * i.count;
  const uint64_t at = a[0] + static_cast<uint64_t>(i.imm);
  uint64_t differs = i.a_bytes ^ 8u;
  if (!differs)
    for (int k = 0; k < kLanes; ++k) differs |= a[k] ^ a[0];
  if (differs || m != kFull || at % bytes || at >= b.program->param_bytes || bytes > b.program->param_bytes - at)
    return load_each<T>(i, w, m);
  T values[4];
  std::memcpy(values, b.params + at, bytes);
  for (uint32_t e = 0; e < i.count; ++e) {
    const uint32_t place = b.program->places[i.more + e];
    if (i.d_bytes == 8) std::fill_n(cells<uint64_t>(w, place), kLanes, extended<T, uint64_t>(values[e]));
    else std::fill_n(cells<uint32_t>(w, place), kLanes, extended<T, uint32_t>(values[e]));
  }
}

template <class T> Handler either(Space space) { return space == Space::Param ? load_param<T> : load<T>; }

Handler load_of(Type t, Space s, bool extends) {
  switch (size_of(t)) {
    case 1: return is_signed(t) ? either<int8_t>(s) : either<uint8_t>(s);
    case 2: return is_signed(t) ? either<int16_t>(s) : either<uint16_t>(s);
    case 4: return is_signed(t) && extends ? either<int32_t>(s) : either<uint32_t>(s);
    case 8: return either<uint64_t>(s);
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
  const Handler h = loads ? load_of(t, b.out.space, b.out.d_bytes == 8) : store_of(t);
  if (!h) b.unsupported();
  b.emit(h, class_of(b.out.space));
  return true;
}

}  // namespace HWY_NAMESPACE
}  // namespace strata::cuda::vgpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::cuda::vgpu {
HWY_EXPORT(select_memory);
bool select_memory(Builder& b) { return HWY_DYNAMIC_DISPATCH(select_memory)(b); }
}  // namespace strata::cuda::vgpu
#endif
