// Launches grouped products on Hopper (grouped_hopper.cuh).
#include "cuda/common/tensors.h"
#include "cuda/linalg/grouped.h"
#include "cuda/linalg/hopper_launch.h"
#include "cuda/runtime/faults.h"

namespace strata::cuda {
namespace {

const Function& kernel_of(DType dtype, HopperTile tiles, bool by_depth, bool b_along_k) {
#define STRATA_GROUPS(type)                                                                                         \
  {                                                                                                                 \
    {"grouped_hopper", "huge_nt_" type}, {"grouped_hopper", "huge_nn_" type}, {"grouped_hopper", "large_nt_" type}, \
      {"grouped_hopper", "large_nn_" type}, {"grouped_hopper", "medium_nt_" type},                                  \
      {"grouped_hopper", "medium_nn_" type}, {"grouped_hopper", "large_depth_" type},                               \
      {"grouped_hopper", "medium_depth_" type},                                                                     \
  }
  static const Function kernels[2][8] = {STRATA_GROUPS("f16"), STRATA_GROUPS("bf16")};
#undef STRATA_GROUPS
  const auto& list = kernels[dtype == DType::BF16];
  if (by_depth) return list[tiles == kLargeTiles ? 6 : 7];
  return list[(tiles == kHugeTiles ? 0 : tiles == kLargeTiles ? 2 : 4) + (b_along_k ? 1 : 0)];
}

GemmLayout layout_of(const GroupedCall& g) {
  const GroupedParams& p = g.params;
  GemmLayout l{};
  l.m = p.m;
  l.n = p.n;
  l.k = p.k;
  l.a = {g.a_along_k, g.a_along_k ? p.a_m : p.a_k, p.a};
  l.b = {g.b_along_k, g.b_along_k ? p.b_n : p.b_k, p.b};
  l.c = p.c;
  l.c_ld = p.c_m;
  l.addend = Addend::None;
  l.alpha = 1;
  l.batch[0] = 1;
  l.batch[1] = p.groups;
  l.a_b[1] = p.a_g;
  l.b_b[1] = p.b_g;
  l.c_b[1] = p.c_g;
  return l;
}

// Clusters of tiles, if all groups have the same size.
int64_t expected_clusters(const GroupedCall& g, const hopper::TileShape& t) {
  const GroupedParams& p = g.params;
  const int64_t rows = g.by_depth ? p.m : ceil_div(p.m, int64_t{p.groups});
  return ceil_div(rows, int64_t{t.m} * t.cluster) * ceil_div(p.n, t.n) * p.groups;
}

HopperTile choose_tiles(const GroupedCall& g, int multiprocessors) {
  const GroupedParams& p = g.params;
  const int64_t depth = g.by_depth ? ceil_div(p.k, int64_t{p.groups}) : p.k, steps = ceil_div(depth, hopper::kTileK);
  HopperTile best = kMediumTiles;
  int64_t least = INT64_MAX;
  for (const HopperTile i : {kHugeTiles, kLargeTiles, kMediumTiles}) {
    if (g.by_depth && i == kHugeTiles) continue;
    const HopperTiles& t = kHopperTiles[i];
    const int64_t waves = ceil_div(expected_clusters(g, t.shape), hopper_slots(t.shape, multiprocessors));
    const int64_t time = t.once_ns + waves * (t.wave_ns + steps * t.step_ns);
    if (time >= least) continue;
    least = time;
    best = i;
  }
  return best;
}
}  // namespace

const char* plan_grouped_hopper(const GroupedCall& g, const TensorImpl& out, Plan& plan) {
  if (out.dtype != DType::F16 && out.dtype != DType::BF16) return "for float16 and bfloat16";
  const Properties& device = Runtime::gpu(out.device).properties;
  if (device.major != 9) return "for GPUs of compute capability 9.0 (Hopper)";
  const GroupedParams& p = g.params;
  if (p.m == 0 || p.k == 0) return "there is nothing to multiply";
  if (p.c_n != 1) return "the rows of the result are not dense";
  if (!g.aligned) return "rows of the factors are not dense and aligned to 16 bytes";
  if (g.by_depth && (g.a_along_k || g.b_along_k)) return "parts of sums along the dense dimension of a factor";
  if (!g.by_depth && !g.a_along_k) return "rows of the first factor are not dense";
  const HopperTile tiles = choose_tiles(g, device.multiprocessors);
  if (!fits_hopper(layout_of(g), kHopperTiles[tiles].shape)) return "a size is too large for 32 bits";
  plan.variant = kHopperTiles[tiles].name;
  plan.keep(tiles);
  return nullptr;
}

void run_grouped_hopper(const GroupedCall& g, const TensorImpl& out, const Plan& plan) {
  const auto tiles = plan.get<HopperTile>();
  const hopper::TileShape& t = kHopperTiles[tiles].shape;
  const GroupedParams& p = g.params;
  const Stream stream = stream_of(out.device);
  Gpu& gpu = stream.gpu();
  gpu.activate();
  HopperLaunch launch = describe_hopper(gpu, out.dtype, layout_of(g), t, p.wide_stores);
  GroupedHopperArgs args{};
  args.gemm = launch.args;
  args.gemm.offsets = p.offsets;
  args.gemm.groups = p.groups;
  args.faults = fault_sink(gpu);
  // Of groups of rows, each may have a partial tile; the rows after the last count as one more.
  const int64_t most = g.by_depth ? expected_clusters(g, t)
                                  : (ceil_div(p.m, int64_t{t.m} * t.cluster) + p.groups + 1) * ceil_div(p.n, t.n);
  const int64_t clusters = std::min(most, hopper_slots(t, gpu.properties.multiprocessors));
  stream.launch(kernel_of(out.dtype, tiles, g.by_depth, g.b_along_k), {static_cast<uint32_t>(clusters * t.cluster)},
                {hopper::kThreads}, launch.shared_bytes, launch.a, launch.b, launch.d, args);
}

}  // namespace strata::cuda
