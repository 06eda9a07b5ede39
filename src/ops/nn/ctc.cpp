// Connectionist temporal classification: the probability of all alignments of a target with a sequence of class
// probabilities, by the forward-backward algorithm in log space.
#include "strata/args/nn/ctc.h"
#include "autograd/autograd.h"
#include "base/checked.h"
#include "base/parallel.h"
#include "cpu/staging.h"
#include "cuda/nn/ctc.h"
#include "ops/device_inputs.h"
#include "ops/nn/loss_common.h"
#include "ops/transfer.h"

namespace strata {
namespace {

template <class T> T log_add(T a, T b) {
  if (a < b) std::swap(a, b);
  return b == -std::numeric_limits<T>::infinity() ? a : a + std::log1p(std::exp(b - a));
}

// One sequence. lp(t, c) are log-probabilities; the target with blanks in between has 2 * length + 1 states.
template <class T, class Prob, class Grad>
T align(int64_t steps, int64_t classes, const int64_t* target, int64_t length, int64_t blank, bool zero_infinity,
        Prob lp, Grad grad) {
  const T none = -std::numeric_limits<T>::infinity();
  const int64_t states = 2 * length + 1;
  const auto label = [&](int64_t s) { return s % 2 ? target[s / 2] : blank; };
  const auto skips = [&](int64_t s) {
    return s >= 2 && s % 2 && target[s / 2] != target[s / 2 - 1];
  };  // transition from s - 2, over a blank
  if (steps == 0) return length == 0 ? T(0) : zero_infinity ? T(0) : -none;
  const size_t cells = static_cast<size_t>(steps * states);
  std::vector<T> alpha(cells, none), beta(cells, none);
  alpha[0] = lp(0, blank);
  if (states > 1) alpha[1] = lp(0, label(1));
  for (int64_t t = 1; t < steps; ++t)
    for (int64_t s = 0; s < states; ++s) {
      const T* before = &alpha[static_cast<size_t>((t - 1) * states)];
      T sum = before[s];
      if (s > 0) sum = log_add(sum, before[s - 1]);
      if (skips(s)) sum = log_add(sum, before[s - 2]);
      alpha[static_cast<size_t>(t * states + s)] = sum + lp(t, label(s));
    }
  T total = alpha[static_cast<size_t>(steps * states - 1)];
  if (states > 1) total = log_add(total, alpha[static_cast<size_t>(steps * states - 2)]);
  const T loss = -total;
  if (zero_infinity && total == none) return 0;
  beta[static_cast<size_t>(steps * states - 1)] = lp(steps - 1, blank);
  if (states > 1) beta[static_cast<size_t>(steps * states - 2)] = lp(steps - 1, label(states - 2));
  for (int64_t t = steps - 1; t-- > 0;)
    for (int64_t s = 0; s < states; ++s) {
      const T* after = &beta[static_cast<size_t>((t + 1) * states)];
      T sum = after[s];
      if (s + 1 < states) sum = log_add(sum, after[s + 1]);
      if (s + 2 < states && skips(s + 2)) sum = log_add(sum, after[s + 2]);
      beta[static_cast<size_t>(t * states + s)] = sum + lp(t, label(s));
    }
  std::vector<T> by_class(static_cast<size_t>(classes));
  for (int64_t t = 0; t < steps; ++t) {
    std::fill(by_class.begin(), by_class.end(), none);
    for (int64_t s = 0; s < states; ++s) {
      T& sum = by_class[static_cast<size_t>(label(s))];
      sum = log_add(sum, alpha[static_cast<size_t>(t * states + s)] + beta[static_cast<size_t>(t * states + s)]);
    }
    for (int64_t c = 0; c < classes; ++c)
      grad(t, c, std::exp(lp(t, c)) - std::exp(by_class[static_cast<size_t>(c)] + loss - lp(t, c)));
  }
  return loss;
}

std::vector<int64_t> lengths_of(const Tensor& t, const char* name) {
  STRATA_CHECK(t.dtype() == DType::I64 || t.dtype() == DType::I32 || t.dtype() == DType::U8, Runtime,
               "ctc_loss: {} must be of integral type, got {}", name, name_of(t.dtype()));
  if (t.is_meta()) return std::vector<int64_t>(static_cast<size_t>(t.numel()));  // no shape depends on them
  const Tensor host = host_values(t);
  const cpu::In<int64_t> values(*host);
  return {values.get(), values.get() + t.numel()};
}

Tensor ctc(const Tensor& log_probs, const Tensor& targets, IntList input_lengths, IntList target_lengths, int64_t blank,
           std::string_view reduction, bool zero_infinity) {
  const LossReduction r = reduction_of("ctc_loss", std::nullopt, std::nullopt, reduction);
  STRATA_CHECK(log_probs.dim() == 2 || log_probs.dim() == 3, Runtime,
               "ctc_loss: expected log_probs of shape [T, N, C] or [T, C], got {}", to_string(log_probs.shape()));
  const bool single = log_probs.dim() == 2;
  const Tensor losses = _ctc_loss(single ? unsqueeze(log_probs, 1) : log_probs, targets, input_lengths, target_lengths,
                                  blank, zero_infinity)[0];
  if (r == LossReduction::None) return single ? squeeze(losses, 0) : losses;
  if (r == LossReduction::Sum) return sum(losses);
  const int64_t n[] = {static_cast<int64_t>(target_lengths.size)};
  const Tensor lengths = make_tensor(n, DType::F64);
  for (size_t i = 0; i < target_lengths.size; ++i)
    lengths.data<double>()[i] = static_cast<double>(std::max<int64_t>(1, target_lengths[i]));
  return mean(div(losses, to(placed(lengths), losses.dtype())));
}

// The offset of the labels of each sequence.
std::vector<int64_t> starts_of(const TensorImpl& labels, IntList lengths) {
  std::vector<int64_t> start(lengths.size + 1, 0);
  for (size_t i = 0; i < lengths.size; ++i)
    start[i + 1] = labels.ndim == 2 ? static_cast<int64_t>(i + 1) * labels.shape[1] : start[i] + lengths[i];
  start.pop_back();
  return start;
}
int64_t checked_label(int64_t l, int64_t classes) {
  STRATA_CHECK(l >= 0 && l < classes, Runtime, "ctc_loss: target label {} is out of range for {} classes", l, classes);
  return l;
}

void ctc_on_device(const Call& c, Workspace& workspace) {
  const args::ctc_loss_core a(c);
  const Tensor lp = dense(a.share_log_probs(), workspace), labels = dense(a.share_targets(), DType::I64, workspace);
  const IntList in = a.input_lengths(), want = a.target_lengths();
  const auto wrong = cuda::ctc_loss(*lp, *labels, starts_of(*labels, want), in, want, a.blank(), a.zero_infinity(),
                                    *c.outs[0], *c.outs[1], workspace);
  if (wrong) checked_label(*wrong, lp.size(2));
}

// The recursion is already plain; the reference runs it in double and serially.
template <bool plain> void run_ctc(const Call& c) {
  const args::ctc_loss_core a(c);
  const TensorImpl &x = a.log_probs(), &labels = a.targets();
  const IntList in = a.input_lengths(), want = a.target_lengths();
  const int64_t n = x.shape[1], classes = x.shape[2], blank = a.blank();
  const std::vector<int64_t> start = starts_of(labels, want);
  const cpu::In<int64_t> target(labels);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = 0; k < want[static_cast<size_t>(i)]; ++k)
      checked_label(target[start[static_cast<size_t>(i)] + k], classes);
  const auto fill = [&]<class T>() {
    const cpu::In<T> lp(x);
    const cpu::Out<T> loss(c.outs[0]), grad(c.outs[1]);
    grad.fill(0);
    parallel_for(n, plain ? std::max<int64_t>(n, 1) : 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        loss[i] = align<T>(
          in[static_cast<size_t>(i)], classes, target + start[static_cast<size_t>(i)], want[static_cast<size_t>(i)],
          blank, a.zero_infinity(), [&](int64_t t, int64_t k) { return lp[(t * n + i) * classes + k]; },
          [&](int64_t t, int64_t k, T v) { grad[(t * n + i) * classes + k] = v; });
    });
    loss.finish();
    grad.finish();
  };
  if constexpr (plain) fill.template operator()<double>();
  else cpu::dispatch_float(x.dtype, fill);
}
}  // namespace

