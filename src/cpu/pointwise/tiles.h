// Fused pointwise ops: a list of formulas computed tile by tile, so that intermediate results stay in the L1 cache. The loops
// are those of the single ops, so the results have the same bits.
#pragma once
#include "record/fused.h"

namespace strata::cpu {

void run_tiles(const FusedProgram& program);

// The loop of a formula for float, double or int64_t; null if it is not compiled.
template <class T> Loop<T> tile_loop(const Formula& f) {
  if constexpr (std::is_same_v<T, float>) return f.loops.f32;
  else if constexpr (std::is_same_v<T, double>) return f.loops.f64;
  else return f.loops.i64;
}

}  // namespace strata::cpu
