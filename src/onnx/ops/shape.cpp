// Shapes and movement: views, copies, joins, constants.
#include "base/host_memory.h"
#include "onnx/ops/common.h"

namespace strata::onnx {
namespace {

// The shape that Reshape asks for: 0 keeps a size (unless allowzero), -1 is what is left.
Values reshape_of(NodeCall& c) {
  Ints shape = c.ints(size_t{1});
  const bool zero = c.flag("allowzero");
  const Value& v = c.value(0);
  const Shape old = v.strings ? Shape(v.strings->shape) : c.tensor(0).shape();
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] == 0 && !zero) {
      STRATA_CHECK(d < old.size(), Value, "size 0 keeps that of the input, which has no dimension {}", d);
      shape[d] = old[d];
    }
  if (v.strings) {
    STRATA_CHECK(std::count(shape.begin(), shape.end(), -1) == 0 && checked_numel(shape) == checked_numel(old), Value,
                 "{} strings cannot have the shape {}", v.strings->items.size(), to_string(Shape(shape)));
    return {Value::of(Strings{shape, v.strings->items})};
  }
  return one(reshape(c.tensor(0), shape));
}
Values flatten_of(NodeCall& c) {
  const Tensor x = c.tensor(0);
  int64_t axis = c.integer("axis", 1);
  if (axis != x.dim()) axis = axis_of(axis, std::max(x.dim(), 1));
  int64_t rows = 1, columns = 1;
  for (int64_t d = 0; d < x.dim(); ++d) (d < axis ? rows : columns) *= x.size(d);
  return one(reshape(x, {rows, columns}));
}
Ints axes_given(const NodeCall& c, int since_input) {
  if (c.version() < since_input) return c.ints("axes");
  return c.has(size_t{1}) ? c.ints(size_t{1}) : Ints();
}
Values squeeze_of(NodeCall& c) {
  const Tensor x = c.tensor(0);
  const Ints axes = axes_of(axes_given(c, 13), x.dim());
  if (axes.empty()) return one(squeeze(x));
  for (const int64_t a : axes)
    STRATA_CHECK(x.size(a) == 1, Value, "dimension {} has size {}; expected 1", a, x.size(a));
  return one(squeeze(x, IntList(axes)));
}
Values unsqueeze_of(NodeCall& c) {
  const Tensor x = c.tensor(0);
  Ints given = axes_given(c, 13);
  Ints axes = axes_of(given, x.dim() + static_cast<int64_t>(given.size()));
  std::sort(axes.begin(), axes.end());
  Tensor out = x;
  for (const int64_t a : axes) out = unsqueeze(out, a);
  return one(out);
}
Values transpose_of(NodeCall& c) {
  const Tensor x = c.tensor(0);
  Ints perm = c.ints("perm");
  if (!c.has("perm"))
    for (int64_t d = x.dim(); d-- > 0;) perm.push_back(d);
  return one(permute(x, perm));
}
Values concat(NodeCall& c) {
  std::vector<Tensor> parts;
  for (size_t i = 0; i < c.inputs(); ++i) parts.push_back(c.tensor(i));
  const int64_t axis = axis_of(c.integer("axis"), parts[0].dim());
  for (const Tensor& t : parts)
    STRATA_CHECK(t.dim() == parts[0].dim() && t.dtype() == parts[0].dtype(), Value, "the inputs {} {} and {} {} differ",
                 name_of(parts[0].dtype()), to_string(parts[0].shape()), name_of(t.dtype()), to_string(t.shape()));
  return one(cat(parts, axis));
}
Ints split_sizes(const NodeCall& c, const Tensor& x, int64_t axis) {
  if (c.version() >= 13 && c.has(size_t{1})) return c.ints(size_t{1});
  if (c.version() < 13 && c.has("split")) return c.ints("split");
  const int64_t parts =
    c.version() >= 18 ? c.integer("num_outputs", static_cast<int64_t>(c.outputs())) : static_cast<int64_t>(c.outputs());
  STRATA_CHECK(parts > 0, Value, "a split into {} parts", parts);
  const int64_t n = x.size(axis), step = (n + parts - 1) / parts;
  Ints sizes;
  for (int64_t i = 0; i < parts; ++i) sizes.push_back(std::clamp<int64_t>(n - i * step, 0, step));
  return sizes;
}
Values split_of(NodeCall& c) {
  const Tensor x = c.tensor(0);
  const int64_t axis = axis_of(c.integer("axis", 0), x.dim());
  Values out;
  for (Tensor& t : split_with_sizes(x, split_sizes(c, x, axis), axis)) out.emplace_back(std::move(t));
  return out;
}