STRATA_OP(ctc_loss_core,
          "_ctc_loss(Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, int blank, bool "
          "zero_infinity) -> (Tensor, Tensor)")
  .doc(
    "The loss of each sequence, and its gradient with respect to log_probs (as PyTorch's: for log_probs from "
    "log_softmax).")
  .helper()
  .no_out()
  .dtypes({DType::F32, DType::F64})
  .infer([](const args::ctc_loss_core& c) {
    const TensorImpl &x = c.log_probs(), &t = c.targets();
    const IntList in = c.input_lengths(), want = c.target_lengths();
    STRATA_CHECK(x.ndim == 3, Runtime, "ctc_loss: expected log_probs of shape [T, N, C], got {}", to_string(x.sizes()));
    STRATA_CHECK(is_floating(x.dtype), Runtime, "ctc_loss: log_probs must be floating-point, got {}", name_of(x.dtype));
    STRATA_CHECK(t.dtype == DType::I64 || t.dtype == DType::I32, Runtime,
                 "ctc_loss: targets must be int32 or int64, got {}", name_of(t.dtype));
    const int64_t n = x.shape[1], blank = c.blank();
    STRATA_CHECK(blank >= 0 && blank < x.shape[2], Runtime, "ctc_loss: blank must be in label range [0, {}), got {}",
                 x.shape[2], blank);
    STRATA_CHECK(static_cast<int64_t>(in.size) == n && static_cast<int64_t>(want.size) == n, Runtime,
                 "ctc_loss: input_lengths and target_lengths must have batch_size {} entries, got {} and {}", n,
                 in.size, want.size);
    int64_t total = 0, longest = 0;
    for (size_t i = 0; i < in.size; ++i) {
      STRATA_CHECK(in[i] >= 0 && in[i] <= x.shape[0], Runtime,
                   "ctc_loss: expected input_lengths to have value at most {}, but got value {}", x.shape[0], in[i]);
      STRATA_CHECK(want[i] >= 0, Runtime, "ctc_loss: expected target_lengths to be non-negative, but got {}", want[i]);
      total = (Checked(total) + want[i]).get();
      longest = std::max(longest, want[i]);
    }
    const bool fits = t.ndim == 1 ? t.numel >= total : t.ndim == 2 && t.shape[0] == n && t.shape[1] >= longest;
    STRATA_CHECK(fits, Runtime,
                 "ctc_loss: expected targets of shape [{}, at least {}] or a vector of {} labels, got {}", n, longest,
                 total, to_string(t.sizes()));
    c.out()->dtype = x.dtype;
    c.out()->set_shape(Shape(&n, 1));
    c.out(1)->dtype = x.dtype;
    c.out(1)->set_shape(x.sizes());
  })
  .kernel("forward_backward", run_ctc<false>)
  .kernel("reference", run_ctc<true>)
  .cuda("forward_backward", ctc_on_device)
  .saves_result({1})
  .no_grad_outputs({1})
  .grad([](const GradContext& c, const Tensor& g) -> Grads {
    return {mul(c.result(1), reshape(g, {1, g.numel(), 1}))};
  })
  .samples({"u(5,2,4), i4(2,2), [0,0], [0,0], 0, False"});

