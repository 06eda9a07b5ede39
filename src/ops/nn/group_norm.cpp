// Norms over groups of channels: kernels of their own on the CPU, layer norms of a reshaped input on devices.
#include "cpu/nn/group_norm.h"
#include "autograd/autograd.h"
#include "cpu/movement/copy.h"
#include "cpu/staging.h"
#include "ops/nn/norm_formulas.h"
#include "ops/transfer.h"
#include "strata/args/nn/group_norm.h"

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
  if (on_host(input) && is_floating(input.dtype())) {
    const auto all = _group_norm(input, weight, bias, n, c, hw, group, eps);
    return {all[0], all[1], all[2]};
  }
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

// V: the view of _group_norm or _group_norm_backward.
template <class V> cpu::Groups groups_of(const V& a) {
  const int64_t groups = a.group();
  return {a.N(), groups, groups ? a.C() / groups : 0, a.HxW()};
}
template <class V> void check_sizes(const V& a) {
  const char* op = a.op().name.c_str();
  STRATA_CHECK(a.group() > 0 && a.C() % a.group() == 0, Runtime, "{}: {} channels are not divisible into {} groups", op,
               a.C(), a.group());
  STRATA_CHECK(a.N() >= 0 && a.C() >= 0 && a.HxW() >= 0 &&
                 checked_numel(Shape(std::array{a.N(), a.C(), a.HxW()})) == a.input().numel,
               Runtime, "{}: N = {}, C = {} and HxW = {} do not fit an input of shape {}", op, a.N(), a.C(), a.HxW(),
               to_string(a.input().sizes()));
  STRATA_CHECK(!a.weight() || a.weight()->numel == a.C(), Runtime, "{}: expected {} weights", op, a.C());
}
template <class T> class MaybeIn {  // null if there is no tensor
 public:
  explicit MaybeIn(const TensorImpl* t) : t_(t ? cpu::staged(*t, dtype_of<T>) : Tensor()) {}
  operator const T*() const { return t_ ? t_.template data<T>() : nullptr; }

 private:
  Tensor t_;
};
void run_group_norm(const Call& c) {
  const args::_group_norm a(c);
  cpu::dispatch_float(a.input().dtype, [&]<class T>() {
    const cpu::In<T> in(a.input());
    const MaybeIn<T> weight(a.weight()), bias(a.bias());
    const cpu::Out<T> out(c.outs[0]), mean(c.outs[1]), rstd(c.outs[2]);
    cpu::group_norm<T>(groups_of(a), a.eps(), in, weight, bias, out, mean, rstd);
    out.finish();
    mean.finish();
    rstd.finish();
  });
}
void run_group_norm_backward(const Call& c) {
  const args::_group_norm_backward a(c);
  cpu::dispatch_float(a.input().dtype, [&]<class T>() {
    const cpu::In<T> g(a.grad()), in(a.input()), mean(a.mean()), rstd(a.rstd());
    const MaybeIn<T> weight(a.weight());
    const cpu::Out<T> out(c.outs[0]), gw(c.outs[1]), gb(c.outs[2]);
    const bool sums = a.affine();
    cpu::group_norm_backward<T>(groups_of(a), g, in, mean, rstd, weight, out, sums ? gw.get() : nullptr,
                                sums ? gb.get() : nullptr);
    out.finish();
    gw.finish();
    gb.finish();
  });
}

// The same, composed of other ops. Planes are [n, c, hw], groups [n, group, c / group * hw].
struct Sizes {
  int64_t n, c, hw, group;
  Tensor planes(const Tensor& t) const { return reshape(t, {n, c, hw}); }
  Tensor rows(const Tensor& t) const { return reshape(t, {n, group, c / group * hw}); }
  Tensor statistics(const Tensor& t) const { return reshape(t, {n, group, 1}); }
};
template <class V> Sizes sizes_of(const V& a) { return {a.N(), a.C(), a.HxW(), a.group()}; }
Tensor channels(const Tensor& t) { return t ? unsqueeze(t, -1) : t; }

