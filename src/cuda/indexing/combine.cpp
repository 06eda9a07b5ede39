// Launches the kernels of cuda/indexing/combine.cu, after sorting the rows.
#include "cuda/indexing/combine.h"

#include <array>
#include <bit>
#include <deque>

#include "cuda/indexing/indexing_params.h"
#include "cuda/movement/dense.h"
#include "cuda/order/sort.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {
namespace {

constexpr int64_t kThreads = 256;

const Function& kernel_of(Scatter how, bool parts, DType compute) {
  static const std::deque<Function>& all = *[] {
    auto* list = new std::deque<Function>;
    for (const char* name : {"Add", "Multiply", "Max", "Min"})
      for (const char* stage : {"", "_parts"})
        for (const char* type : {"_f32", "_f64", "_i64"})
          list->emplace_back("combine", std::string(name) + stage + type);
    return list;
  }();
  const auto kind = static_cast<size_t>(how) - static_cast<size_t>(Scatter::Add);
  return all[(kind * 2 + parts) * 3 + kernel_index(compute)];
}
}  // namespace

void combine(Scatter how, const Combine& c, const TensorImpl& table, const TensorImpl& values, const Tensor& rows) {
  const SortedKeys sorted = sort_keys(rows, std::bit_width(static_cast<uint64_t>(c.rows)));
  CombineParams p{};
  p.table = address(table);
  p.table_type = tag(table);
  p.values = address(values);
  p.values_type = tag(values);
  p.keys = address(*sorted.keys);
  p.places = address(*sorted.places);
  p.wide_places = sorted.places.dtype() == DType::I64;
  p.single = values.numel == 1;
  p.mean = c.mean;
  p.skip = c.skip;
  p.n = c.n;
  p.rows = c.rows;
  p.outer = c.outer;
  p.inner = c.inner;
  p.chunks = (c.n + kCombineChunk - 1) / kCombineChunk;
  const int64_t threads = p.chunks * c.outer * c.inner;
  const DType compute = compute_type(table.dtype);
  const Stream stream = stream_of(table.device);
  Tensor heads, tails;
  if (p.chunks > 1) {
    heads = make_tensor(Shape(std::array{threads}), compute, table.device);
    tails = make_tensor(Shape(std::array{threads}), compute, table.device);
    p.heads = address(*heads);
    p.tails = address(*tails);
  }
  const Grid grid{blocks_for(threads, kThreads)};
  stream.launch(kernel_of(how, false, compute), grid, {kThreads}, 0, p);
  if (p.chunks > 1) stream.launch(kernel_of(how, true, compute), grid, {kThreads}, 0, p);
}

}  // namespace strata::cuda
