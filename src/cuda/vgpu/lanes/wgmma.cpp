// wgmma: matrix products of four warps, with factors in shared memory.
//
// Each warp computes its 16 of the 64 rows when the instruction is issued; wgmma.wait_group only ends the time in which
// the race check knows that the factors are being read. Compilers move sums between instructions that are in flight, so
// a missing wait cannot be detected by late results. Sums are in double and rounded once per instruction, as for mma.
//
// A factor in shared memory is made of units of 16 bytes. Along its dense dimension a row of the swizzle (32, 64 or 128
// bytes) is contiguous; 8 such rows follow each other. See operand_unit for the two strides of a descriptor.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cuda/vgpu/lanes/wgmma.cpp"
#include <fmt/core.h>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <charconv>

#include "cuda/vgpu/lanes/access.h"
#include "cuda/vgpu/lanes/pick.h"
#include "cuda/vgpu/tensor_map.h"

#include "cuda/vgpu/lanes/loops.inl"

HWY_BEFORE_NAMESPACE();
namespace strata::cuda::vgpu {
namespace HWY_NAMESPACE {

namespace {

constexpr int kWarps = 4, kRows = 16, kDeepest = 32, kWidest = 256, kUnit = 16, kStepBytes = 32;

// imm: columns | flags << 16; op: type of D; d_bytes, a_bytes: types of A and B. places: D, then A if in registers. a, b:
// descriptors; c: the predicate of the old sums.
enum : int64_t { kTransposeA = 1, kTransposeB = 2, kNegateA = 4, kNegateB = 8, kRegistersA = 16 };

struct Descriptor {
  uint32_t start, leading, stride;
  int swizzle;  // as in TensorMap
  bool transposed;
};

Descriptor read_descriptor(Warp& w, uint32_t place, bool transposed) {
  const auto* all = cells<uint64_t>(w, place);
  const uint64_t bits = all[0];
  for (int k = 1; k < kLanes; ++k)
    if (all[k] != bits)
      fault(w, kIllegalInstruction, "the lanes have different matrix descriptors", static_cast<uint32_t>(k));
  const auto field = [&](int at) { return static_cast<uint32_t>(bits >> at & 0x3fff) << 4; };
  const int mode = static_cast<int>(bits >> 62);
  const Descriptor d{field(0), field(16), field(32), mode ? 4 - mode : 0, transposed};
  const uint32_t pattern = d.swizzle ? 128u << d.swizzle : kUnit;
  const uint32_t rows = d.start & (pattern - 1) & ~127u;
  if (bits >> 49 & 7 || rows)
    fault(w, kMisaligned,
          fmt::format(
            "matrix descriptor 0x{:x}: address 0x{:x} is {} bytes after the start of a swizzle pattern of {} bytes",
            bits, d.start, rows, pattern),
          0);
  return d;
}

// Address of unit `inner` of a factor, counted along the dense dimension, at `outer` along the other one.
uint32_t operand_unit(const Descriptor& d, uint32_t outer, uint32_t inner) {
  const uint32_t units = 1u << d.swizzle;  // of a contiguous row
  uint32_t at = d.start + outer % 8 * units * kUnit;
  if (d.swizzle == 0 && d.transposed) at += outer / 8 * d.leading + inner * d.stride;
  else at += outer / 8 * d.stride + inner / units * d.leading + inner % units * kUnit;
  return swizzled(at, d.swizzle);
}

HWY_INLINE void convert(Type t, const uint8_t* from, double* out) {  // one unit
  static const auto bytes = [](const Format& f) {
    std::array<double, 256> all{};
    for (size_t k = 0; k < all.size(); ++k) all[k] = decode(k, f);
    return all;
  };
  static const std::array<double, 256> e4m3 = bytes(kE4M3), e5m2 = bytes(kE5M2);
  uint16_t half[8];
  uint32_t word[4];
  switch (t) {
    case Type::F16:
      std::memcpy(half, from, kUnit);
      for (int k = 0; k < 8; ++k) out[k] = half_to_float(half[k]);
      break;
    case Type::BF16:
      std::memcpy(half, from, kUnit);
      for (int k = 0; k < 8; ++k) out[k] = bf16_to_float(half[k]);
      break;
    case Type::TF32:
      std::memcpy(word, from, kUnit);
      for (int k = 0; k < 4; ++k) out[k] = std::bit_cast<float>(word[k] & 0xffffe000u);
      break;
    case Type::E4M3:
      for (int k = 0; k < 16; ++k) out[k] = e4m3[from[k]];
      break;
    case Type::E5M2:
      for (int k = 0; k < 16; ++k) out[k] = e5m2[from[k]];
      break;
    case Type::S8:
      for (int k = 0; k < 16; ++k) out[k] = static_cast<int8_t>(from[k]);
      break;
    default:
      for (int k = 0; k < 16; ++k) out[k] = from[k];
  }
}

// Reads `count` rows of A, or columns of B, from `first` on: element (i, k) goes to out[i * step_i + k * step_k].
void read_factor(Warp& w, const Descriptor& d, Type t, uint32_t first, uint32_t count, double* out, size_t step_i,
                 size_t step_k) {
  BlockState& b = *w.block;
  // A kernel for few rows leaves the other rows of A undefined, so checks look at the first 16 only.
  const bool checked = b.checks && first == 0;
  const auto per = static_cast<uint32_t>(kUnit / size_of(t)), depth = static_cast<uint32_t>(kStepBytes / size_of(t));
  const uint32_t outer_first = d.transposed ? 0 : first, outer_count = d.transposed ? depth : count;
  const uint32_t inner_first = d.transposed ? first / per : 0, inner_count = (d.transposed ? count : depth) / per;
  uint32_t low = UINT32_MAX, high = 0;
  for (uint32_t o = 0; o < outer_count; ++o)
    for (uint32_t n = 0; n < inner_count; ++n) {
      const uint32_t at = operand_unit(d, outer_first + o, inner_first + n);
      if (at + kUnit > b.shared_bytes)
        fault(w, kIllegalAddress,
              fmt::format("wgmma reads shared address 0x{:x}, of {} bytes of the block", at, b.shared_bytes), 0);
      if (checked) b.history.touch(w, at, kUnit, 0, Access::Read);
      low = std::min(low, at);
      high = std::max(high, at + kUnit);
      double values[kUnit];
      convert(t, b.shared + at, values);
      for (uint32_t e = 0; e < per; ++e)
        out[d.transposed ? (n * per + e) * step_i + o * step_k : o * step_i + (n * per + e) * step_k] = values[e];
    }
  if (checked && b.checks & kCheckRace) w.matrix_reads.push_back({low, high, w.matrix_group});
}

// A in registers, in the layout of mma.sync.
void read_registers(Warp& w, Type t, const uint32_t* places, double* out) {
  const int per = 4 / size_of(t);
  for (int r = 0; r < 4; ++r)
    for (int lane = 0; lane < kLanes; ++lane) {
      uint8_t unit[kUnit] = {};
      std::memcpy(unit, &cells<uint32_t>(w, places[r])[lane], 4);
      double values[kUnit];
      convert(t, unit, values);
      const int row = lane / 4 + 8 * (r % 2), k = r / 2 * 4 * per + lane % 4 * per;
      for (int e = 0; e < per; ++e) out[row * kDeepest + k + e] = values[e];
    }
}

void multiply(const Inst& i, Warp& w) {
  const auto ta = static_cast<Type>(i.d_bytes), tb = static_cast<Type>(i.a_bytes), td = static_cast<Type>(i.op);
  const int columns = static_cast<int>(i.imm & 0xffff), depth = kStepBytes / size_of(ta);
  const int64_t flags = i.imm >> 16;
  if (w.mask != kFull || (w.index / kWarps + 1) * kWarps > w.block->warps.size())
    fault(w, kIllegalInstruction, "wgmma needs four whole warps", 0);
  const int registers = td == Type::F16 ? columns / 4 : columns / 2;
  const uint32_t *pd = &w.block->program->places[i.more], *pa = pd + registers;
  alignas(64) double a[kRows][kDeepest], b[kDeepest][kWidest], sum[kRows][kWidest];
  if (flags & kRegistersA) read_registers(w, ta, pa, &a[0][0]);
  else
    read_factor(w, read_descriptor(w, i.a, flags & kTransposeA), ta, w.index % kWarps * kRows, kRows, &a[0][0],
                kDeepest, 1);
  read_factor(w, read_descriptor(w, i.b, flags & kTransposeB), tb, 0, static_cast<uint32_t>(columns), &b[0][0], 1,
              kWidest);
  const double sign = ((flags & kNegateA) != 0) != ((flags & kNegateB) != 0) ? -1 : 1;
  for (int row = 0; row < kRows; ++row) {
    double* s = sum[row];
    std::fill_n(s, columns, 0.0);
    for (int k = 0; k < depth; ++k) {
      const double x = sign * a[row][k];
      const double* y = b[k];
      for (int n = 0; n < columns; ++n) s[n] += x * y[n];
    }
  }
  const bool adds = mask_at(w, i.c) & 1;
  for (int r = 0; r < columns / 2;
       ++r) {  // element r of lane 4g + t: row g + 8 (r / 2 % 2), column 8 (r / 4) + 2t + r % 2
    const auto at = [&](int lane) {
      return sum[(lane >> 2) + 8 * (r >> 1 & 1)][8 * (r >> 2) + 2 * (lane & 3) + (r & 1)];
    };
    if (td == Type::F32) {
      auto* d = cells<float>(w, pd[r]);
      for (int k = 0; k < kLanes; ++k) d[k] = static_cast<float>((adds ? d[k] : 0.0) + at(k));
    } else if (td == Type::S32) {
      auto* d = cells<int32_t>(w, pd[r]);
      for (int k = 0; k < kLanes; ++k) {
        const int64_t v = (adds ? int64_t{d[k]} : 0) + static_cast<int64_t>(at(k));
        d[k] = static_cast<int32_t>(i.sat ? std::clamp<int64_t>(v, INT32_MIN, INT32_MAX) : v);
      }
    } else {
      auto* d = cells<uint32_t>(w, pd[r >> 1]);
      const int shift = 16 * (r & 1);
      for (int k = 0; k < kLanes; ++k) {
        const double old = adds ? half_to_float(static_cast<uint16_t>(d[k] >> shift)) : 0.0;
        d[k] = (d[k] & ~(0xffffu << shift)) | static_cast<uint32_t>(encode(old + at(k), kF16, Rounding::Nearest))
                                                << shift;
      }
    }
  }
}

void fence(const Inst&, Warp&) {}
void commit(const Inst&, Warp& w) { ++w.matrix_group; }
void wait(const Inst& i, Warp& w) {  // imm: groups that may remain open
  std::erase_if(w.matrix_reads, [&](const MatrixRead& r) { return r.group + i.imm < w.matrix_group; });
}

int64_t number(Builder& b, size_t k, std::initializer_list<int64_t> allowed) {
  const ptx::Operand& o = b.operand(k);
  const auto value = static_cast<int64_t>(o.bits);
  if (o.kind != ptx::Operand::Integer || std::find(allowed.begin(), allowed.end(), value) == allowed.end())
    b.wrong(fmt::format("operand {} has a value that this instruction does not take", k));
  return value;
}

// m64n128k16
int columns_of(Builder& b, int depth) {
  for (const std::string& m : b.in.modifiers) {
    if (!m.starts_with("m64n")) continue;
    int n = 0, k = 0;
    const char *end = m.data() + m.size(), *at = std::from_chars(m.data() + 4, end, n).ptr;
    if (at == end || *at != 'k' || std::from_chars(at + 1, end, k).ptr != end) break;
    if (k != depth || n < 8 || n > kWidest || n % 8) break;
    b.flag(m);
    return n;
  }
  b.unsupported("its shape");
}

void product(Builder& b) {
  b.ignore({"sync", "aligned"});
  b.out.sat = b.flag("satfinite");
  const Type td = b.type(), ta = b.type(), tb = b.type();
  const auto is8 = [](Type t) { return t == Type::E4M3 || t == Type::E5M2; };
  const auto integer = [](Type t) { return t == Type::S8 || t == Type::U8; };
  const bool half = ta == tb && (ta == Type::F16 || ta == Type::BF16), bytes = is8(ta) && is8(tb);
  const bool integers = integer(ta) && integer(tb), tf32 = ta == Type::TF32 && tb == ta;
  const bool known = (td == Type::F32 && (half || tf32 || bytes)) ||
                     (td == Type::F16 && (ta == Type::F16 || bytes) && (half || bytes)) ||
                     (td == Type::S32 && integers);
  if (!known) b.unsupported("its types");
  const int columns = columns_of(b, kStepBytes / size_of(ta));
  const size_t sums = static_cast<size_t>(td == Type::F16 ? columns / 4 : columns / 2);
  const bool registers = b.operand(1).kind == ptx::Operand::Vector;
  const size_t wanted = 4u + (integers ? 0 : 2) + (half ? (registers ? 1 : 2) : 0);
  b.operands(wanted, wanted);
  std::vector<uint32_t> places;
  for (const auto& item : b.operand(0).items) places.push_back(b.dst(item, Type::B32));
  if (places.size() != sums) b.wrong(fmt::format("this shape has {} registers of sums", sums));
  int64_t flags = 0;
  if (registers) {
    flags |= kRegistersA;
    if (b.operand(1).items.size() != 4) b.wrong("A has 4 registers");
    for (const auto& item : b.operand(1).items) places.push_back(b.src(item, Type::B32));
  } else {
    b.out.a = b.src(1, Type::B64);
  }
  b.out.b = b.src(2, Type::B64);
  b.out.c = b.predicate(b.operand(3), false);
  size_t k = 4;
  if (!integers) {
    if (number(b, k++, {1, -1}) < 0) flags |= kNegateA;
    if (number(b, k++, {1, -1}) < 0) flags |= kNegateB;
  }
  if (half && !registers && number(b, k++, {0, 1})) flags |= kTransposeA;
  if (half && number(b, k++, {0, 1})) flags |= kTransposeB;
  b.out.imm = columns | flags << 16;
  b.out.op = static_cast<uint8_t>(td);
  b.out.d_bytes = static_cast<uint8_t>(ta);
  b.out.a_bytes = static_cast<uint8_t>(tb);
  b.out.count = static_cast<uint8_t>(places.size());
  b.out.more = b.place_all(places);
  b.emit_together(multiply, Class::Matrix, b.constant(kFull, 4));
}

}  // namespace

bool select_wgmma(Builder& b) {
  if (b.in.op != "wgmma") return false;
  if (b.flag("mma_async")) {
    product(b);
    return true;
  }
  b.ignore({"sync", "aligned"});
  if (b.flag("fence")) {
    b.operands(0, 0);
    b.emit(fence, Class::Control);
  } else if (b.flag("commit_group")) {
    b.operands(0, 0);
    b.emit(commit, Class::Control);
  } else if (b.flag("wait_group")) {
    b.operands(1, 1);
    if (b.operand(0).kind != ptx::Operand::Integer) b.wrong("wgmma.wait_group takes a number");
    b.out.imm = static_cast<int64_t>(b.operand(0).bits & 0x7fffffff);
    b.emit(wait, Class::Control);
  } else {
    b.unsupported();
  }
  return true;
}

}  // namespace HWY_NAMESPACE
}  // namespace strata::cuda::vgpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::cuda::vgpu {
HWY_EXPORT(select_wgmma);
bool select_wgmma(Builder& b) { return HWY_DYNAMIC_DISPATCH(select_wgmma)(b); }
}  // namespace strata::cuda::vgpu
#endif
