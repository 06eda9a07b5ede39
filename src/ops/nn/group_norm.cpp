// Norms over groups of channels: layer norms of a reshaped input.
#include "ops/nn/norm_formulas.h"

namespace strata {
namespace {

void check_groups(int64_t channels, int64_t groups) {
  STRATA_CHECK(groups > 0 && channels % groups == 0, Runtime,
               "group_norm: expected the number of channels ({}) to be divisible by num_groups ({})", channels, groups);
}
constexpr int64_t kSmallPlane = 64;  // pixels
struct Grouped {
  Tensor y, mean, rstd;
};
Grouped grouped_norm(const Tensor& input, const Tensor& weight, const Tensor& bias, int64_t n, int64_t c, int64_t hw,
                     int64_t group, double eps) {
  const DType type =
    is_floating(input.dtype()) ? compute_type(input.dtype()) : input.dtype();  // rounds once, after the affine part
  const Tensor rows = reshape(to(input, type), {n, group, c / group * hw});
  const auto all = _layer_norm(rows, {c / group * hw}, {}, {}, eps);
  // Computed in the input's shape, so that the result is not a view. Small planes: a weight for each element of a sample, since
  // a broadcast costs some time per plane.
  const bool small = hw < kSmallPlane && n > 1, plain = input.dim() >= 2 && input.size(0) == n && input.size(1) == c;
  std::vector<int64_t> shape =
    plain ? std::vector<int64_t>(input.shape().begin(), input.shape().end()) : std::vector<int64_t>{n, c, hw};
  const Tensor normed = reshape(all[0], shape);
  shape[0] = 1;
  if (!small) std::fill(shape.begin() + 2, shape.end(), 1);
  const auto spread = [&](const Tensor& t) {
    return !t ? t : small ? reshape(expand(reshape(t, {c, 1}), {c, hw}), shape) : reshape(t, shape);
  };
  const Tensor scaled =
    weight && bias ? addcmul(spread(bias), normed, spread(weight)) : affine(normed, spread(weight), spread(bias));
  const Tensor y = to(scaled, input.dtype());
  return {plain ? y : reshape(y, input.shape()), all[1], all[2]};
}
}  // namespace

STRATA_OP(native_group_norm,
          "native_group_norm(Tensor input, Tensor? weight, Tensor? bias, int N, int C, int HxW, int group, float eps) "
          "-> (Tensor, Tensor, Tensor)")
  .doc("group_norm together with the mean and the reciprocal standard deviation of each group.")
  .no_method()
  .no_out()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, const Tensor& weight, const Tensor& bias, int64_t n, int64_t c, int64_t hw,
                int64_t group, double eps) {
    check_groups(c, group);
    STRATA_CHECK(n >= 0 && c >= 0 && hw >= 0 && checked_numel(Shape(std::array{n, c, hw})) == input.numel(), Runtime,
                 "native_group_norm: N = {}, C = {} and HxW = {} do not fit an input of shape {}", n, c, hw,
                 to_string(input.shape()));
    for (const Tensor* t : {&weight, &bias})
      STRATA_CHECK(!*t || t->numel() == c, Runtime, "native_group_norm: expected {} weights and biases, got shape {}",
                   c, to_string(t->shape()));
    const Grouped all = grouped_norm(input, weight, bias, n, c, hw, group, eps);
    return std::array<Tensor, 3>{all.y, to(reshape(all.mean, {n, group}), input.dtype()),
                                 to(reshape(all.rstd, {n, group}), input.dtype())};
  })
  .samples({"f(2,4,3), f(4), f(4), 2, 4, 3, 2, 1e-5"})
  .error("f(2,4,3), None, None, 2, 4, 3, 3, 1e-5", ErrorKind::Runtime, "divisible by num_groups");

STRATA_OP(group_norm,
          "group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-5) -> Tensor")
  .doc("Normalizes groups of channels of each sample by their mean and variance.")
  .nn()
  .no_method()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, int64_t num_groups, const Tensor& weight, const Tensor& bias, double eps) {
    STRATA_CHECK(input.dim() >= 2, Runtime, "group_norm: expected at least 2 dimensions for input, got shape {}",
                 to_string(input.shape()));
    STRATA_CHECK(num_groups > 0, Runtime, "group_norm: expected num_groups to be greater than 0, got {}", num_groups);
    const int64_t n = input.size(0), c = input.size(1);
    int64_t hw = 1;
    for (int d = 2; d < input.dim(); ++d) hw *= input.size(d);
    STRATA_CHECK(c > 0 && hw > 0, Runtime,
                 "group_norm: expected the number of channels and HxW to be greater than 0, got shape {}",
                 to_string(input.shape()));
    for (const Tensor* t : {&weight, &bias})
      STRATA_CHECK(!*t || (t->dim() == 1 && t->numel() == c), Runtime,
                   "group_norm: expected weight and bias to be vectors of {} channels, got shape {}", c,
                   to_string(t->shape()));
    check_groups(c, num_groups);
    STRATA_CHECK(n * (c / num_groups) * hw != 1, Value,
                 "group_norm: Expected more than 1 value per channel when training, got input size {}",
                 to_string(input.shape()));
    return grouped_norm(input, weight, bias, n, c, hw, num_groups, eps).y;
  })
  .autocast_cuda(Autocast::Float32)
  .samples({"f(2,4,3), 2", "f(2,6), 3, f(6), f(6)", "f(2,4,3,2), 4, f(4), f(4), eps=0.1", "f(0,4,3), 2"})
  .error("f(2,4,3), 3", ErrorKind::Runtime, "divisible by num_groups")
  .error("f(2,4,3), 0", ErrorKind::Runtime, "greater than 0")
  .error("f(1,0,2), 1", ErrorKind::Runtime, "greater than 0")
  .error("f(1,2,1), 2", ErrorKind::Value, "more than 1 value per channel")
  .error("f(1,2,0), 1", ErrorKind::Runtime, "greater than 0");

}  // namespace strata
