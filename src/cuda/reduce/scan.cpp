// Launches the kernels of cuda/reduce/scan.cu and scan_tiles.cu; assigns threads to lines.
#include "cuda/reduce/scan.h"

#include <array>
#include <optional>
#include <string>

#include "cuda/movement/dense.h"
#include "cuda/reduce/scan_params.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {
namespace {

constexpr int64_t kScanThreads = 256, kWarps = 8;
constexpr int64_t kManyLines = 4096;  // enough to keep the device busy with one thread each
constexpr int64_t kEnoughScanBlocks = 512;
constexpr int64_t kLong = 1 << 14;  // minimum length of a line for several blocks

// The kernels of one kind of scan by compute type.
struct Kernels {
  explicit Kernels(const std::string& name)
      : logs(name == "log_sum"),
        lines{{"scan", name + "_f32"}, {"scan", name + "_f64"}, {"scan", name + "_i64"}},
        tiles{
          {"scan_tiles", name + "_tile_f32"}, {"scan_tiles", name + "_tile_f64"}, {"scan_tiles", name + "_tile_i64"}} {}
  bool logs;
  Function lines[3], tiles[3];
};

bool one_thread_per_line(const Split& s) { return s.inner > 1 && s.lines() >= kManyLines; }
int warps_per_line(const Split& s) { return s.n <= kScanThreads ? 1 : kWarps; }
uint32_t blocks_of(const Split& s) {
  return warps_per_line(s) == 1 ? blocks_for(s.lines(), kWarps) : static_cast<uint32_t>(s.lines());
}
// Whether several blocks share a line.
bool in_tiles(const Split& s) { return !one_thread_per_line(s) && blocks_of(s) < kEnoughScanBlocks && s.n >= kLong; }

// The memory through which the blocks of a line communicate.
struct Tiles {
  int64_t per_line, groups_per_line, count, groups;
  Tensor words;  // of states, and the ticket
  Tiles(const Split& s, DType compute, bool logs, Workspace& workspace)
      : per_line(ceil_div(
          s.n, kScanThreads * (logs ? kLogScanVectors : kScanVectors) * (16 / static_cast<int64_t>(size_of(compute))))),
        groups_per_line(ceil_div(per_line, kScanGroup)),
        count(s.lines() * per_line),
        groups(s.lines() * groups_per_line),
        words(workspace.take(Shape(std::array{(count + 2 * groups) * kScanStateWords + 1}), DType::I64)) {}
};

void launch_tiles(const Function& kernel, ScanParams& p, const Tiles& t, Device device) {
  p.tiles = t.per_line;
  p.groups = t.groups_per_line;
  fill(*t.words, 0);
  const auto after = [&](int64_t states) {
    return address(*t.words) + static_cast<uint64_t>(states) * kScanStateWords * sizeof(uint64_t);
  };
  p.tile_states = after(0);
  p.group_states = after(t.count);
  p.whole_states = after(t.count + t.groups);
  p.ticket = after(t.count + 2 * t.groups);
  stream_of(device).launch(kernel, {static_cast<uint32_t>(t.count)}, {kScanThreads}, 0, p);
}

void launch(const Kernels& kernels, const TensorImpl& x, const Split& s, const TensorImpl& out,
            const TensorImpl* places, Workspace& workspace) {
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
  if (one_thread_per_line(s)) {
    p.walk = 1;
    return stream.launch(kernels.lines[type], {blocks_for(p.lines, kScanThreads)}, {kScanThreads}, 0, p);
  }
  const auto items = 16 / size_of(compute);
  p.vectors = p.inner == 1 && (p.lines == 1 || p.n % static_cast<int64_t>(items) == 0) &&
              p.x % (items * size_of(x.dtype)) == 0 && p.out % (items * size_of(out.dtype)) == 0;
  p.warps = warps_per_line(s);
  if (in_tiles(s)) return launch_tiles(kernels.tiles[type], p, Tiles(s, compute, kernels.logs, workspace), out.device);
  stream.launch(kernels.lines[type], {blocks_of(s)}, {kScanThreads}, 0, p);
}

const Kernels& kernels_of(const ScanCall& s) {
  static const Kernels folds[] = {Kernels("sum"), Kernels("prod"), Kernels("log_sum")};
  static const Kernels extremes[] = {Kernels("least"), Kernels("most")};
  return s.places ? extremes[s.largest] : folds[static_cast<int>(s.kind)];
}
}  // namespace

const char* plan_scan(const ScanCall& s, Plan& plan) {
  Workspace workspace(plan);
  std::optional<DenseOut> places;
  dense(s.x, workspace);
  const DenseOut to(s.out, workspace);
  if (s.places) places.emplace(*s.places, workspace);
  if (const Split lines(s.x, s.dim); in_tiles(lines))
    const Tiles memory(lines, compute_type(s.out.dtype), kernels_of(s).logs, workspace);
  return nullptr;
}

void run_scan(const ScanCall& s, const Call& c, const Plan&) {
  if (s.x.numel == 0) return;
  Workspace workspace(c);
  const Tensor from = dense(s.x, workspace);
  const DenseOut to(s.out, workspace);
  std::optional<DenseOut> places;
  if (s.places) places.emplace(*s.places, workspace);
  launch(kernels_of(s), *from, Split(s.x, s.dim), *to, places ? &**places : nullptr, workspace);
  to.finish();
  if (places) places->finish();
}

}  // namespace strata::cuda