struct Cut {
  Ints starts, ends, axes, steps;
};
Tensor cut(const Tensor& input, Cut s) {
  STRATA_CHECK(s.starts.size() == s.ends.size(), Value, "{} starts and {} ends", s.starts.size(), s.ends.size());
  if (s.axes.empty())
    for (size_t i = 0; i < s.starts.size(); ++i) s.axes.push_back(static_cast<int64_t>(i));
  if (s.steps.empty()) s.steps.assign(s.starts.size(), 1);
  STRATA_CHECK(s.axes.size() == s.starts.size() && s.steps.size() == s.starts.size(), Value,
               "{} starts, {} axes, {} steps", s.starts.size(), s.axes.size(), s.steps.size());
  const Ints axes = axes_of(s.axes, input.dim());
  Tensor x = input;
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t n = x.size(axes[i]), step = s.steps[i];
    STRATA_CHECK(step != 0, Value, "a step is 0");
    const auto from_end = [n](int64_t v) { return v < 0 ? v + std::min(n, INT64_MAX) : v; };
    int64_t start = s.starts[i] < -n ? (step > 0 ? 0 : -1) : from_end(s.starts[i]);
    int64_t end = s.ends[i] < -n ? (step > 0 ? 0 : -1) : from_end(s.ends[i]);
    if (step > 0) {
      start = std::clamp<int64_t>(start, 0, n);
      end = std::clamp<int64_t>(end, start, n);
      x = slice(x, axes[i], start, end, step);
    } else {
      start = std::clamp<int64_t>(start, -1, n - 1);
      end = std::clamp<int64_t>(end, -1, start);
      // backwards: the part in reverse, then every step-th
      x = slice(flip(slice(x, axes[i], end + 1, start + 1, 1), {axes[i]}), axes[i], 0, std::nullopt,
                step == INT64_MIN ? INT64_MAX : -step);
    }
  }
  return x;
}
Values slice_inputs(NodeCall& c) {
  return one(cut(c.tensor(0), {c.ints(size_t{1}), c.ints(size_t{2}), c.has(size_t{3}) ? c.ints(size_t{3}) : Ints(),
                               c.has(size_t{4}) ? c.ints(size_t{4}) : Ints()}));
}
Values slice_attributes(NodeCall& c) {
  return one(cut(c.tensor(0), {c.ints("starts"), c.ints("ends"), c.ints("axes"), {}}));
}

Values expand_of(NodeCall& c) {
  const Tensor x = c.tensor(0);
  const Ints shape = c.ints(size_t{1});
  // both ways: a size of 1 in the shape keeps that of the input
  const size_t n = std::max(shape.size(), static_cast<size_t>(x.dim()));
  Ints out(n, 1);
  for (size_t i = 0; i < shape.size(); ++i) out[n - shape.size() + i] = shape[i];
  for (size_t d = n - static_cast<size_t>(x.dim()), i = 0; d < n; ++d, ++i)
    if (out[d] == 1) out[d] = x.shape()[i];
  return one(expand(x, out));
}
Values tile_of(NodeCall& c) {
  const Tensor x = c.tensor(0);
  const Ints repeats = c.ints(size_t{1});
  STRATA_CHECK(static_cast<int64_t>(repeats.size()) == x.dim(), Value, "{} repeats for {} dimensions", repeats.size(),
               x.dim());
  return one(repeat(x, repeats));
}

