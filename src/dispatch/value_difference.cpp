#include "dispatch/value_difference.h"

#include <fmt/core.h>

#include <cmath>
#include <cstring>

#include "dispatch/deferred.h"

namespace strata {
namespace {

struct Worst {
  int64_t count = 0, at = -1;
  double difference = -1, got = 0, want = 0;
};

// In host memory, without gaps.
Tensor on_host(const Tensor& t) {
  static const OpRecord &to = find_op("to", "device"), &contiguous = find_op("contiguous");
  Args args = to.defaults;
  args[0] = Value(t);
  args[1] = Value(Device());
  return call(contiguous, Args(call(to, args), Value("contiguous_format")));
}
Tensor as_doubles(const Tensor& t) {
  static const OpRecord& to = find_op("to", "dtype");
  Args args = to.defaults;
  args[0] = Value(t);
  args[1] = Value(DType::F64);
  return call(to, args);
}

Worst worst_of(const Tensor& got, const Tensor& want) {
  Worst worst;
  const size_t size = size_of(got.dtype());
  const Tensor a = as_doubles(got), b = as_doubles(want);
  const double *x = a.data<double>(), *y = b.data<double>();
  for (int64_t i = 0; i < got.numel(); ++i) {
    const size_t at = static_cast<size_t>(i) * size;
    if (std::memcmp(got.bytes() + at, want.bytes() + at, size) == 0 || (std::isnan(x[i]) && std::isnan(y[i]))) continue;
    ++worst.count;
    double difference = std::abs(x[i] - y[i]);
    if (std::isnan(difference)) difference = INFINITY;
    if (difference > worst.difference) worst = {worst.count, i, difference, x[i], y[i]};
  }
  return worst;
}

std::string place_of(int64_t at, const Tensor& t) {
  std::vector<int64_t> index(static_cast<size_t>(t.dim()));
  for (size_t d = index.size(); d-- > 0;) {
    index[d] = at % t->shape[d];
    at /= t->shape[d];
  }
  return to_string(Shape(index.data(), index.size()));
}

}  // namespace

std::string value_difference(const Tensor& got, const Tensor& want) {
  const Unseen unseen;
  const Tensor a = on_host(alias(*got)), b = on_host(alias(*want));
  if (a.numel() == 0 || std::memcmp(a.bytes(), b.bytes(), a.nbytes()) == 0) return {};
  Worst worst;
  if (is_complex(a.dtype())) {
    const auto part = [](const Tensor& t, int k) { return on_host(part_of(*t, k)); };
    const Worst re = worst_of(part(a, 0), part(b, 0)), im = worst_of(part(a, 1), part(b, 1));
    worst = re.difference >= im.difference ? re : im;
    worst.count = std::max(re.count, im.count);
  } else {
    worst = worst_of(a, b);
  }
  if (worst.count == 0) return {};
  return fmt::format("{} of {} elements, most at {}: {} instead of {} (difference {:.3g})", worst.count, a.numel(),
                     place_of(worst.at, a), worst.got, worst.want, worst.difference);
}

}  // namespace strata
