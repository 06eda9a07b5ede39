// Resize and Upsample: one axis after the other, each a weighted sum of neighbours whose places and weights the host computes.
#include <cmath>

#include "base/host_memory.h"
#include "onnx/ops/common.h"

namespace strata::onnx {
namespace {

struct Resizing {
  std::string_view mode, coordinates, nearest;
  double cubic = -0.75, extrapolation = 0;
  bool antialias = false, exclude_outside = false;
};
struct Axis {
  double scale = 1;
  int64_t size = 0;  // of the result
  double roi_begin = 0, roi_end = 1;
};

// The place in the input of each element of the result.
double source(const Resizing& r, const Axis& a, int64_t input, int64_t i) {
  const double n = static_cast<double>(input), wide = a.scale * n, y = static_cast<double>(i);
  if (r.coordinates == "align_corners") return wide == 1 ? 0 : y * (n - 1) / (wide - 1);
  if (r.coordinates == "asymmetric") return y / a.scale;
  if (r.coordinates == "tf_crop_and_resize") {
    const double span = (a.roi_end - a.roi_begin) * (n - 1);
    return a.roi_begin * (n - 1) + (wide == 1 ? span / 2 : y * span / (wide - 1));
  }
  if (r.coordinates == "pytorch_half_pixel" && wide == 1) return -0.5;
  const double half = (y + 0.5) / a.scale - 0.5;
  if (r.coordinates == "half_pixel_symmetric") return n / 2 * (1 - static_cast<double>(a.size) / wide) + half;
  if (r.coordinates == "tf_half_pixel_for_nn") return (y + 0.5) / a.scale;
  STRATA_CHECK(r.coordinates == "half_pixel" || r.coordinates == "pytorch_half_pixel", Value,
               "coordinate_transformation_mode is '{}'", r.coordinates);
  return half;
}
int64_t nearest(const Resizing& r, double x) {
  if (r.nearest == "round_prefer_floor") return static_cast<int64_t>(std::ceil(x - 0.5));
  if (r.nearest == "round_prefer_ceil") return static_cast<int64_t>(std::floor(x + 0.5));
  STRATA_CHECK(r.nearest == "floor" || r.nearest == "ceil", Value, "nearest_mode is '{}'", r.nearest);
  return static_cast<int64_t>(r.nearest == "floor" ? std::floor(x) : std::ceil(x));
}
double cubic_weight(double x, double a) {
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

// Weights of so many neighbours per element, beginning at `first`.
struct Taps {
  int64_t count = 0;
  Ints places;                   // [result size, count], inside of the input
  std::vector<double> weights;   // the same
  std::vector<uint8_t> outside;  // elements that take the extrapolation value
};
Taps taps_of(const Resizing& r, const Axis& a, int64_t input) {
  const bool linear = r.mode == "linear", by_nearest = r.mode == "nearest";
  STRATA_CHECK(linear || by_nearest || r.mode == "cubic", Value, "mode is '{}'; expected nearest, linear or cubic",
               r.mode);
  const double shrink = r.antialias ? std::min(a.scale, 1.0) : 1;
  const double reach = (linear ? 1 : 2) / shrink;
  Taps t;
  const auto before = static_cast<int64_t>(std::floor(-reach)) + 1;
  t.count = by_nearest ? 1 : 2 - 2 * before;
  check_host_memory((Checked(a.size) * t.count).get(), sizeof(int64_t) + sizeof(double), "Resize");
  for (int64_t i = 0; i < a.size; ++i) {
    const double x = source(r, a, input, i);
    t.outside.push_back(r.coordinates == "tf_crop_and_resize" && (x < 0 || x > static_cast<double>(input - 1)));
    if (by_nearest) {
      t.places.push_back(std::clamp<int64_t>(nearest(r, x), 0, input - 1));
      t.weights.push_back(1);
      continue;
    }
    const double base = std::ceil(x) - 1;  // x - base is in (0, 1]
    double sum = 0;
    const size_t first = t.weights.size();
    for (int64_t k = 0; k < t.count; ++k) {
      const auto place = static_cast<int64_t>(base) + before + k;
      const double d = (static_cast<double>(before + k) - (x - base)) * shrink;
      double w = linear ? std::max(0.0, 1 - std::abs(d)) : cubic_weight(d, r.cubic);
      if (r.exclude_outside && (place < 0 || place >= input)) w = 0;
      sum += w;
      t.weights.push_back(w);
      t.places.push_back(std::clamp<int64_t>(place, 0, input - 1));
    }
    if ((r.antialias || r.exclude_outside) && sum != 0)
      for (size_t k = first; k < t.weights.size(); ++k) t.weights[k] /= sum;
  }
  return t;
}

Tensor resize_axis(const Tensor& x, int64_t axis, const Resizing& r, const Axis& a) {
  STRATA_CHECK(x.size(axis) > 0 || a.size == 0, Value, "dimension {} is empty and cannot be resized to {}", axis,
               a.size);
  const Taps t = taps_of(r, a, x.size(axis));
  const Tensor places = moved(reshape(host_ints(t.places), {a.size, t.count}), x.device());
  Ints shape(static_cast<size_t>(x.dim()), 1);
  shape[static_cast<size_t>(axis)] = a.size;
  Tensor y;
  if (r.mode == "nearest") {
    y = index_select(x, axis, reshape(places, {a.size}));
  } else {
    const Tensor weights = moved(cast(reshape(tensor(t.weights), {a.size, t.count}), x.dtype()), x.device());
    for (int64_t k = 0; k < t.count; ++k) {
      const Tensor part =
        mul(index_select(x, axis, contiguous(select(places, 1, k))), reshape(select(weights, 1, k), shape));
      y = y ? add(y, part) : part;
    }
  }
  if (std::any_of(t.outside.begin(), t.outside.end(), [](uint8_t o) { return o; })) {
    const Ints flags(t.outside.begin(), t.outside.end());
    y = where(reshape(moved(cast(host_ints(flags), DType::Bool), x.device()), shape),
              cast(full({}, r.extrapolation, like(y)), y.dtype()), y);
  }
  return y;
}

// The sizes of the result: given, or by scales.
std::vector<Axis> axes_of_result(const NodeCall& c, const Tensor& x, const Ints& axes,
                                 const std::vector<double>& scales, const Ints& sizes) {
  std::vector<Axis> out(axes.size());
  STRATA_CHECK(scales.size() == axes.size() || sizes.size() == axes.size(), Value, "{} scales and {} sizes for {} axes",
               scales.size(), sizes.size(), axes.size());
  const std::string_view policy = c.text("keep_aspect_ratio_policy", "stretch");
  double common = 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto n = static_cast<double>(x.size(axes[i]));
    if (!sizes.empty()) {
      out[i] = {n != 0 ? static_cast<double>(sizes[i]) / n : 1, sizes[i]};
      common = i == 0                   ? out[i].scale
               : policy == "not_larger" ? std::min(common, out[i].scale)
                                        : std::max(common, out[i].scale);
    } else {
      STRATA_CHECK(scales[i] > 0 && n * scales[i] < 0x1p62, Value, "a scale is {}", scales[i]);
      out[i] = {scales[i], static_cast<int64_t>(std::floor(n * scales[i]))};
    }
    STRATA_CHECK(out[i].size >= 0, Value, "a size is {}", out[i].size);
  }
  if (!sizes.empty() && policy != "stretch")
    for (size_t i = 0; i < axes.size(); ++i)
      out[i] = {common, static_cast<int64_t>(std::floor(static_cast<double>(x.size(axes[i])) * common + 0.5))};
  return out;
}
Values resized(const NodeCall& c, const Tensor& x, const Ints& axes, const std::vector<Axis>& to_axes,
               const Resizing& r) {
  const bool exact = is_floating(x.dtype()) || r.mode == "nearest";
  Tensor y = exact ? x : cast(x, DType::F32);
  if (x.dtype() == DType::F16 || x.dtype() == DType::BF16) y = cast(x, DType::F32);
  (void)c;
  for (size_t i = 0; i < axes.size(); ++i) {
    const Axis& a = to_axes[i];
    if (a.size == y.size(axes[i]) && a.scale == 1 && a.roi_begin == 0 && a.roi_end == 1) continue;
    y = resize_axis(y, axes[i], r, a);
  }
  return one(exact ? cast(y, x.dtype()) : cast(round(y), x.dtype()));
}
Values resize(NodeCall& c) {
  const Tensor x = c.tensor(0);
  const bool old = c.version() < 11;  // scales alone
  Resizing r{c.text("mode", "nearest"),
             c.text("coordinate_transformation_mode", old ? "asymmetric" : "half_pixel"),
             c.text("nearest_mode", old ? "floor" : "round_prefer_floor"),
             c.number("cubic_coeff_a", -0.75),
             c.number("extrapolation_value", 0),
             c.flag("antialias"),
             c.flag("exclude_outside")};
  Ints axes;
  if (c.has("axes")) axes = axes_of(c.ints("axes"), x.dim());
  else
    for (int64_t d = 0; d < x.dim(); ++d) axes.push_back(d);
  const size_t scales_at = old ? 1 : 2;
  const std::vector<double> scales = c.has(scales_at) ? c.numbers(scales_at) : std::vector<double>();
  const Ints sizes = c.has(size_t{3}) ? c.ints(size_t{3}) : Ints();
  std::vector<Axis> result = axes_of_result(c, x, axes, scales, sizes);
  if (r.coordinates == "tf_crop_and_resize" && !old && c.has(size_t{1})) {
    const std::vector<double> roi = c.numbers(size_t{1});
    STRATA_CHECK(roi.size() == 2 * axes.size(), Value, "roi has {} numbers for {} axes", roi.size(), axes.size());
    for (size_t i = 0; i < axes.size(); ++i) {
      result[i].roi_begin = roi[i];
      result[i].roi_end = roi[axes.size() + i];
    }
  }
  return resized(c, x, axes, result, r);
}
Values upsample(NodeCall& c) {
  const Tensor x = c.tensor(0);
  const std::vector<double> scales = c.version() < 9 ? c.numbers("scales") : c.numbers(size_t{1});
  const std::string_view mode = c.text("mode", "nearest");
  Ints axes;
  for (int64_t d = 0; d < x.dim(); ++d) axes.push_back(d);
  return resized(c, x, axes, axes_of_result(c, x, axes, scales, {}),
                 {mode == "bilinear" ? "linear" : mode, "asymmetric", "floor"});
}

const OpEntry kResize[] = {
  {"Resize", 10, 1, 4, nullptr, resize},
  {"Upsample", 7, 1, 2, nullptr, upsample},
};
}  // namespace

OpTable resize_ops() { return kResize; }

}  // namespace strata::onnx
