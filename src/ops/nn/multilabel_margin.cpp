// The margin loss of several labels per row. On the CPU it needs no memory for the pairs of labels and classes.
#include <vector>

#include "autograd/autograd.h"
#include "base/parallel.h"
#include "cpu/staging.h"
#include "ops/check_dtype.h"
#include "ops/nn/loss_common.h"
#include "ops/transfer.h"
#include "strata/args/nn/multilabel_margin.h"

namespace strata {
namespace {

// The labels of a row, up to the first negative one, and the classes that are not among them.
struct Labels {
  std::vector<int64_t> wanted, others;

  void read(const int64_t* labels, int64_t classes) {
    std::vector<bool> is_wanted(static_cast<size_t>(classes));
    wanted.clear();
    others.clear();
    bool open = true;
    for (int64_t j = 0; j < classes; ++j) {
      open &= labels[j] >= 0;
      STRATA_CHECK(labels[j] < classes, Runtime, "multilabel_margin_loss: target {} is out of range for {} classes",
                   labels[j], classes);
      if (!open) continue;
      wanted.push_back(labels[j]);
      is_wanted[static_cast<size_t>(labels[j])] = true;
    }
    for (int64_t j = 0; j < classes; ++j)
      if (!is_wanted[static_cast<size_t>(j)]) others.push_back(j);
  }
};

// Calls run(row, its labels, the values of its other classes) with a buffer for each thread.
template <class T, class Run>
void over_rows(const TensorImpl& input, const T* x, const int64_t* labels, const Run& run) {
  const int64_t rows = input.shape[0], classes = input.shape[1];
  parallel_for(rows, std::max<int64_t>(1, 65536 / std::max<int64_t>(1, classes * classes)),
               [&](int64_t begin, int64_t end) {
                 Labels here;
                 std::vector<T> values;
                 for (int64_t i = begin; i < end; ++i) {
                   here.read(labels + i * classes, classes);
                   values.clear();
                   for (const int64_t c : here.others) values.push_back(x[i * classes + c]);
                   run(i, here, values);
                 }
               });
}

constexpr size_t kSums = 16;  // partial sums, which vectors can hold

// The sum of max(0, base + value); NaN counts.
template <class T> double hinges(const std::vector<T>& values, T base) {
  T sums[kSums] = {};
  size_t k = 0;
  const auto hinge = [base](T v) { return base + v <= 0 ? T(0) : base + v; };
  for (; k + kSums <= values.size(); k += kSums)
    for (size_t j = 0; j < kSums; ++j) sums[j] += hinge(values[k + j]);
  double total = 0;
  for (; k < values.size(); ++k) total += static_cast<double>(hinge(values[k]));
  for (const T s : sums) total += static_cast<double>(s);
  return total;
}

void check_rows(const TensorImpl& x, const TensorImpl& labels) {
  STRATA_CHECK(x.ndim == 2 && labels.same_shape(x) && labels.dtype == DType::I64, Runtime,
               "_multilabel_margin: expected rows and as many int64 labels, got shapes {} and {}", to_string(x.sizes()),
               to_string(labels.sizes()));
}
}  // namespace

STRATA_OP(_multilabel_margin, "_multilabel_margin(Tensor input, Tensor labels) -> Tensor")
  .doc("multilabel_margin_loss of each row.")
  .helper()
  .dtypes(kFloatingTypes)
  .infer([](const args::_multilabel_margin& c) {
    check_rows(c.input(), c.labels());
    c.out()->dtype = c.input().dtype;
    c.out()->set_shape(c.input().sizes().first(1));
  })
  .kernel("reference",
          [](const args::_multilabel_margin& c) {
            const int64_t classes = c.input().shape[1];
            cpu::dispatch_float(c.input().dtype, [&]<class T>() {
              const cpu::In<T> x(c.input());
              const cpu::In<int64_t> labels(c.labels());
              const cpu::Out<T> out(c.out());
              over_rows<T>(c.input(), x, labels, [&](int64_t i, const Labels& here, const std::vector<T>& values) {
                double total = 0;
                for (const int64_t l : here.wanted) total += hinges(values, 1 - x[i * classes + l]);
                out[i] = static_cast<T>(total / static_cast<double>(classes));
              });
              out.finish();
            });
          })
  .cuda_on_host("multilabel_margin_on_host")
  .saves({"input", "labels"})
  .grad([](const grads::_multilabel_margin& c, const Tensor& g) -> Grads {
    return {_multilabel_margin_grad(g, c.input(), c.labels())};
  })
  .samples({"f(3,4), i4(3,4)"});

STRATA_OP(_multilabel_margin_grad, "_multilabel_margin_grad(Tensor g, Tensor input, Tensor labels) -> Tensor")
  .doc("The gradient of _multilabel_margin.")
  .helper()
  .dtypes(kFloatingTypes)
  .infer([](const args::_multilabel_margin_grad& c) {
    check_rows(c.input(), c.labels());
    STRATA_CHECK(c.g().ndim == 1 && c.g().numel == c.input().shape[0], Runtime,
                 "_multilabel_margin_grad: expected a gradient for each of {} rows, got shape {}", c.input().shape[0],
                 to_string(c.g().sizes()));
    c.out()->dtype = c.input().dtype;
    c.out()->set_shape(c.input().sizes());
  })
  .kernel("reference",
          [](const args::_multilabel_margin_grad& c) {
            const int64_t classes = c.input().shape[1];
            cpu::dispatch_float(c.input().dtype, [&]<class T>() {
              const cpu::In<T> g(c.g()), x(c.input());
              const cpu::In<int64_t> labels(c.labels());
              const cpu::Out<T> out(c.out());
              over_rows<T>(c.input(), x, labels, [&](int64_t i, const Labels& here, const std::vector<T>& values) {
                T* row = out.get() + i * classes;
                const T each = g[i] / static_cast<T>(classes);
                std::vector<int32_t> uses(values.size());
                std::fill_n(row, classes, T(0));
                for (const int64_t l : here.wanted) {
                  const T base = 1 - x[i * classes + l];
                  int32_t active = 0;
                  for (size_t k = 0; k < values.size(); ++k) {
                    const int32_t one = base + values[k] > 0;
                    uses[k] += one;
                    active += one;
                  }
                  row[l] -= static_cast<T>(active) * each;
                }
                for (size_t k = 0; k < values.size(); ++k) row[here.others[k]] = static_cast<T>(uses[k]) * each;
              });
              out.finish();
            });
          })
  .cuda_on_host("multilabel_margin_grad_on_host")
  .saves({"input", "labels"})
  .grad([](const grads::_multilabel_margin_grad& c, const Tensor& h) -> Grads {  // linear in g, constant in the input
    const Tensor x = c.input(), one = full({x.size(0)}, 1, x.dtype());
    return {sum(mul(h, _multilabel_margin_grad(one, x, c.labels())), 1)};
  })
  .samples({"f(3), f(3,4), i4(3,4)"});

STRATA_OP(multilabel_margin_loss,
          "nn.functional.multilabel_margin_loss(Tensor input, Tensor target, bool? size_average=None, bool? "
          "reduce=None, str reduction='mean') -> Tensor")
  .doc("max(0, 1 - input[label] + input[class]) summed over labels and other classes; labels end at the first -1.")
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, const Tensor& target, std::optional<bool> average, std::optional<bool> reduce,
                std::string_view reduction) {
    const LossReduction r = reduction_of("multilabel_margin_loss", average, reduce, reduction);
    refuse_integers(input, "multilabel_margin_loss");
    STRATA_CHECK(input.dim() <= 2 && target->same_shape(*input), Runtime,
                 "multilabel_margin_loss: inconsistent target size {} for input of size {}", to_string(target.shape()),
                 to_string(input.shape()));
    const int64_t classes = input.dim() ? input.size(-1) : 1, n = classes ? input.numel() / classes : 0;
    STRATA_CHECK(classes > 0, Runtime, "multilabel_margin_loss: expected at least one class, got an input of shape {}",
                 to_string(input.shape()));
    const Tensor x = reshape(input, {n, classes}), given = reshape(to(target, DType::I64), {n, classes});
    const auto result = [&](const Tensor& loss) {
      return reduced(r == LossReduction::None && input.dim() < 2 ? reshape(loss, Shape()) : loss, r);
    };
    if (on_host(input) && on_host(target)) return result(_multilabel_margin(x, given));
    const bool meta = target.is_meta();
    const Tensor labels = meta ? given : contiguous(host_values(given));
    const Device where = staging_device(target);
    const Tensor valid = make_tensor(x.shape(), x.dtype() == DType::F64 ? DType::F64 : DType::F32, where),
                 other = make_tensor(x.shape(), valid.dtype(), where), safe = make_tensor(x.shape(), DType::I64, where);
    const auto fill = [&]<class T>() {
      for (int64_t i = 0; i < n; ++i) {
        T *v = valid.data<T>() + i * classes, *o = other.data<T>() + i * classes;
        const int64_t* l = labels.data<int64_t>() + i * classes;
        bool open = true;
        for (int64_t j = 0; j < classes; ++j) o[j] = 1;
        for (int64_t j = 0; j < classes; ++j) {
          open &= l[j] >= 0;
          STRATA_CHECK(l[j] < classes, Runtime, "multilabel_margin_loss: target {} is out of range for {} classes",
                       l[j], classes);
          v[j] = open;
          safe.data<int64_t>()[i * classes + j] = open ? l[j] : 0;
          if (open) o[l[j]] = 0;
        }
      }
    };
    if (!meta && valid.dtype() == DType::F64) fill.template operator()<double>();
    else if (!meta) fill.template operator()<float>();
    const Tensor wanted = gather(x, 1, placed(safe));
    const Tensor z = clamp_min(add(sub(unsqueeze(x, 1), unsqueeze(wanted, 2)), 1.0), 0.0);
    const Tensor mask = to(placed(mul(unsqueeze(valid, 2), unsqueeze(other, 1))), x.dtype());
    const Tensor loss = div(sum(mul(z, mask), {1, 2}), static_cast<double>(classes));
    return result(loss);
  })
  .autocast(Autocast::Float32)
  .samples({"f(3,4), i4(3,4)", "f(4), i4(4), reduction='sum'"})
  .error("f(3,4), i4(3)", ErrorKind::Runtime, "inconsistent target size")
  .error("f(0), i4(0)", ErrorKind::Runtime, "at least one class")
  .error("f(3), t[0,3,1]", ErrorKind::Runtime, "out of range for 3 classes");

}  // namespace strata
