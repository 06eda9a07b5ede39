// Launches the kernels of cuda/reduce/scan.cu; assigns threads to lines, and splits lines into parts.
#include "cuda/reduce/scan.h"

#include <algorithm>
#include <array>

#include "cuda/movement/dense.h"
#include "cuda/reduce/scan_params.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {
namespace {

constexpr int64_t kThreads = 256, kWarps = 8;
constexpr int64_t kManyLines = 4096;  // enough to keep the device busy with one thread each
constexpr int64_t kEnoughBlocks = 512;
constexpr int64_t kPart = 1 << 14;  // minimum elements of a part
constexpr int64_t kMostParts = 4096;

// The kernels of one kind of scan by compute type.
using Kernels = std::array<Function, 3>;

void launch(const Kernels& kernels, const TensorImpl& x, const Split& s, const TensorImpl& out,
            const TensorImpl* places) {
  ScanParams p{};
  p.x = address(x);
  p.x_type = tag(x);
  p.out = address(out);
  p.out_type = tag(out);
  if (places) p.places = address(*places);
  p.lines = s.lines();
  p.n = s.n;
  p.inner = s.inner;
  p.part = s.n;
  p.parts = 1;
  const DType compute = compute_type(out.dtype);
  const Function& kernel = kernels[kernel_index(compute)];
  const Stream stream = stream_of(out.device);
  if (p.inner > 1 && p.lines >= kManyLines) {
    p.walk = 1;
    return stream.launch(kernel, {blocks_for(p.lines, kThreads)}, {kThreads}, 0, p);
  }
  const auto items = 16 / size_of(compute);
  p.vectors = p.inner == 1 && (p.lines == 1 || p.n % static_cast<int64_t>(items) == 0) &&
              p.x % (items * size_of(x.dtype)) == 0 && p.out % (items * size_of(out.dtype)) == 0;
  p.warps = p.n <= kThreads ? 1 : kWarps;
  const uint32_t blocks = p.warps == 1 ? blocks_for(p.lines, kWarps) : static_cast<uint32_t>(p.lines);
  const int64_t parts = blocks >= kEnoughBlocks ? 1 : std::clamp<int64_t>(p.n / kPart, 1, kMostParts);
  if (parts == 1) return stream.launch(kernel, {blocks}, {kThreads}, 0, p);

  constexpr int64_t kTile = kThreads * 4;
  p.part = ((p.n + parts - 1) / parts + kTile - 1) / kTile * kTile;
  p.parts = (p.n + p.part - 1) / p.part;
  const Grid grid{blocks, static_cast<uint32_t>(p.parts)};
  const DType wide = places || compute == DType::I64 ? compute : DType::F64;
  const auto table = [&](DType t) { return make_tensor(Shape(std::array{p.lines, p.parts}), t, out.device); };
  const Tensor totals = table(wide), scanned = table(wide), total_places = places ? table(DType::I64) : Tensor(),
               from_parts = places ? table(DType::I64) : Tensor();
  ScanParams first = p;
  first.totals = 1;
  first.out = address(*totals);
  first.places = places ? address(*total_places) : 0;
  stream.launch(kernel, grid, {kThreads}, 0, first);
  launch(kernels, *totals, Split(*totals, 1), *scanned, places ? from_parts.get() : nullptr);
  p.carry = address(*scanned);
  if (places) {
    p.carry_parts = address(*from_parts);
    p.carry_places = address(*total_places);
  }
  stream.launch(kernel, grid, {kThreads}, 0, p);
}
}  // namespace

void scan(Scan kind, const TensorImpl& x, int dim, const TensorImpl& out) {
  static const Kernels kernels[] = {{{{"scan", "sum_f32"}, {"scan", "sum_f64"}, {"scan", "sum_i64"}}},
                                    {{{"scan", "prod_f32"}, {"scan", "prod_f64"}, {"scan", "prod_i64"}}},
                                    {{{"scan", "log_sum_f32"}, {"scan", "log_sum_f64"}, {"scan", ""}}}};
  if (x.numel == 0) return;
  const Tensor from = dense(x);
  const DenseOut to(out);
  launch(kernels[static_cast<int>(kind)], *from, Split(x, dim), *to, nullptr);
  to.finish();
}

void scan_extremes(bool largest, const TensorImpl& x, int dim, const TensorImpl& values, const TensorImpl& indices) {
  static const Kernels kernels[] = {{{{"scan", "least_f32"}, {"scan", "least_f64"}, {"scan", "least_i64"}}},
                                    {{{"scan", "most_f32"}, {"scan", "most_f64"}, {"scan", "most_i64"}}}};
  if (x.numel == 0) return;
  const Tensor from = dense(x);
  const DenseOut to(values), places(indices);
  launch(kernels[largest], *from, Split(x, dim), *to, &*places);
  to.finish();
  places.finish();
}

}  // namespace strata::cuda
