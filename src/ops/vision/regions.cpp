// Features of regions of an image: roi_align, roi_pool and their position-sensitive forms.
//
// A region is a row [image, x1, y1, x2, y2], divided into output_size bins. A bin is a weighted sum of pixels, or their
// maximum; pixels are rows of a table [N * H * W, C]. Places and weights of a bin are products of those of its rows and
// columns. No gradient reaches the regions, as in torchvision.
#include "strata/args/vision/regions.h"
#include "autograd/autograd.h"
#include "base/checked.h"
#include "strata/ops.h"

namespace strata {
namespace {

struct Regions {
  Tensor image;                      // int64
  Tensor x1, y1, x2, y2;             // scaled, in the compute type
  int64_t n, c, h, w, out_h, out_w;  // sizes of the input, and bins
  int64_t count() const { return image.size(0); }
};

Regions read_regions(const char* op, const Tensor& input, const Tensor& boxes, IntList output_size, double scale) {
  STRATA_CHECK(input.dim() == 4, Runtime, "{}: expected an input [N, C, H, W], got shape {}", op,
               to_string(input.shape()));
  STRATA_CHECK(boxes.dim() == 2 && boxes.size(1) == 5, Runtime,
               "{}: expected boxes [K, 5] of image, x1, y1, x2, y2, got shape {}", op, to_string(boxes.shape()));
  STRATA_CHECK(output_size.size == 1 || output_size.size == 2, Runtime,
               "{}: output_size must be an int or two of them, got {}", op, to_string(output_size));
  Regions r;
  r.out_h = output_size[0];
  r.out_w = output_size[output_size.size - 1];
  STRATA_CHECK(r.out_h > 0 && r.out_w > 0, Runtime, "{}: output_size must be positive, got {}", op,
               to_string(output_size));
  r.n = input.size(0);
  r.c = input.size(1);
  r.h = input.size(2);
  r.w = input.size(3);
  STRATA_CHECK(boxes.size(0) == 0 || (r.n > 0 && r.h > 0 && r.w > 0), Runtime,
               "{}: the input of shape {} has no pixels", op, to_string(input.shape()));
  const Tensor b = to(autograd::detach(boxes), compute_type(input.dtype()));
  r.image = to(select(b, 1, 0), DType::I64);
  r.x1 = mul(select(b, 1, 1), scale);
  r.y1 = mul(select(b, 1, 2), scale);
  r.x2 = mul(select(b, 1, 3), scale);
  r.y2 = mul(select(b, 1, 4), scale);
  return r;
}

Tensor along(const Tensor& per_region) { return reshape(per_region, {-1, 1, 1}); }
Tensor numbers(int64_t n, DType dtype) { return to(arange(n, DType::I64), dtype); }

// Pixels of the bins along one axis: [K, bins, each], with weights of the same shape.
struct AxisPixels {
  Tensor index, weight;
  int64_t each() const { return index.size(2); }
};

// The largest count of samples or pixels in a bin; at least one.
int64_t largest(const Tensor& counts) {
  if (counts.is_meta() || counts.numel() == 0) return 1;
  return std::max<int64_t>(1, static_cast<int64_t>(max(counts).item<double>()));
}

// Evenly spaced samples in each bin, interpolated between the two pixels around them. `own`: samples of each region.
AxisPixels sampled(const Tensor& start, const Tensor& bin, const Tensor& own, int64_t bins, int64_t size) {
  const DType type = start.dtype();
  const int64_t samples = largest(own);
  const Tensor which = numbers(samples, type), used = clamp_min(along(own), 1);
  const Tensor in_bin = div(mul(add(which, 0.5), along(bin)), used);
  Tensor at = add(add(along(start), mul(reshape(numbers(bins, type), {1, -1, 1}), along(bin))), in_bin);
  const Tensor valid = logical_and(logical_and(ge(at, -1), le(at, size)), lt(which, along(own)));
  at = clamp_min(at, 0);
  const Tensor low = clamp_max(floor(at), size - 1), high = clamp_max(add(low, 1), size - 1);
  const Tensor part = where(lt(low, size - 1), sub(at, low), 0.0);
  const Tensor each = to(valid, type);
  const std::vector<Tensor> places{low, high}, parts{mul(add(neg(part), 1), each), mul(part, each)};
  const Shape shape = start.shape();
  const std::vector<int64_t> flat{shape[0], bins, samples * 2};
  return {reshape(to(stack(TensorList(places), -1), DType::I64), flat), reshape(stack(TensorList(parts), -1), flat)};
}

// The whole pixels of each bin, clipped to [0, limit]. The weight is 1 for a pixel of the bin, 0 elsewhere.
AxisPixels covered(const Tensor& start, const Tensor& bin, int64_t bins, int64_t limit, int64_t size) {
  const DType type = start.dtype();
  const Tensor number = reshape(numbers(bins, type), {1, -1, 1});
  const Tensor begin = clamp(add(floor(mul(number, along(bin))), along(start)), 0, limit);
  const Tensor end = clamp(add(ceil(mul(add(number, 1), along(bin))), along(start)), 0, limit);
  const Tensor at = add(begin, numbers(largest(sub(end, begin)), type));
  return {to(clamp(at, 0, size - 1), DType::I64), to(lt(at, end), type)};
}

// [K, out_h, out_w, each_y * each_x] of a value for rows and one for columns.
template <class F> Tensor bins_of(const Regions& r, const Tensor& y, const Tensor& x, F&& combine) {
  const int64_t k = r.count(), ey = y.size(2), ex = x.size(2);
  return reshape(combine(reshape(y, {k, r.out_h, 1, ey, 1}), reshape(x, {k, 1, r.out_w, 1, ex})),
                 {k, r.out_h, r.out_w, (Checked(ey) * ex).get()});
}
Tensor pixels_of(const Regions& r, const AxisPixels& y, const AxisPixels& x) {
  return bins_of(r, y.index, x.index, [&](const Tensor& a, const Tensor& b) { return add(mul(a, r.w), b); });
}
Tensor weights_of(const Regions& r, const AxisPixels& y, const AxisPixels& x) {
  return bins_of(r, y.weight, x.weight, [](const Tensor& a, const Tensor& b) { return mul(a, b); });
}
Tensor image_offset(const Regions& r, int64_t pixels) { return reshape(mul(r.image, pixels), {-1, 1, 1, 1}); }

// The rows of all pixels, with the channels of a bin in the position-sensitive forms.
Tensor pixel_rows(const Tensor& input) { return reshape(permute(input, {0, 2, 3, 1}), {-1, input.size(1)}); }
// input [N, C * out_h * out_w, H, W] as rows of [N, out_h, out_w, H, W], C values each.
Tensor sensitive_rows(const char* op, const Regions& r, const Tensor& input) {
  const int64_t bins = r.out_h * r.out_w;
  STRATA_CHECK(r.c % bins == 0, Runtime, "{}: the input's {} channels must be a multiple of {} * {} bins", op, r.c,
               r.out_h, r.out_w);
  const Tensor parts = reshape(input, {r.n, r.c / bins, bins, r.h, r.w});
  return reshape(permute(parts, {0, 2, 3, 4, 1}), {-1, r.c / bins});
}
Tensor sensitive_offset(const Regions& r) {
  const int64_t pixels = r.h * r.w, bins = r.out_h * r.out_w;
  const Tensor bin = reshape(mul(arange(bins, DType::I64), pixels), {1, r.out_h, r.out_w, 1});
  return add(image_offset(r, bins * pixels), bin);
}
Tensor channel_mapping(const Regions& r) {
  const int64_t bins = r.out_h * r.out_w, channels = r.c / bins;
  const Tensor one = reshape(arange(channels * bins, DType::I32), {1, channels, r.out_h, r.out_w});
  return contiguous(expand(one, {r.count(), channels, r.out_h, r.out_w}));
}

// Weighted sums of pixels: [K, C, out_h, out_w].
Tensor sums_of(const Regions& r, const Tensor& rows, const Tensor& index, const Tensor& weight) {
  const int64_t bins = r.count() * r.out_h * r.out_w, each = index.size(3);
  const Tensor sums =
    _weighted_rows(rows, reshape(index, {bins, each}), to(reshape(weight, {bins, each}), rows.dtype()));
  return contiguous(permute(reshape(sums, {r.count(), r.out_h, r.out_w, rows.size(1)}), {0, 3, 1, 2}));
}

struct Samples {
  Tensor index, weight;
};
Samples align_samples(const Regions& r, double offset, bool at_least_one, int64_t sampling_ratio) {
  const Tensor x1 = sub(r.x1, offset), y1 = sub(r.y1, offset);
  Tensor width = sub(sub(r.x2, offset), x1), height = sub(sub(r.y2, offset), y1);
  if (at_least_one) {
    width = clamp_min(width, 1);
    height = clamp_min(height, 1);
  }
  const auto samples = [&](const Tensor& bin) {
    return sampling_ratio > 0 ? full_like(bin, static_cast<double>(sampling_ratio)) : clamp_min(ceil(bin), 0);
  };
  const Tensor bin_x = div(width, r.out_w), bin_y = div(height, r.out_h);
  const Tensor own_x = samples(bin_x), own_y = samples(bin_y);
  const AxisPixels y = sampled(y1, bin_y, own_y, r.out_h, r.h), x = sampled(x1, bin_x, own_x, r.out_w, r.w);
  const Tensor total = reshape(clamp_min(mul(own_y, own_x), 1), {-1, 1, 1, 1});
  return {pixels_of(r, y, x), div(weights_of(r, y, x), total)};
}

// Half away from zero, as std::round.
Tensor rounded(const Tensor& t) { return mul(sign(t), floor(add(abs(t), 0.5))); }
}  // namespace

STRATA_OP(roi_align,
          "vision.ops.roi_align(Tensor input, Tensor boxes, int[] output_size, float spatial_scale=1.0, int "
          "sampling_ratio=-1, bool aligned=False) -> Tensor")
  .doc(
    "Averages of interpolated samples in each bin of each region: [K, C, *output_size].\n\n"
    "boxes: rows [image, x1, y1, x2, y2]. sampling_ratio: samples per bin and axis; by default one per pixel. "
    "aligned: pixel centers are at half-integers. No gradient reaches the boxes.")
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, const Tensor& boxes, IntList output_size, double scale, int64_t ratio,
                bool aligned) {
    const Regions r = read_regions("roi_align", input, boxes, output_size, scale);
    const Samples s = align_samples(r, aligned ? 0.5 : 0.0, !aligned, ratio);
    return sums_of(r, pixel_rows(input), add(s.index, image_offset(r, r.h * r.w)), s.weight);
  })
  .samples({"f(2,3,6,6), i2(3,5), [2,2], 4.0", "f(2,3,6,6), i2(3,5), [2,3], 5.0, 2, True", "f(1,2,4,5), i1(0,5), 2"})
  .error("f(2,3,6), i2(3,5), [2,2]", ErrorKind::Runtime, "expected an input [N, C, H, W]")
  .error("f(2,3,6,6), i2(3,4), [2,2]", ErrorKind::Runtime, "expected boxes [K, 5]")
  .error("f(2,3,6,6), i2(3,5), [0,2]", ErrorKind::Runtime, "must be positive");

