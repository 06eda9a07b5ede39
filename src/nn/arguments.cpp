// Lists of module arguments: checks, derived paddings, and their text.
#include "nn/arguments.h"

#include <cmath>

namespace strata::nn::detail {
namespace {

template <class T, class F> std::string tuple_text(const T& list, size_t size, const F& item) {
  std::string text = "(";
  for (const auto& v : list) text += (text.size() > 1 ? ", " : "") + item(v);
  return text + (size == 1 ? ",)" : ")");
}

template <class T> std::string list_text(const ListArg<T>& list) {
  const auto item = [](const T& v) { return show(v); };
  if (!list.given) return "None";
  return list.single ? item(list.values[0]) : tuple_text(list.values, list.values.size(), item);
}

}  // namespace

void fail_count(size_t expected, size_t found) {
  fail(ErrorKind::Value, fmt::format("expected one integer or a list of {}, got {}", expected, found));
}

std::vector<int64_t> padding_sides(IntList amounts, std::string_view word, IntList kernel_size, IntList dilation) {
  std::vector<int64_t> sides;
  for (size_t i = kernel_size.size; i-- > 0;) {
    const int64_t total = word.empty() ? 2 * amounts[i] : word == "same" ? dilation[i] * (kernel_size[i] - 1) : 0;
    sides.push_back(total / 2), sides.push_back(total - total / 2);
  }
  return sides;
}

std::vector<int64_t> keep_sizes(const Tensor& input, const KeepArg& sizes, int64_t dims) {
  std::vector<int64_t> out;
  for (int64_t d = 0; d < dims; ++d) {
    const size_t at = sizes.single ? 0 : static_cast<size_t>(d);
    STRATA_CHECK(at < sizes.values.size() && (sizes.single || static_cast<int64_t>(sizes.values.size()) == dims), Value,
                 "output_size: expected one size or {}, got {}", dims, sizes.values.size());
    out.push_back(sizes.values[at] ? *sizes.values[at] : input.size(d - dims));
  }
  return out;
}

double conv_bound(int64_t fan_in) { return fan_in > 0 ? 1 / std::sqrt(static_cast<double>(fan_in)) : 0; }

std::string show(double v) {
  std::string text = fmt::format("{}", v);
  return std::isfinite(v) && text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}
std::string show(IntList list) {
  return tuple_text(list, list.size, [](int64_t v) { return std::to_string(v); });
}
std::string show(const SizeArg& list) { return list_text(list); }
std::string show(const FloatArg& list) { return list_text(list); }
std::string show(const KeepArg& list) { return list_text(list); }

}  // namespace strata::nn::detail
