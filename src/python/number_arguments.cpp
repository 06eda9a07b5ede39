#include "python/number_arguments.h"

#include <algorithm>

namespace strata::python {
namespace {

constexpr uint32_t kFirst = 1, kSecond = 2, kThird = 4, kAny = ~0u;

struct Entry {
  std::string_view name;
  uint32_t parameters;
};
// PyTorch has an overload with a number for these.
constexpr Entry kNumbers[] = {
  {"add", kFirst | kSecond},
  {"bitwise_and", kFirst | kSecond},
  {"bitwise_left_shift", kFirst | kSecond},
  {"bitwise_or", kFirst | kSecond},
  {"bitwise_right_shift", kFirst | kSecond},
  {"bitwise_xor", kFirst | kSecond},
  {"clamp", kSecond | kThird},
  {"clamp_max", kSecond},
  {"clamp_min", kSecond},
  {"copy", kSecond},
  {"copysign", kSecond},
  {"div", kFirst | kSecond},
  {"eq", kSecond},
  {"float_power", kFirst | kSecond},
  {"floor_divide", kFirst | kSecond},
  {"fmod", kSecond},
  {"ge", kSecond},
  {"gt", kSecond},
  {"le", kSecond},
  {"lerp", kThird},
  {"linalg.matrix_rank", kSecond | kThird},
  {"linalg.pinv", kSecond | kThird},
  {"lt", kSecond},
  {"masked_fill", kThird},
  {"mul", kFirst | kSecond},
  {"ne", kSecond},
  {"nn.functional.gaussian_nll_loss", kThird},
  {"pow", kFirst | kSecond},
  {"remainder", kFirst | kSecond},
  {"rsub", kSecond},
  {"special.xlog1py", kFirst | kSecond},
  {"sub", kFirst | kSecond},
  {"where", kSecond | kThird},
  {"xlogy", kFirst | kSecond},
};
}  // namespace

uint32_t number_parameters(const OpRecord& op) {
  if (op.internal) return kAny;
  const auto* found = std::ranges::find(kNumbers, std::string_view(op.name), &Entry::name);
  return found != std::end(kNumbers) ? found->parameters : 0;
}

}  // namespace strata::python
