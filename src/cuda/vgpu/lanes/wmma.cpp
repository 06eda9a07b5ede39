// wmma: matrices in fragments of implementation-defined layout.
//
// Element (r, c) of a fragment of C columns is number e = r C + c; it is in lane e / P, where P is the number of
// elements per lane. If PTX gives a lane more registers than elements (f16 for A and B), the rest repeats the first.
#include <fmt/core.h>

#include <algorithm>

#include "cuda/vgpu/lanes/access.h"
#include "cuda/vgpu/lanes/pick.h"

namespace strata::cuda::vgpu {

namespace {

struct Shape {
  std::string_view name;
  int m, n, k;
};
constexpr Shape kShapes[] = {{"m16n16k16", 16, 16, 16},
                             {"m32n8k16", 32, 8, 16},
                             {"m8n32k16", 8, 32, 16},
                             {"m16n16k8", 16, 16, 8},
                             {"m8n8k4", 8, 8, 4}};
constexpr int kMost = 512;  // elements of a fragment

int per_register(Type t) { return size_of(t) >= 4 ? 1 : 4 / size_of(t); }
int bytes_of(Type t) { return size_of(t); }

double element(Type t, uint32_t bits) {
  switch (t) {
    case Type::F16: return half_to_float(static_cast<uint16_t>(bits));
    case Type::BF16: return bf16_to_float(static_cast<uint16_t>(bits));
    case Type::TF32: return std::bit_cast<float>(bits & 0xffffe000u);
    case Type::F32: return std::bit_cast<float>(bits);
    case Type::S32: return static_cast<int32_t>(bits);
    case Type::S8: return static_cast<int8_t>(bits);
    default: return static_cast<uint8_t>(bits);
  }
}

// The registers of a fragment as one array of elements, and back. `rows * columns` elements in `count` registers.
struct Fragment {
  const uint32_t* places;
  Type type;
  int elements, count;
  uint8_t* at(Warp& w, int e, int copy) const {
    const int lane_elements = elements / kLanes, lane = e / lane_elements, slot = e % lane_elements;
    if (type == Type::F64) return reinterpret_cast<uint8_t*>(cells<double>(w, places[slot]) + lane);
    const int per = per_register(type), used = std::max(lane_elements / per, 1);
    return w.registers + places[slot / per + copy * used] + 4 * lane + slot % per * bytes_of(type);
  }
  int copies() const { return type == Type::F64 ? 1 : count / std::max(elements / kLanes / per_register(type), 1); }
};
double value_at(Warp& w, const Fragment& f, int e) {
  if (f.type == Type::F64) return *reinterpret_cast<const double*>(f.at(w, e, 0));
  uint32_t bits = 0;
  std::memcpy(&bits, f.at(w, e, 0), static_cast<size_t>(bytes_of(f.type)));
  return element(f.type, bits);
}

// op: 1 column-major, 2 store; imm: rows | columns << 8 | type << 16; b: the leading dimension.
void transfer(const Inst& i, Warp& w) {
  const uint32_t m = active(i, w);
  if (!m) return;
  const int rows = static_cast<int>(i.imm & 255), columns = static_cast<int>(i.imm >> 8 & 255);
  const auto type = static_cast<Type>(i.imm >> 16 & 255);
  const Fragment f{&w.block->program->places[i.more], type, rows * columns, i.count};
  const int lane = std::countr_zero(m);
  const uint64_t base =
    wide(w, i.a, i.a_bytes, lane) + static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(i.d)));
  const uint32_t leading = cells<uint32_t>(w, i.b)[lane];
  const auto bytes = static_cast<uint32_t>(bytes_of(type));
  uint64_t address[kLanes] = {};
  for (int e = 0; e < rows * columns; ++e) {
    const int r = e / columns, c = e % columns;
    const uint64_t index = i.op & 1 ? static_cast<uint64_t>(c) * leading + static_cast<uint64_t>(r)
                                    : static_cast<uint64_t>(r) * leading + static_cast<uint64_t>(c);
    const uint64_t at = base + index * bytes;
    uint8_t* memory =
      resolve(w, i.space, at, bytes, e / (rows * columns / kLanes), i.op & 2 ? Access::Write : Access::Read);
    if (e % (rows * columns / kLanes) == 0) address[e / (rows * columns / kLanes)] = at;
    if (i.op & 2) std::memcpy(memory, f.at(w, e, 0), bytes);
    else
      for (int copy = 0; copy < f.copies(); ++copy) std::memcpy(f.at(w, e, copy), memory, bytes);
  }
  count_request(i, w, i.space, address, kFull, bytes);
}

