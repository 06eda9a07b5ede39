// Lists of module arguments: checks, derived paddings, and their text.
#include "nn/arguments.h"

#include <fmt/core.h>

#include <cmath>

#include "autograd/autograd.h"
#include "strata/ops/creation/fills.h"
#include "strata/ops/movement/views.h"

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
    sides.push_back(total / 2);
    sides.push_back(total - total / 2);
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

std::optional<int64_t> wrapped_index(std::optional<int64_t> index, int64_t count) {
  if (!index) return index;
  STRATA_CHECK(*index >= -count && *index < count, Value, "padding_idx must be within num_embeddings: got {} of {}",
               *index, count);
  return *index < 0 ? *index + count : *index;
}

void zero_row(const Tensor& weight, std::optional<int64_t> row) {
  const autograd::NoGrad off;
  if (row) zero_(select(weight, 0, *row));
}

std::vector<int64_t> fitting_output_padding(const Tensor& input, IntList output_size, IntList stride, IntList padding,
                                            IntList kernel_size, IntList dilation) {
  const size_t n = kernel_size.size, skip = output_size.size == n + 2 ? 2 : output_size.size == n + 1 ? 1 : 0;
  STRATA_CHECK(output_size.size == n + skip, Value, "output_size must have {} or {} elements, got {}", n, n + 2,
               output_size.size);
  STRATA_CHECK(input.dim() > static_cast<int>(n), Runtime, "expected an input of {} or {} dimensions, got shape {}",
               n + 1, n + 2, to_string(input.shape()));
  std::vector<int64_t> result;
  for (size_t d = 0; d < n; ++d) {
    const int64_t smallest = (input.size(static_cast<int64_t>(d) - static_cast<int64_t>(n)) - 1) * stride[d] -
                             2 * padding[d] + dilation[d] * (kernel_size[d] - 1) + 1;
    const int64_t wanted = output_size[d + skip];
    STRATA_CHECK(wanted >= smallest && wanted < smallest + stride[d], Value,
                 "requested an output size of {}, but valid sizes of dimension {} range from {} to {}", wanted, d,
                 smallest, smallest + stride[d] - 1);
    result.push_back(wanted - smallest);
  }
  return result;
}

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
