// Launches the kernels of cuda/reduce/scan.cu and scan_tiles.cu; assigns threads to lines.
#include "cuda/reduce/scan.h"

#include <array>
#include <string>

#include "cuda/movement/dense.h"
#include "cuda/reduce/scan_params.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {
namespace {

constexpr int64_t kThreads = 256, kWarps = 8;
constexpr int64_t kManyLines = 4096;  // enough to keep the device busy with one thread each
constexpr int64_t kEnoughBlocks = 512;
constexpr int64_t kLong = 1 << 14;  // minimum length of a line for several blocks

// The kernels of one kind of scan by compute type.
struct Kernels {
  explicit Kernels(const std::string& name)
      : lines{{"scan", name + "_f32"}, {"scan", name + "_f64"}, {"scan", name + "_i64"}},
        tiles{
          {"scan_tiles", name + "_tile_f32"}, {"scan_tiles", name + "_tile_f64"}, {"scan_tiles", name + "_tile_i64"}} {}
  Function lines[3], tiles[3];
};

// Lines that several blocks share.
void launch_tiles(const Function& kernel, ScanParams& p, int64_t element, Device device) {
  constexpr int64_t kState = 16;  // bytes, at most
  p.tiles = ceil_div(p.n, kThreads * kScanVectors * (16 / element));
  p.groups = ceil_div(p.tiles, kScanGroup);
  const int64_t tiles = p.lines * p.tiles, groups = p.lines * p.groups;
  const Tensor states = make_tensor(Shape(std::array{(tiles + 2 * groups) * kState}), DType::U8, device),
               flags = make_tensor(Shape(std::array{tiles + 2 * groups + 1}), DType::I32, device);
  fill(*flags, 0);
  const auto at = [](const Tensor& t, int64_t bytes) { return address(*t) + static_cast<uint64_t>(bytes); };
  p.tile_states = at(states, 0);
  p.group_states = at(states, tiles * kState);
  p.whole_states = at(states, (tiles + groups) * kState);
  p.tile_flags = at(flags, 0);
  p.group_flags = at(flags, tiles * 4);
  p.whole_flags = at(flags, (tiles + groups) * 4);
  p.ticket = at(flags, (tiles + 2 * groups) * 4);
  stream_of(device).launch(kernel, {static_cast<uint32_t>(tiles)}, {kThreads}, 0, p);
}

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
  const DType compute = compute_type(out.dtype);
  const size_t type = kernel_index(compute);
  const Stream stream = stream_of(out.device);
  if (p.inner > 1 && p.lines >= kManyLines) {
    p.walk = 1;
    return stream.launch(kernels.lines[type], {blocks_for(p.lines, kThreads)}, {kThreads}, 0, p);
  }
  const auto items = 16 / size_of(compute);
  p.vectors = p.inner == 1 && (p.lines == 1 || p.n % static_cast<int64_t>(items) == 0) &&
              p.x % (items * size_of(x.dtype)) == 0 && p.out % (items * size_of(out.dtype)) == 0;
  p.warps = p.n <= kThreads ? 1 : kWarps;
  const uint32_t blocks = p.warps == 1 ? blocks_for(p.lines, kWarps) : static_cast<uint32_t>(p.lines);
  if (blocks < kEnoughBlocks && p.n >= kLong)
    return launch_tiles(kernels.tiles[type], p, static_cast<int64_t>(size_of(compute)), out.device);
  stream.launch(kernels.lines[type], {blocks}, {kThreads}, 0, p);
}
}  // namespace

void scan(Scan kind, const TensorImpl& x, int dim, const TensorImpl& out) {
  static const Kernels kernels[] = {Kernels("sum"), Kernels("prod"), Kernels("log_sum")};
  if (x.numel == 0) return;
  const Tensor from = dense(x);
  const DenseOut to(out);
  launch(kernels[static_cast<int>(kind)], *from, Split(x, dim), *to, nullptr);
  to.finish();
}

void scan_extremes(bool largest, const TensorImpl& x, int dim, const TensorImpl& values, const TensorImpl& indices) {
  static const Kernels kernels[] = {Kernels("least"), Kernels("most")};
  if (x.numel == 0) return;
  const Tensor from = dense(x);
  const DenseOut to(values), places(indices);
  launch(kernels[largest], *from, Split(x, dim), *to, &*places);
  to.finish();
  places.finish();
}

}  // namespace strata::cuda
