// Launches the kernels of cuda/creation/permutation.cu around a sort.
#include "cuda/creation/permutation.h"

#include <algorithm>
#include <bit>

#include "cuda/common/tensors.h"
#include "cuda/creation/permutation_params.h"
#include "cuda/order/radix.h"
#include "cuda/runtime/graph.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {

void fill_permutation(const TensorImpl& out, Generator& generator, Workspace& workspace) {
  static const Function draw_keys("permutation", "permutation_keys"), write("permutation", "permutation_order");
  constexpr int64_t kThreads = 256;
  const int64_t n = out.numel;
  if (n == 0) return;
  STRATA_CHECK(n <= INT32_MAX, NotImplemented,
               "randperm: {} elements are more than the device kernels sort; at most {}", n, INT32_MAX);
  // Whole digits, of which at most one in sixteen is used on average.
  const int wanted = static_cast<int>(std::bit_width(static_cast<uint64_t>(n))) + 4,
            bits = std::min(32, (wanted + 7) / 8 * 8);
  const Tensor keys = workspace.take(n, DType::I32), sorted = workspace.take(n, DType::I32),
               places = workspace.take(n, DType::I32);
  RadixSort sort{1, n, n};
  sort.bits = bits;
  PermutationParams p{};
  if (!workspace.planning()) {
    const RandomDraw draw = Graph::reserve(generator, static_cast<uint64_t>(ceil_div(n, 2)), out.device);
    p.keys = address(*keys);
    p.count = n;
    p.seed = draw.seed;
    p.first = draw.first;
    p.base = draw.base;
    p.shift = 32 - bits;
    stream_of(out.device).launch(draw_keys, {blocks_for(n, 2 * kThreads)}, {kThreads}, 0, p);
  }
  radix_sort(sort, *keys, sorted.get(), places.get(), workspace);
  if (workspace.planning()) return;
  p.keys = address(*sorted);
  p.places = address(*places);
  p.out = address(out);
  stream_of(out.device).launch(write, {blocks_for(n, kThreads)}, {kThreads}, 0, p);
}

}  // namespace strata::cuda
