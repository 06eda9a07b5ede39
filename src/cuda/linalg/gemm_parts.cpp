#include "cuda/linalg/gemm_parts.h"

#include <algorithm>
#include <array>

#include "cuda/common/tensors.h"
#include "cuda/linalg/gemm_parts_params.h"
#include "cuda/linalg/hopper_launch.h"
#include "cuda/linalg/realign.h"
#include "cuda/pointwise/pointwise.h"
#include "record/precision.h"

namespace strata::cuda {
namespace {

// --- factors of float32 ----------------------------------------------------------------------------------------------

constexpr int64_t kFloatPitch = 32;  // rows of copies are whole lines of the cache

// Whether tensor cores can read float32 factors in place: dense along k, in rows that begin at multiples of 16 bytes.
bool is_ready(const Factor& f, const int64_t (&batch)[GemmLayout::kBatchDims]) {
  return f.along_k && f.address % 16 == 0 && f.ld % 4 == 0 && batch[0] % 4 == 0 && batch[1] % 4 == 0;
}

// Copies a factor of `rows` rows into the workspace, dense along k. Without `launches` (while planning) it only counts.
void copy_along_k(const TensorImpl& like, Factor& f, int64_t rows, int64_t k, Workspace& space, bool launches) {
  const int64_t pitch = ceil_div(k, kFloatPitch) * kFloatPitch;
  const Tensor copied = space.take(Shape(std::array{rows, pitch}), DType::F32);
  if (launches) {
    const auto view = [&](const Tensor& t, int64_t row_step, int64_t k_step) {
      const int64_t shape[] = {rows, k};
      t->set_shape(Shape(shape, 2));
      t->strides[0] = row_step;
      t->strides[1] = k_step;
      t->update_contiguous();
      return t;
    };
    const Tensor from = alias(like);
    from->data = reinterpret_cast<std::byte*>(f.address);
    view(from, f.along_k ? f.ld : 1, f.along_k ? 1 : f.ld);
    copy(*view(alias(*copied), pitch, 1), *from);
    f.address = address(*copied);
  }
  f.along_k = true;
  f.ld = pitch;
}

// Makes both factors readable. Returns the reason if that takes copies of a batch.
const char* prepare_floats(const GemmCall& g, GemmLayout& l, Workspace& space, bool launches) {
  const bool single = l.batch[0] * l.batch[1] == 1;
  if (!is_ready(l.a, l.a_b)) {
    if (!single) return "a factor of a batch is not dense along k in aligned rows";
    copy_along_k(*g.a, l.a, l.m, l.k, space, launches);
  }
  if (!is_ready(l.b, l.b_b)) {
    if (!single) return "a factor of a batch is not dense along k in aligned rows";
    copy_along_k(*g.a, l.b, l.n, l.k, space, launches);
  }
  // In units of two bytes.
  l.k *= 2;
  for (Factor* f : {&l.a, &l.b}) f->ld *= 2;
  for (int d = 0; d < GemmLayout::kBatchDims; ++d) {
    l.a_b[d] *= 2;
    l.b_b[d] *= 2;
  }
  return nullptr;
}

const char* objection_to_tf32(DType dtype) {
  if (dtype != DType::F32) return "for float32";
  return allow_tf32_products() ? nullptr : "TF32 is off: see set_float32_matmul_precision";
}

bool has_pairs(uint64_t address, int64_t ld, const int64_t (&batch)[GemmLayout::kBatchDims]) {
  return address % 8 == 0 && ld % 2 == 0 && batch[0] % 2 == 0 && batch[1] % 2 == 0;
}

struct FloatPlan {
  HopperChoice choice;
  bool copies;  // copy_addend first
};
}  // namespace

const char* plan_gemm_hopper_tf32(const GemmCall& g, Plan& plan) {
  const TensorImpl& c = *g.c;
  if (const char* reason = objection_to_tf32(c.dtype)) return reason;
  const Properties& device = Runtime::gpu(c.device).properties;
  if (device.major != 9) return "for GPUs of compute capability 9.0 (Hopper)";
  GemmLayout l;
  if (const char* reason = lay_out(g, l)) return reason;
  Workspace space(plan);
  if (const char* reason = prepare_floats(g, l, space, false)) return reason;
  constexpr uint32_t kTiles = 1u << kHugeTiles | 1u << kLargeTiles | 1u << kMediumTiles | 1u << kFlatTiles;
  const HopperChoice choice = choose_hopper_tiles(l, device.multiprocessors, kTiles);
  if (!fits_hopper(l, kHopperTiles[choice.tiles].shape)) return "a size is too large for 32 bits";
  plan.keep(FloatPlan{choice, l.addend == Addend::General});
  plan.variant = kHopperTiles[choice.tiles].name;
  return nullptr;
}

void run_gemm_hopper_tf32(const GemmCall& g, const Call& call, const Plan& plan) {
  static const Function kernels[] = {
    {"gemm_tf32", "huge"}, {"gemm_tf32", "large"}, {"gemm_tf32", "medium"}, {"gemm_tf32", "flat"}};
  const auto p = plan.get<FloatPlan>();
  const Stream stream = stream_of(g.c->device);
  Gpu& gpu = stream.gpu();
  gpu.activate();
  GemmLayout l;
  lay_out(g, l);
  if (p.copies) copy_addend(g, l);
  Workspace space(call);
  prepare_floats(g, l, space, true);
  const HopperLaunch launch = describe_hopper(gpu, DType::BF16, l, kHopperTiles[p.choice.tiles].shape, false);
  const hopper::FloatArgs args{launch.args, has_pairs(l.c, l.c_ld, l.c_b)};
  const size_t t = p.choice.tiles;
  const size_t place = t == kHugeTiles ? 0 : t == kLargeTiles ? 1 : t == kMediumTiles ? 2 : 3;
  stream.launch(kernels[place], {launch.blocks}, {hopper::kThreads}, launch.shared_bytes, launch.a, launch.b, args);
}

// --- sums in parts ---------------------------------------------------------------------------------------------------

namespace {

// Cost as of kHopperTiles, which has the same loop.
struct PartTiles {
  const char* name;
  hopper::TileShape shape;
  HopperTile like;
};
constexpr PartTiles kPartTiles[] = {{"square", hopper::kSquare, kLargeTiles},
                                    {"medium", hopper::kMedium, kMediumTiles}};
constexpr int64_t kLeastSteps = 8, kMostParts = 32;  // of a part; of a product

struct PartsPlan {
  size_t tiles;
  int32_t parts;
  int64_t time_ns;
  bool copies;  // copy_addend first
};

// The fastest tiles and number of parts.
PartsPlan choose_parts(const GemmLayout& l, int multiprocessors) {
  constexpr int64_t kFoldNs = 2000, kBytesPerNs = 3000;  // the second launch; parts are written to L2 and read again
  const int64_t steps = ceil_div(l.k, hopper::kTileK);
  PartsPlan best{0, 0, INT64_MAX, l.addend == Addend::General};
  for (size_t i = 0; i < std::size(kPartTiles); ++i) {
    const hopper::TileShape& t = kPartTiles[i].shape;
    const HopperTiles& cost = kHopperTiles[kPartTiles[i].like];
    const int64_t tiles = ceil_div(l.m, t.m) * ceil_div(l.n, t.n);
    for (int64_t parts = 2; parts <= std::min(steps / kLeastSteps, kMostParts); ++parts) {
      const int64_t depth = ceil_div(steps, parts), waves = ceil_div(tiles * parts, multiprocessors);
      if (ceil_div(steps, depth) != parts) continue;  // the last part would be empty
      const int64_t time = cost.once_ns + waves * (cost.wave_ns + depth * cost.step_ns) + kFoldNs +
                           2 * 4 * parts * l.m * l.n / kBytesPerNs;
      if (time < best.time_ns) best = {i, static_cast<int32_t>(parts), time, best.copies};
    }
  }
  return best;
}

const Function& kernel_of_parts(DType dtype, size_t tiles, bool b_along_k) {
  static const Function tf32[] = {{"gemm_tf32", "parts_square"}, {"gemm_tf32", "parts_medium"}};
  static const Function halves[2][2][2] = {{{{"gemm_parts", "f16_square_nt"}, {"gemm_parts", "f16_square_nn"}},
                                            {{"gemm_parts", "f16_medium_nt"}, {"gemm_parts", "f16_medium_nn"}}},
                                           {{{"gemm_parts", "bf16_square_nt"}, {"gemm_parts", "bf16_square_nn"}},
                                            {{"gemm_parts", "bf16_medium_nt"}, {"gemm_parts", "bf16_medium_nn"}}}};
  return dtype == DType::F32 ? tf32[tiles] : halves[dtype == DType::BF16][tiles][b_along_k];
}

Tensor take_sums_of_parts(Workspace& space, const GemmLayout& l, int64_t parts) {
  return space.take(Shape(std::array{parts, l.m, l.n}), DType::F32);
}
}  // namespace

const char* plan_gemm_hopper_parts(const GemmCall& g, Plan& plan) {
  const TensorImpl& c = *g.c;
  const bool floats = c.dtype == DType::F32;
  if (!floats && c.dtype != DType::F16 && c.dtype != DType::BF16) return "for float16, bfloat16 and TF32";
  if (floats)
    if (const char* reason = objection_to_tf32(c.dtype)) return reason;
  const Properties& device = Runtime::gpu(c.device).properties;
  if (device.major != 9) return "for GPUs of compute capability 9.0 (Hopper)";
  GemmLayout l;
  if (const char* reason = lay_out(g, l)) return reason;
  if (l.batch[0] * l.batch[1] != 1) return "for products of two matrices";
  Workspace space(plan);
  if (floats) {
    if (const char* reason = prepare_floats(g, l, space, false)) return reason;
  } else {
    if (!l.a.along_k) return "the left factor is not dense along k";
    if (!rows_are_aligned(l.a.address, l.a.ld, l.a_b) || !rows_are_aligned(l.b.address, l.b.ld, l.b_b))
      return "rows do not begin at multiples of 16 bytes";
  }
  const PartsPlan p = choose_parts(l, device.multiprocessors);
  if (p.parts == 0) return "the sums are short";
  if (!fits_hopper(l, kPartTiles[p.tiles].shape) || l.m * l.n > INT32_MAX / 2) return "a size is too large for 32 bits";
  if (p.time_ns >= choose_hopper_tiles(l, device.multiprocessors).time_ns) return "whole sums take less time";
  plan.keep(p);
  plan.variant = kPartTiles[p.tiles].name;
  take_sums_of_parts(space, l, p.parts);
  return nullptr;
}

void run_gemm_hopper_parts(const GemmCall& g, const Call& call, const Plan& plan) {
  static const Function fold{"gemm_parts", "fold_parts"};
  const auto p = plan.get<PartsPlan>();
  const DType dtype = g.c->dtype;
  const Stream stream = stream_of(g.c->device);
  Gpu& gpu = stream.gpu();
  gpu.activate();
  GemmLayout l;
  lay_out(g, l);
  if (p.copies) copy_addend(g, l);
  Workspace space(call);
  if (dtype == DType::F32) prepare_floats(g, l, space, true);
  const Tensor partial = take_sums_of_parts(space, l, p.parts);
  const hopper::TileShape& shape = kPartTiles[p.tiles].shape;
  HopperLaunch launch = describe_hopper(gpu, dtype == DType::F32 ? DType::BF16 : dtype, l, shape, false);
  hopper::FoldArgs folded{launch.args, address(*partial), p.parts, tag(*g.c), 0};
  const auto size = static_cast<int64_t>(size_of(dtype));
  const auto has_quads = [&](uint64_t address, int64_t ld) {
    return address % static_cast<uint64_t>(4 * size) == 0 && ld % 4 == 0;
  };
  const bool adds_quads = l.addend == Addend::None || has_quads(l.in, l.addend == Addend::Row ? 0 : l.in_m);
  folded.quads = l.n % 4 == 0 && has_quads(l.c, l.m > 1 ? l.c_ld : 0) && adds_quads;
  launch.args.d = address(*partial);
  launch.args.batches = p.parts;
  const int64_t tiles = ceil_div(l.m, shape.m) * ceil_div(l.n, shape.n);
  const auto blocks = static_cast<uint32_t>(std::min<int64_t>(tiles * p.parts, gpu.properties.multiprocessors));
  const hopper::FloatArgs args{launch.args, l.n % 2 == 0};
  stream.launch(kernel_of_parts(dtype, p.tiles, l.b.along_k), {blocks}, {hopper::kThreads}, launch.shared_bytes,
                launch.a, launch.b, args);
  stream.launch(fold, {blocks_for(l.m * l.n, int64_t{hopper::kFoldThreads} * (folded.quads ? 4 : 1))},
                {hopper::kFoldThreads}, 0, folded);
}

}  // namespace strata::cuda
