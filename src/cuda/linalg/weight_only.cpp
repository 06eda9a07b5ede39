#include "cuda/linalg/weight_only.h"

#include <limits>

#include "cuda/common/tensors.h"
#include "cuda/linalg/weight_only_params.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {
namespace {

constexpr int64_t kFewRows = 8, kManyWeightRows = 32, kMostWeightRows = 64;

WeightParams parameters(const WeightProduct& w) {
  WeightParams p{};
  p.x = address(w.x);
  p.weight = address(w.weight);
  p.scales = address(w.scales);
  p.zeros = address(w.zeros);
  p.out = address(w.out);
  p.x_m = w.x.strides[0];
  p.x_k = w.x.strides[1];
  p.w_n = w.weight.strides[0];
  p.s_n = WeightProduct::row_step(w.scales);
  p.s_g = WeightProduct::group_step(w.scales);
  if (w.zeros) {
    p.z_n = WeightProduct::row_step(*w.zeros);
    p.z_g = WeightProduct::group_step(*w.zeros);
  }
  p.out_m = w.out.strides[0];
  p.out_n = w.out.strides[1];
  p.rows = w.rows();
  p.n = w.n();
  p.k = w.k();
  p.group = w.group();
  p.x_type = tag(w.x);
  p.scale_type = tag(w.scales);
  p.zero_type = tag(w.zeros);
  p.out_type = tag(w.out);
  const int64_t chunk = 128 / w.bits;
  p.wide = p.weight % 16 == 0 && p.w_n % 16 == 0 && p.group % chunk == 0 && p.k % chunk == 0;
  return p;
}

// Weights that a lane reads at once: as many as the groups allow; 0 if there is no kernel.
int per_lane(const WeightProduct& w) {
  const int wide = w.bits == 8 ? 16 : 32;
  const int64_t row = w.weight.strides[0], first = static_cast<int64_t>(address(w.weight));
  for (const int lane : {wide, 8}) {
    const int bytes = lane * w.bits / 8;
    if (w.group() % (4 * lane) == 0 && row % bytes == 0 && first % bytes == 0) return lane;
  }
  return 0;
}
}  // namespace

const char* weights_reject_tensor_cores(const WeightProduct& w) {
  if (w.x.dtype != DType::F16 && w.x.dtype != DType::BF16) return "for float16 and bfloat16";
  if (w.rows() > kMostWeightRows) return "for at most 64 rows";
  if (w.k() == 0) return "the sums are empty";
  if (w.k() > std::numeric_limits<int32_t>::max()) return "for rows of less than 2^31 weights";
  if (Runtime::gpu(w.out.device).properties.major < 8) return "for GPUs of compute capability 8.0 and newer";
  if (per_lane(w) == 0) return "groups are not a multiple of 32 weights, or rows are not aligned";
  const bool is_aligned = address(w.x) % 16 == 0 && (w.x.strides[0] % 8 == 0 || w.rows() == 1);
  return w.x.strides[1] == 1 && is_aligned ? nullptr : "rows of input do not start at multiples of 16 bytes";
}

void run_weights_tensor_cores(const WeightProduct& w) {
#define STRATA_FOUR(type)                                                                         \
  {                                                                                               \
    {"weight_only", type "_8_16"}, {"weight_only", type "_8_8"}, {"weight_only", type "_4_32"}, { \
      "weight_only", type "_4_8"                                                                  \
    }                                                                                             \
  }
  static const Function kernels[2][2][4] = {{STRATA_FOUR("few_f16"), STRATA_FOUR("few_bf16")},
                                            {STRATA_FOUR("many_f16"), STRATA_FOUR("many_bf16")}};
#undef STRATA_FOUR
  const bool many = w.rows() > kFewRows;
  const size_t shape = (w.bits == 4 ? 2 : 0) + (per_lane(w) == 8 ? 1 : 0);
  const Grid grid{blocks_for(w.n(), many ? 32 : 16), blocks_for(w.rows(), many ? kManyWeightRows : kFewRows)};
  stream_of(w.out.device)
    .launch(kernels[many][w.x.dtype == DType::BF16][shape], grid, {kWeightThreads}, 0, parameters(w));
}

void run_weights_rows(const WeightProduct& w) {
  static const Function kernels[2][2] = {{{"weight_only", "rows_f32_8"}, {"weight_only", "rows_f32_4"}},
                                         {{"weight_only", "rows_f64_8"}, {"weight_only", "rows_f64_4"}}};
  constexpr int64_t kMostRowBlocks = 65535;
  STRATA_CHECK(w.rows() <= kMostRowBlocks * kWeightRows, Runtime, "weight-only product: {} rows are too many",
               w.rows());
  const Grid grid{blocks_for(w.n(), kWeightThreads / 32), blocks_for(w.rows(), kWeightRows)};
  stream_of(w.out.device)
    .launch(kernels[w.x.dtype == DType::F64][w.bits == 4], grid, {kWeightThreads}, 0, parameters(w));
}

}  // namespace strata::cuda