STRATA_OP(ctc_loss,
          "ctc_loss(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank=0, str "
          "reduction='mean', bool zero_infinity=False) -> Tensor")
  .doc(
    "Connectionist temporal classification loss of log_probs [T, N, C] and targets [N, S] or one vector of all labels.")
  .nn()
  .no_method()
  .dtypes({DType::F32, DType::F64})
  .composite([](const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, int64_t blank, std::string_view reduction, bool zero_infinity) {
    return ctc(log_probs, targets, lengths_of(input_lengths, "input_lengths"),
               lengths_of(target_lengths, "target_lengths"), blank, reduction, zero_infinity);
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"u(5,2,4), i4(2,2), t[0,0], t[0,0]"})
  .error("u(5,2,4), i4(2,2), u(2), i1(2)", ErrorKind::Runtime, "integral type");

STRATA_OP(ctc_loss_IntList,
          "ctc_loss.IntList(Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, int blank=0, "
          "str reduction='mean', bool zero_infinity=False) -> Tensor")
  .doc("ctc_loss with lengths as lists.")
  .nn()
  .no_method()
  .dtypes({DType::F32, DType::F64})
  .composite([](const Tensor& log_probs, const Tensor& targets, IntList input_lengths, IntList target_lengths,
                int64_t blank, std::string_view reduction, bool zero_infinity) {
    return ctc(log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity);
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"u(5,2,4), i4(2,2), [0,0], [0,0]"})  // the gradient is that of log_softmax and ctc_loss together
  .error("u(5,2,4), i4(2,2), [6,4], [2,1]", ErrorKind::Runtime, "at most 5")
  .error("u(5,2,4), i4(2,2), [5,4], [3,1]", ErrorKind::Runtime, "expected targets of shape")
  .error("u(5,2,4), i4(4), [5,4], [9223372036854775807,9223372036854775807]", ErrorKind::Runtime, "64 bits")
  .error("u(5,2,4), t[[1,4],[1,1]], [5,4], [2,1]", ErrorKind::Runtime, "label 4 is out of range");

}  // namespace strata
