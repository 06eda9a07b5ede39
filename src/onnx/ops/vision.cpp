// Grids, regions, boxes and sliding blocks of images.
#include "base/interrupt.h"
#include "onnx/ops/common.h"

namespace strata::onnx {
namespace {

std::string_view known_mode(std::string_view mode) {
  if (mode == "linear") return "bilinear";
  return mode == "cubic" ? "bicubic" : mode;
}
Values grid_sample_of(NodeCall& c) {
  return one(F::grid_sample(c.tensor(0), c.tensor(1), known_mode(c.text("mode", "linear")),
                            c.text("padding_mode", "zeros"), c.flag("align_corners")));
}
Values affine_grid_of(NodeCall& c) {
  const Tensor theta = c.tensor(0);
  return one(cast(F::affine_grid(theta, c.ints(size_t{1}), c.flag("align_corners")), theta.dtype()));
}

Values col2im(NodeCall& c) {
  Tensor x = c.tensor(0);
  const Ints image = c.ints(size_t{1}), block = c.ints(size_t{2});
  const size_t n = image.size();
  Ints strides = c.ints("strides"), dilations = c.ints("dilations"), pads = c.ints("pads");
  if (strides.empty()) strides.assign(n, 1);
  if (dilations.empty()) dilations.assign(n, 1);
  if (pads.empty()) pads.assign(2 * n, 0);
  STRATA_CHECK(
    x.dim() == 3 && n >= 1 && block.size() == n && strides.size() == n && dilations.size() == n && pads.size() == 2 * n,
    Value, "an input {} for an image of {} dimensions, {} strides, {} dilations, {} pads", to_string(x.shape()), n,
    strides.size(), dilations.size(), pads.size());
  // where each element of a block goes in the padded image: [block elements, blocks]
  Tensor place = reshape(host_ints({0}), {1, 1});
  int64_t elements = 1, blocks = 1;
  Ints padded;
  for (size_t d = 0; d < n; ++d) {
    STRATA_CHECK(image[d] > 0 && block[d] > 0 && strides[d] > 0 && dilations[d] > 0 && pads[d] >= 0 && pads[n + d] >= 0,
                 Value, "image {}, block {}, stride {} and dilation {} must be positive", image[d], block[d],
                 strides[d], dilations[d]);
    padded.push_back((Checked(image[d]) + pads[d] + pads[n + d]).get());
    const int64_t room = (Checked(padded[d]) - (Checked(block[d]) - 1) * dilations[d] - 1).get();
    STRATA_CHECK(room >= 0, Value, "a block of {} does not fit into {}", block[d], padded[d]);
    const int64_t count = room / strides[d] + 1;
    const Tensor along = add(reshape(mul(arange(block[d]), dilations[d]), {block[d], 1}),
                             reshape(mul(arange(count), strides[d]), {1, count}));
    place = add(reshape(mul(place, padded[d]), {elements, 1, blocks, 1}), reshape(along, {1, block[d], 1, count}));
    elements = (Checked(elements) * block[d]).get();
    blocks = (Checked(blocks) * count).get();
    place = reshape(place, {elements, blocks});
  }
  STRATA_CHECK(x.size(1) % elements == 0 && x.size(2) == blocks, Value, "an input {} for {} blocks of {} elements",
               to_string(x.shape()), blocks, elements);
  const int64_t batch = x.size(0), channels = x.size(1) / elements, total = checked_numel(padded);
  const Tensor at = moved(reshape(place, {1, 1, elements * blocks}), x.device());
  const Tensor flat = reshape(x, {batch, channels, elements * blocks});
  Tensor y = scatter_add(zeros({batch, channels, total}, like(x)), 2, expand(at, flat.shape()), flat);
  padded.insert(padded.begin(), {batch, channels});
  y = reshape(y, padded);
  for (size_t d = 0; d < n; ++d) y = narrow(y, static_cast<int64_t>(d) + 2, pads[d], image[d]);
  return one(contiguous(y));
}

Values roi_align_of(NodeCall& c) {
  const Tensor x = c.tensor(0), rois = c.tensor(1);
  const Tensor batch = reshape(cast(c.tensor(2), rois.dtype()), {-1, 1});
  const Tensor parts[] = {batch, rois};
  const std::string_view transform =
    c.text("coordinate_transformation_mode", c.version() < 16 ? "output_half_pixel" : "half_pixel");
  if (c.text("mode", "avg") != "avg") c.refuse("RoiAlign with mode 'max' is not supported");
  const int64_t ratio = c.integer("sampling_ratio", 0);
  return one(vision::ops::roi_align(x, cat(parts, 1), {c.integer("output_height", 1), c.integer("output_width", 1)},
                                    c.number("spatial_scale", 1), ratio ? ratio : -1, transform == "half_pixel"));
}
Values max_roi_pool(NodeCall& c) {
  const Ints shape = c.ints("pooled_shape");
  STRATA_CHECK(shape.size() == 2, Value, "pooled_shape has {} sizes; expected 2", shape.size());
  return one(vision::ops::_roi_pool(c.tensor(0), c.tensor(1), shape, c.number("spatial_scale", 1))[0]);
}

// --- suppression ---------------------------------------------------------------------------------------------------------
struct Box {
  double y1, x1, y2, x2;
};
std::vector<Box> boxes_of(const std::vector<double>& numbers, size_t first, size_t count, bool centred) {
  std::vector<Box> boxes;
  for (size_t i = 0; i < count; ++i) {
    const double* p = numbers.data() + (first + i) * 4;
    if (centred) boxes.push_back({p[1] - p[3] / 2, p[0] - p[2] / 2, p[1] + p[3] / 2, p[0] + p[2] / 2});
    else boxes.push_back({std::min(p[0], p[2]), std::min(p[1], p[3]), std::max(p[0], p[2]), std::max(p[1], p[3])});
  }
  return boxes;
}
double overlap(const Box& a, const Box& b) {  // intersection over union
  const double h = std::min(a.y2, b.y2) - std::max(a.y1, b.y1), w = std::min(a.x2, b.x2) - std::max(a.x1, b.x1);
  if (h <= 0 || w <= 0) return 0;
  const double both = h * w, sum = (a.y2 - a.y1) * (a.x2 - a.x1) + (b.y2 - b.y1) * (b.x2 - b.x1) - both;
  return sum > 0 ? both / sum : 0;
}
Values non_max_suppression(NodeCall& c) {
  const Value &bv = c.value(0), &sv = c.value(1);
  STRATA_CHECK(bv.tensor && sv.tensor && bv.tensor.dim() == 3 && sv.tensor.dim() == 3 && bv.tensor.size(2) == 4 &&
                 sv.tensor.size(0) == bv.tensor.size(0) && sv.tensor.size(2) == bv.tensor.size(1),
               Value, "boxes are {} and scores {}", kind_of(bv), kind_of(sv));
  const std::vector<double> boxes = c.numbers(size_t{0}), scores = c.numbers(size_t{1});
  const int64_t most = c.has(size_t{2}) ? c.integer(size_t{2}) : 0;
  // compared in float32, as the inputs are
  const float limit = c.has(size_t{3}) ? static_cast<float>(c.number(size_t{3}).to_double()) : 0;
  const bool has_least = c.has(size_t{4});
  const double least = has_least ? c.number(size_t{4}).to_double() : 0;
  const auto count = static_cast<size_t>(bv.tensor.size(1)), classes = static_cast<size_t>(sv.tensor.size(1));
  Ints chosen;
  for (size_t b = 0; b < static_cast<size_t>(bv.tensor.size(0)); ++b) {
    const std::vector<Box> all = boxes_of(boxes, b * count, count, c.flag("center_point_box"));
    for (size_t k = 0; k < classes; ++k) {
      const double* s = scores.data() + (b * classes + k) * count;
      std::vector<size_t> order;
      for (size_t i = 0; i < count; ++i)
        if (!has_least || s[i] > least) order.push_back(i);
      std::stable_sort(order.begin(), order.end(), [s](size_t a, size_t o) { return s[a] > s[o]; });
      std::vector<size_t> kept;
      for (const size_t i : order) {
        if (static_cast<int64_t>(kept.size()) >= most) break;
        poll_interrupt();
        const bool covered = std::any_of(kept.begin(), kept.end(),
                                         [&](size_t o) { return static_cast<float>(overlap(all[i], all[o])) > limit; });
        if (covered) continue;
        kept.push_back(i);
        chosen.insert(chosen.end(), {static_cast<int64_t>(b), static_cast<int64_t>(k), static_cast<int64_t>(i)});
      }
    }
  }
  return one(reshape(host_ints(chosen), {static_cast<int64_t>(chosen.size()) / 3, 3}));
}

const OpEntry kVision[] = {
  {"GridSample", 16, 2, 2, nullptr, grid_sample_of},
  {"AffineGrid", 20, 2, 2, nullptr, affine_grid_of},
  {"Col2Im", 18, 3, 3, nullptr, col2im},
  {"RoiAlign", 10, 3, 3, nullptr, roi_align_of},
  {"MaxRoiPool", 1, 2, 2, nullptr, max_roi_pool},
  {"NonMaxSuppression", 10, 2, 5, nullptr, non_max_suppression},
};
}  // namespace

OpTable vision_ops() { return kVision; }

}  // namespace strata::onnx
