// Resizing images: interpolate and its older names.
#include <cmath>

#include "strata/args/nn/interpolate.h"
#include "strata/ops/nn/pool_core.h"
#include "strata/ops/nn/resample.h"

namespace strata {
namespace {

constexpr DTypeSet kResizedTypes = kFloatingTypes | DTypeSet{DType::U8};

Tensor resize(const Tensor& input, OptIntList size, std::optional<std::span<const double>> factor,
              std::string_view mode, std::optional<bool> align, std::optional<bool> recompute, bool antialias) {
  const int dims = input.dim() - 2;
  STRATA_CHECK(dims >= 1 && dims <= 3, NotImplemented,
               "interpolate: expected a 3D, 4D or 5D input [N, C, ...], got shape {}", to_string(input.shape()));
  const bool plain = mode == "nearest" || mode == "nearest-exact" || mode == "area";
  const bool fits = plain || (mode == "linear" && dims == 1) ||
                    ((mode == "bilinear" || mode == "bicubic") && dims == 2) || (mode == "trilinear" && dims == 3);
  STRATA_CHECK(fits, NotImplemented,
               "interpolate: mode '{}' does not fit an input of {} dimensions; modes are nearest, nearest-exact, area, "
               "linear (3D), bilinear and bicubic (4D), trilinear (5D)",
               mode, input.dim());
  STRATA_CHECK(!plain || !align, Value,
               "interpolate: align_corners option can only be set with the interpolating modes: linear | bilinear | "
               "bicubic | trilinear");
  STRATA_CHECK(!antialias || ((mode == "bilinear" || mode == "bicubic") && dims == 2), Value,
               "interpolate: the antialias option is restricted to the bilinear and bicubic modes of 4D inputs");
  STRATA_CHECK(size.given != factor.has_value(), Value, "interpolate: {}",
               size.given ? "only one of size or scale_factor should be defined"
                          : "either size or scale_factor should be defined");
  for (int d = 1; d < input.dim(); ++d)
    STRATA_CHECK(input.size(d) > 0, Runtime,
                 "interpolate: expected non-zero size for all dimensions but the batch, got shape {}",
                 to_string(input.shape()));
  std::vector<int64_t> out(static_cast<size_t>(dims));
  std::vector<double> scales;
  if (size.given) {
    STRATA_CHECK(size.size == 1 || static_cast<int>(size.size) == dims, Value,
                 "interpolate: input and output must have the same number of spatial dimensions, but got input with {} "
                 "and output size of {}",
                 dims, to_string(size));
    STRATA_CHECK(!recompute.value_or(false), Value,
                 "interpolate: recompute_scale_factor is not meaningful with an explicit size");
    for (size_t d = 0; d < out.size(); ++d) out[d] = size[size.size == 1 ? 0 : d];
  } else {
    STRATA_CHECK(factor->size() == 1 || static_cast<int>(factor->size()) == dims, Value,
                 "interpolate: scale_factor must be a number or {} of them, got {}", dims, factor->size());
    for (size_t d = 0; d < out.size(); ++d) {
      const double f = (*factor)[factor->size() == 1 ? 0 : d];
      out[d] = static_cast<int64_t>(std::floor(static_cast<double>(input.size(static_cast<int64_t>(d) + 2)) * f));
      if (!recompute.value_or(false)) scales.push_back(f > 0 ? 1 / f : 0);
    }
  }
  for (int64_t n : out)
    STRATA_CHECK(n > 0, Runtime,
                 "interpolate: input and output sizes should be greater than 0, but got input {} and output {}",
                 to_string(input.shape()), to_string(out));
  if (mode == "area") return _adaptive_avg_pool(input, out);
  return _resample(input, out, mode, align.value_or(false), scales, antialias);
}
}  // namespace

STRATA_OP(interpolate,
          "nn.functional.interpolate(Tensor input, int[]? size=None, float[]? scale_factor=None, str mode='nearest', "
          "bool? align_corners=None, bool? recompute_scale_factor=None, bool antialias=False) -> Tensor")
  .doc(
    "Resizes the spatial dimensions of [N, C, ...] to a size or by a factor. Images of uint8 are resized one dimension "
    "after the other, in integers.")
  .alias("nn.functional.upsample")
  .dtypes(kResizedTypes)
  .composite([](const Tensor& input, OptIntList size, std::optional<std::span<const double>> factor,
                std::string_view mode, std::optional<bool> align, std::optional<bool> recompute,
                bool antialias) { return resize(input, size, factor, mode, align, recompute, antialias); })
  .samples({"f(1,2,4,5), [7,3]", "f(1,2,4), scale_factor=2.0, mode='linear', align_corners=True",
            "f(1,2,4,5), [7,3], mode='bicubic'", "~f(1,2,4,5), [2,3], mode='area'",
            "f(1,2,6,8), [3,5], mode='bilinear', antialias=True", "f(1,1,3,4,2), [5,2,4], mode='trilinear'",
            "f(1,2,4,5), 3, mode='nearest-exact'"})
  .error("f(1,2,4,5)", ErrorKind::Value, "either size or scale_factor")
  .error("i5(1,2,4,5), 3", ErrorKind::NotImplemented, "floating-point or uint8")
  .error("f(1,2,4,5), 3, mode='linear'", ErrorKind::NotImplemented, "does not fit")
  .error("f(2,4), 3", ErrorKind::NotImplemented, "expected a 3D, 4D or 5D input");

STRATA_OP(upsample_nearest,
          "nn.functional.upsample_nearest(Tensor input, int[]? size=None, float[]? scale_factor=None) -> Tensor")
  .doc("interpolate with mode='nearest'.")
  .dtypes(kResizedTypes)
  .composite([](const Tensor& input, OptIntList size, std::optional<std::span<const double>> factor) {
    return resize(input, size, factor, "nearest", std::nullopt, std::nullopt, false);
  })
  .samples({"f(1,2,4,5), [7,3]"})
  .error("f(1,2,4,5)", ErrorKind::Value, "either size or scale_factor");

STRATA_OP(upsample_bilinear,
          "nn.functional.upsample_bilinear(Tensor input, int[]? size=None, float[]? scale_factor=None) -> Tensor")
  .doc("interpolate with mode='bilinear' and aligned corners.")
  .dtypes(kResizedTypes)
  .composite([](const Tensor& input, OptIntList size, std::optional<std::span<const double>> factor) {
    return resize(input, size, factor, "bilinear", true, std::nullopt, false);
  })
  .samples({"f(1,2,4,5), [7,3]"})
  .error("f(1,2,4,5)", ErrorKind::Value, "either size or scale_factor");

}  // namespace strata
