#include <algorithm>

#include "cuda/common/tensors.h"
#include "cuda/linalg/tensor_map.h"
#include "cuda/nn/attention_layout.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {
namespace {

using attention::HopperShape;
using attention::Matrices;
using attention::Params;

bool is_wide(const Params& p) { return std::max(p.width, p.value_width) > 64; }

// Whether tall blocks are faster: 10% for a row, unless many of their rows are past the end.
bool prefers_tall(const Params& p) {
  const auto computed = [&](const HopperShape& s) { return ceil_div(p.rows, s.rows) * s.rows; };
  return !p.causal && 9 * computed(attention::kHopperForwardTall64) <= 10 * computed(attention::kHopperForward64);
}

// One of the kernels: its matrices, whose rows a block keeps or which pass by.
struct Kernel {
  const Function& function;
  const HopperShape& shape;
  const Matrices &kept_a, &kept_b, &first, &second;
  int32_t kept_rows, kept_a_width, kept_b_width, passing_rows, first_width, second_width;
};

driver::CUtensorMap map_of(const Gpu& gpu, DType dtype, const Params& p, const Matrices& m, int rows, int width,
                           int box_rows) {
  const int64_t sizes[] = {width, rows, p.batch[2].divisor, p.batch[1].divisor, p.batch[0].divisor};
  // A single row has no stride to speak of, but TMA wants a multiple of 16 bytes.
  const int64_t strides[] = {rows > 1 ? m.row : ceil_div(width, 8) * 8, m.batch[2], m.batch[1], m.batch[0]};
  return tensor_map(gpu, dtype, m.address, sizes, strides, 64, box_rows);
}

void launch(const AttentionCall& a, const Params& p, const Kernel& k) {
  const Stream stream = stream_of(a.q.device);
  Gpu& gpu = stream.gpu();
  gpu.activate();
  const HopperShape& s = k.shape;
  const DType dtype = a.q.dtype;
  const auto kept_a = map_of(gpu, dtype, p, k.kept_a, k.kept_rows, k.kept_a_width, 64),
             kept_b = map_of(gpu, dtype, p, k.kept_b, k.kept_rows, k.kept_b_width, 64),
             first = map_of(gpu, dtype, p, k.first, k.passing_rows, k.first_width, s.passing),
             second = map_of(gpu, dtype, p, k.second, k.passing_rows, k.second_width, s.passing);
  const int64_t tiles = ceil_div(k.kept_rows, s.rows), units = p.causal ? ceil_div(tiles, 2) : tiles;
  const auto blocks = static_cast<uint32_t>(std::min<int64_t>(units * p.batches, gpu.properties.multiprocessors));
  stream.launch(k.function, {blocks}, {static_cast<uint32_t>(s.threads)}, static_cast<uint32_t>(s.shared), kept_a,
                kept_b, first, second, p);
}

// Kernel variants, indexed by [is_bf16][is_wide].
using Kernels2 = const Function[2][2];
#define STRATA_HOPPER_WIDTHS(file, name)      \
  {                                           \
    {file, name "_64"}, { file, name "_128" } \
  }
#define STRATA_HOPPER_KERNELS(name) \
  { STRATA_HOPPER_WIDTHS("attention_hopper_f16", name), STRATA_HOPPER_WIDTHS("attention_hopper_bf16", name) }
}  // namespace

const char* plan_attention_hopper(const AttentionCall& a, Plan& plan) {
  Params p;
  if (a.sequences) return "for sequences of equal lengths without a window";
  if (const char* reason = plan_attention_inputs(a, plan, p)) return reason;
  if (Runtime::gpu(a.q.device).properties.major != 9) return "for GPUs of compute capability 9.0 (Hopper)";
  if (a.mask) return "for attention without a mask";
  if (a.draws) return "for attention without dropout";
  if (std::max(p.width, p.value_width) > 128) return "for heads of up to 128 features";
  if (!(a.scale > 0)) return "for positive scales";  // scores are scaled after the search for the largest one
  if (p.rows == 0 || p.batches == 0 || p.width == 0 || p.value_width == 0) return "there are no elements";
  plan.variant = is_wide(p) ? "128" : "64";
  return nullptr;
}

void run_attention_hopper(const AttentionCall& a, const Call& c, const Plan&) {
  static Kernels2 kernels = STRATA_HOPPER_KERNELS("forward");
  static const Function tall[] = {{"attention_hopper_f16", "forward_tall_64"},
                                  {"attention_hopper_bf16", "forward_tall_64"}};
  const AttentionInputs inputs(a, Workspace(c));
  const Params p = attention_parameters(a, inputs);
  const bool bf16 = a.q.dtype == DType::BF16, wide = is_wide(p), is_tall = !wide && prefers_tall(p);
  const HopperShape& shape = wide      ? attention::kHopperForward128
                             : is_tall ? attention::kHopperForwardTall64
                                       : attention::kHopperForward64;
  launch(a, p,
         {is_tall ? tall[bf16] : kernels[bf16][wide], shape, p.q, p.q, p.k, p.v, p.rows, p.width, p.width, p.columns,
          p.width, p.value_width});
}

void run_attention_hopper_backward(const AttentionCall& a, const Call& c, const Plan&) {
  static Kernels2 queries = STRATA_HOPPER_KERNELS("query"), keys = STRATA_HOPPER_KERNELS("key_value");
  const AttentionInputs inputs(a, Workspace(c));
  const Params p = attention_parameters(a, inputs);
  const bool bf16 = a.q.dtype == DType::BF16, wide = is_wide(p);
  launch_attention_pairs(a, p);
  launch(a, p,
         {queries[bf16][wide], wide ? attention::kHopperQuery128 : attention::kHopperQuery64, p.q, p.grad, p.k, p.v,
          p.rows, p.width, p.value_width, p.columns, p.width, p.value_width});
  launch(a, p,
         {keys[bf16][wide], wide ? attention::kHopperKey128 : attention::kHopperKey64, p.k, p.v, p.q, p.grad, p.columns,
          p.width, p.value_width, p.rows, p.width, p.value_width});
}

}  // namespace strata::cuda
