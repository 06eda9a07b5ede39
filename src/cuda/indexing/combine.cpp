// Launches the kernels of cuda/indexing/combine.cu, after sorting the rows.
#include "cuda/indexing/combine.h"

#include <bit>
#include <deque>

#include "cuda/indexing/indexing_params.h"
#include "cuda/movement/dense.h"
#include "cuda/order/sort.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {
namespace {

constexpr int64_t kThreads = 256;
constexpr int64_t kMostOfLine = 8192;  // elements that sort_lines supports

enum class Stage : uint8_t { Chunks, Tiles, Parts };
const Function& kernel_of(Scatter how, Stage stage, DType compute) {
  static const std::deque<Function>& all = *[] {
    auto* list = new std::deque<Function>;
    for (const char* name : {"Add", "Multiply", "Max", "Min"})
      for (const char* of : {"", "_tile", "_parts"})
        for (const char* type : {"_f32", "_f64", "_i64"}) list->emplace_back("combine", std::string(name) + of + type);
    return list;
  }();
  const auto kind = static_cast<size_t>(how) - static_cast<size_t>(Scatter::Add);
  return all[(kind * 3 + static_cast<size_t>(stage)) * 3 + kernel_index(compute)];
}
}  // namespace

void combine(Scatter how, const Combine& c, const TensorImpl& table, const TensorImpl& values, const Tensor& rows,
             Workspace& workspace) {
  const int bits = std::bit_width(static_cast<uint64_t>(c.rows));
  const bool one_column = c.outer * c.inner == 1, single = values.numel == 1;
  const DType compute = compute_type(table.dtype);
  // Lines are sorted on their own, and values of one line are close together.
  const bool by_line = c.lines > 1 && c.n / c.lines <= kMostOfLine;
  // Floats of 4 bytes are sorted along with their rows: reading them by places would cost more than the sort.
  const bool carried = one_column && !single && !by_line && compute == DType::F32;
  const Tensor payload = carried ? dense(values, DType::F32, workspace) : Tensor();
  const SortedKeys sorted =
    by_line ? sort_lines(rows, c.lines, workspace) : sort_keys(rows, bits, payload.get(), workspace);
  CombineParams p{};
  p.table = address(table);
  p.table_type = tag(table);
  p.values = payload ? address(*sorted.places) : address(values);
  p.values_type = payload ? tag(*payload) : tag(values);
  p.keys = address(*sorted.keys);
  p.places = payload ? 0 : address(*sorted.places);
  p.wide_places = sorted.places.dtype() == DType::I64;
  p.single = single;
  p.mean = c.mean;
  p.skip = c.skip;
  p.n = c.n;
  p.rows = c.rows;
  p.outer = c.outer;
  p.inner = c.inner;
  p.chunk = one_column ? kCombineTile : kCombineChunk;
  p.chunks = ceil_div(c.n, p.chunk);
  const int64_t threads = p.chunks * c.outer * c.inner;
  Tensor heads, tails;
  if (p.chunks > 1) {
    heads = workspace.take(threads, compute);
    tails = workspace.take(threads, compute);
    p.heads = address(*heads);
    p.tails = address(*tails);
  }
  if (workspace.planning()) return;
  const Stream stream = stream_of(table.device);
  const Grid grid{blocks_for(threads, kThreads)};
  if (one_column)
    stream.launch(kernel_of(how, Stage::Tiles, compute), {static_cast<uint32_t>(p.chunks)}, {kThreads}, 0, p);
  else stream.launch(kernel_of(how, Stage::Chunks, compute), grid, {kThreads}, 0, p);
  if (p.chunks > 1) stream.launch(kernel_of(how, Stage::Parts, compute), grid, {kThreads}, 0, p);
}

}  // namespace strata::cuda