Values shape_of(NodeCall& c) {
  const Value& v = c.value(0);
  STRATA_CHECK(v.tensor || v.strings, Type, "input 0 is {}; expected a tensor", kind_of(v));
  const Shape shape = v.strings ? Shape(v.strings->shape) : v.tensor.shape();
  const auto n = static_cast<int64_t>(shape.size());
  const auto place = [n](int64_t v) { return std::clamp<int64_t>(v < 0 ? v + n : v, 0, n); };
  const int64_t start = place(c.integer("start", 0)), end = std::max(start, place(c.integer("end", n)));
  return one(host_ints(Ints(shape.begin() + start, shape.begin() + end)));
}
Values size_of_input(NodeCall& c) {
  const Value& v = c.value(0);
  STRATA_CHECK(v.tensor || v.strings, Type, "input 0 is {}; expected a tensor", kind_of(v));
  return one(host_int(v.strings ? static_cast<int64_t>(v.strings->items.size()) : v.tensor.numel()));
}
Values constant(NodeCall& c) {
  if (c.has("value")) return {c.tensor("value")};
  if (c.has("value_int")) return one(host_int(c.integer("value_int")));
  if (c.has("value_ints")) return one(host_ints(c.ints("value_ints")));
  if (c.has("value_string")) return {Value::of(Strings{{}, {std::string(c.text("value_string"))}})};
  if (c.has("value_strings")) {
    std::vector<std::string> texts = c.texts("value_strings");
    return {Value::of(Strings{{static_cast<int64_t>(texts.size())}, std::move(texts)})};
  }
  const TensorOptions options = TensorOptions(DType::F32).device(c.device());
  if (c.has("value_float")) return one(full({}, c.number("value_float"), options));
  if (c.has("value_floats")) {
    const std::vector<double> numbers = c.numbers("value_floats");
    return one(tensor(numbers, options));
  }
  c.refuse("sparse constants are not supported");
}
Values constant_of_shape(NodeCall& c) {
  const Ints shape = c.ints(size_t{0});
  if (!c.has("value")) return one(zeros(shape, TensorOptions(DType::F32).device(c.network().device())));
  const Value& v = c.tensor("value");
  STRATA_CHECK(v.tensor && v.tensor.numel() == 1, Value, "'value' is {}; expected one number", kind_of(v));
  // integers and truths are computed where shapes are
  const Device where = is_floating(v.tensor.dtype()) ? c.network().device() : Device();
  check_host_memory(checked_numel(shape), size_of(v.tensor.dtype()), "ConstantOfShape");
  return {Value(contiguous(expand(reshape(moved(v.tensor, where), Ints(shape.size(), 1)), shape)), v.carried)};
}
Values range(NodeCall& c) {
  const Tensor first = c.tensor(0);
  const Scalar start = c.number(size_t{0}), limit = c.number(size_t{1}), delta = c.number(size_t{2});
  if (is_floating(first.dtype())) {
    const double n = std::ceil((limit.to_double() - start.to_double()) / delta.to_double());
    STRATA_CHECK(delta.to_double() != 0 && std::isfinite(n), Value, "a range from {} to {} by {}", start.to_double(),
                 limit.to_double(), delta.to_double());
    const auto count = static_cast<int64_t>(std::clamp(n, 0.0, 0x1p62));
    check_host_memory(count, size_of(first.dtype()), "Range");
    const DType wide = DType::F64;
    const Tensor steps = arange(count, TensorOptions(wide).device(c.device()));
    return one(cast(add(mul(steps, delta.to_double()), start.to_double()), first.dtype()));
  }
  const int64_t by = delta.to_int();
  STRATA_CHECK(by != 0, Value, "a range by 0");
  const bool some = by > 0 ? limit.to_int() > start.to_int() : limit.to_int() < start.to_int();
  if (!some) return one(zeros({0}, like(first)));
  return one(arange(start.to_int(), limit.to_int(), by, like(first)));
}
Values eye_like(NodeCall& c) {
  const Tensor x = c.tensor(0);
  STRATA_CHECK(x.dim() == 2, Value, "the input has {} dimensions; expected a matrix", x.dim());
  const ElementType type = c.type("dtype", element_type(x.dtype()));
  const int64_t k = c.integer("k", 0), rows = x.size(0), columns = x.size(1);
  const Tensor r = reshape(arange(rows, device(x.device())), {rows, 1}), col = arange(columns, device(x.device()));
  return one(cast(eq(sub(col, r), k), storage_dtype(type)));
}
Values trilu(NodeCall& c) {
  const Tensor x = c.tensor(0);
  const int64_t k = c.has(size_t{1}) ? c.integer(size_t{1}) : 0;
  return one(c.flag("upper", true) ? triu(x, k) : tril(x, k));
}
Values depth_to_space(NodeCall& c) {
  const Tensor x = c.tensor(0);
  const int64_t b = c.integer("blocksize");
  STRATA_CHECK(x.dim() == 4 && b > 0 && x.size(1) % (b * b) == 0, Value, "input {} and blocksize {} do not fit",
               to_string(x.shape()), b);
  const int64_t n = x.size(0), d = x.size(1) / (b * b), h = x.size(2), w = x.size(3);
  const Tensor parts = c.text("mode", "DCR") == "DCR" ? permute(reshape(x, {n, b, b, d, h, w}), {0, 3, 4, 1, 5, 2})
                                                      : permute(reshape(x, {n, d, b, b, h, w}), {0, 1, 4, 2, 5, 3});
  return one(reshape(parts, {n, d, h * b, w * b}));
}
Values space_to_depth(NodeCall& c) {
  const Tensor x = c.tensor(0);
  const int64_t b = c.integer("blocksize");
  STRATA_CHECK(x.dim() == 4 && b > 0 && x.size(2) % b == 0 && x.size(3) % b == 0, Value,
               "input {} and blocksize {} do not fit", to_string(x.shape()), b);
  const int64_t n = x.size(0), d = x.size(1), h = x.size(2) / b, w = x.size(3) / b;
  const Tensor parts = reshape(x, {n, d, h, b, w, b});
  const Tensor order =
    c.text("mode", "DCR") == "DCR" ? permute(parts, {0, 3, 5, 1, 2, 4}) : permute(parts, {0, 1, 3, 5, 2, 4});
  return one(reshape(order, {n, d * b * b, h, w}));
}