// imm: index in kShapes | types of D, A, B and C, 8 bits each above it; places: D, A, B, C; d, a, b, c: their numbers.
void multiply(const Inst& i, Warp& w) {
  const Shape& s = kShapes[i.imm & 255];
  const auto type = [&](int k) { return static_cast<Type>(i.imm >> (8 + 8 * k) & 255); };
  const uint32_t* p = &w.block->program->places[i.more];
  const Fragment d{p, type(0), s.m * s.n, static_cast<int>(i.d)}, a{p + i.d, type(1), s.m * s.k, static_cast<int>(i.a)},
    b{a.places + i.a, type(2), s.k * s.n, static_cast<int>(i.b)},
    c{b.places + i.b, type(3), s.m * s.n, static_cast<int>(i.c)};
  double av[kMost], bv[kMost], cv[kMost];
  for (int e = 0; e < a.elements; ++e) av[e] = value_at(w, a, e);
  for (int e = 0; e < b.elements; ++e) bv[e] = value_at(w, b, e);
  for (int e = 0; e < c.elements; ++e) cv[e] = value_at(w, c, e);
  for (int r = 0; r < s.m; ++r)
    for (int q = 0; q < s.n; ++q) {
      double sum = 0;
      for (int k = 0; k < s.k; ++k) sum += av[r * s.k + k] * bv[k * s.n + q];
      const int e = r * s.n + q;
      sum += cv[e];
      uint8_t* to = d.at(w, e, 0);
      if (d.type == Type::F64) {
        std::memcpy(to, &sum, 8);
      } else if (d.type == Type::F32) {
        const auto v = static_cast<float>(sum);
        std::memcpy(to, &v, 4);
      } else if (d.type == Type::S32) {
        const auto whole = static_cast<int64_t>(sum);
        const auto v = static_cast<int32_t>(i.sat ? std::clamp<int64_t>(whole, INT32_MIN, INT32_MAX) : whole);
        std::memcpy(to, &v, 4);
      } else {
        const auto v = static_cast<uint16_t>(encode(sum, kF16, Rounding::Nearest));
        std::memcpy(to, &v, 2);
      }
    }
}

size_t shape_of(Builder& b) {
  for (size_t k = 0; k < std::size(kShapes); ++k)
    if (b.flag(kShapes[k].name)) return k;
  b.unsupported();
}

Type cell_of(Type t) { return t == Type::F64 ? Type::F64 : Type::B32; }

bool known(Type t) {
  return t == Type::F16 || t == Type::BF16 || t == Type::TF32 || t == Type::F32 || t == Type::F64 || t == Type::S8 ||
         t == Type::U8 || t == Type::S32;
}

void check_count(Builder& b, size_t found, int elements, Type t) {
  const auto least = static_cast<size_t>(std::max(elements / kLanes / per_register(t), 1));
  if (elements % kLanes || elements > kMost || found == 0 || found % least)
    b.wrong(fmt::format("this fragment has {} registers, found {}", least, found));
}

std::vector<ptx::Operand> items_of(Builder& b, size_t k) {
  return b.operand(k).kind == ptx::Operand::Vector ? b.operand(k).items : std::vector{b.operand(k)};
}

