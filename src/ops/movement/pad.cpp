// Padding.
#include "strata/args/movement/pad.h"
#include "strata/ops/movement/pad.h"

#include <algorithm>

#include "autograd/autograd.h"
#include "base/checked.h"
#include "base/host_memory.h"
#include "cpu/movement/copy.h"
#include "cpu/movement/edges.h"
#include "cpu/reference.h"
#include "cuda/movement/pad.h"
#include "ops/geometry.h"
#include "ops/indexing/indexing.h"
#include "ops/transfer.h"
#include "strata/ops/indexing/indexing.h"
#include "strata/ops/movement/views.h"

namespace strata {
namespace {

// pad lists (before, after), starting with the last dimension.
struct Pads {
  int64_t before[kMaxDims] = {}, after[kMaxDims] = {};
  Pads(const TensorImpl& t, IntList pad) {
    STRATA_CHECK(pad.size % 2 == 0, Runtime, "pad: length of pad must be even but instead it equals {}", pad.size);
    STRATA_CHECK(pad.size <= 2 * static_cast<size_t>(t.ndim), Runtime,
                 "pad: length of pad should be no more than twice the number of dimensions of the input; pad has {} "
                 "entries, the input {} dimensions",
                 pad.size, t.ndim);
    for (int64_t n : pad) STRATA_CHECK(n > INT64_MIN, Runtime, "pad: {} is too small", n);
    for (size_t i = 0; i < pad.size / 2; ++i) {
      before[t.ndim - 1 - i] = pad[2 * i];
      after[t.ndim - 1 - i] = pad[2 * i + 1];
    }
  }
};

int64_t padded_size(const TensorImpl& t, int d, const Pads& p) {
  const int64_t n = (Checked(t.shape[d]) + p.before[d] + p.after[d]).get();
  STRATA_CHECK(
    n >= 0, Runtime,
    "pad: the input size {}, plus negative padding {} and {} resulted in a negative output size, which is invalid; "
    "dimension {} of the input",
    t.shape[d], p.before[d], p.after[d], d);
  return n;
}

void run_constant(const Call& c) {
  const args::constant_pad_nd a(c);
  const TensorImpl& input = a.input();
  const Pads p(input, a.pad());
  fill_values(*c.out(), a.value());
  Geometry from(input), to(*c.out());
  for (int d = 0; d < input.ndim; ++d) {
    from = slice_geometry(from, d, std::min(std::max<int64_t>(0, -p.before[d]), input.shape[d]),
                          std::max<int64_t>(0, input.shape[d] + std::min<int64_t>(0, p.after[d])), 1);
    to = slice_geometry(to, d, std::min(std::max<int64_t>(0, p.before[d]), c.out()->shape[d]),
                        std::max<int64_t>(0, c.out()->shape[d] - std::max<int64_t>(0, p.after[d])), 1);
  }
  copy_values(*show(c.out(), to), *show(alias(input), from));
}

template <class F> auto on_device(const Call& c, const F& f) {
  const args::constant_pad_nd a(c);
  const Pads p(a.input(), a.pad());
  const Tensor value = make_tensor({}, a.input().dtype);
  cpu::fill_reference(*value, a.value());
  return f(cuda::Padding{a.input(), *c.out(), p.before, value.bytes()});
}
void pad_on_device(const Call& c) { on_device(c, cuda::pad); }
const char* device_objection(const Call& c) { return on_device(c, cuda::pad_objection); }

void plain_constant(const Call& c) {
  const args::constant_pad_nd a(c);
  const TensorImpl& input = a.input();
  const Pads p(input, a.pad());
  cpu::fill_reference(*c.out(), a.value());
  cpu::each_index(input.sizes(), [&](const cpu::Index& at) {
    cpu::Index to = at;
    for (int d = 0; d < input.ndim; ++d) {
      to[static_cast<size_t>(d)] += p.before[d];
      if (to[static_cast<size_t>(d)] < 0 || to[static_cast<size_t>(d)] >= c.out()->shape[d]) return;  // cropped
    }
    cpu::put(*c.out(), to, input, at);
  });
}

// The element of the input for each element of the result, along dimension d.
std::vector<int64_t> sources(const TensorImpl& input, int d, const Pads& p, std::string_view mode) {
  const int64_t n = input.shape[d], size = padded_size(input, d, p);
  if (mode == "reflect")
    STRATA_CHECK(p.before[d] < n && p.after[d] < n, Runtime,
                 "pad: padding size should be less than the corresponding input dimension, but got: padding ({}, {}) "
                 "at dimension {} of input {}",
                 p.before[d], p.after[d], d, to_string(input.sizes()));
  if (mode == "circular")
    STRATA_CHECK(
      p.before[d] <= n && p.after[d] <= n, Runtime,
      "pad: padding value causes wrapping around more than once: padding ({}, {}) at dimension {} of input {}",
      p.before[d], p.after[d], d, to_string(input.sizes()));
  STRATA_CHECK(
    (n > 0 && (mode != "circular" || n + std::min<int64_t>(0, p.after[d]) + std::min<int64_t>(0, p.before[d]) > 0)) ||
      size == 0,
    Runtime, "pad: expected a non-zero size at dimension {} of input {}", d, to_string(input.sizes()));
  check_host_memory(size, 2 * sizeof(int64_t), "pad");
  std::vector<int64_t> index(static_cast<size_t>(size));
  // Circular padding continues what negative padding has left; the other modes mirror or repeat the input's own edge.
  const int64_t first = std::max<int64_t>(0, -p.before[d]), period = n + std::min<int64_t>(0, p.after[d]) - first;
  for (int64_t k = 0; k < size; ++k) {
    int64_t i = k - p.before[d];
    if (mode == "reflect") i = i < 0 ? -i : i >= n ? 2 * (n - 1) - i : i;
    else if (mode == "replicate") i = std::clamp<int64_t>(i, 0, n - 1);
    else i = first + ((i - first) % period + period) % period;
    STRATA_ASSERT(i >= 0 && i < n);
    index[static_cast<size_t>(k)] = i;
  }
  return index;
}
Tensor pad_dim(const Tensor& input, int d, const Pads& p, std::string_view mode) {
  if (p.before[d] == 0 && p.after[d] == 0) return input;
  return index_at(input, {index_tensor(sources(*input, d, p, mode))}, d);
}

// On the CPU, all dimensions are padded in one pass. Those of `pad` are the last ones, the outermost first.
cpu::EdgeSources edge_sources(const TensorImpl& input, IntList pad, std::string_view mode) {
  STRATA_CHECK(mode == "reflect" || mode == "replicate" || mode == "circular", NotImplemented,
               "pad: unrecognised padding mode {}; expected reflect, replicate or circular", mode);
  const Pads p(input, pad);
  cpu::EdgeSources all;
  for (int d = input.ndim - static_cast<int>(pad.size / 2); d < input.ndim; ++d)
    all.push_back(sources(input, d, p, mode));
  return all;
}
void infer_pad_edges(const Call& call) {
  const args::_pad_edges c(call);
  const TensorImpl& input = c.input();
  STRATA_CHECK(c.pad().size >= 2, Runtime, "_pad_edges: expected a pad of at least two numbers");
  Dims shape(input.sizes());
  const cpu::EdgeSources all = edge_sources(input, c.pad(), c.mode());
  for (size_t i = 0; i < all.size(); ++i) shape[shape.n - all.size() + i] = static_cast<int64_t>(all[i].size());
  c.out()->dtype = input.dtype;
  c.out()->set_shape(shape);
}
// A tensor of the input's shape, without values, from the gradient's arguments.
Tensor padded_input(const args::_pad_edges_backward& c) {
  Tensor input = shape_only(c.grad());
  input->set_shape(Shape(c.shape().data, c.shape().size));
  return input;
}
void infer_pad_edges_backward(const Call& call) {
  const args::_pad_edges_backward c(call);
  STRATA_CHECK(c.pad().size >= 2, Runtime, "_pad_edges_backward: expected a pad of at least two numbers");
  const Tensor input = padded_input(c);
  const TensorImpl& g = c.grad();
  const cpu::EdgeSources all = edge_sources(*input, c.pad(), c.mode());
  bool fits = g.ndim == input.dim();
  for (int d = 0, first = input.dim() - static_cast<int>(all.size()); fits && d < g.ndim; ++d)
    fits =
      g.shape[d] == (d < first ? input->shape[d] : static_cast<int64_t>(all[static_cast<size_t>(d - first)].size()));
  STRATA_CHECK(fits, Runtime, "_pad_edges_backward: a gradient of shape {} does not fit an input of shape {}",
               to_string(g.sizes()), to_string(input.shape()));
  c.out()->dtype = g.dtype;
  c.out()->set_shape(input.shape());
}
template <decltype(&cpu::pad_edges) pad> void run_pad_edges(const Call& call) {
  const args::_pad_edges c(call);
  pad(c.input(), edge_sources(c.input(), c.pad(), c.mode()), *c.out());
}
template <decltype(&cpu::sum_edges) sum> void run_sum_edges(const Call& call) {
  const args::_pad_edges_backward c(call);
  sum(c.grad(), edge_sources(*padded_input(c), c.pad(), c.mode()), *c.out());
}

// On devices, many small planes are padded in all their dimensions at once, by one list of indices for all planes.
constexpr int64_t kSmallPlane = 1 << 16;  // elements
constexpr int64_t kManyPlanes = 4;
bool many_small_planes(const Tensor& input, int dims, const Pads& p) {
  int padded = 0;
  Checked size = 1;
  for (int d = input.dim() - dims; d < input.dim(); ++d) {
    padded += p.before[d] != 0 || p.after[d] != 0;
    size *= padded_size(*input, d, p);
  }
  int64_t planes = 1;
  for (int d = 0; d < input.dim() - dims; ++d) planes *= input->shape[d];
  return padded > 1 && input->contiguous && planes >= kManyPlanes && size.get() > 0 && size.get() <= kSmallPlane;
}
Tensor pad_planes(const Tensor& input, int dims, const Pads& p, std::string_view mode) {
  std::vector<int64_t> at{0};
  std::vector<int64_t> shape(input.shape().begin(), input.shape().end());
  int64_t plane = 1;
  for (int d = input.dim() - dims; d < input.dim(); ++d) {
    const std::vector<int64_t> along = sources(*input, d, p, mode);
    std::vector<int64_t> next;
    next.reserve(at.size() * along.size());
    for (const int64_t start : at)
      for (const int64_t i : along) next.push_back(start * input->shape[d] + i);
    at = std::move(next);
    plane *= input->shape[d];
    shape[static_cast<size_t>(d)] = static_cast<int64_t>(along.size());
  }
  return reshape(index_at(reshape(input, {input.numel() / plane, plane}), {index_tensor(at)}, 1), shape);
}
}  // namespace

STRATA_OP(constant_pad_nd, "constant_pad_nd(Tensor input, int[] pad, Scalar value=0) -> Tensor")
  .doc(
    "input with a border of a value; pad lists (before, after) starting with the last dimension; negative numbers "
    "crop.\n\n>>> strata.constant_pad_nd(strata.ones(2), (1, 0), 5)\ntensor([5., 1., 1.])")
  .infer([](const args::constant_pad_nd& c) {
    const TensorImpl& input = c.input();
    const Pads p(input, c.pad());
    Dims shape;
    for (int d = 0; d < input.ndim; ++d) shape.push(padded_size(input, d, p));
    check_in_range(c.value(), input.dtype, "pad", true);
    c.out()->dtype = input.dtype;
    c.out()->device = input.device;
    c.out()->set_shape(shape);
    set_layout(*c.out(), std::nullopt, &input, "pad");
  })
  .kernel("fill_and_copy", run_constant)
  .kernel("reference", plain_constant)
  .cuda("one_pass", pad_on_device, device_objection)
  .cuda("fill_and_copy", run_constant)
  .grad([](const grads::constant_pad_nd& c, const Tensor& g) -> Grads {
    Dims back(c.pad());
    for (size_t i = 0; i < back.n; ++i) back[i] = -back[i];
    return {constant_pad_nd(g, back)};
  })
  .no_method()
  .dtypes(kStorageTypes)
  .samples({"f(2,3), [1, 2]", "f(2,3), [1, 0, 0, 2], 1.5", "f(2,5), [-1, 2]", "f(3), [-1, -1]", "f(2,0), [1, 1]",
            "f(3), []", "f(3), [-3, 1]"})
  .error("f(3), [1]", ErrorKind::Runtime, "must be even")
  .error("f(3), [1, 1, 1, 1]", ErrorKind::Runtime, "no more than twice")
  .error("f(3), [-2, -2]", ErrorKind::Runtime, "negative output size");

STRATA_OP(_pad_edges, "_pad_edges(Tensor input, int[] pad, str mode) -> Tensor")
  .doc("nn.functional.pad with elements of input: modes 'reflect', 'replicate' and 'circular'.")
  .helper()
  .no_out()
  .infer(infer_pad_edges)
  .kernel("rows", run_pad_edges<cpu::pad_edges>)
  .kernel("reference", run_pad_edges<cpu::pad_edges_reference>)
  .cuda_on_host("pad_edges_on_host")
  .handles_complex()
  .dtypes(kAllTypes)
  .add_dtypes(kComplexTypes)
  .grad([](const grads::_pad_edges& c, const Tensor& g) -> Grads {
    return {_pad_edges_backward(g, c.pad(), c.mode(), c.shape_of_input())};
  })
  .samples({"f(2,3), [1, 2], 'reflect'", "f(2,3,4), [1, 2, 2, 0], 'replicate'",
            "f(2,2,3,3,3), [1, 1, 0, 1, 2, 2], 'reflect'", "f(2,3,4), [2, 1, 1, 2], 'circular'",
            "f(2,4), [-1, 2], 'circular'", "f(2,5,4), [-1, 2, 1, -2], 'replicate'", "f(0,3), [1, 1], 'reflect'"})
  .error("f(2,3), [1, 1], 'mirror'", ErrorKind::NotImplemented, "unrecognised padding mode");

STRATA_OP(_pad_edges_backward, "_pad_edges_backward(Tensor grad, int[] pad, str mode, int[] shape) -> Tensor")
  .doc("The gradient of _pad_edges for an input of the given shape.")
  .helper()
  .no_out()
  .infer(infer_pad_edges_backward)
  .kernel("rows", run_sum_edges<cpu::sum_edges>)
  .kernel("reference", run_sum_edges<cpu::sum_edges_reference>)
  .cuda_on_host("sum_edges_on_host")
  .dtypes(kFloatingTypes)
  .complex_by_parts()
  .grad([](const grads::_pad_edges_backward& c, const Tensor& g) -> Grads {
    return {_pad_edges(g, c.pad(), c.mode())};
  })
  .samples({"f(2,6), [1, 2], 'reflect', [2, 3]", "f(2,5,7), [1, 2, 2, 0], 'replicate', [2, 3, 4]",
            "f(2,2,7,4,5), [1, 1, 0, 1, 2, 2], 'reflect', [2, 2, 3, 3, 3]",
            "f(2,6,7), [2, 1, 1, 2], 'circular', [2, 3, 4]", "f(2,5), [-1, 2], 'circular', [2, 4]"})
  .error("f(2,6), [1, 1], 'reflect', [2, 3]", ErrorKind::Runtime, "does not fit");

STRATA_OP(nn_functional_pad,
          "nn.functional.pad(Tensor input, int[] pad, str mode='constant', float? value=None) -> Tensor")
  .doc(
    "input with a border: 'constant' (a value), 'reflect', 'replicate' or 'circular'.\n\n"
    ">>> strata.nn.functional.pad(strata.tensor([[1., 2., 3.]]), (2, 0), mode='reflect')\ntensor([[3., 2., 1., 2., "
    "3.]])")
  .composite([](const Tensor& input, IntList pad, std::string_view mode, std::optional<double> value) {
    if (mode == "constant") return constant_pad_nd(input, pad, value ? Scalar(*value) : Scalar(0));
    STRATA_CHECK(mode == "reflect" || mode == "replicate" || mode == "circular", NotImplemented,
                 "pad: unrecognised padding mode {}; expected constant, reflect, replicate or circular", mode);
    STRATA_CHECK(!value || *value == 0, Value, "pad: padding mode \"{}\" doesn't take in value argument", mode);
    const Pads p(*input, pad);
    const auto dims = static_cast<int>(pad.size / 2);
    STRATA_CHECK(dims >= 1 && dims <= 3 && (input.dim() == dims + 1 || input.dim() == dims + 2), NotImplemented,
                 "pad: only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now; got a pad of {} "
                 "numbers and an input of {} dimensions",
                 pad.size, input.dim());
    for (int d = input.dim() - dims - 1; mode != "circular" && d < input.dim(); ++d)
      STRATA_CHECK(input->shape[d] > 0, Runtime,
                   "pad: expected an input with possibly 0 batch size and other non-zero dimensions, but got shape {}",
                   to_string(input.shape()));
    if (on_host(input)) return _pad_edges(input, pad, mode);
    if (many_small_planes(input, dims, p)) return pad_planes(input, dims, p, mode);
    Tensor out = input;
    for (int d = input.dim() - dims; d < input.dim(); ++d) out = pad_dim(out, d, p, mode);
    return out;
  })
  .no_out()
  .dtypes(kAllTypes)
  .add_dtypes(kComplexTypes)
  .samples({"f(2,3), [1, 2]", "f(2,3), [1, 2, 1, 0], 'constant', 2.5", "f(2,3,4), [1, 2], 'reflect'",
            "f(2,3,4), [1, 2, 2, 0], mode='replicate'", "f(1,2,3,4), [1, 1, 1, 2], mode='circular'",
            "f(1,2,3,3,3), [1, 1, 0, 1, 2, 2], mode='reflect'", "f(2,4), [-1, 2], mode='replicate'"})
  .error("f(2,3), [3, 3], 'reflect'", ErrorKind::Runtime, "less than the corresponding input dimension")
  .error("f(2,3), [4, 0], 'circular'", ErrorKind::Runtime, "more than once")
  .error("f(2,0,4), [1, 2], 'reflect'", ErrorKind::Runtime, "other non-zero dimensions")
  .error("f(2,3), [9223372036854775807, 1]", ErrorKind::Runtime, "does not fit into 64 bits")
  .error("f(2,3), [1099511627776, 1], 'replicate'", ErrorKind::OutOfMemory, "not enough memory")
  .error("f(2,3), [1, 1], 'mirror'", ErrorKind::NotImplemented, "unrecognised padding mode");

}  // namespace strata
