#include "cuda/linalg/grouped.h"

#include <algorithm>
#include <utility>

#include "cuda/common/tensors.h"
#include "cuda/runtime/faults.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {
namespace {

constexpr int64_t kMostInY = 65535;
enum Layout : size_t { kNn, kNt, kTn, kTt, kAny };  // n: k is the dense dimension of the factor

const Function& kernel_of(DType dtype, Layout layout, bool by_depth) {
#define STRATA_FIVE(file, end)                                                                        \
  {                                                                                                   \
    {file, "large_nn" end}, {file, "large_nt" end}, {file, "large_tn" end}, {file, "large_tt" end}, { \
      file, "any" end                                                                                 \
    }                                                                                                 \
  }
  static const Function halves[2][2][5] = {{STRATA_FIVE("grouped_f16", ""), STRATA_FIVE("grouped_f16", "_depth")},
                                           {STRATA_FIVE("grouped_bf16", ""), STRATA_FIVE("grouped_bf16", "_depth")}};
#undef STRATA_FIVE
  static const Function wide[2][2] = {{{"grouped_wide", "f32"}, {"grouped_wide", "f32_depth"}},
                                      {{"grouped_wide", "f64"}, {"grouped_wide", "f64_depth"}}};
  if (size_of(dtype) == 2) return halves[dtype == DType::BF16][by_depth][layout];
  return wide[dtype == DType::F64][by_depth];
}

uint32_t shared_bytes(DType dtype, int tile) {  // of gemm_template.cuh: four stages, or the rows of a result
  if (size_of(dtype) != 2) return static_cast<uint32_t>(4 * 16 * 2 * (tile + 4) * static_cast<int>(size_of(dtype)));
  return static_cast<uint32_t>(std::max(4 * 2 * tile * 32 * 2, tile * (tile + 8) * 2));
}

bool is_aligned(uint64_t address, int64_t ld, int64_t group) {
  return address % 16 == 0 && ld % 8 == 0 && group % 8 == 0;
}

// The order of a factor whose other dimension is `outer`: whether k is dense. False if it must be copied by elements.
bool find_order(uint64_t address, int64_t outer_step, int64_t k_step, int64_t group_step, bool k_is_divided,
                bool& along_k) {
  along_k = k_step == 1;
  if (along_k) return !k_is_divided && is_aligned(address, outer_step, group_step);
  return outer_step == 1 && is_aligned(address, k_step, group_step);
}
}  // namespace

const char* grouped_product_rejects(const TensorImpl& out) {
  return Runtime::gpu(out.device).properties.major < 8 ? "for GPUs of compute capability 8.0 and newer" : nullptr;
}

GroupedCall describe_groups(const TensorImpl& a, const TensorImpl& b, const TensorImpl& offsets,
                            const TensorImpl& out) {
  GroupedCall g{};
  GroupedParams& p = g.params;
  const bool by_columns = a.ndim == 3;
  g.by_depth = a.ndim == 2 && b.ndim == 2;
  const auto last = [](const TensorImpl& t, int from_end) { return t.strides[t.ndim - from_end]; };
  p.m = a.shape[a.ndim - 2];
  p.k = a.shape[a.ndim - 1];
  p.n = b.shape[b.ndim - 1];
  p.a_m = last(a, 2);
  p.a_k = last(a, 1);
  p.b_k = last(b, 2);
  p.b_n = last(b, 1);
  p.c_m = last(out, 2);
  p.c_n = last(out, 1);
  p.a_g = a.ndim == 3 ? a.strides[0] : 0;
  p.b_g = b.ndim == 3 ? b.strides[0] : 0;
  p.c_g = out.ndim == 3 ? out.strides[0] : 0;
  p.a = address(a);
  p.b = address(b);
  p.c = address(out);
  p.offsets = address(offsets);
  p.groups = static_cast<int32_t>(offsets.numel);
  if (by_columns) {  // the transposed product has groups of rows
    std::swap(p.m, p.n);
    std::swap(p.a, p.b);
    std::swap(p.a_m, p.b_n);
    std::swap(p.a_k, p.b_k);
    std::swap(p.a_g, p.b_g);
    std::swap(p.c_m, p.c_n);
  }
  STRATA_CHECK(std::max({p.m, p.n, p.k}) <= INT32_MAX / 2, Runtime, "_grouped_mm: a size of {} is too large",
               std::max({p.m, p.n, p.k}));
  const bool a_fits = find_order(p.a, p.a_m, p.a_k, p.a_g, g.by_depth, g.a_along_k);
  const bool b_fits = find_order(p.b, p.b_n, p.b_k, p.b_g, g.by_depth, g.b_along_k);
  g.aligned = a_fits && b_fits;
  p.wide_stores = size_of(out.dtype) == 2 && p.c_n == 1 && is_aligned(p.c, p.c_m, p.c_g);
  return g;
}

void grouped_product(const TensorImpl& a, const TensorImpl& b, const TensorImpl& offsets, const TensorImpl& out) {
  GroupedCall g = describe_groups(a, b, offsets, out);
  GroupedParams& p = g.params;
  const bool is_half = size_of(out.dtype) == 2;
  const auto layout = g.aligned ? static_cast<Layout>((g.a_along_k ? 0 : 2) + (g.b_along_k ? 0 : 1)) : kAny;
  const int tile = is_half && layout != kAny ? kGroupedLarge : kGroupedSmall;
  const Stream stream = stream_of(out.device);
  p.faults = fault_sink(stream.gpu());
  Grid grid{};
  if (g.by_depth) {
    grid = {static_cast<uint32_t>(ceil_div(p.m, tile) * ceil_div(p.n, tile)),
            static_cast<uint32_t>(std::min<int64_t>(p.groups, kMostInY))};
  } else {
    // A group has at most one tile that is not full; one more for the rows after the last group, and one where a group
    // begins within eight rows.
    STRATA_CHECK(ceil_div(p.n, tile) <= kMostInY, Runtime, "_grouped_mm: {} columns are too many", p.n);
    grid = {static_cast<uint32_t>(ceil_div(p.m + 8 * int64_t{p.groups}, tile) + p.groups + 1),
            static_cast<uint32_t>(ceil_div(p.n, tile))};
  }
  const auto threads = static_cast<uint32_t>(is_half ? 2 * tile : 256);
  stream.launch(kernel_of(out.dtype, layout, g.by_depth), grid, {threads}, shared_bytes(out.dtype, tile), p);
}

}  // namespace strata::cuda
