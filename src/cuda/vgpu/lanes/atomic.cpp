// atom and red: every operation and type, on device and shared memory.
#include <algorithm>

#include "cuda/vgpu/lanes/access.h"
#include "cuda/vgpu/lanes/pick.h"

namespace strata::cuda::vgpu {

namespace {

enum Op : uint8_t { kAdd, kMin, kMax, kAnd, kOr, kXor, kExch, kCas, kInc, kDec };

struct HalfPair {
  uint32_t bits;
};
struct BrainPair {
  uint32_t bits;
};
struct HalfOne {
  uint16_t bits;
};
struct BrainOne {
  uint16_t bits;
};

template <class H> uint16_t add16(uint16_t a, uint16_t b) {
  if constexpr (std::is_same_v<H, HalfPair> || std::is_same_v<H, HalfOne>)
    return float_to_half(half_to_float(a) + half_to_float(b));
  else return float_to_bf16(bf16_to_float(a) + bf16_to_float(b));
}

template <class T> T combined(uint8_t op, T old, T b, T c) {
  if constexpr (std::is_same_v<T, HalfPair> || std::is_same_v<T, BrainPair>) {
    const uint32_t low = add16<T>(static_cast<uint16_t>(old.bits), static_cast<uint16_t>(b.bits));
    return {low |
            static_cast<uint32_t>(add16<T>(static_cast<uint16_t>(old.bits >> 16), static_cast<uint16_t>(b.bits >> 16)))
              << 16};
  } else if constexpr (std::is_same_v<T, HalfOne> || std::is_same_v<T, BrainOne>) {
    return {add16<T>(old.bits, b.bits)};
  } else if constexpr (std::is_floating_point_v<T>) {
    return op == kAdd ? old + b : op == kExch ? b : old;
  } else {
    using U = std::make_unsigned_t<T>;
    switch (op) {
      case kAdd: return static_cast<T>(U(old) + U(b));
      case kMin: return std::min(old, b);
      case kMax: return std::max(old, b);
      case kAnd: return old & b;
      case kOr: return old | b;
      case kXor: return old ^ b;
      case kExch: return b;
      case kCas: return old == b ? c : old;
      case kInc: return old >= b ? T(0) : static_cast<T>(old + 1);
      default: return old == 0 || old > b ? b : static_cast<T>(old - 1);
    }
  }
}

// Lanes run in order. Blocks may run concurrently, hence the host's compare-and-swap.
template <class T> void atomic(const Inst& i, Warp& w) {
  const uint32_t m = active(i, w);
  if (!m) return;
  uint64_t address[kLanes], sorted[kLanes];
  addresses(i, w, address);
  size_t n = 0;
  each_lane(m, [&](int k) {
    using Raw = std::conditional_t<sizeof(T) == 8, uint64_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint16_t>>;
    auto* at = reinterpret_cast<Raw*>(resolve(w, i.space, address[k], sizeof(T), k, Access::Atomic));
    const T b = unpack<T>(cells<Cell<T>>(w, i.b)[k]), c = unpack<T>(cells<Cell<T>>(w, i.c)[k]);
    Raw old = __atomic_load_n(at, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(at, &old, std::bit_cast<Raw>(combined<T>(i.op, std::bit_cast<T>(old), b, c)),
                                        false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {}
    if (i.count) cells<Cell<T>>(w, i.d)[k] = old;
    sorted[n++] = address[k];
  });
  w.block->tally.atomics += n;
  std::sort(sorted, sorted + n);
  w.block->tally.atomic_conflicts += n - static_cast<size_t>(std::unique(sorted, sorted + n) - sorted);
  count_request(i, w, i.space, address, m, sizeof(T));
}

Handler handler(Type t, uint8_t op) {
  const bool sums = op == kAdd;
  switch (t) {
    case Type::F32: return sums || op == kExch ? Handler(atomic<float>) : nullptr;
    case Type::F64: return sums || op == kExch ? Handler(atomic<double>) : nullptr;
    case Type::F16: return sums ? Handler(atomic<HalfOne>) : nullptr;
    case Type::BF16: return sums ? Handler(atomic<BrainOne>) : nullptr;
    case Type::F16x2: return sums ? Handler(atomic<HalfPair>) : nullptr;
    case Type::BF16x2: return sums ? Handler(atomic<BrainPair>) : nullptr;
    case Type::B16:
    case Type::U16: return op == kCas || op == kExch ? Handler(atomic<uint16_t>) : nullptr;
    case Type::B32:
    case Type::U32: return atomic<uint32_t>;
    case Type::S32: return atomic<int32_t>;
    case Type::B64:
    case Type::U64: return atomic<uint64_t>;
    case Type::S64: return atomic<int64_t>;
    default: return nullptr;
  }
}

}  // namespace

bool select_atomic(Builder& b) {
  const bool returns = b.in.op == "atom";
  if (!returns && b.in.op != "red") return false;
  b.ignore({"relaxed", "acquire", "release", "acq_rel", "gpu", "cta", "sys", "cluster", "noftz"});
  const Space space = b.space();
  constexpr std::string_view kNames[] = {"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"};
  size_t op = 0;
  while (op < std::size(kNames) && !b.flag(kNames[op])) ++op;
  if (op == std::size(kNames)) b.unsupported();
  const Type t = b.type();
  const size_t first = returns ? 1 : 0, sources = op == kCas ? 2 : 1;
  b.operands(first + 1 + sources, first + 1 + sources);
  b.out.op = static_cast<uint8_t>(op);
  b.out.b = b.out.c = b.src(first + 1, t);
  if (sources == 2) b.out.c = b.src(first + 2, t);
  b.out.count = returns && b.operand(0).name != "_";
  if (b.out.count) b.out.d = b.dst(0, t);
  b.address(first, space);
  b.memory(b.out.space);
  // Integer sums are the same in any order; values read back, or rounded, are not.
  if (b.out.space != Space::Shared && (b.out.count || is_float(t) || op == kExch || op == kCas))
    b.program().ordered = true;
  const Handler h = handler(t, b.out.op);
  if (!h) b.unsupported();
  b.emit(h, Class::Atomic);
  return true;
}

}  // namespace strata::cuda::vgpu
