#include "cuda/linalg/gemm_mma.h"

#include <algorithm>
#include <array>

#include "cuda/common/tensors.h"
#include "cuda/linalg/gemm_mma_params.h"
#include "cuda/linalg/gemm_split_params.h"
#include "cuda/linalg/realign.h"

namespace strata::cuda {
namespace {

constexpr int64_t kMostTileBatches = 65535;

struct MmaPlan {
  int tile;
  bool copies;  // copy_addend first
};

const Function& kernel_of(DType dtype, int tile, bool a_along_k, bool b_along_k) {
#define STRATA_FOUR(file, name)                 \
  {                                             \
    {{file, name "_tt"}, {file, name "_tn"}}, { \
      {file, name "_nt"}, { file, name "_nn" }  \
    }                                           \
  }
#define STRATA_FILE(file) \
  { STRATA_FOUR(file, "small"), STRATA_FOUR(file, "large") }
  static const Function kernels[2][2][2][2] = {STRATA_FILE("gemm_mma_f16"), STRATA_FILE("gemm_mma_bf16")};
#undef STRATA_FILE
#undef STRATA_FOUR
  return kernels[dtype == DType::BF16][tile == kMmaLarge][a_along_k][b_along_k];
}

int64_t tiles_of(const GemmLayout& l, int tile) { return ceil_div(l.m, tile) * ceil_div(l.n, tile); }

MmaParams parameters(const GemmLayout& l) {
  MmaParams p{};
  p.a = l.a.address;
  p.b = l.b.address;
  p.c = l.c;
  p.in = l.in;
  p.lda = l.a.ld;
  p.ldb = l.b.ld;
  p.ldc = l.c_ld;
  p.in_ld = l.in_m;
  std::copy_n(l.a_b, 2, p.a_b);
  std::copy_n(l.b_b, 2, p.b_b);
  std::copy_n(l.c_b, 2, p.c_b);
  std::copy_n(l.in_b, 2, p.in_b);
  p.m = static_cast<int32_t>(l.m);
  p.n = static_cast<int32_t>(l.n);
  p.k = static_cast<int32_t>(l.k);
  p.inner = static_cast<int32_t>(l.batch[1]);
  p.batches = static_cast<int32_t>(l.batch[0] * l.batch[1]);
  p.addend = l.addend == Addend::None ? kMmaAddNothing : l.addend == Addend::Row ? kMmaAddRow : kMmaAddMatrix;
  p.aligned = rows_are_aligned(l.c, l.c_ld, l.c_b);
  p.alpha = static_cast<float>(l.alpha);
  p.beta = static_cast<float>(l.beta);
  return p;
}
// What both kinds of kernels need.
const char* lay_out_for_mma(const GemmCall& g, GemmLayout& l) {
  const TensorImpl& c = *g.c;
  if (c.dtype != DType::F16 && c.dtype != DType::BF16) return "for float16 and bfloat16";
  if (Runtime::gpu(c.device).properties.major < 8) return "for GPUs of compute capability 8.0 and newer";
  if (const char* reason = lay_out(g, l)) return reason;
  return l.m == 1 || l.n == 1 ? "for products of two matrices" : nullptr;
}
}  // namespace

const char* plan_gemm_mma(const GemmCall& g, Plan& plan) {
  GemmLayout l;
  if (const char* reason = lay_out_for_mma(g, l)) return reason;
  const Properties& device = Runtime::gpu(g.c->device).properties;
  // Small tiles if large ones would leave multiprocessors idle.
  const bool large = tiles_of(l, kMmaLarge) * l.batch[0] * l.batch[1] >= device.multiprocessors;
  const MmaPlan p{large ? kMmaLarge : kMmaSmall, l.addend == Addend::General};
  if (!fits_32_bits(l) || tiles_of(l, p.tile) > INT32_MAX / 2) return "a size is too large for 32 bits";
  plan.keep(p);
  plan.variant = large ? "128x128" : "64x64";
  realign_factors(l, Workspace(plan), nullptr);
  return nullptr;
}

void run_gemm_mma(const GemmCall& g, const Call& call, const Plan& plan) {
  const auto p = plan.get<MmaPlan>();
  const Stream stream = stream_of(g.c->device);
  GemmLayout l;
  lay_out(g, l);
  if (p.copies) copy_addend(g, l);
  realign_factors(l, Workspace(call), &stream);
  const auto batches = static_cast<uint32_t>(std::min(l.batch[0] * l.batch[1], kMostTileBatches));
  stream.launch(kernel_of(g.c->dtype, p.tile, l.a.along_k, l.b.along_k),
                {static_cast<uint32_t>(tiles_of(l, p.tile)), batches}, {static_cast<uint32_t>(mma_threads(p.tile))},
                static_cast<uint32_t>(mma_shared_bytes(p.tile)), parameters(l));
}

// --- sums in parts ---------------------------------------------------------------------------------------------------

namespace {

// Splitting pays if whole sums would leave most multiprocessors of a large GPU idle. The numbers of parts depend on the
// shape only.
constexpr int64_t kMostTiles = 33, kWantedBlocks = 264, kMostTileParts = 128;
constexpr int64_t kLeastPartDepth = 512, kLeastParts = 4;

struct MmaPartsPlan {
  int32_t parts, depth;
  bool copies;  // copy_addend first
};

Tensor take_partial(Workspace& space, const GemmLayout& l, int64_t parts) {
  return space.take(Shape(std::array{parts, l.batch[0] * l.batch[1], l.m, l.n}), DType::F32);
}
}  // namespace

const char* plan_gemm_mma_parts(const GemmCall& g, Plan& plan) {
  GemmLayout l;
  if (const char* reason = lay_out_for_mma(g, l)) return reason;
  const int64_t batches = l.batch[0] * l.batch[1], tiles = tiles_of(l, kSplitTile) * batches;
  if (tiles > kMostTiles) return "the result has enough tiles";
  const int64_t wanted = std::min({kWantedBlocks / tiles, l.k / kLeastPartDepth, kMostTileParts});
  if (wanted < kLeastParts) return "the sums are short";
  if (!fits_32_bits(l)) return "a size is too large for 32 bits";
  const int64_t depth = ceil_div(ceil_div(l.k, wanted), kMmaDepth) * kMmaDepth, parts = ceil_div(l.k, depth);
  plan.keep(MmaPartsPlan{static_cast<int32_t>(parts), static_cast<int32_t>(depth), l.addend == Addend::General});
  Workspace space(plan);
  take_partial(space, l, parts);
  realign_factors(l, space, nullptr);
  return nullptr;
}

void run_gemm_mma_parts(const GemmCall& g, const Call& call, const Plan& plan) {
  static const Function kernels[2][2][2] = {
    {{{"gemm_split", "f16_tt"}, {"gemm_split", "f16_tn"}}, {{"gemm_split", "f16_nt"}, {"gemm_split", "f16_nn"}}},
    {{{"gemm_split", "bf16_tt"}, {"gemm_split", "bf16_tn"}}, {{"gemm_split", "bf16_nt"}, {"gemm_split", "bf16_nn"}}}};
  static const Function adders[] = {{"gemm_split", "add_f16"}, {"gemm_split", "add_bf16"}};
  const auto p = plan.get<MmaPartsPlan>();
  const Stream stream = stream_of(g.c->device);
  GemmLayout l;
  lay_out(g, l);
  if (p.copies) copy_addend(g, l);
  Workspace space(call);
  const Tensor partial = take_partial(space, l, p.parts);
  realign_factors(l, space, &stream);
  const SplitParams s{parameters(l), address(*partial), p.parts, p.depth};
  const bool is_bf16 = g.c->dtype == DType::BF16;
  stream.launch(kernels[is_bf16][l.a.along_k][l.b.along_k],
                {static_cast<uint32_t>(tiles_of(l, kSplitTile)), static_cast<uint32_t>(s.product.batches),
                 static_cast<uint32_t>(p.parts)},
                {static_cast<uint32_t>(mma_threads(kSplitTile))}, static_cast<uint32_t>(mma_shared_bytes(kSplitTile)),
                s);
  stream.launch(adders[is_bf16], {blocks_for(l.batch[0] * l.batch[1] * l.m * l.n, 32)}, {kSplitFoldThreads}, 0, s);
}

}  // namespace strata::cuda
