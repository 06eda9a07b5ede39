#include "cuda/linalg/gemv.h"

#include "cuda/common/tensors.h"
#include "cuda/linalg/gemm_layout.h"
#include "cuda/linalg/gemv_params.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {
namespace {

constexpr int64_t kLeastRows = 64;          // fewer do not fill a card: the sums must be cut
constexpr int64_t kManyRows = 4096;         // from here on a warp for each two rows
constexpr int64_t kLongRow = 16 * 1024;     // bytes: enough for all loads of a block's threads
constexpr int64_t kEnoughRows = 32 * 1024;  // so many keep the card busy with warps, whatever their length
constexpr int64_t kMostRows = 1 << 30;

bool is_aligned(uint64_t address, int64_t ld, size_t size) {
  return address % 16 == 0 && static_cast<size_t>(ld) * size % 16 == 0;
}
// A warp, or a block, for each two rows. Few long rows keep more loads in flight with blocks: 8192 rows of 8192 bfloat16 take 33.7 us
// instead of 37.5 on an H200.
bool takes_warps(const GemmLayout& l, size_t size) {
  return l.n >= kManyRows && (l.n >= kEnoughRows || l.k * static_cast<int64_t>(size) < kLongRow);
}
}  // namespace

const char* plan_gemv(const GemmCall& g, Plan& plan) {
  const DType dtype = g.c.dtype();
  if (dtype != DType::F64 && dtype != DType::F32 && dtype != DType::F16 && dtype != DType::BF16)
    return "for floating-point dtypes of 16 bits and more";
  GemmLayout l;
  if (const char* reason = lay_out(g, l)) return reason;
  if (l.m != 1 || l.batch[0] * l.batch[1] != 1) return "for a matrix times a vector";
  if (!l.b.along_k || !l.a.along_k) return "the sums go along the matrix's strided dimension";
  if (l.n < kLeastRows || l.n > kMostRows) return "too few or too many sums";
  const size_t size = size_of(dtype);
  if (!is_aligned(l.b.address, l.b.ld, size) || l.a.address % 16 != 0)
    return "rows do not start at multiples of 16 bytes";
  if (l.addend == Addend::General) return "what is added has strides";
  plan.variant = takes_warps(l, size) ? "warps" : "blocks";
  return nullptr;
}

void run_gemv(const GemmCall& g, const Call&, const Plan&) {
  static const Function kernels[2][4] = {
    {{"gemv", "gemv_few_f64"}, {"gemv", "gemv_few_f32"}, {"gemv", "gemv_few_f16"}, {"gemv", "gemv_few_bf16"}},
    {{"gemv", "gemv_f64"}, {"gemv", "gemv_f32"}, {"gemv", "gemv_f16"}, {"gemv", "gemv_bf16"}},
  };
  GemmLayout l;
  lay_out(g, l);
  const DType dtype = g.c.dtype();
  const size_t type = dtype == DType::F64 ? 0 : dtype == DType::F32 ? 1 : dtype == DType::F16 ? 2 : 3;
  const bool many = takes_warps(l, size_of(dtype));
  const GemvParams p{l.b.address, l.a.address, l.c, l.in, l.n, l.k, l.b.ld, l.alpha, l.beta};
  const int64_t groups = many ? kGemvThreads / 32 : 1;
  stream_of(g.c->device).launch(kernels[many][type], {blocks_for(l.n, groups * kGemvRows)}, {kGemvThreads}, 0, p);
}

}  // namespace strata::cuda
