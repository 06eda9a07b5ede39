// Deformable convolution: a convolution whose taps are moved by offsets, and may be weighted by a mask.
//
// The pixels at the moved places are interpolated into columns, which are multiplied by the weight.
#include "strata/args/vision/deform_conv.h"
#include "autograd/autograd.h"
#include "base/checked.h"
#include "dispatch/autocast.h"
#include "strata/ops.h"

namespace strata {
namespace {

struct DeformSizes {
  int64_t n, c, h, w, out_c, kernel[2], out[2], stride[2], padding[2], dilation[2], groups, offset_groups;
  int64_t taps() const { return kernel[0] * kernel[1]; }
  int64_t places() const { return out[0] * out[1]; }
};

DeformSizes deform_sizes(const Tensor& input, const Tensor& weight, const Tensor& offset, const Tensor& mask,
                         IntList stride, IntList padding, IntList dilation) {
  constexpr const char* op = "deform_conv2d";
  for (const Tensor* t : {&input, &weight, &offset})
    STRATA_CHECK(t->dim() == 4, Runtime, "{}: input, weight and offset must have 4 dimensions, got shape {}", op,
                 to_string(t->shape()));
  DeformSizes s{};
  s.n = input.size(0);
  s.c = input.size(1);
  s.h = input.size(2);
  s.w = input.size(3);
  s.out_c = weight.size(0);
  const IntList given[] = {stride, padding, dilation};
  int64_t* to[] = {s.stride, s.padding, s.dilation};
  for (size_t i = 0; i < 3; ++i) {
    STRATA_CHECK(given[i].size == 1 || given[i].size == 2, Runtime,
                 "{}: stride, padding and dilation must be an int or two of them, got {}", op, to_string(given[i]));
    for (size_t d = 0; d < 2; ++d) {
      to[i][d] = given[i][given[i].size == 1 ? 0 : d];
      STRATA_CHECK(to[i][d] >= (i == 1 ? 0 : 1), Runtime, "{}: found {} for {}", op, to_string(given[i]),
                   i == 0   ? "stride, expected positive numbers"
                   : i == 1 ? "padding, expected none below 0"
                            : "dilation, expected positive numbers");
    }
  }
  const int64_t in[] = {s.h, s.w};
  for (int d = 0; d < 2; ++d) {
    s.kernel[d] = weight.size(d + 2);
    const int64_t room =
      (Checked(in[d]) + Checked(2) * s.padding[d] - Checked(s.dilation[d]) * (s.kernel[d] - 1) - 1).get();
    STRATA_CHECK(s.kernel[d] > 0 && room >= 0, Runtime, "{}: a kernel of size {} does not fit an input of shape {}", op,
                 s.kernel[d], to_string(input.shape()));
    s.out[d] = room / s.stride[d] + 1;
  }
  STRATA_CHECK(
    weight.size(1) > 0 && s.c % weight.size(1) == 0 && s.out_c % std::max<int64_t>(1, s.c / weight.size(1)) == 0,
    Runtime, "{}: a weight of shape {} does not fit an input of {} channels", op, to_string(weight.shape()), s.c);
  s.groups = s.c / weight.size(1);
  s.offset_groups = offset.size(1) / (2 * s.taps());
  STRATA_CHECK(s.offset_groups > 0 && offset.size(1) == s.offset_groups * 2 * s.taps() && s.c % s.offset_groups == 0,
               Runtime, "{}: the offset's {} channels must be a multiple of 2 * {} * {}, by a divisor of {} channels",
               op, offset.size(1), s.kernel[0], s.kernel[1], s.c);
  const auto fits = [&](const Tensor& t, int64_t channels) {
    return t.dim() == 4 && t.size(0) == s.n && t.size(1) == channels && t.size(2) == s.out[0] && t.size(3) == s.out[1];
  };
  STRATA_CHECK(fits(offset, offset.size(1)), Runtime, "{}: expected an offset of shape [{}, {}, {}, {}], got {}", op,
               s.n, offset.size(1), s.out[0], s.out[1], to_string(offset.shape()));
  STRATA_CHECK(!mask || fits(mask, s.offset_groups * s.taps()), Runtime,
               "{}: expected a mask of shape [{}, {}, {}, {}], got {}", op, s.n, s.offset_groups * s.taps(), s.out[0],
               s.out[1], mask ? to_string(mask.shape()) : "");
  return s;
}

// The place of each tap along one axis, without offsets: [taps, out_h, out_w].
Tensor tap_places(const DeformSizes& s, int axis, DType type) {
  const int64_t kernel = s.kernel[axis], out = s.out[axis];
  const Tensor tap = mul(arange(kernel, DType::I64), s.dilation[axis]);
  const Tensor start = sub(mul(arange(out, DType::I64), s.stride[axis]), s.padding[axis]);
  const Tensor places = axis == 0 ? add(reshape(tap, {-1, 1, 1, 1}), reshape(start, {1, 1, -1, 1}))
                                  : add(reshape(tap, {1, -1, 1, 1}), reshape(start, {1, 1, 1, -1}));
  return to(reshape(expand(places, {s.kernel[0], s.kernel[1], s.out[0], s.out[1]}), {s.taps(), s.out[0], s.out[1]}),
            type);
}

// The two pixels around each place, their weights, which are 0 outside of the image, and their indices.
struct Corners {
  Tensor index[2], weight[2];
};
Corners corners_of(const Tensor& at, int64_t size) {
  const Tensor low = floor(autograd::detach(at)), part = sub(at, low);
  Corners c;
  for (int i = 0; i < 2; ++i) {
    const Tensor place = add(low, i);
    const Tensor inside = logical_and(ge(place, 0), le(place, size - 1));
    c.index[i] = to(clamp(place, 0, size - 1), DType::I64);
    c.weight[i] = mul(i == 0 ? add(neg(part), 1) : part, to(inside, at.dtype()));
  }
  return c;
}

// The interpolated pixels of all taps: [N, C, taps, places].
Tensor moved_columns(const DeformSizes& s, const Tensor& input, const Tensor& offset, const Tensor& mask) {
  const int64_t og = s.offset_groups, taps = s.taps(), channels = s.c / og;
  const Tensor moves = reshape(offset, {s.n, og, taps, 2, s.out[0], s.out[1]});
  const Corners y = corners_of(add(select(moves, 3, 0), tap_places(s, 0, offset.dtype())), s.h),
                x = corners_of(add(select(moves, 3, 1), tap_places(s, 1, offset.dtype())), s.w);
  const Tensor image = reshape(mul(arange(s.n * og, DType::I64), s.h * s.w), {s.n, og, 1, 1, 1});
  std::vector<Tensor> index, weight;
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) {
      index.push_back(add(image, add(mul(y.index[i], s.w), x.index[j])));
      weight.push_back(mul(y.weight[i], x.weight[j]));
    }
  const Tensor pixels =
    reshape(permute(reshape(input, {s.n, og, channels, s.h, s.w}), {0, 1, 3, 4, 2}), {-1, channels});
  Tensor columns = _weighted_rows(pixels, reshape(stack(TensorList(index), -1), {-1, 4}),
                                  reshape(stack(TensorList(weight), -1), {-1, 4}));
  columns = reshape(columns, {s.n, og, taps, s.places(), channels});
  if (mask) columns = mul(columns, reshape(mask, {s.n, og, taps, s.places(), 1}));
  return reshape(permute(columns, {0, 1, 4, 2, 3}), {s.n, s.c, taps, s.places()});
}
}  // namespace

