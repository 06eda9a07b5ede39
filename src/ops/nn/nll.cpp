// Negative log likelihood of the target classes.
#include "cuda/nn/nll.h"

#include <array>

#include "base/parallel.h"
#include "cpu/staging.h"
#include "ops/device_inputs.h"
#include "ops/nn/loss_common.h"
#include "strata/args/nn/nll.h"
#include "strata/ops/nn/nll.h"

namespace strata {

void check_nll(const TensorImpl& x, const TensorImpl& t, const Value& weight) {
  STRATA_CHECK(x.ndim >= 1, Runtime, "nll_loss: expected an input of 1 or more dimensions [C] or [N, C, ...]");
  STRATA_CHECK(kFloatingTypes.has(x.dtype), NotImplemented,
               "nll_loss: expected a floating-point input, got {}; convert it with to(float32)", name_of(x.dtype));
  STRATA_CHECK(t.dtype == DType::I64 || t.dtype == DType::U8, Runtime,
               "nll_loss: expected scalar type Long or Byte for target but found {}", name_of(t.dtype));
  if (x.ndim > 1 && t.ndim >= 1)
    STRATA_CHECK(x.shape[0] == t.shape[0], Value,
                 "nll_loss: expected input batch_size ({}) to match target batch_size ({})", x.shape[0], t.shape[0]);
  bool fits = t.ndim == x.ndim - 1;
  for (int d = 0; fits && d < t.ndim; ++d) fits = t.shape[d] == x.shape[d == 0 ? 0 : d + 1];
  STRATA_CHECK(fits, Runtime, "nll_loss: expected target of the input's shape {} without its class dimension, got {}",
               to_string(x.sizes()), to_string(t.sizes()));
  const int64_t classes = x.shape[x.ndim == 1 ? 0 : 1];
  if (weight.tag == Tag::Tensor) {
    STRATA_CHECK(weight.tensor->dtype == x.dtype, Runtime, "nll_loss: expected scalar type {} for weight but found {}",
                 name_of(x.dtype), name_of(weight.tensor->dtype));
    STRATA_CHECK(weight.tensor->ndim == 1 && weight.tensor->numel == classes, Runtime,
                 "nll_loss: weight tensor should be defined either for all {} classes or no classes but got weight "
                 "tensor of shape {}",
                 classes, to_string(weight.tensor->sizes()));
  }
}

int64_t checked_class(int64_t t, int64_t classes) {
  STRATA_CHECK(t >= 0 && t < classes, Index, "Target {} is out of bounds.", t);
  return t;
}

namespace {

struct Classes {  // input [n, c, s], target [n, s]
  int64_t n = 1, c, s = 1;
  explicit Classes(Shape input) : c(input.size() == 1 ? input[0] : input[1]) {
    if (input.size() > 1) n = input[0];
    for (size_t d = 2; d < input.size(); ++d) s *= input[d];
  }
};

constexpr int64_t kTargetsTogether = 4096;  // that one thread adds up, whatever their number
constexpr int64_t kCachedElements = 65536;  // of a gradient, which are still in the cache when the targets' are written

// Calls run(first target, how many, the place of class 0 of the first) for runs of targets of one sample.
template <class Run> void over_samples(const Classes& k, int64_t begin, int64_t end, int64_t most, Run run) {
  int64_t sample = begin / k.s, at = begin % k.s;
  for (int64_t i = begin, n; i < end; i += n) {
    n = std::min({end - i, k.s - at, most});
    run(i, n, sample * k.c * k.s + at);
    at += n;
    if (at == k.s) {
      at = 0;
      ++sample;
    }
  }
}

template <class F> void by_dtype(DType type, F&& f) {
  if (type == DType::F64) f.template operator()<double>();
  else if (type == DType::F32) f.template operator()<float>();
  else if (type == DType::BF16) f.template operator()<BFloat16>();
  else f.template operator()<Half>();
}

// The sums of the losses and of the weights.
template <class T, class In>
std::array<double, 2> nll_of(const Classes& k, const In* in, const int64_t* target, const T* w, int64_t ignore, T* each,
                             int64_t begin, int64_t end) {
  double sum = 0, count = 0;
  over_samples(k, begin, end, end - begin, [&](int64_t first, int64_t n, int64_t place) {
    for (int64_t j = 0; j < n; ++j) {
      const int64_t t = target[first + j];
      T loss = 0;
      if (t != ignore) {
        if (t < 0 || t >= k.c) [[unlikely]]
          checked_class(t, k.c);
        const T scale = w ? w[t] : T(1);
        loss = -static_cast<T>(in[place + t * k.s + j]) * scale;
        count += static_cast<double>(scale);
      }
      if (each) each[first + j] = loss;
      sum += static_cast<double>(loss);
    }
  });
  return {sum, count};
}

// args: input, target, weight, reduction, ignore_index
void run_nll(const Call& c) {
  const args::nll_loss_core a(c);
  const TensorImpl& x = a.input();
  const Classes k(x.sizes());
  const auto reduction = a.reduction();
  by_dtype(x.dtype, [&]<class In>() {
    using T = std::conditional_t<std::is_same_v<In, double>, double, float>;
    const Tensor input = cpu::staged(x, x.dtype);  // few elements of it are read: they are converted one by one
    const cpu::In<int64_t> target(a.target());
    const Tensor weights = a.has_weight() ? cpu::staged(*a.weight(), dtype_of<T>) : Tensor();
    const T* w = weights ? weights.template data<T>() : nullptr;
    const cpu::Out<T> out(c.outs[0]), total(c.outs[1]);
    const int64_t targets = k.n * k.s, pieces = (targets + kTargetsTogether - 1) / kTargetsTogether;
    std::vector<std::array<double, 2>> sums(static_cast<size_t>(pieces));  // of losses and of weights
    parallel_for(pieces, 1, [&](int64_t first, int64_t last) {
      for (int64_t piece = first; piece < last; ++piece) {
        const int64_t begin = piece * kTargetsTogether, end = std::min(targets, begin + kTargetsTogether);
        sums[static_cast<size_t>(piece)] = nll_of<T>(k, input.data<In>(), target.get(), w, a.ignore_index(),
                                                     reduction == "none" ? out.get() : nullptr, begin, end);
      }
    });
    double sum = 0, count = 0;
    for (const auto& [loss, weight] : sums) {
      sum += loss;
      count += weight;
    }
    if (reduction != "none") out[0] = static_cast<T>(reduction == "mean" ? sum / count : sum);
    total[0] = static_cast<T>(count);
    out.finish();
    total.finish();
  });
}

void run_nll_backward(const args::nll_loss_backward& c) {
  const Classes k(c.shape());
  const auto reduction = c.reduction();
  const int64_t ignore = c.ignore_index();
  cpu::dispatch_float(c.out().dtype(), [&]<class T>() {
    const cpu::In<T> grad(c.grad()), total(c.total_weight());
    const cpu::In<int64_t> target(c.target());
    const Tensor weights = c.has_weight() ? cpu::staged(*c.weight(), dtype_of<T>) : Tensor();
    const T* w = weights ? weights.template data<T>() : nullptr;
    const cpu::Out<T> out(c.out());
    const bool each = reduction == "none";
    const T all = each ? T(0) : reduction == "mean" ? grad[0] / total[0] : grad[0];
    const int64_t classes = std::max<int64_t>(1, k.c), most = std::max<int64_t>(64, kCachedElements / classes);
    const auto some = [&](int64_t first, int64_t n, int64_t place) {
      T* to = out.get() + place;
      if (n == k.s) std::fill_n(to, k.c * k.s, T(0));
      else
        for (int64_t t = 0; t < k.c; ++t) std::fill_n(to + t * k.s, n, T(0));
      for (int64_t j = 0; j < n; ++j) {
        const int64_t t = target[first + j];
        if (t != ignore) to[checked_class(t, k.c) * k.s + j] = -(each ? grad[first + j] : all) * (w ? w[t] : T(1));
      }
    };
    parallel_for(k.n * k.s, std::max<int64_t>(1, (1 << 15) / classes),
                 [&](int64_t begin, int64_t end) { over_samples(k, begin, end, most, some); });
    out.finish();
  });
}

void nll_on_device(const Call& c, Workspace& workspace) {
  const args::nll_loss_core a(c);
  const Classes k(a.input().sizes());
  const Tensor x = dense(a.share_input(), workspace), target = dense(a.share_target(), workspace),
               weight = dense(a.share_weight(), workspace);
  cuda::nll(*x, *target, weight.get(), a.ignore_index(), k.c, k.s, a.reduction() == "mean", *c.outs[0], *c.outs[1],
            workspace);
}
void nll_backward_on_device(const Call& c, Workspace& workspace) {
  const args::nll_loss_backward a(c);
  const Classes k(a.shape());
  const Tensor grad = dense(a.share_grad(), workspace), target = dense(a.share_target(), workspace),
               weight = dense(a.share_weight(), workspace);
  if (workspace.planning()) return;
  cuda::nll_backward(*grad, *target, weight.get(), a.ignore_index(),
                     a.reduction() == "mean" ? &a.total_weight() : nullptr, k.c, k.s, *c.out());
}
}  // namespace

STRATA_OP(nll_loss_core,
          "_nll_loss(Tensor input, Tensor target, Tensor? weight, str reduction, int ignore_index) -> (Tensor, Tensor)")
  .no_grad_inputs({"weight"})
  .doc("nll_loss and the sum of the weights of the targets that are not ignored.")
  .helper()
  .no_out()
  .dtypes(kFloatingTypes)
  .infer([](const args::nll_loss_core& c) {
    const TensorImpl &x = c.input(), &t = c.target();
    check_nll(x, t, c.weight_value());
    for (int o : {0, 1}) c.out(o)->dtype = x.dtype;
    c.out()->set_shape(c.reduction() == "none" ? t.sizes() : Shape());
    c.out(1)->set_shape(Shape());
  })
  .kernel("reference", run_nll)
  .cuda("gather", nll_on_device)
  .saves({"target", "weight"})
  .saves_result({1})
  .no_grad_outputs({1})
  .grad([](const grads::nll_loss_core& c, const Tensor& g) -> Grads {
    return {_nll_loss_backward(g, c.target(), c.has_weight() ? c.weight() : Tensor(), c.reduction(), c.ignore_index(),
                               c.result(1), c.shape_of_input())};
  })
  .samples({"f(3,4), i4(3), None, 'mean', -100", "f(3,4,2), i4(3,2), None, 'none', 1"});

STRATA_OP(nll_loss_backward,
          "_nll_loss_backward(Tensor grad, Tensor target, Tensor? weight, str reduction, int ignore_index, Tensor "
          "total_weight, int[] shape) -> Tensor")
  .no_grad_inputs({"weight", "total_weight"})
  .doc("The gradient of _nll_loss.")
  .helper()
  .dtypes(kFloatingTypes)
  .infer([](const args::nll_loss_backward& c) {
    const TensorImpl& g = c.grad();
    c.out()->dtype = g.dtype;
    c.out()->set_shape(c.shape());
    check_nll(*c.out(), c.target(), c.weight_value());
    const int64_t expected = c.reduction() == "none" ? c.target().numel : 1;
    STRATA_CHECK(g.numel == expected && c.total_weight().numel == 1, Runtime,
                 "nll_loss: the gradient has shape {}, expected {} elements", to_string(g.sizes()), expected);
  })
  .kernel("reference", [](const args::nll_loss_backward& c) { run_nll_backward(c); })
  .cuda("rows", nll_backward_on_device)
  .saves({"target", "weight", "total_weight"})
  .grad([](const grads::nll_loss_backward& c, const Tensor& g) -> Grads {
    return {_nll_loss(g, c.target(), c.has_weight() ? c.weight() : Tensor(), c.reduction(), c.ignore_index())[0]};
  })
  .samples({"f(), i4(3), None, 'sum', -100, p(), [3,4]"});

}  // namespace strata
