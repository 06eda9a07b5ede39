// Tensors made from ranges of numbers.
#include "strata/args/creation/ranges.h"
#include "strata/ops/creation/ranges.h"

#include <cmath>

#include "autograd/autograd.h"
#include "base/checked.h"
#include "base/parallel.h"
#include "cpu/creation/ranges.h"
#include "cpu/movement/copy.h"
#include "cpu/reference.h"
#include "cuda/creation/formulas.h"
#include "cuda/indexing/indexing.h"
#include "ops/layout.h"
#include "ops/transfer.h"
#include "strata/ops/creation/fills.h"
#include "strata/ops/creation/grids.h"
#include "strata/ops/indexing/indexing.h"
#include "strata/ops/indexing/scatter.h"
#include "strata/ops/movement/copy.h"
#include "strata/ops/movement/views.h"
#include "strata/ops/pointwise/power.h"
#include "strata/ops/reduce/minmax.h"

namespace strata {
namespace {

using Opt = std::optional<DType>;
using OptDevice = std::optional<Device>;

void infer_arange(const Call& c) {
  const args::arange_start a(c);
  const auto is_integer = [](const Value& v) { return v.tag != Tag::Float; };
  const bool integers = is_integer(a.start_value()) && is_integer(a.end_value()) && is_integer(a.step_value());
  const DType dtype = a.dtype() ? *a.dtype() : integers ? DType::I64 : default_dtype();
  const double start = a.start_value().number(), end = a.end_value().number(), step = a.step_value().number();
  STRATA_CHECK(step != 0, Runtime, "arange: step must be nonzero");
  STRATA_CHECK(std::isfinite(start) && std::isfinite(end), Runtime, "arange: unsupported range: {} -> {}", start, end);
  STRATA_CHECK((step > 0 && end >= start) || (step < 0 && end <= start), Runtime,
               "arange: upper bound and lower bound inconsistent with step sign: start {}, end {}, step {}", start, end,
               step);
  int64_t n = 0;
  if (integers) {
    const auto span = static_cast<uint64_t>(step > 0 ? a.end_value().i - a.start_value().i
                                                     : a.start_value().i - a.end_value().i),
               by = static_cast<uint64_t>(std::abs(a.step_value().i));
    n = static_cast<int64_t>(span / by + (span % by != 0));
  } else {
    const double count = std::ceil((end - start) / step);
    STRATA_CHECK(count >= 0 && count < 0x1p60, Runtime, "arange: invalid size, possible overflow: {} -> {} by {}",
                 start, end, step);
    n = static_cast<int64_t>(count);
  }
  c.outs[0]->set_shape(Shape(std::array{n}));
  set_options(c, dtype, a.device_value(), a.requires_grad_value());
}
// Serially, for the reference.
template <class C, class F> void fill_plain(const TensorImpl& out, const F& f) {
  cpu::each_index(out.sizes(), [&](const cpu::Index& at) { cpu::set<C>(out, at, f(at[0])); });
}
template <bool plain> void run_arange(const Call& c) {
  const args::arange_start a(c);
  if (is_integral(c.out().dtype())) {
    const int64_t start = a.start_value().integer(), step = a.step_value().integer();
    if (plain) fill_plain<int64_t>(*c.out(), [=](int64_t i) { return start + i * step; });
    else cpu::fill_range(*c.out(), start, step);
  } else {
    const double start = a.start_value().number(), step = a.step_value().number();
    if (plain) fill_plain<double>(*c.out(), [=](int64_t i) { return start + static_cast<double>(i) * step; });
    else cpu::fill_range(*c.out(), start, step);
  }
}

template <class V> void infer_steps(const Call& c) {
  const V a(c);
  const int64_t steps = a.steps();
  STRATA_CHECK(steps >= 0, Runtime, "{}: number of steps must be non-negative, got {}", c.op.name, steps);
  c.outs[0]->set_shape(Shape(std::array{steps}));
  const bool complex = a.start().is_complex() || a.end().is_complex();
  const DType type = a.dtype() ? *a.dtype() : complex ? complex_type(default_dtype()) : default_dtype();
  for (const Scalar end : {a.start(), a.end()}) check_in_range(end, type, c.op.name.c_str());
  set_options(c, type, a.device_value(), a.requires_grad_value());
}
// An end of a linspace: integer dtypes truncate it, as in PyTorch.
double end_of(const Call& c, Scalar end) {
  return is_integral(c.out().dtype()) ? std::trunc(end.to_double()) : end.to_double();
}
// fill(out, start, end); for complex numbers once for each of their parts.
template <class V, class F> void fill_linspace(const Call& c, const F& fill) {
  const V a(c);
  if (!is_complex(c.out().dtype())) return fill(*c.out(), end_of(c, a.start()), end_of(c, a.end()));
  const Complex<double> start = a.start().to_complex(), end = a.end().to_complex();
  fill(*part_of(*c.out(), 0), start.re, end.re);
  fill(*part_of(*c.out(), 1), start.im, end.im);
}
template <bool plain, class V = args::linspace> void run_linspace(const Call& c) {
  fill_linspace<V>(c, [&](const TensorImpl& out, double start, double end) {
    const cpu::Steps steps(V(c).steps(), start, end);
    if (plain) fill_plain<double>(out, steps);
    else cpu::fill_steps(out, steps);
  });
}
template <class V> void linspace_on_device(const Call& c, Workspace& workspace) {
  fill_linspace<V>(
    c, [&](const TensorImpl& out, double start, double end) { cuda::linspace(out, start, end, 0, workspace); });
}
// Complex exponents, which are in the result, are replaced by the powers.
void raise_to_exponents(const Call& c) {
  const autograd::NoGrad no_grad;
  if (c.out().numel() == 0) return;
  std::atomic<uint32_t>& version = c.outs[0]->storage->version;
  const uint32_t before = version.load(std::memory_order_relaxed);
  call_out(op_pow, Args(args::logspace(c).base(), c.outs[0]), &c.outs[0]);
  version.store(before, std::memory_order_relaxed);  // dispatch counts the writes of this call
}
template <bool plain> void run_logspace(const Call& c) {
  const args::logspace a(c);
  if (is_complex(c.out().dtype())) {
    run_linspace<plain, args::logspace>(c);
    return raise_to_exponents(c);
  }
  const double base = a.base();
  const cpu::Steps exponent(a.steps(), a.start_value().number(), a.end_value().number());
  const auto power = [=](int64_t i) { return std::pow(base, exponent(i)); };
  if (plain) fill_plain<double>(*c.out(), power);
  else cpu::fill_powers(*c.out(), base, exponent);
}

void infer_eye(const Call& c) {
  const args::eye a(c);
  const int64_t n = a.n(), m = a.m() ? *a.m() : n;
  STRATA_CHECK(n >= 0, Runtime, "eye: n must be greater or equal to 0, got {}", n);
  STRATA_CHECK(m >= 0, Runtime, "eye: m must be greater or equal to 0, got {}", m);
  c.outs[0]->set_shape(Shape(std::array{n, m}));
  set_options(c, a.dtype() ? *a.dtype() : default_dtype(), a.device_value(), a.requires_grad_value());
}

// Elements of the lower triangle: rows grow by one from the first nonempty row until all columns belong to it.
int64_t lower_count(int64_t rows, int64_t cols, int64_t offset) {
  const int64_t filled = std::min(rows, rows + offset), first = std::max<int64_t>(0, offset) + 1;
  if (filled <= 0 || cols == 0) return 0;
  if (first >= cols) return (Checked(filled) * cols).get();
  const int64_t growing = std::min(filled, cols - first);
  const int64_t twice = (Checked(2) * first + growing - 1).get();
  return ((twice % 2 ? Checked(growing / 2) * twice : Checked(twice / 2) * growing) + Checked(filled - growing) * cols)
    .get();
}
// Offsets beyond the matrix are equivalent.
int64_t clamped_offset(int64_t rows, int64_t cols, int64_t offset) { return std::clamp(offset, -rows, cols); }

// Rows and columns of the lower (or upper) triangle, in row-major order.
template <bool kLower> void triangle(int64_t rows, int64_t cols, int64_t offset, auto&& f) {
  const int64_t begin = kLower ? std::max<int64_t>(0, -offset) : 0, end = kLower ? rows : std::min(rows, cols - offset);
  for (int64_t r = begin; r < end; ++r) {
    const int64_t from = kLower ? 0 : std::clamp<int64_t>(r + offset, 0, cols),
                  to = kLower ? std::clamp<int64_t>(r + offset + 1, 0, cols) : cols;
    for (int64_t k = from; k < to; ++k) f(r, k);
  }
}
template <bool kLower> void infer_triangle(const Call& c) {
  const args::tril_indices a(c);
  const int64_t rows = a.row(), cols = a.col();
  STRATA_CHECK(rows >= 0 && cols >= 0, Runtime, "{}: row and col must be non-negative, got {} and {}", c.op.name, rows,
               cols);
  const int64_t all = checked_numel(Shape(std::array{rows, cols})), offset = clamped_offset(rows, cols, a.offset());
  const int64_t n =
    kLower ? lower_count(rows, cols, offset) : all - lower_count(rows, cols, std::max(offset - 1, -rows));
  c.outs[0]->set_shape(Shape(std::array{int64_t{2}, n}));
  set_options(c, a.dtype(), a.device_value(), false);
}
template <bool kLower> void run_triangle_indices(const Call& c) {
  const args::tril_indices a(c);
  const Tensor found = make_tensor(c.out().shape(), DType::I64);
  const int64_t n = found->shape[1];
  const int64_t rows = a.row(), cols = a.col();
  int64_t i = 0;
  if (n > 0)
    triangle<kLower>(rows, cols, clamped_offset(rows, cols, a.offset()), [&](int64_t r, int64_t k) {
      found.data<int64_t>()[i] = r;
      found.data<int64_t>()[n + i++] = k;
    });
  cpu::copy(*c.out(), *found);
}

template <bool kLower> void triangle_on_device(const Call& c, Workspace& workspace) {
  const args::tril_indices a(c);
  const int64_t matrix[] = {a.row(), a.col()}, pairs[] = {c.out().size(1), 2};
  const Tensor all = workspace.take(matrix, DType::Bool), inside = workspace.take(matrix, DType::Bool),
               places = workspace.take(pairs, DType::I64);
  if (!workspace.planning()) fill_values(*all, 1);
  cuda::triangle(*inside, *all, kLower, a.offset(), workspace);
  cuda::nonzero(*places, *inside, workspace);
  if (!workspace.planning()) copy_values(*c.out(), *t(places));
}

void run_eye(const Call& c) {
  fill_values(*c.out(), 0);
  Tensor diagonal = alias(*c.out());
  diagonal->ndim = 1;
  diagonal->shape[0] = std::min(c.out()->shape[0], c.out()->shape[1]);
  diagonal->strides[0] = c.out()->strides[0] + c.out()->strides[1];
  diagonal->update_contiguous();
  fill_values(*diagonal, 1);
}
}  // namespace

STRATA_OP(arange, "arange(Scalar end, *, dtype? dtype=None, device? device=None, bool requires_grad=False) -> Tensor")
  .doc("0, 1, 2, … up to but not including end.\n\n>>> strata.arange(3)\ntensor([0, 1, 2])")
  .composite([](Scalar end, Opt dtype, OptDevice device, bool requires_grad) {
    return arange(end.is_float() ? Scalar(0.0) : Scalar(0), end, 1, dtype, device, requires_grad);
  })
  .samples({"5", "2.5", "0"})
  .error("-1", ErrorKind::Runtime, "inconsistent with step sign");
STRATA_OP(arange_start,
          "arange.start(Scalar start, Scalar end, Scalar step=1, *, dtype? dtype=None, device? device=None, bool "
          "requires_grad=False) -> Tensor")
  .doc("start, start + step, … up to but not including end.\n\n>>> strata.arange(1, 6, 2)\ntensor([1, 3, 5])")
  .infer(infer_arange)
  .kernel("formula", run_arange<false>)
  .kernel("reference", run_arange<true>)
  .cuda("formula", [](const args::arange_start& c,
                      Workspace& workspace) { cuda::arange(*c.out(), c.start(), c.step(), workspace); })
  .samples({"1, 5", "0, 1, 0.25", "5, 0, -2", "2, 2"})
  .error("0, 5, 0", ErrorKind::Runtime, "nonzero")
  .error("0, 5, -1", ErrorKind::Runtime, "inconsistent with step sign");

STRATA_OP(linspace,
          "linspace(Scalar start, Scalar end, int steps, *, dtype? dtype=None, device? device=None, bool "
          "requires_grad=False) -> Tensor")
  .doc(
    "The given number of evenly spaced values from start to end, both included.\n\n>>> strata.linspace(0, 1, "
    "3)\ntensor([0.0000, 0.5000, 1.0000])")
  .infer(infer_steps<args::linspace>)
  .kernel("formula", run_linspace<false>)
  .kernel("reference", run_linspace<true>)
  .cuda("formula", linspace_on_device<args::linspace>)
  .add_dtypes(kComplexTypes)
  .handles_complex()
  .samples({"0, 1, 5", "3.0, -10.0, 4", "0, 1, 1", "0, 1, 0", "0, 10, 5, dtype='int64'", "0, 1, 5, dtype='complex64'"})
  .error("0, 1, -1", ErrorKind::Runtime, "non-negative");
STRATA_OP(logspace,
          "logspace(Scalar start, Scalar end, int steps, float base=10.0, *, dtype? dtype=None, device? device=None, "
          "bool requires_grad=False) -> Tensor")
  .doc("base to the powers of linspace.\n\n>>> strata.logspace(0, 2, 3)\ntensor([  1.,  10., 100.])")
  .infer(infer_steps<args::logspace>)
  .kernel("formula", run_logspace<false>)
  .kernel("reference", run_logspace<true>)
  .cuda("formula",
        [](const Call& c, Workspace& workspace) {
          const args::logspace a(c);
          if (!is_complex(c.out().dtype()))
            return cuda::linspace(*c.out(), a.start_value().number(), a.end_value().number(), a.base(), workspace);
          linspace_on_device<args::logspace>(c, workspace);
          if (!workspace.planning()) raise_to_exponents(c);
        })
  .add_dtypes(kComplexTypes)
  .handles_complex()
  .samples({"0, 1, 5", "0, 3, 4, 2.0", "0, 1, 0", "0, 3, 4, dtype='complex128'"})
  .error("0, 1, -1", ErrorKind::Runtime, "non-negative");

STRATA_OP(eye, "eye(int n, int? m=None, *, dtype? dtype=None, device? device=None, bool requires_grad=False) -> Tensor")
  .doc("Ones on the diagonal, zeros elsewhere.\n\n>>> strata.eye(2)\ntensor([[1., 0.],\n        [0., 1.]])")
  .infer(infer_eye)
  .kernel("fill", run_eye)
  .cuda("fill", run_eye)
  .kernel("reference",
          [](const Call& c) {
            cpu::each_index(c.out().shape(),
                            [&](const cpu::Index& at) { cpu::set<int64_t>(*c.out(), at, at[0] == at[1]); });
          })
  .add_dtypes(kComplexTypes)
  .handles_complex()
  .samples({"3", "2, 4", "0", "3, dtype='int64'"})
  .error("-1", ErrorKind::Runtime, "greater or equal to 0");

STRATA_OP(tril_indices,
          "tril_indices(int row, int col, int offset=0, *, dtype dtype=int64, device? device=None) -> Tensor")
  .doc(
    "Rows and columns of the lower triangle of a matrix.\n\n>>> strata.tril_indices(2, 2)\ntensor([[0, 1, 1],\n        "
    "[0, 0, 1]])")
  .infer(infer_triangle<true>)
  .kernel("reference", run_triangle_indices<true>)
  .cuda("nonzero", triangle_on_device<true>)
  .no_out()
  .samples({"3, 3", "2, 4, 1", "4, 2, -1", "0, 3", "5, 3, -2", "3, 5, 2", "2, 7, 3", "6, 2, 9", "4, 4, -9"})
  .error("-1, 3", ErrorKind::Runtime, "non-negative")
  .error("1099511627776, 4", ErrorKind::OutOfMemory, "out of memory");
STRATA_OP(triu_indices,
          "triu_indices(int row, int col, int offset=0, *, dtype dtype=int64, device? device=None) -> Tensor")
  .doc(
    "Rows and columns of the upper triangle of a matrix.\n\n>>> strata.triu_indices(2, 2)\ntensor([[0, 0, 1],\n        "
    "[0, 1, 1]])")
  .infer(infer_triangle<false>)
  .kernel("reference", run_triangle_indices<false>)
  .cuda("nonzero", triangle_on_device<false>)
  .no_out()
  .samples({"3, 3", "2, 4, 1", "4, 2, -1", "0, 3", "5, 3, -2", "3, 5, 2", "2, 7, 3", "6, 2, 9", "4, 4, -9"})
  .error("-1, 3", ErrorKind::Runtime, "non-negative")
  .error("4, 1099511627776", ErrorKind::OutOfMemory, "out of memory");

namespace {
constexpr int64_t kOnesTogether = 1 << 14;  // that one thread writes
}

STRATA_OP(nn_functional_one_hot, "nn.functional.one_hot(Tensor input, int num_classes=-1) -> Tensor")
  .doc(
    "A new last dimension with a 1 at each class and zeros elsewhere.\n\n>>> "
    "strata.nn.functional.one_hot(strata.tensor([0, 2]))\ntensor([[1, 0, 0],\n        [0, 0, 1]])")
  .composite([](const Tensor& input, int64_t num_classes) {
    STRATA_CHECK(input.dtype() == DType::I64, Runtime,
                 "one_hot: is only applicable to index tensor of type LongTensor, got {}", name_of(input.dtype()));
    int64_t classes = num_classes;
    if (input.numel() == 0) {
      STRATA_CHECK(classes > 0, Runtime, "one_hot: cannot infer total number of classes from an empty tensor");
    } else if (input.is_meta()) {
      if (classes == -1) refuse_shape_from_values("one_hot");
    } else {
      STRATA_CHECK(amin(input).item<int64_t>() >= 0, Runtime, "one_hot: class values must be non-negative");
      const int64_t most = amax(input).item<int64_t>();
      if (classes == -1) classes = (Checked(most) + 1).get();
      STRATA_CHECK(most < classes, Runtime,
                   "one_hot: class values must be smaller than num_classes; found {} with num_classes={}", most,
                   classes);
    }
    Dims shape(input.shape());
    shape.push(classes);
    const Tensor out = zeros(shape, DType::I64);
    if (!input.is_cpu()) return scatter(out, -1, unsqueeze(input, -1), 1);
    const Tensor dense = contiguous(input);
    const int64_t* from = dense.data<int64_t>();
    int64_t* to = out.data<int64_t>();
    parallel_for(input.numel(), kOnesTogether, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) to[i * classes + from[i]] = 1;
    });
    return out;
  })
  .no_out()
  .samples({"i4(5)", "i4(2,3), 6", "i3()"})
  .error("i9(60), 2", ErrorKind::Runtime, "smaller than num_classes")
  .error("f(3)", ErrorKind::Runtime, "index tensor");

}  // namespace strata