STRATA_OP(ps_roi_align,
          "vision.ops._ps_roi_align(Tensor input, Tensor boxes, int[] output_size, float spatial_scale=1.0, int "
          "sampling_ratio=-1) -> (Tensor, Tensor)")
  .doc("roi_align in which each bin has its own channels; and the channel of the input of each result.")
  .helper()
  .no_out()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, const Tensor& boxes, IntList output_size, double scale, int64_t ratio) {
    const Regions r = read_regions("ps_roi_align", input, boxes, output_size, scale);
    const Tensor rows = sensitive_rows("ps_roi_align", r, input);
    const Samples s = align_samples(r, 0.5, false, ratio);
    return std::array<Tensor, 2>{sums_of(r, rows, add(s.index, sensitive_offset(r)), s.weight), channel_mapping(r)};
  })
  .samples({"f(2,8,6,6), i2(3,5), [2,2], 4.0", "f(2,6,6,6), i2(3,5), [2,3], 5.0, 2"})
  .error("f(2,3,6,6), i2(3,5), [2,2]", ErrorKind::Runtime, "must be a multiple");

STRATA_OP(roi_pool,
          "vision.ops._roi_pool(Tensor input, Tensor boxes, int[] output_size, float spatial_scale=1.0) -> (Tensor, "
          "Tensor)")
  .doc("The largest pixel in each bin of each region, and its position in the image; 0 and -1 if a bin is empty.")
  .helper()
  .no_out()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, const Tensor& boxes, IntList output_size, double scale) {
    const Regions r = read_regions("roi_pool", input, boxes, output_size, scale);
    const Tensor x1 = rounded(r.x1), y1 = rounded(r.y1);
    const Tensor width = clamp_min(add(sub(rounded(r.x2), x1), 1), 1),
                 height = clamp_min(add(sub(rounded(r.y2), y1), 1), 1);
    const AxisPixels y = covered(y1, div(height, r.out_h), r.out_h, r.h, r.h),
                     x = covered(x1, div(width, r.out_w), r.out_w, r.w, r.w);
    const Tensor pixel = pixels_of(r, y, x), used = unsqueeze(gt(weights_of(r, y, x), 0), -1);
    const Tensor rows = nn::functional::embedding(add(pixel, image_offset(r, r.h * r.w)), pixel_rows(input));
    const auto best = max(where(used, rows, -INFINITY), 3);  // [K, out_h, out_w, C]
    const Tensor some = any(used, 3), place = gather(pixel, 3, best[1]);
    return std::array<Tensor, 2>{
      contiguous(permute(where(some, best[0], 0.0), {0, 3, 1, 2})),
      contiguous(permute(to(where(some, place, -1), DType::I32), {0, 3, 1, 2})),
    };
  })
  .samples({"f(2,3,6,6), i2(3,5), [2,2], 4.0", "f(2,3,6,6), i2(3,5), [3,2], 1.0"});