bool moves(Builder& b, bool stores) {
  const Shape& s = kShapes[shape_of(b)];
  const bool is_a = b.flag("a"), is_b = b.flag("b");
  if (!is_a && !is_b && !b.flag("c") && !b.flag("d")) b.unsupported();
  const int rows = is_b ? s.k : s.m, columns = is_a ? s.k : s.n;
  b.out.op = static_cast<uint8_t>((b.flag("col") ? 1 : 0) | (stores ? 2 : 0));
  b.ignore({"row", "sync", "aligned"});
  const Space space = b.space();
  const Type t = b.type();
  if (!known(t)) b.unsupported();
  b.operands(2, 3);
  const auto items = items_of(b, stores ? 1 : 0);
  check_count(b, items.size(), rows * columns, t);
  std::vector<uint32_t> places;
  places.reserve(items.size());
  for (const auto& item : items) places.push_back(stores ? b.src(item, cell_of(t)) : b.dst(item, cell_of(t)));
  b.out.more = b.place_all(places);
  b.out.count = static_cast<uint8_t>(items.size());
  const int tight = b.out.op & 1 ? rows : columns;
  b.out.b = b.count() == 3 ? b.src(2, Type::U32) : b.constant(static_cast<uint64_t>(tight), 4);
  b.address(stores ? 0 : 1, space);
  if (b.out.imm != static_cast<int32_t>(b.out.imm)) b.unsupported();
  b.out.d = static_cast<uint32_t>(b.out.imm);  // the address offset; imm has the shape
  b.out.imm = rows | columns << 8 | static_cast<int64_t>(t) << 16;
  b.memory(b.out.space);
  b.emit_together(transfer, b.out.space == Space::Shared ? Class::Shared : Class::Global, b.constant(kFull, 4));
  return true;
}

}  // namespace

bool select_wmma(Builder& b) {
  if (b.in.op != "wmma") return false;
  if (b.flag("load")) return moves(b, false);
  if (b.flag("store")) return moves(b, true);
  if (!b.flag("mma")) b.unsupported();
  b.ignore({"sync", "aligned", "row", "col", "rn"});
  b.out.sat = b.flag("satfinite");
  const size_t shape = shape_of(b);
  const Shape& s = kShapes[shape];
  Type t[4] = {b.type(), b.type(), b.type(), b.type()};
  if (t[2] == Type::None) {
    t[3] = t[1];
    t[1] = t[2] = Type::F16;
  }  // two types: of D and C, for f16
  const bool floats =
    t[1] == t[2] && (t[1] == Type::F16 || t[1] == Type::BF16 || t[1] == Type::TF32 || t[1] == Type::F64);
  const bool bytes = (t[1] == Type::S8 || t[1] == Type::U8) && t[2] == t[1] && t[0] == Type::S32;
  if ((!floats && !bytes) || !known(t[0]) || !known(t[3])) b.unsupported();
  b.operands(4, 4);
  const int elements[4] = {s.m * s.n, s.m * s.k, s.k * s.n, s.m * s.n};
  std::vector<uint32_t> places;
  uint32_t* numbers[4] = {&b.out.d, &b.out.a, &b.out.b, &b.out.c};
  for (size_t k = 0; k < 4; ++k) {
    const auto items = items_of(b, k);
    check_count(b, items.size(), elements[k], t[k]);
    *numbers[k] = static_cast<uint32_t>(items.size());
    for (const auto& item : items) places.push_back(k ? b.src(item, cell_of(t[k])) : b.dst(item, cell_of(t[k])));
  }
  b.out.more = b.place_all(places);
  b.out.imm = static_cast<int64_t>(shape);
  for (int k = 0; k < 4; ++k) b.out.imm |= static_cast<int64_t>(t[k]) << (8 + 8 * k);
  b.emit_together(multiply, Class::Matrix, b.constant(kFull, 4));
  return true;
}

}  // namespace strata::cuda::vgpu
