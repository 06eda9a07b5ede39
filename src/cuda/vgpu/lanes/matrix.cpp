// Matrices of a warp: ldmatrix, stmatrix and mma.sync.
//
// Every shape of mma.sync has one layout. With g = lane / 4, t = lane % 4 and E elements per 32-bit register (1 for tf32
// and f64), register r of A holds A[g + 8 * (r % H)][(r / H) * 4E + t * E + e], H being 2 for 16 rows and 1 for 8; register
// r of B holds B[r * 4E + t * E + e][g]; element r of C and D is C[g + 8 * (r / 2)][2t + r % 2].
// Products are exact and summed in double (integers exactly), then rounded once: the card sums in its own order.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cuda/vgpu/lanes/matrix.cpp"
#include <fmt/core.h>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "cuda/vgpu/lanes/access.h"
#include "cuda/vgpu/lanes/pick.h"

#include "cuda/vgpu/lanes/loops.inl"

HWY_BEFORE_NAMESPACE();
namespace strata::cuda::vgpu {
namespace HWY_NAMESPACE {

namespace {

struct Shape {
  int rows, depth;  // 8 columns always
};
constexpr int kDeepest = 32;

// Converts the elements of a register of all lanes to double: a register's cells are adjacent, and so are their
// elements.
HWY_INLINE void elements(Warp& w, Type t, int per, uint32_t place, double* out) {
  const int n = kLanes * per;
  switch (t) {
    case Type::F64: std::memcpy(out, cells<double>(w, place), sizeof(double) * kLanes); break;
    case Type::F16:
      for (int k = 0; k < n; ++k) out[k] = half_to_float(cells<uint16_t>(w, place)[k]);
      break;
    case Type::BF16:
      for (int k = 0; k < n; ++k) out[k] = bf16_to_float(cells<uint16_t>(w, place)[k]);
      break;
    case Type::TF32:
      for (int k = 0; k < n; ++k) out[k] = std::bit_cast<float>(cells<uint32_t>(w, place)[k] & 0xffffe000u);
      break;
    case Type::S8:
      for (int k = 0; k < n; ++k) out[k] = cells<int8_t>(w, place)[k];
      break;
    default:
      for (int k = 0; k < n; ++k) out[k] = cells<uint8_t>(w, place)[k];
  }
}

// imm: rows | depth << 8 | type of A << 16 | of B << 24; op: type of C and D. places: D, A, B, C.
void mma(const Inst& i, Warp& w) {
  const int rows = static_cast<int>(i.imm & 255), depth = static_cast<int>(i.imm >> 8 & 255);
  const auto ta = static_cast<Type>(i.imm >> 16 & 255), tb = static_cast<Type>(i.imm >> 24 & 255),
             tc = static_cast<Type>(i.op);
  const int per = ta == Type::F64 ? 1 : 4 / size_of(ta), halves = rows / 8;
  const int na = rows * depth / kLanes / per, nb = 8 * depth / kLanes / per, nc = rows * 8 / kLanes;
  const int nd = tc == Type::F16 ? nc / 2 : nc;
  const uint32_t *pd = &w.block->program->places[i.more], *pa = pd + nd, *pb = pa + na, *pc = pb + nb;
  alignas(64) double a[16][kDeepest], b[kDeepest][8], sum[16][8], part[4 * kLanes];
  for (int r = 0; r < na; ++r) {  // lane 4g + t has 4 neighbours in row g
    elements(w, ta, per, pa[r], part);
    for (int g = 0; g < 8; ++g)
      std::memcpy(&a[g + 8 * (r % halves)][r / halves * 4 * per], &part[g * 4 * per],
                  sizeof(double) * 4 * static_cast<size_t>(per));
  }
  for (int r = 0; r < nb; ++r) {
    elements(w, tb, per, pb[r], part);
    for (int g = 0; g < 8; ++g)
      for (int k = 0; k < 4 * per; ++k) b[r * 4 * per + k][g] = part[g * 4 * per + k];
  }
  for (int row = 0; row < rows; ++row) {
    double s[8] = {};
    for (int k = 0; k < depth; ++k)
      for (int q = 0; q < 8; ++q) s[q] += a[row][k] * b[k][q];
    std::memcpy(sum[row], s, sizeof s);
  }
  alignas(64) uint64_t old[4][kLanes];  // C, which D may overlap in another order
  for (int r = 0; r < nd; ++r) std::memcpy(old[r], cells<uint8_t>(w, pc[r]), (tc == Type::F64 ? 8 : 4) * kLanes);
  for (int r = 0; r < nc; ++r) {  // element r of lane 4g + t: row g + 8 (r / 2), column 2 t + r % 2
    const auto at = [&](int lane) { return sum[(lane >> 2) + 8 * (r >> 1)][2 * (lane & 3) + (r & 1)]; };
    switch (tc) {
      case Type::F64:
        for (int k = 0; k < kLanes; ++k)
          cells<double>(w, pd[r])[k] = reinterpret_cast<const double*>(old[r])[k] + at(k);
        break;
      case Type::F32:
        for (int k = 0; k < kLanes; ++k)
          cells<float>(w, pd[r])[k] = static_cast<float>(reinterpret_cast<const float*>(old[r])[k] + at(k));
        break;
      case Type::S32:
        for (int k = 0; k < kLanes; ++k) {
          const int64_t v = int64_t{reinterpret_cast<const int32_t*>(old[r])[k]} + static_cast<int64_t>(at(k));
          cells<int32_t>(w, pd[r])[k] = static_cast<int32_t>(i.sat ? std::clamp<int64_t>(v, INT32_MIN, INT32_MAX) : v);
        }
        break;
      default:
        for (int k = 0; k < kLanes; ++k) {
          const int shift = 16 * (r & 1);
          const double c =
            half_to_float(static_cast<uint16_t>(reinterpret_cast<const uint32_t*>(old[r >> 1])[k] >> shift));
          uint32_t& d = cells<uint32_t>(w, pd[r >> 1])[k];
          d = (d & ~(0xffffu << shift)) | static_cast<uint32_t>(encode(c + at(k), kF16, Rounding::Nearest)) << shift;
        }
    }
  }
}

// Lane 8q + r gives the address of row r of matrix q; lane l gets elements 2(l % 4), 2(l % 4) + 1 of row l / 4.
void move_matrix(const Inst& i, Warp& w) {  // op: 1 transposed, 2 store
  uint64_t address[kLanes];
  addresses(i, w, address);
  const uint32_t* p = &w.block->program->places[i.more];
  uint32_t rows = 0;
  for (int q = 0; q < i.count; ++q) {
    uint8_t* row[8];
    for (int r = 0; r < 8; ++r) {
      row[r] = resolve(w, Space::Shared, address[8 * q + r], 16, 8 * q + r, i.op & 2 ? Access::Write : Access::Read);
      rows |= 1u << (8 * q + r);
    }
    auto* cell = cells<uint16_t>(w, p[q]);  // lanes 4r to 4r + 3 hold row r, adjacent
    for (int r = 0; r < 8; ++r)
      if (i.op & 1) {
        for (int c = 0; c < 8; ++c) {
          if (i.op & 2) std::memcpy(row[c] + 2 * r, &cell[8 * r + c], 2);
          else std::memcpy(&cell[8 * r + c], row[c] + 2 * r, 2);
        }
      } else if (i.op & 2) {
        std::memcpy(row[r], &cell[8 * r], 16);
      } else {
        std::memcpy(&cell[8 * r], row[r], 16);
      }
  }
  count_request(i, w, Space::Shared, address, rows, 16);
}

size_t append(Builder& b, const std::vector<ptx::Operand>& items, Type t, bool written, std::vector<uint32_t>& places) {
  for (const auto& item : items) places.push_back(written ? b.dst(item, t) : b.src(item, t));
  return items.size();
}

bool product(Builder& b) {
  b.ignore({"sync", "aligned", "row", "col", "rn"});
  b.out.sat = b.flag("satfinite");
  constexpr std::pair<std::string_view, Shape> kShapes[] = {{"m16n8k4", {16, 4}},   {"m16n8k8", {16, 8}},
                                                            {"m16n8k16", {16, 16}}, {"m16n8k32", {16, 32}},
                                                            {"m8n8k4", {8, 4}},     {"m8n8k16", {8, 16}}};
  Shape shape{0, 0};
  for (const auto& [name, s] : kShapes)
    if (b.flag(name)) shape = s;
  const Type td = b.type(), ta = b.type(), tb = b.type(), tc = b.type();
  const bool byte = (ta == Type::S8 || ta == Type::U8) && (tb == Type::S8 || tb == Type::U8);
  const bool half = (ta == Type::F16 || ta == Type::BF16) && ta == tb, tf32 = ta == Type::TF32 && tb == ta;
  const bool f64 = ta == Type::F64 && tb == ta && td == ta;
  const bool known =
    td == tc &&
    ((half && shape.rows == 16 && (shape.depth == 8 || shape.depth == 16) &&
      (td == Type::F32 || (td == Type::F16 && ta == Type::F16))) ||
     (tf32 && shape.rows == 16 && shape.depth <= 8 && td == Type::F32) ||
     (byte && td == Type::S32 && ((shape.rows == 16 && shape.depth >= 16) || (shape.rows == 8 && shape.depth == 16))) ||
     (f64 && ((shape.rows == 8 && shape.depth == 4) || (shape.rows == 16 && shape.depth <= 16))));
  if (!known || shape.rows == 0) b.unsupported();
  const int per = f64 ? 1 : 4 / size_of(ta);
  const auto na = static_cast<size_t>(shape.rows * shape.depth / kLanes / per),
             nb = static_cast<size_t>(8 * shape.depth / kLanes / per);
  const auto nc = static_cast<size_t>(shape.rows * 8 / kLanes / (td == Type::F16 ? 2 : 1));
  b.operands(4, 4);
  const Type cell = f64 ? Type::F64 : Type::B32;
  const auto items = [&](size_t k) {
    return b.operand(k).kind == ptx::Operand::Vector ? b.operand(k).items : std::vector{b.operand(k)};
  };
  std::vector<uint32_t> places, sources;
  if (append(b, items(1), cell, false, sources) != na || append(b, items(2), cell, false, sources) != nb ||
      append(b, items(3), cell, false, sources) != nc || append(b, items(0), cell, true, places) != nc)
    b.wrong(fmt::format("this shape has {} registers of A, {} of B, {} of C and D", na, nb, nc));
  places.insert(places.end(), sources.begin(), sources.end());
  b.out.more = b.place_all(places);
  b.out.imm = shape.rows | shape.depth << 8 | static_cast<int64_t>(ta) << 16 | static_cast<int64_t>(tb) << 24;
  b.out.op = static_cast<uint8_t>(td);
  b.emit_together(mma, Class::Matrix, b.constant(kFull, 4));
  return true;
}

}  // namespace

bool select_matrix(Builder& b) {
  const std::string& op = b.in.op;
  if (op == "mma") return product(b);
  if (op != "ldmatrix" && op != "stmatrix") return false;
  const bool stores = op == "stmatrix";
  b.ignore({"sync", "aligned", "m8n8", "shared", "shared::cta", "b16"});
  const size_t n = b.flag("x4") ? 4 : b.flag("x2") ? 2 : 1;
  b.ignore({"x1"});
  b.out.op = static_cast<uint8_t>((b.flag("trans") ? 1 : 0) | (stores ? 2 : 0));
  b.operands(2, 2);
  const ptx::Operand& o = b.operand(stores ? 1 : 0);
  const std::vector<ptx::Operand> one{o};
  const auto& items = o.kind == ptx::Operand::Vector ? o.items : one;
  if (items.size() != n) b.wrong(fmt::format("this form has {} registers", n));
  b.out.count = static_cast<uint8_t>(n);
  std::vector<uint32_t> places;
  append(b, items, Type::B32, !stores, places);
  b.out.more = b.place_all(places);
  b.address(stores ? 0 : 1, Space::Shared);
  b.memory(Space::Shared);
  b.emit_together(move_matrix, Class::Shared, b.constant(kFull, 4));
  return true;
}

}  // namespace HWY_NAMESPACE
}  // namespace strata::cuda::vgpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::cuda::vgpu {
HWY_EXPORT(select_matrix);
bool select_matrix(Builder& b) { return HWY_DYNAMIC_DISPATCH(select_matrix)(b); }
}  // namespace strata::cuda::vgpu
#endif
