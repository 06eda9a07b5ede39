// What the launchers of Hopper's products share: tile shapes and their cost, and the descriptions of matrices for TMA.
#pragma once
#include "cuda/linalg/gemm_hopper_params.h"
#include "cuda/linalg/gemm_layout.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {

// A tile shape and its cost: once per launch, per wave of tiles, and per step of k in a wave. Fitted to 260
// measurements on an H200; the chosen shape is on average 2% slower than the best one. Only ratios matter, so other
// clock rates give the same choice.
struct HopperTiles {
  const char* name;
  hopper::TileShape shape;
  int once_ns, wave_ns, step_ns;
};
inline constexpr HopperTiles kHopperTiles[] = {
  {"huge", hopper::kHuge, 2973, 1729, 602},  {"wide", hopper::kWide, 3744, 1150, 455},
  {"large", hopper::kLarge, 3131, 871, 333}, {"medium", hopper::kMedium, 1777, 568, 260},
  {"small", hopper::kSmall, 1911, 530, 310}, {"flat", hopper::kFlat, 0, 0, 0},  // always used for few rows
};
enum HopperTile : size_t { kHugeTiles, kWideTiles, kLargeTiles, kMediumTiles, kSmallTiles, kFlatTiles };
inline constexpr uint32_t kAllHopperTiles = (1u << std::size(kHopperTiles)) - 1;

struct HopperChoice {
  size_t tiles;
  int64_t time_ns;
};
// The fastest of the allowed tile shapes (a mask). k is in units of two bytes.
HopperChoice choose_hopper_tiles(const GemmLayout& l, int multiprocessors, uint32_t allowed = kAllHopperTiles);

int64_t hopper_slots(const hopper::TileShape& t, int multiprocessors);  // clusters that run at a time
int64_t hopper_waves(const hopper::TileShape& t, const GemmLayout& l, int multiprocessors);
bool fits_hopper(const GemmLayout& l, const hopper::TileShape& t);  // 32-bit integers suffice

struct HopperLaunch {
  hopper::GemmArgs args;
  driver::CUtensorMap a, b, d;
  uint32_t blocks, shared_bytes;
};
// dtype: of 16 bits; TMA only copies. tma_stores: whether it may write the result.
HopperLaunch describe_hopper(const Gpu& gpu, DType dtype, const GemmLayout& l, const hopper::TileShape& t,
                             bool tma_stores);

}  // namespace strata::cuda