// --- padding -------------------------------------------------------------------------------------------------------------
// Pads one dimension: negative amounts cut.
Tensor pad_edge(const Tensor& x, int64_t axis, int64_t before, int64_t after, std::string_view mode) {
  const int64_t n = x.size(axis), total = (Checked(n) + Checked(before) + Checked(after)).get();
  STRATA_CHECK(total >= 0, Value, "the pads of dimension {} cut more than its size {}", axis, n);
  STRATA_CHECK(n > 0 || total == 0, Value, "dimension {} is empty; mode '{}' has nothing to repeat", axis, mode);
  check_host_memory(total, sizeof(int64_t), "Pad");
  Ints places;
  for (int64_t i = 0; i < total; ++i) {
    int64_t at = i - before;
    if (mode == "edge") at = std::clamp<int64_t>(at, 0, n - 1);
    else if (mode == "wrap") at = (at % n + n) % n;
    else if (n == 1) at = 0;
    else {
      const int64_t period = 2 * (n - 1);
      at = (at % period + period) % period;
      if (at >= n) at = period - at;
    }
    places.push_back(at);
  }
  return index_select(x, axis, moved(host_ints(places), x.device()));
}
Values pad_by(NodeCall& c, const Ints& pads, const Ints& axes, Scalar value) {
  Tensor x = c.tensor(0);
  const std::string_view mode = c.text("mode", "constant");
  STRATA_CHECK(mode == "constant" || mode == "reflect" || mode == "edge" || mode == "wrap", Value,
               "mode is '{}'; expected constant, reflect, edge or wrap", mode);
  STRATA_CHECK(pads.size() == 2 * axes.size(), Value, "{} pads for {} axes; expected two each", pads.size(),
               axes.size());
  if (mode == "constant") {
    Ints amounts(2 * static_cast<size_t>(x.dim()));  // the last dimension first
    for (size_t i = 0; i < axes.size(); ++i) {
      const auto last = 2 * static_cast<size_t>(x.dim() - 1 - axes[i]);
      amounts[last] = pads[i];
      amounts[last + 1] = pads[axes.size() + i];
    }
    return one(x.dim() ? constant_pad_nd(x, amounts, value) : x);
  }
  for (size_t i = 0; i < axes.size(); ++i)
    if (pads[i] || pads[axes.size() + i]) x = pad_edge(x, axes[i], pads[i], pads[axes.size() + i], mode);
  return one(x);
}
Ints all_axes(const Tensor& x) {
  Ints axes;
  for (int64_t d = 0; d < x.dim(); ++d) axes.push_back(d);
  return axes;
}
Values pad_inputs(NodeCall& c) {
  const Tensor x = c.tensor(0);
  const Ints axes = c.has(size_t{3}) ? axes_of(c.ints(size_t{3}), x.dim()) : all_axes(x);
  return pad_by(c, c.ints(size_t{1}), axes, c.has(size_t{2}) ? c.number(size_t{2}) : Scalar(0));
}
Values pad_attributes(NodeCall& c) { return pad_by(c, c.ints("pads"), all_axes(c.tensor(0)), c.number("value", 0)); }
Values center_crop_pad(NodeCall& c) {
  Tensor x = c.tensor(0);
  const Ints axes = c.has("axes") ? axes_of(c.ints("axes"), x.dim()) : all_axes(x), shape = c.ints(size_t{1});
  STRATA_CHECK(shape.size() == axes.size(), Value, "{} sizes for {} axes", shape.size(), axes.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t n = x.size(axes[i]), want = shape[i];
    STRATA_CHECK(want >= 0, Value, "a size is {}", want);
    if (want <= n) {
      x = narrow(x, axes[i], (n - want) / 2, want);
    } else {
      Ints amounts(2 * static_cast<size_t>(x.dim() - axes[i]));
      amounts[amounts.size() - 2] = (want - n) / 2;
      amounts[amounts.size() - 1] = want - n - (want - n) / 2;
      x = constant_pad_nd(x, amounts);
    }
  }
  return one(x);
}
Values reverse_sequence(NodeCall& c) {
  const Tensor x = c.tensor(0);
  const int64_t time = axis_of(c.integer("time_axis", 0), x.dim()),
                batch = axis_of(c.integer("batch_axis", 1), x.dim());
  const Ints lengths = c.ints(size_t{1});
  STRATA_CHECK(time != batch && static_cast<int64_t>(lengths.size()) == x.size(batch), Value,
               "{} lengths for a batch of {}, time axis {}, batch axis {}", lengths.size(), x.size(batch), time, batch);
  const int64_t steps = x.size(time);
  Ints places;
  for (const int64_t n : lengths) {
    STRATA_CHECK(n >= 0 && n <= steps, Value, "a length is {}; expected 0 to {}", n, steps);
    for (int64_t t = 0; t < steps; ++t) places.push_back(t < n ? n - 1 - t : t);
  }
  // the places [batch, time] broadcast to x, in the order of its axes
  Ints shape(static_cast<size_t>(x.dim()), 1);
  shape[static_cast<size_t>(time)] = steps;
  shape[static_cast<size_t>(batch)] = x.size(batch);
  Tensor index = reshape(host_ints(places), {x.size(batch), steps});
  if (time < batch) index = transpose(index, 0, 1);
  return one(gather(x, time, expand(reshape(moved(index, x.device()), shape), x.shape())));
}

