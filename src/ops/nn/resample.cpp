// Resampling along the last dimensions, for interpolate.
#include "strata/args/nn/resample.h"

#include <algorithm>

#include "autograd/autograd.h"
#include "cpu/nn/resample_bytes.h"
#include "cpu/reference.h"
#include "cpu/staging.h"
#include "cuda/nn/resample.h"
#include "ops/device_inputs.h"
#include "ops/transfer.h"
#include "strata/ops/indexing/along.h"
#include "strata/ops/nn/resample.h"

namespace strata {
namespace {

constexpr DTypeSet kImageTypes = kFloatingTypes | DTypeSet{DType::U8};

cpu::Filter filter_of(std::string_view mode, size_t dims) {
  if (mode == "nearest") return dims == 2 ? cpu::Filter::NearestInPlane : cpu::Filter::Nearest;
  if (mode == "nearest-exact") return cpu::Filter::NearestExact;
  return mode == "bicubic" ? cpu::Filter::Cubic : cpu::Filter::Linear;
}

// V: the view of _resample or of its gradient.
template <class V> std::vector<cpu::Taps> taps_of(const V& a, IntList in, IntList out, DType type) {
  std::vector<cpu::Taps> taps;
  const auto scales = a.scales();
  for (size_t d = 0; d < out.size; ++d)
    taps.push_back(cpu::make_taps(in[d], out[d], filter_of(a.mode(), out.size), a.align_corners(),
                                  d < scales.size() ? scales[d] : 0, a.antialias(), type != DType::F64));
  return taps;
}

// `in`: the whole input shape, whose last dimensions are resampled. An empty input cannot give a nonempty output.
void check_resampled(IntList in, IntList out) {
  bool fits = out.size <= in.size;
  for (size_t d = 0; fits && d < out.size; ++d) fits = out[d] >= 0 && (out[d] == 0 || in[in.size - out.size + d] > 0);
  STRATA_CHECK(fits, Runtime, "interpolate: an input of shape {} cannot be resized to {}", to_string(in),
               to_string(out));
}

// Where the last pass writes: the result itself, if it is contiguous and of type T.
template <class T> Tensor plain_result(const Tensor& out) {
  return out.dtype() == dtype_of<T> && out->contiguous ? out : make_tensor(out.shape(), dtype_of<T>);
}

// The part of x that the taps read: a strong reduction uses few rows. The taps then count the rows of that part.
Tensor used_part(const TensorImpl& x, std::vector<cpu::Taps>& taps) {
  Tensor part = alias(x);
  for (size_t d = 0; d + 1 < taps.size(); ++d) {  // the last dimension is read in whole rows
    cpu::Taps& t = taps[d];
    std::vector<int64_t> used(t.index);
    std::ranges::sort(used);
    used.erase(std::unique(used.begin(), used.end()), used.end());
    const auto count = static_cast<int64_t>(used.size());
    if (2 * count > t.in) continue;
    for (int64_t& i : t.index) i = std::ranges::lower_bound(used, i) - used.begin();
    t.in = count;
    const Tensor rows = make_tensor(Shape(&count, 1), DType::I64);
    std::ranges::copy(used, rows.data<int64_t>());
    part = index_select(part, x.ndim - static_cast<int64_t>(taps.size() - d), rows);
  }
  return part;
}

// run(taps, dimension, outer, inner) for each dimension of an image of uint8 whose size changes. The last one is first, as in
// PyTorch; where elements are only copied, the first one, so that whole rows are dropped.
template <class F> void for_byte_passes(const args::resample& a, const F& run) {
  const TensorImpl& x = a.input();
  const IntList out = a.output_size();
  const auto scales = a.scales();
  const bool copies = a.mode().starts_with("nearest");
  std::vector<int64_t> shape(x.shape, x.shape + x.ndim);
  for (size_t step = 0; step < out.size; ++step) {
    const size_t d = copies ? step : out.size - 1 - step, at = shape.size() - out.size + d;
    if (shape[at] == out[d] && !copies) continue;  // as in PyTorch, whatever the factor is
    int64_t outer = 1, inner = 1;
    for (size_t i = 0; i < at; ++i) outer *= shape[i];
    for (size_t i = at + 1; i < shape.size(); ++i) inner *= shape[i];
    shape[at] = out[d];
    run(cpu::make_byte_taps(x.shape[at], out[d], filter_of(a.mode(), out.size), a.align_corners(),
                            d < scales.size() ? scales[d] : 0, a.antialias()),
        at, outer, inner);
  }
}
template <auto resample_along> void run_resample_bytes(const Call& c) {
  const args::resample a(c);
  Tensor now = cpu::staged(a.input(), DType::U8);
  std::vector<int64_t> shape(a.input().shape, a.input().shape + a.input().ndim);
  for_byte_passes(a, [&](const cpu::ByteTaps& taps, size_t at, int64_t outer, int64_t inner) {
    shape[at] = taps.out;
    const Tensor next = make_tensor(shape, DType::U8);
    resample_along(taps, outer, inner, now.data<uint8_t>(), next.data<uint8_t>());
    now = next;
  });
  cpu::copy_values(*c.out(), *now);
}

void run_resample(const Call& c) {
  const args::resample a(c);
  const TensorImpl& given = a.input();
  const IntList out_size = a.output_size();
  const size_t dims = out_size.size;
  if (c.out().numel() == 0) return;
  if (given.dtype == DType::U8) return run_resample_bytes<cpu::resample_bytes_along>(c);
  auto taps = taps_of(a, IntList(Shape(given.shape + given.ndim - dims, dims)), out_size, given.dtype);
  const Tensor part = used_part(given, taps);
  const TensorImpl& x = *part;
  cpu::dispatch_float(x.dtype, [&]<class T>() {
    Tensor now = cpu::staged(x, dtype_of<T>);
    const Tensor last = plain_result<T>(c.out());
    std::vector<int64_t> shape(x.shape, x.shape + x.ndim);
    for (size_t d = dims; d-- > 0;) {  // the last dimension first
      const size_t at = shape.size() - dims + d;
      int64_t outer = 1, inner = 1;
      for (size_t i = 0; i < at; ++i) outer *= shape[i];
      for (size_t i = at + 1; i < shape.size(); ++i) inner *= shape[i];
      shape[at] = out_size[d];
      const Tensor next = d == 0 ? last : make_tensor(shape, dtype_of<T>);
      cpu::resample_along<T>(taps[d], outer, inner, now.data<T>(), next.data<T>());
      now = next;
    }
    if (now.get() != c.out().get()) cpu::copy_values(*c.out(), *now);
  });
}

void run_resample_backward(const Call& c) {  // grad, out size, mode, align_corners, scales, antialias, input shape
  const args::resample_backward a(c);
  const TensorImpl& g = a.grad();
  const IntList out_size = a.output_size(), in_shape = a.input_shape();
  const size_t dims = out_size.size;
  if (c.out().numel() == 0) return;
  const auto taps = taps_of(a, IntList(Shape(in_shape.data + in_shape.size - dims, dims)), out_size, g.dtype);
  cpu::dispatch_float(g.dtype, [&]<class T>() {
    Tensor now = cpu::staged(g, dtype_of<T>);
    const Tensor last = plain_result<T>(c.out());
    std::vector<int64_t> shape(g.shape, g.shape + g.ndim);
    for (size_t d = 0; d < dims; ++d) {
      const size_t at = shape.size() - dims + d;
      int64_t outer = 1, inner = 1;
      for (size_t i = 0; i < at; ++i) outer *= shape[i];
      for (size_t i = at + 1; i < shape.size(); ++i) inner *= shape[i];
      shape[at] = in_shape[at];
      const Tensor next = d + 1 == dims ? last : make_tensor(shape, dtype_of<T>);
      cpu::resample_along_backward<T>(taps[d], outer, inner, now.data<T>(), next.data<T>());
      now = next;
    }
    if (now.get() != c.out().get()) cpu::copy_values(*c.out(), *now);
  });
}

// The input tensor, and the shape of the resized one.
const TensorImpl& given(const args::resample& a) { return a.input(); }
const TensorImpl& given(const args::resample_backward& a) { return a.grad(); }
Shape resized(const args::resample& a) { return a.input().sizes(); }
Shape resized(const args::resample_backward& a) { return a.input_shape(); }
template <class V> constexpr bool goes_back = std::is_same_v<V, args::resample_backward>;

// All dimensions at once, in double.
template <class V> void plain_resample(const Call& c) {
  const V a(c);
  const TensorImpl& x = given(a);
  const IntList out_size = a.output_size();
  const Shape in_shape = resized(a);
  const Shape in_size = in_shape.last(out_size.size);
  if (c.out().numel() == 0) return;
  if constexpr (!goes_back<V>)
    if (x.dtype == DType::U8) return run_resample_bytes<cpu::resample_bytes_reference>(c);
  const auto taps = taps_of(a, in_size, out_size, x.dtype);
  const int64_t planes = checked_numel(in_shape) / checked_numel(in_size);
  const cpu::In<double> in(x);
  const cpu::Out<double> out(c.out());
  (goes_back<V> ? cpu::resample_backward_reference : cpu::resample_reference)(taps, planes, in, out.get());
  out.finish();
}

// A dimension's taps for a device: by output, or for the gradient by input, in the order of the outputs.
cuda::Mixture mixture_of(const cpu::Taps& t, bool backward) {
  const size_t items = t.index.size(), count = static_cast<size_t>(t.count);
  cuda::Mixture m{.in = t.in, .out = t.out, .begin = {}, .index = {}, .weight = t.weight};
  if (!backward) {
    for (size_t o = 0; o * count <= items; ++o) m.begin.push_back(static_cast<int32_t>(o * count));
    m.index.assign(t.index.begin(), t.index.end());
    return m;
  }
  std::swap(m.in, m.out);
  m.begin.resize(static_cast<size_t>(t.in) + 1);
  m.index.resize(items);
  for (int64_t i : t.index) ++m.begin[static_cast<size_t>(i) + 1];
  for (size_t i = 1; i < m.begin.size(); ++i) m.begin[i] += m.begin[i - 1];
  std::vector<int32_t> next(m.begin.begin(), m.begin.end() - 1);
  for (size_t k = 0; k < items; ++k) {
    const auto at = static_cast<size_t>(next[static_cast<size_t>(t.index[k])]++);
    m.index[at] = static_cast<int32_t>(k / count);
    m.weight[at] = t.weight[k];
  }
  return m;
}

// The nearest input of each output, in one pass: x and out are contiguous.
void nearest_on_device(std::span<const cpu::Taps> taps, const TensorImpl& x, const TensorImpl& out,
                       Workspace& workspace) {
  cuda::Nearest n{.planes = x.numel, .in = {1, 1, 1}, .index = {{0}, {0}, {0}}};
  for (size_t d = 0; d < taps.size(); ++d) {
    const size_t at = 3 - taps.size() + d;
    n.in[at] = taps[d].in;
    n.planes /= taps[d].in;
    n.index[at].assign(taps[d].index.begin(), taps[d].index.end());
  }
  cuda::take_nearest(n, x, out, workspace);
}

cuda::Mixture mixture_of(const cpu::ByteTaps& t) {
  cuda::Mixture m{.in = t.in, .out = t.out, .begin = {0}, .index = {}, .weight = {}, .precision = t.precision};
  for (size_t o = 0; o < t.first.size(); ++o) {
    for (int64_t k = 0; k < t.count[o]; ++k) {
      m.index.push_back(static_cast<int32_t>(t.first[o] + k));
      m.weight.push_back(t.weight[o * static_cast<size_t>(t.size) + static_cast<size_t>(k)]);
    }
    m.begin.push_back(static_cast<int32_t>(m.index.size()));
  }
  return m;
}
void bytes_on_device(const Call& c, Workspace& workspace) {
  const args::resample a(c);
  Tensor now = cuda::dense(a.input(), workspace);
  std::vector<int64_t> shape(a.input().shape, a.input().shape + a.input().ndim);
  for_byte_passes(a, [&](const cpu::ByteTaps& taps, size_t at, int64_t outer, int64_t inner) {
    shape[at] = taps.out;
    const Tensor next = workspace.take(shape, DType::U8);
    cuda::mix_along(mixture_of(taps), outer, inner, *now, *next, workspace);
    now = next;
  });
  if (!workspace.planning()) copy_values(*c.out(), *now);
}

// One dimension after the other, in the order of the CPU kernels.
template <class V> void resample_on_device(const Call& c, Workspace& workspace) {
  constexpr bool backward = goes_back<V>;
  const V a(c);
  const TensorImpl& x = given(a);
  const IntList out_size = a.output_size();
  const Shape in_shape = resized(a);
  const size_t dims = out_size.size;
  if (c.out().numel() == 0) return;
  if (x.numel == 0) {
    if (!workspace.planning()) fill_values(*c.out(), 0);
    return;
  }
  const auto taps = taps_of(a, in_shape.last(dims), out_size, x.dtype);
  if (!backward && a.mode().starts_with("nearest")) {
    const Tensor from = cuda::dense(x, workspace);
    const cuda::DenseOut to(*c.out(), workspace);
    nearest_on_device(taps, *from, *to, workspace);
    return to.finish();
  }
  if constexpr (!backward)
    if (x.dtype == DType::U8) return bytes_on_device(c, workspace);
  Tensor now = cuda::dense(x, compute_type(x.dtype), workspace);
  std::vector<int64_t> shape(x.shape, x.shape + x.ndim);
  for (size_t step = 0; step < dims; ++step) {
    const size_t d = backward ? step : dims - 1 - step, at = shape.size() - dims + d;
    int64_t outer = 1, inner = 1;
    for (size_t i = 0; i < at; ++i) outer *= shape[i];
    for (size_t i = at + 1; i < shape.size(); ++i) inner *= shape[i];
    shape[at] = backward ? in_shape[at] : out_size[d];
    const Tensor next = workspace.take(shape, now.dtype());
    cuda::mix_along(mixture_of(taps[d], backward), outer, inner, *now, *next, workspace);
    now = next;
  }
  if (!workspace.planning()) copy_values(*c.out(), *now);
}
}  // namespace

STRATA_OP(
  resample,
  "_resample(Tensor input, int[] output_size, str mode, bool align_corners, float[] scales, bool antialias) -> Tensor")
  .doc("The last dimensions resampled to output_size; called by interpolate.")
  .helper()
  .dtypes(kImageTypes)
  .infer([](const args::resample& c) {
    const TensorImpl& x = c.input();
    const IntList out = c.output_size();
    STRATA_CHECK(kImageTypes.has(x.dtype), NotImplemented,
                 "interpolate: expected a floating-point or uint8 input, got {}; convert it with to(float32)",
                 name_of(x.dtype));
    check_resampled(IntList(x.sizes()), out);
    int64_t shape[kMaxDims];
    std::copy_n(x.shape, x.ndim, shape);
    std::copy_n(out.data, out.size, shape + x.ndim - out.size);
    c.out()->dtype = x.dtype;
    c.out()->set_shape(Shape(shape, x.ndim));
  })
  .kernel("separable", run_resample)
  .kernel("reference", plain_resample<args::resample>)
  .cuda("separable", resample_on_device<args::resample>)
  .grad([](const grads::resample& c, const Tensor& g) -> Grads {
    return {_resample_backward(g, c.output_size(), c.mode(), c.align_corners(), c.scales(), c.antialias(),
                               c.shape_of_input())};
  })
  .autocast_cuda(Autocast::Float32)
  .samples({"f(1,2,4), [7], 'linear', False, [], False", "u(1,2,6,8), [3,5], 'bicubic', False, [], True"});

STRATA_OP(resample_backward,
          "_resample_backward(Tensor grad, int[] output_size, str mode, bool align_corners, float[] scales, bool "
          "antialias, int[] input_shape) -> Tensor")
  .doc("The gradient of _resample.")
  .helper()
  .dtypes(kFloatingTypes)
  .infer([](const args::resample_backward& c) {
    const TensorImpl& g = c.grad();
    const IntList out = c.output_size(), in = c.input_shape();
    check_resampled(in, out);
    bool fits = in.size == g.ndim;
    for (size_t d = 0; fits && d < in.size; ++d)
      fits = g.shape[d] == (d + out.size < in.size ? in[d] : out[d + out.size - in.size]);
    STRATA_CHECK(fits, Runtime, "interpolate: a gradient of shape {} does not fit an input of shape {} resized to {}",
                 to_string(g.sizes()), to_string(in), to_string(out));
    c.out()->dtype = g.dtype;
    c.out()->set_shape(in);
  })
  .kernel("separable", run_resample_backward)
  .kernel("reference", plain_resample<args::resample_backward>)
  .cuda("separable", resample_on_device<args::resample_backward>)
  .grad([](const grads::resample_backward& c, const Tensor& g) -> Grads {
    return {_resample(g, c.output_size(), c.mode(), c.align_corners(), c.scales(), c.antialias())};
  })
  .samples({"f(1,2,7), [7], 'linear', False, [], False, [1,2,4]"});

}  // namespace strata
