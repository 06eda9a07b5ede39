// Pools.
#include <limits>

#include "onnx/ops/windows.h"

namespace strata::onnx {
namespace {

Ints kernel_attribute(const NodeCall& c) {
  Ints kernel = c.ints("kernel_shape");
  STRATA_CHECK(!kernel.empty(), Value, "kernel_shape is missing");
  return kernel;
}

// Adds to the pads after the input what windows reach beyond it (ceil_mode); they must start inside of the padded input.
void extend_for_ceil(const Tensor& x, Windows& w) {
  for (size_t d = 0; d < w.dims(); ++d) {
    const int64_t n = x.size(static_cast<int64_t>(d) + 2);
    const int64_t span = ((Checked(w.kernel[d]) - 1) * w.dilations[d] + 1).get();
    const int64_t room = (Checked(n) + w.before[d] + w.after[d] - span).get();
    if (room < 0) continue;
    int64_t count = (room + w.strides[d] - 1) / w.strides[d] + 1;
    if ((Checked(count - 1) * w.strides[d]).get() >= n + w.before[d]) --count;
    w.after[d] += (Checked(count - 1) * w.strides[d] + span - n - w.before[d] - w.after[d]).get();
    if (w.after[d] < 0) w.after[d] = 0;
  }
}
bool is_dilated(const Windows& w) {
  return std::any_of(w.dilations.begin(), w.dilations.end(), [](int64_t d) { return d != 1; });
}
// Strata's pools pad both sides equally, by at most half a kernel.
bool fits_pools(const Windows& w) {
  if (!w.symmetric() || w.dims() > 3) return false;
  for (size_t d = 0; d < w.dims(); ++d)
    if (w.before[d] * 2 > w.kernel[d]) return false;
  return true;
}

// The sums over windows of x, which is padded already.
Tensor window_sums(const Tensor& x, const Windows& w) {
  STRATA_CHECK(w.dims() <= 3, NotImplemented, "pools of {} dimensions are not supported; at most 3", w.dims());
  Ints shape = sizes_of(x), ones_shape = w.kernel;
  ones_shape.insert(ones_shape.begin(), 2, 1);
  const int64_t planes = shape[0] * shape[1];
  Ints plane_shape = shape;
  plane_shape[0] = planes;
  plane_shape[1] = 1;
  const Tensor y = convolution(reshape(x, plane_shape), ones(ones_shape, like(x)), {}, w.strides, Ints(w.dims()),
                               w.dilations, false, Ints(w.dims()), 1);
  Ints out = sizes_of(y);
  out[0] = shape[0];
  out[1] = shape[1];
  return reshape(y, out);
}

Values average_pool(NodeCall& c) {
  const Tensor x = c.tensor(0);
  Windows w = windows_of(c, x, kernel_attribute(c));
  const bool include = c.flag("count_include_pad"), ceil = c.flag("ceil_mode");
  if (!ceil && fits_pools(w) && !is_dilated(w)) {
    if (w.dims() == 1) return one(F::avg_pool1d(x, w.kernel, w.strides, w.before, false, include));
    if (w.dims() == 2) return one(F::avg_pool2d(x, w.kernel, w.strides, w.before, false, include));
    return one(F::avg_pool3d(x, w.kernel, w.strides, w.before, false, include));
  }
  // what counts: the input, with its own pads if they are included, but not the windows' rest
  Ints plane = sizes_of(x);
  plane[0] = plane[1] = 1;
  const Tensor counted = ones(plane, like(x));
  const Windows own = w;
  if (ceil) extend_for_ceil(x, w);
  Ints rest(w.dims());
  for (size_t d = 0; d < w.dims(); ++d) rest[d] = w.after[d] - own.after[d];
  const Tensor counts = include ? pad_spatial(pad_spatial(counted, own.before, own.after, 1), Ints(w.dims()), rest, 0)
                                : pad_spatial(counted, w.before, w.after, 0);
  return one(div(window_sums(pad_spatial(x, w.before, w.after, 0), w), window_sums(counts, w)));
}
Values lp_pool(NodeCall& c) {
  const Tensor x = c.tensor(0);
  Windows w = windows_of(c, x, kernel_attribute(c));
  if (c.flag("ceil_mode")) extend_for_ceil(x, w);
  const double p = c.version() < 2 ? c.number("p", 2) : static_cast<double>(c.integer("p", 2));
  const Tensor powers = pow(abs(x), p);
  return one(pow(window_sums(pad_spatial(powers, w.before, w.after, 0), w), 1 / p));
}

// The plane's places of the padded input as places in the whole input.
Tensor whole_places(const Tensor& at, const Tensor& x, const Windows& w, bool columns_first) {
  const auto n = static_cast<int64_t>(w.dims());
  Tensor left = at, place = zeros_like(at);
  int64_t stride = 1;
  std::vector<Tensor> coordinates(w.dims());
  for (int64_t d = n; d-- > 0;) {
    const auto i = static_cast<size_t>(d);
    const int64_t padded = x.size(d + 2) + w.before[i] + w.after[i];
    coordinates[i] = sub(remainder(left, padded), w.before[i]);
    left = div(left, padded, "floor");
  }
  for (int64_t k = 0; k < n; ++k) {
    const int64_t d = columns_first ? k : n - 1 - k;
    place = add(place, mul(coordinates[static_cast<size_t>(d)], stride));
    stride *= x.size(d + 2);
  }
  Ints planes(static_cast<size_t>(n) + 2, 1);
  planes[0] = x.size(0);
  planes[1] = x.size(1);
  const Tensor first = mul(arange(x.size(0) * x.size(1), device(at.device())), stride);
  return add(place, reshape(first, planes));
}
Values max_pool(NodeCall& c) {
  Tensor x = c.tensor(0);
  const DType given = x.dtype();
  if (!is_floating(given)) x = cast(x, DType::F32);
  Windows w = windows_of(c, x, kernel_attribute(c));
  STRATA_CHECK(w.dims() <= 3, NotImplemented, "pools of {} dimensions are not supported; at most 3", w.dims());
  if (c.flag("ceil_mode")) extend_for_ceil(x, w);
  const bool direct = fits_pools(w) && !c.wants(1);
  const Tensor padded = direct ? x : pad_spatial(x, w.before, w.after, -std::numeric_limits<double>::infinity());
  const Ints pads = direct ? w.before : Ints(w.dims());
  if (!c.wants(1)) {
    const Tensor y = w.dims() == 1   ? max_pool1d(padded, w.kernel, w.strides, pads, w.dilations)
                     : w.dims() == 2 ? max_pool2d(padded, w.kernel, w.strides, pads, w.dilations)
                                     : max_pool3d(padded, w.kernel, w.strides, pads, w.dilations);
    return one(cast(y, given));
  }
  const auto [y, at] = w.dims() == 1   ? max_pool1d_with_indices(padded, w.kernel, w.strides, pads, w.dilations)
                       : w.dims() == 2 ? max_pool2d_with_indices(padded, w.kernel, w.strides, pads, w.dilations)
                                       : max_pool3d_with_indices(padded, w.kernel, w.strides, pads, w.dilations);
  return {Value(cast(y, given)), Value(whole_places(at, x, w, c.flag("storage_order")))};
}
Values max_unpool(NodeCall& c) {
  const Tensor x = c.tensor(0), at = c.tensor(1);
  const Windows w = windows_of(c, x, kernel_attribute(c));
  Ints shape = sizes_of(x);
  for (size_t d = 0; d < w.dims(); ++d)
    shape[d + 2] = ((Checked(shape[d + 2]) - 1) * w.strides[d] + w.kernel[d] - w.before[d] - w.after[d]).get();
  const Ints wanted = c.has(size_t{2}) ? c.ints(size_t{2}) : shape;
  STRATA_CHECK(wanted.size() == shape.size(), Value, "output_shape has {} dimensions, the input {}", wanted.size(),
               shape.size());
  const Tensor flat = zeros({checked_numel(shape)}, like(x));
  Tensor y = reshape(scatter(flat, 0, reshape(at, {at.numel()}), reshape(x, {x.numel()})), shape);
  // places count in the shape that the kernel gives; a larger output has zeros after it
  Ints missing;
  for (size_t d = shape.size(); d-- > 0;) missing.insert(missing.end(), {0, wanted[d] - shape[d]});
  return one(wanted == shape ? y : constant_pad_nd(y, missing));
}

Ints spatial_of(const Tensor& x) {
  STRATA_CHECK(x.dim() >= 2, Value, "an input {}; expected [N, C, ...]", to_string(x.shape()));
  Ints dims;
  for (int64_t d = 2; d < x.dim(); ++d) dims.push_back(d);
  return dims;
}
Values global_average(NodeCall& c) {
  const Tensor x = c.tensor(0);
  const Ints dims = spatial_of(x);
  return one(dims.empty() ? x : mean(x, dims, true));
}
Values global_max(NodeCall& c) {
  const Tensor x = c.tensor(0);
  const Ints dims = spatial_of(x);
  return one(dims.empty() ? x : amax(x, dims, true));
}
Values global_lp(NodeCall& c) {
  const Tensor x = c.tensor(0);
  const Ints dims = spatial_of(x);
  const double p = c.version() < 2 ? c.number("p", 2) : static_cast<double>(c.integer("p", 2));
  const Tensor powers = pow(abs(x), p);
  return one(pow(dims.empty() ? powers : sum(powers, dims, true), 1 / p));
}

const OpEntry kPool[] = {
  {"AveragePool", 1, 1, 1, nullptr, average_pool},
  {"MaxPool", 1, 1, 1, nullptr, max_pool},
  {"LpPool", 1, 1, 1, nullptr, lp_pool},
  {"MaxUnpool", 9, 2, 3, nullptr, max_unpool},
  {"GlobalAveragePool", 1, 1, 1, nullptr, global_average},
  {"GlobalMaxPool", 1, 1, 1, nullptr, global_max},
  {"GlobalLpPool", 1, 1, 1, nullptr, global_lp},
};
}  // namespace

OpTable pool_ops() { return kPool; }

}  // namespace strata::onnx
