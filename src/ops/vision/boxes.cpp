// Boxes [x1, y1, x2, y2]: their overlap, and non-maximum suppression.
#include "strata/args/vision/boxes.h"
#include "autograd/autograd.h"
#include "cpu/staging.h"
#include "strata/ops.h"

namespace strata {
namespace {

void check_boxes(const char* op, const Tensor& boxes) {
  STRATA_CHECK(boxes.dim() == 2 && boxes.size(1) == 4, Runtime, "{}: boxes should be of shape [N, 4], got {}", op,
               to_string(boxes.shape()));
}
Tensor column(const Tensor& boxes, int64_t i) { return select(boxes, 1, i); }
Tensor areas(const Tensor& b) { return mul(sub(column(b, 2), column(b, 0)), sub(column(b, 3), column(b, 1))); }

// Size of the intersection of all pairs along one axis.
Tensor common_length(const Tensor& a, const Tensor& b, int64_t low, int64_t high) {
  const Tensor begin = maximum(unsqueeze(column(a, low), 1), column(b, low));
  const Tensor end = minimum(unsqueeze(column(a, high), 1), column(b, high));
  return clamp_min(sub(end, begin), 0);
}
Tensor overlaps(const Tensor& a, const Tensor& b) {
  const Tensor common = mul(common_length(a, b, 0, 2), common_length(a, b, 1, 3));
  return div(common, sub(add(unsqueeze(areas(a), 1), areas(b)), common));
}

// Positions of the boxes that are kept, of boxes in descending order of their scores.
template <class T> std::vector<int64_t> kept_on_host(const T* box, int64_t n, double threshold) {
  std::vector<T> area(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i)
    area[static_cast<size_t>(i)] = (box[i * 4 + 2] - box[i * 4]) * (box[i * 4 + 3] - box[i * 4 + 1]);
  std::vector<char> dropped(static_cast<size_t>(n));
  std::vector<int64_t> kept;
  for (int64_t i = 0; i < n; ++i) {
    if (dropped[static_cast<size_t>(i)]) continue;
    kept.push_back(i);
    const T* a = box + i * 4;
    for (int64_t j = i + 1; j < n; ++j) {
      const T* b = box + j * 4;
      const T w = std::max(T(0), std::min(a[2], b[2]) - std::max(a[0], b[0]));
      const T h = std::max(T(0), std::min(a[3], b[3]) - std::max(a[1], b[1]));
      const T both = area[static_cast<size_t>(i)] + area[static_cast<size_t>(j)] - w * h;
      if (static_cast<double>(w * h / both) > threshold) dropped[static_cast<size_t>(j)] = 1;
    }
  }
  return kept;
}

// A box is kept if no kept box before it overlaps it too much. Repeating this rule for all boxes at once reaches the
// greedy result: after t rounds the first t boxes are final, and boxes rarely depend on long chains of others.
Tensor is_kept_on_device(const Tensor& boxes, double threshold) {
  const Tensor drops = to(triu(gt(overlaps(boxes, boxes), threshold), 1), DType::F32);
  Tensor kept = ones({boxes.size(0)}, DType::F32);
  while (true) {
    const Tensor next = to(eq(matmul(kept, drops), 0), DType::F32);
    if (!any(ne(next, kept)).item<bool>()) return gt(kept, 0);
    kept = next;
  }
}
}  // namespace

STRATA_OP(box_iou, "vision.ops.box_iou(Tensor boxes1, Tensor boxes2) -> Tensor")
  .doc("The intersection over union of all pairs of boxes [x1, y1, x2, y2], as a matrix [N, M].")
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& boxes1, const Tensor& boxes2) {
    check_boxes("box_iou", boxes1);
    check_boxes("box_iou", boxes2);
    return overlaps(boxes1, boxes2);
  })
  .samples({"u(3,4), u(2,4)", "u(0,4), u(2,4)"})
  .error("f(3,4), f(2,5)", ErrorKind::Runtime, "of shape [N, 4]");

STRATA_OP(nms, "vision.ops.nms(Tensor boxes, Tensor scores, float iou_threshold) -> Tensor")
  .doc(
    "Non-maximum suppression: the indices of the boxes [x1, y1, x2, y2] to keep, in descending order of their "
    "scores.\n\n"
    "A box is dropped if its intersection over union with a kept box of a higher score is above the threshold.")
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& boxes, const Tensor& scores, double threshold) {
    check_boxes("nms", boxes);
    STRATA_CHECK(scores.dim() == 1 && scores.size(0) == boxes.size(0), Runtime,
                 "nms: expected one score for each of the {} boxes, got scores of shape {}", boxes.size(0),
                 to_string(scores.shape()));
    STRATA_CHECK(!boxes.is_meta(), NotImplemented,
                 "nms: the number of boxes to keep depends on the values, which a meta tensor does not have");
    const autograd::NoGrad no_grad;
    const Tensor order = argsort(scores, 0, true, true);
    const Tensor sorted = to(index_select(boxes, 0, order), compute_type(boxes.dtype()));
    if (boxes.device().type != DeviceType::Cpu) return masked_select(order, is_kept_on_device(sorted, threshold));
    const auto kept = cpu::dispatch_float(
      sorted.dtype(), [&]<class T>() { return kept_on_host<T>(cpu::In<T>(*sorted), sorted.size(0), threshold); });
    const int64_t count = static_cast<int64_t>(kept.size());
    const Tensor places = make_tensor(Shape(&count, 1), DType::I64);
    std::copy(kept.begin(), kept.end(), places.data<int64_t>());
    return index_select(order, 0, places);
  })
  .samples({"u(6,4), f(6), 0.5", "u(0,4), f(0), 0.5"})
  .error("f(3,5), f(3), 0.5", ErrorKind::Runtime, "of shape [N, 4]")
  .error("f(3,4), f(2), 0.5", ErrorKind::Runtime, "one score for each");

}  // namespace strata