STRATA_OP(
  deform_conv2d,
  "vision.ops.deform_conv2d(Tensor input, Tensor offset, Tensor weight, Tensor? bias=None, int[] stride=1, int[] "
  "padding=0, int[] dilation=1, Tensor? mask=None) -> Tensor")
  .doc(
    "A convolution whose taps are moved by offset [N, 2 * groups * kh * kw, H, W], pairs of y and x, and multiplied by "
    "mask [N, groups * kh * kw, H, W].")
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, const Tensor& offset, const Tensor& weight, const Tensor& bias, IntList stride,
                IntList padding, IntList dilation, const Tensor& mask) {
    const DeformSizes s = deform_sizes(input, weight, offset, mask, stride, padding, dilation);
    const autocast::Off as_given;  // the dtype stays, also that of the product
    const int64_t each = s.c / s.groups * s.taps();
    const Tensor columns = reshape(moved_columns(s, input, offset, mask), {s.n, s.groups, each, s.places()});
    const Tensor factors = reshape(weight, {1, s.groups, s.out_c / s.groups, each});
    const Tensor result = reshape(matmul(factors, columns), {s.n, s.out_c, s.out[0], s.out[1]});
    return bias ? add(result, reshape(bias, {1, -1, 1, 1})) : result;
  })
  .samples({"f(2,4,5,6), f(2,18,3,4), f(3,4,3,3), f(3)",
            "f(1,4,5,5), f(1,16,3,3), f(4,2,2,2), None, 2, 1, 1, f(1,8,3,3)"})
  .error("f(2,4,5,6), f(2,17,3,4), f(3,4,3,3)", ErrorKind::Runtime, "must be a multiple")
  .error("f(2,4,5,6), f(2,18,3,3), f(3,4,3,3)", ErrorKind::Runtime, "expected an offset of shape")
  .error("f(2,4,5,6), f(2,18,3,4), f(3,3,3,3)", ErrorKind::Runtime, "does not fit an input of 4 channels");

}  // namespace strata
