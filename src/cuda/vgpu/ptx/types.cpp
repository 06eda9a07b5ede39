// Names and sizes of the PTX types.
#include "cuda/vgpu/ptx/types.h"

namespace strata::cuda::vgpu {

namespace {
struct Row {
  std::string_view name;
  int size;
};
constexpr Row kRows[] = {
  {"", 0},    {"pred", 0}, {"b8", 1},   {"b16", 2},    {"b32", 4},    {"b64", 8},   {"b128", 16},
  {"u8", 1},  {"u16", 2},  {"u32", 4},  {"u64", 8},    {"s8", 1},     {"s16", 2},   {"s32", 4},
  {"s64", 8}, {"f16", 2},  {"bf16", 2}, {"f16x2", 4},  {"bf16x2", 4}, {"u16x2", 4}, {"s16x2", 4},
  {"f32", 4}, {"f64", 8},  {"tf32", 4}, {"e4m3x2", 2}, {"e5m2x2", 2}, {"e4m3", 1},  {"e5m2", 1},
};
}  // namespace

Type type_named(std::string_view name) {
  for (int i = 1; i < static_cast<int>(std::size(kRows)); ++i)
    if (kRows[i].name == name) return static_cast<Type>(i);
  return Type::None;
}

std::string_view name_of(Type type) { return kRows[static_cast<int>(type)].name; }
int size_of(Type type) { return kRows[static_cast<int>(type)].size; }
bool is_float(Type type) {
  return type == Type::F16 || type == Type::BF16 || type == Type::F32 || type == Type::F64 || type == Type::TF32 ||
         type == Type::F16x2 || type == Type::BF16x2;
}
bool is_signed(Type type) { return type >= Type::S8 && type <= Type::S64; }
bool is_integer(Type type) { return type >= Type::B8 && type <= Type::S64 && type != Type::B128; }

}  // namespace strata::cuda::vgpu
