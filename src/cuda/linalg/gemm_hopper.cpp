#include "cuda/linalg/gemm_hopper.h"

#include "cuda/common/tensors.h"
#include "cuda/linalg/gemm_mma.h"
#include "cuda/linalg/hopper_launch.h"
#include "cuda/linalg/realign.h"

namespace strata::cuda {
namespace {

const Function& kernel_of(DType dtype, size_t tiles, bool a_along_k, bool b_along_k) {
#define STRATA_FOUR(file, name)                 \
  {                                             \
    {{file, name "_tt"}, {file, name "_tn"}}, { \
      {file, name "_nt"}, { file, name "_nn" }  \
    }                                           \
  }
#define STRATA_FILE(file)                                                                                          \
  {                                                                                                                \
    STRATA_FOUR(file, "huge"), STRATA_FOUR(file, "wide"), STRATA_FOUR(file, "large"), STRATA_FOUR(file, "medium"), \
      STRATA_FOUR(file, "small"), STRATA_FOUR(file, "flat")                                                        \
  }
  static const Function kernels[2][std::size(kHopperTiles)][2][2] = {STRATA_FILE("gemm_hopper_f16"),
                                                                     STRATA_FILE("gemm_hopper_bf16")};
#undef STRATA_FILE
#undef STRATA_FOUR
  return kernels[dtype == DType::BF16][tiles][a_along_k][b_along_k];
}

// Whether it was faster than cuBLASLt on an H200.
bool beats_cublaslt(const GemmLayout& l, HopperChoice choice, int multiprocessors) {
  constexpr int64_t kLaunchBoundNs = 10000;  // cuBLASLt takes longer to launch
  constexpr int64_t kBytesPerNs = 3000;
  const hopper::TileShape& t = kHopperTiles[choice.tiles].shape;
  const int64_t batches = l.batch[0] * l.batch[1], bytes = 2 * batches * (l.m * l.k + l.k * l.n + l.m * l.n);
  // The cost of the flat tiles includes reading the factors, that of the others assumes that L2 has them.
  const int64_t cold_ns = choice.time_ns + (choice.tiles == kFlatTiles ? 0 : bytes / kBytesPerNs);
  const bool few_rows = l.m <= hopper::kFlat.load_m;
  const bool aligned = rows_are_aligned(l.a.address, l.a.ld, l.a_b) && rows_are_aligned(l.b.address, l.b.ld, l.b_b) &&
                       rows_are_aligned(l.c, l.c_ld, l.c_b);
  // cuBLASLt has no fast kernels for misaligned rows. With few rows the copy costs more than the product.
  if (!aligned) return !few_rows || batches > 1 || 3 * choice.time_ns <= kLaunchBoundNs;
  if (cold_ns <= kLaunchBoundNs) return true;
  if (few_rows) return l.a.along_k && l.b.along_k;
  if (l.batch[0] > 1) return true;  // cuBLASLt would need a launch for each of the outer batch
  if (l.m <= 64 && l.n <= 64) return l.k <= 128 && batches >= 1024;
  // Many full waves, or short sums, for which writing the result takes most of the time.
  const int64_t waves = hopper_waves(t, l, multiprocessors), tile = int64_t{t.m} * t.n * t.cluster;
  const bool full = 20 * l.m * l.n * batches >= 19 * waves * hopper_slots(t, multiprocessors) * tile;
  return batches == 1 && full && (waves >= 7 || (l.k <= 128 && waves >= 4));
}

struct HopperPlan {
  HopperChoice choice;
  bool copies;  // copy_addend first
};

}  // namespace

const char* plan_gemm_hopper_ahead(const GemmCall& g, Plan& plan) {
  if (const char* reason = plan_gemm_hopper(g, plan)) return reason;
  GemmLayout l;
  lay_out(g, l);
  const int multiprocessors = Runtime::gpu(g.c->device).properties.multiprocessors;
  // A product in parts took 7 to 10 us on an H200 where few tiles with long sums took up to five times as long.
  constexpr int64_t kPartsNs = 9500;
  Plan in_parts;
  if (plan.get<HopperPlan>().choice.time_ns > kPartsNs && !plan_gemm_mma_parts(g, in_parts))
    return "few tiles with long sums: kernels that split the sums are faster";
  return beats_cublaslt(l, plan.get<HopperPlan>().choice, multiprocessors) ? nullptr
                                                                           : "cuBLASLt is faster for this shape";
}

const char* plan_gemm_hopper(const GemmCall& g, Plan& plan) {
  const TensorImpl& c = *g.c;
  if (c.dtype != DType::F16 && c.dtype != DType::BF16) return "for float16 and bfloat16";
  const Properties& device = Runtime::gpu(c.device).properties;
  if (device.major != 9) return "for GPUs of compute capability 9.0 (Hopper)";
  GemmLayout l;
  if (const char* reason = lay_out(g, l)) return reason;
  const HopperChoice choice = choose_hopper_tiles(l, device.multiprocessors);
  if (!fits_hopper(l, kHopperTiles[choice.tiles].shape)) return "a size is too large for 32 bits";
  plan.keep(HopperPlan{choice, l.addend == Addend::General});
  plan.variant = kHopperTiles[choice.tiles].name;
  realign_factors(l, Workspace(plan), nullptr);
  return nullptr;
}

void run_gemm_hopper(const GemmCall& g, const Call& call, const Plan& plan) {
  const auto p = plan.get<HopperPlan>();
  const DType dtype = g.c->dtype;
  const Stream stream = stream_of(g.c->device);
  Gpu& gpu = stream.gpu();
  gpu.activate();
  GemmLayout l;
  lay_out(g, l);
  if (p.copies) copy_addend(g, l);
  realign_factors(l, Workspace(call), &stream);
  const HopperLaunch launch = describe_hopper(gpu, dtype, l, kHopperTiles[p.choice.tiles].shape, true);
  stream.launch(kernel_of(dtype, p.choice.tiles, l.a.along_k, l.b.along_k), {launch.blocks}, {hopper::kThreads},
                launch.shared_bytes, launch.a, launch.b, launch.d, launch.args);
}

}  // namespace strata::cuda