const OpEntry kShape[] = {
  {"Reshape", 5, 2, 2, nullptr, reshape_of},
  {"Flatten", 1, 1, 1, nullptr, flatten_of},
  {"Squeeze", 1, 1, 2, nullptr, squeeze_of},
  {"Unsqueeze", 1, 1, 2, nullptr, unsqueeze_of},
  {"Transpose", 1, 1, 1, nullptr, transpose_of},
  {"Concat", 4, 1, -1, nullptr, concat},
  {"Split", 2, 1, 2, nullptr, split_of},
  {"Slice", 1, 1, 1, nullptr, slice_attributes},
  {"Slice", 10, 3, 5, nullptr, slice_inputs},
  {"Expand", 8, 2, 2, nullptr, expand_of},
  {"Tile", 6, 2, 2, nullptr, tile_of},
  {"Shape", 1, 1, 1, nullptr, shape_of},
  {"Size", 1, 1, 1, nullptr, size_of_input},
  {"Constant", 1, 0, 0, nullptr, constant},
  {"ConstantOfShape", 9, 1, 1, nullptr, constant_of_shape},
  {"Range", 11, 3, 3, nullptr, range},
  {"EyeLike", 9, 1, 1, nullptr, eye_like},
  {"Trilu", 14, 1, 2, nullptr, trilu},
  {"DepthToSpace", 1, 1, 1, nullptr, depth_to_space},
  {"SpaceToDepth", 1, 1, 1, nullptr, space_to_depth},
  {"Pad", 2, 1, 1, nullptr, pad_attributes},
  {"Pad", 11, 2, 4, nullptr, pad_inputs},
  {"CenterCropPad", 18, 2, 2, nullptr, center_crop_pad},
  {"ReverseSequence", 10, 2, 2, nullptr, reverse_sequence},
};
}  // namespace

OpTable shape_ops() { return kShape; }

}  // namespace strata::onnx