STRATA_OP(ps_roi_pool,
          "vision.ops._ps_roi_pool(Tensor input, Tensor boxes, int[] output_size, float spatial_scale=1.0) -> (Tensor, "
          "Tensor)")
  .doc("Averages of the pixels in each bin, which has its own channels; and the channel of the input of each result.")
  .helper()
  .no_out()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, const Tensor& boxes, IntList output_size, double scale) {
    const Regions r = read_regions("ps_roi_pool", input, boxes, output_size, scale);
    const Tensor rows = sensitive_rows("ps_roi_pool", r, input);
    const Tensor x1 = rounded(r.x1), y1 = rounded(r.y1);
    const Tensor width = clamp_min(sub(rounded(r.x2), x1), 1), height = clamp_min(sub(rounded(r.y2), y1), 1);
    const AxisPixels y = covered(y1, div(height, r.out_h), r.out_h, r.h - 1, r.h),
                     x = covered(x1, div(width, r.out_w), r.out_w, r.w - 1, r.w);
    const Tensor weight = weights_of(r, y, x);
    const Tensor mean = div(weight, clamp_min(sum(weight, 3, true), 1));
    return std::array<Tensor, 2>{sums_of(r, rows, add(pixels_of(r, y, x), sensitive_offset(r)), mean),
                                 channel_mapping(r)};
  })
  .samples({"f(2,8,6,6), i2(3,5), [2,2], 4.0"});

}  // namespace strata