void plain_group_norm(const Call& c) {
  const args::_group_norm a(c);
  const autograd::NoGrad no_grad;
  const Sizes s = sizes_of(a);
  const Tensor x = s.rows(wide(a.share_input()));
  const Normalized n = normalized(x, {2}, a.eps(), true);
  const Tensor y = affine(s.planes(n.value), channels(wide(a.share_weight())), channels(wide(a.share_bias())));
  cpu::copy_reference(*c.outs[0], *reshape(y, c.outs[0].shape()));
  cpu::copy_reference(*c.outs[1], *mean(x, {2}));
  cpu::copy_reference(*c.outs[2], *squeeze(n.rstd, int64_t{2}));
}
void plain_group_norm_backward(const Call& c) {
  const args::_group_norm_backward a(c);
  const autograd::NoGrad no_grad;
  const Sizes s = sizes_of(a);
  const Tensor g = s.planes(wide(a.share_grad())), rstd = s.statistics(wide(a.share_rstd()));
  const Normalized n{mul(sub(s.rows(wide(a.share_input())), s.statistics(wide(a.share_mean()))), rstd), rstd};
  const Tensor scaled = s.rows(affine(g, channels(wide(a.share_weight())), Tensor()));
  cpu::copy_reference(*c.outs[0], *reshape(normalized_grad(scaled, n, {2}, true), c.outs[0].shape()));
  if (!a.affine()) return;
  cpu::copy_reference(*c.outs[1], *sum(mul(g, s.planes(n.value)), {0, 2}));
  cpu::copy_reference(*c.outs[2], *sum(g, {0, 2}));
}
Grads group_norm_graph_grads(const GradContext& c, const Tensor& g) {
  const grads::_group_norm a(c);
  const Sizes s = sizes_of(a);
  grads::_group_norm::Result out;
  const Tensor x = a.input(), weight = a.has_weight() ? a.weight() : Tensor(), planes = g ? s.planes(g) : g;
  const Normalized n = normalized(s.rows(x), {2}, a.eps(), true);
  if (a.needs_input()) {
    const int64_t elements = s.c / s.group * s.hw;
    const auto count = static_cast<double>(elements);
    Tensor total = normalized_grad(s.rows(weight ? mul(planes, channels(weight)) : planes), n, {2}, true);
    if (c.grad(1)) total = add(total, div(s.statistics(c.grad(1)), count));
    if (c.grad(2)) total = sub(total, mul(mul(div(s.statistics(c.grad(2)), count), square(n.rstd)), n.value));
    out.input = reshape(total, x.shape());
  }
  if (weight && a.needs_weight()) out.weight = sum(mul(planes, s.planes(n.value)), {0, 2});
  if (a.has_bias() && a.needs_bias()) out.bias = sum(planes, {0, 2});
  return out;
}
Grads group_norm_grads(const GradContext& c, const Tensor& g) {
  if (c.grad(1) || c.grad(2)) return group_norm_graph_grads(c, g);
  const grads::_group_norm a(c);
  grads::_group_norm::Result out;
  const bool for_weight = a.has_weight() && a.needs_weight(), for_bias = a.has_bias() && a.needs_bias();
  const auto all = _group_norm_backward(g, a.input(), c.result(1), c.result(2), a.has_weight() ? a.weight() : Tensor(),
                                        a.N(), a.C(), a.HxW(), a.group(), for_weight || for_bias);
  out.input = all[0];
  if (for_weight) out.weight = all[1];
  if (for_bias) out.bias = all[2];
  return out;
}
}  // namespace

STRATA_OP(_group_norm,
          "_group_norm(Tensor input, Tensor? weight, Tensor? bias, int N, int C, int HxW, int group, float eps) -> "
          "(Tensor, Tensor, Tensor)")
  .doc("group_norm together with the mean and the reciprocal standard deviation of each group.")
  .helper()
  .no_out()
  .dtypes(kFloatingTypes)
  .infer([](const args::_group_norm& a) {
    const TensorImpl& x = a.input();
    check_sizes(a);
    STRATA_CHECK(!a.bias() || a.bias()->numel == a.C(), Runtime, "_group_norm: expected {} biases", a.C());
    a.out()->dtype = x.dtype;
    a.out()->set_shape(x.sizes());
    const int64_t shape[] = {a.N(), a.group()};
    for (int o : {1, 2}) {
      a.out(o)->dtype = compute_type(x.dtype);
      a.out(o)->set_shape(Shape(shape, 2));
    }
  })
  .kernel("groups", run_group_norm)
  .kernel("reference", plain_group_norm)
  .cuda_on_host("group_norm_on_host")
  .saves({"input", "weight"})
  .saves_result({1, 2})
  .grad(group_norm_grads)
  .grad_for_graph(group_norm_graph_grads)
  .samples({"f(2,4,3), f(4), f(4), 2, 4, 3, 2, 1e-5", "f(3,6,70), f(6), f(6), 3, 6, 70, 2, 1e-5",
            "f(2,6), f(6), None, 2, 6, 1, 3, 1e-5", "f(20,4,5), None, f(4), 20, 4, 5, 1, 0.1",
            "f(1,4,5), None, None, 1, 4, 5, 4, 0.1"})
  .error("f(2,4,3), None, None, 2, 4, 3, 3, 1e-5", ErrorKind::Runtime, "not divisible")
  .error("f(2,4,3), None, None, 2, 4, 5, 2, 1e-5", ErrorKind::Runtime, "do not fit");

STRATA_OP(
  _group_norm_backward,
  "_group_norm_backward(Tensor grad, Tensor input, Tensor mean, Tensor rstd, Tensor? weight, int N, int C, int HxW, "
  "int group, bool affine) -> (Tensor, Tensor, Tensor)")
  .doc("Gradients of _group_norm: of input, weight and bias.")
  .helper()
  .no_out()
  .dtypes(kFloatingTypes)
  .infer([](const args::_group_norm_backward& a) {
    const TensorImpl& x = a.input();
    check_sizes(a);
    STRATA_CHECK(a.grad().same_shape(x) && a.mean().numel == a.N() * a.group() && a.rstd().numel == a.N() * a.group(),
                 Runtime,
                 "_group_norm_backward: the gradient of shape {} or the statistics do not fit an input of shape {}",
                 to_string(a.grad().sizes()), to_string(x.sizes()));
    a.out()->dtype = x.dtype;
    a.out()->set_shape(x.sizes());
    const int64_t shape[] = {a.affine() ? a.C() : 0};
    for (int o : {1, 2}) {
      a.out(o)->dtype = x.dtype;
      a.out(o)->set_shape(Shape(shape, 1));
    }
  })
  .kernel("groups", run_group_norm_backward)
  .kernel("reference", plain_group_norm_backward)
  .cuda_on_host("group_norm_backward_on_host")
  .samples({"f(2,4,3), f(2,4,3), f(2,2), p(2,2), f(4), 2, 4, 3, 2, True",
            "f(3,6,70), f(3,6,70), f(3,2), p(3,2), f(6), 3, 6, 70, 2, True",
            "f(20,4,5), f(20,4,5), f(20,1), p(20,1), None, 20, 4, 5, 1, True",
            "f(2,6), f(2,6), f(2,3), p(2,3), None, 2, 6, 1, 3, False"})
  .error("f(2,4,3), f(2,4,3), f(2,3), p(2,2), None, 2, 4, 3, 2, True", ErrorKind::Runtime, "do not fit");

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
