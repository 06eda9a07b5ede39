// Launches the kernels of cuda/order/sort.cu and search.cu.
#include "cuda/order/sort.h"

#include <algorithm>
#include <array>
#include <bit>

#include "cuda/common/axes.h"
#include "cuda/movement/dense.h"
#include "cuda/order/sort_params.h"
#include "cuda/reduce/scan.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {
namespace {

constexpr int64_t kThreads = 256, kTile = 4096, kDigits = 256;
constexpr int kDigitBits = 8;

using Kernels = Function[2];  // for 32-bit and 64-bit keys

Tensor words(int64_t n, DType dtype, Device device) { return make_tensor(Shape(std::array{n}), dtype, device); }

// A radix sort: first by the bits of the keys, then by the lines of `length` elements, if there are several.
class Radix {
 public:
  Radix(Tensor keys, int64_t lines, int64_t length) : keys_(std::move(keys)), lines_(lines) {
    p_.count = keys_.numel();
    p_.tiles = (p_.count + kTile - 1) / kTile;
    p_.length = divisor(static_cast<uint32_t>(length));
    counts_ = words(kDigits * p_.tiles, DType::I32, keys_.device());
    scanned_ = words(kDigits * p_.tiles, DType::I32, keys_.device());
    p_.counts = address(*counts_);
  }
  void run(int bits) {
    for (int shift = 0; shift < bits; shift += kDigitBits) pass(shift, false);
    const int line_bits = std::bit_width(static_cast<uint64_t>(lines_ - 1));
    for (int shift = 0; shift < line_bits; shift += kDigitBits) pass(shift, true);
  }
  const Tensor& keys() const { return keys_; }  // sorted, unless there are several lines
  const Tensor& places() const { return places_; }

 private:
  void pass(int shift, bool by_line) {
    static const Kernels count = {{"sort", "radix_count_u32"}, {"sort", "radix_count_u64"}};
    static const Kernels move = {{"sort", "radix_move_u32"}, {"sort", "radix_move_u64"}};
    const Device device = keys_.device();
    const bool wide = keys_.dtype() == DType::I64;
    const Stream stream = stream_of(device);
    const Tensor places = words(p_.count, DType::I32, device),
                 keys = by_line ? Tensor() : words(p_.count, keys_.dtype(), device);
    p_.shift = shift;
    p_.by_line = by_line;
    p_.keys = address(*keys_);
    p_.keys_out = keys ? address(*keys) : 0;
    p_.places = places_ ? address(*places_) : 0;
    p_.places_out = address(*places);
    const Grid grid{static_cast<uint32_t>(p_.tiles)};
    RadixParams p = p_;
    stream.launch(count[wide], grid, {kThreads}, 0, p);
    scan(Scan::Sum, *counts_, 0, *scanned_);
    p.counts = address(*scanned_);
    stream.launch(move[wide], grid, {kThreads}, 0, p);
    places_ = places;
    if (keys) keys_ = keys;
  }
  RadixParams p_{};
  Tensor keys_, places_, counts_, scanned_;
  int64_t lines_;
};

SortParams plan(const TensorImpl& x, int dim, bool descending, int64_t keep, const TensorImpl* values,
                const TensorImpl* indices) {
  const Split s(x, dim);
  STRATA_CHECK(x.numel <= INT32_MAX, NotImplemented,
               "sort: {} elements are more than the device kernels sort at once; at most {} are supported", x.numel,
               INT32_MAX);
  SortParams p{};
  p.x = address(x);
  p.type = tag(x);
  p.flip = descending;
  p.lines = s.lines();
  p.n = s.n;
  p.inner = s.inner;
  p.keep = keep;
  p.values = values ? address(*values) : 0;
  p.indices = indices ? address(*indices) : 0;
  p.padded = static_cast<int32_t>(std::bit_ceil(static_cast<uint64_t>(std::min<int64_t>(s.n, kSortBlock))));
  p.log_padded = std::countr_zero(static_cast<uint32_t>(p.padded));
  p.length = divisor(static_cast<uint32_t>(s.n));
  return p;
}

// The first `keep` of each line; all tensors are contiguous.
void sort_dense(SortMethod method, const TensorImpl& x, int dim, bool descending, int64_t keep,
                const TensorImpl* values, const TensorImpl* indices) {
  static const Kernels lines = {{"sort", "sort_lines_u32"}, {"sort", "sort_lines_u64"}};
  static const Kernels make = {{"sort", "make_keys_u32"}, {"sort", "make_keys_u64"}};
  static const Function put("sort", "put_sorted");
  if (x.numel == 0 || keep == 0) return;
  SortParams p = plan(x, dim, descending, keep, values, indices);
  const Stream stream = stream_of(x.device);
  const bool wide = size_of(x.dtype) == 8;
  if (method == SortMethod::Lines) {
    const int64_t per_block = kSortBlock >> p.log_padded;
    return stream.launch(lines[wide], {blocks_for(p.lines, per_block)}, {kThreads}, 0, p);
  }
  const Tensor keys = words(x.numel, wide ? DType::I64 : DType::I32, x.device);
  p.keys = address(*keys);
  stream.launch(make[wide], {blocks_for(x.numel, kThreads)}, {kThreads}, 0, p);
  Radix radix(keys, p.lines, p.n);
  radix.run(static_cast<int>(size_of(x.dtype)) * 8);
  p.sorted = address(*radix.places());
  stream.launch(put, {blocks_for(x.numel, kThreads)}, {kThreads}, 0, p);
}

void select(const TensorImpl& x, const Split& s, SelectParams p, const TensorImpl& values, const TensorImpl& indices) {
  static const Kernels kernels = {{"select", "select_u32"}, {"select", "select_u64"}};
  if (s.lines() == 0) return;
  p.x = address(x);
  p.type = tag(x);
  p.values = address(values);
  p.indices = address(indices);
  p.n = s.n;
  p.inner = s.inner;
  p.padded = static_cast<int32_t>(std::bit_ceil(static_cast<uint64_t>(p.one ? 1 : p.k + 1)));
  stream_of(x.device).launch(kernels[size_of(x.dtype) == 8], {static_cast<uint32_t>(s.lines())}, {kThreads}, 0, p);
}
}  // namespace

const char* sort_objection(SortMethod method, int64_t n, int64_t lines, int64_t keep) {
  constexpr int64_t kLong = 1 << 17, kSomeLines = 16;
  if (method == SortMethod::Radix) return nullptr;
  if (method == SortMethod::Lines) return n <= kSortBlock ? nullptr : "a line is longer than a block sorts";
  if (n <= kSortBlock) return "a block sorts whole lines";
  if (keep > kSortBlock) return "more elements are wanted than a block sorts";
  // A few long lines would leave most of the device idle.
  return n <= INT32_MAX && (n <= kLong || lines >= kSomeLines) ? nullptr : "the lines are few and long";
}

void sort(SortMethod method, const TensorImpl& x, int dim, bool descending, const TensorImpl* values,
          const TensorImpl* indices) {
  const Tensor from = dense(x);
  std::optional<DenseOut> to, at;
  if (values) to.emplace(*values);
  if (indices) at.emplace(*indices);
  sort_dense(method, *from, dim, descending, Split(x, dim).n, to ? &**to : nullptr, at ? &**at : nullptr);
  if (to) to->finish();
  if (at) at->finish();
}

void topk(SortMethod method, const TensorImpl& x, int64_t k, int dim, bool largest, const TensorImpl& values,
          const TensorImpl& indices) {
  const Tensor from = dense(x);
  const DenseOut to(values), at(indices);
  if (k > 0 && method == SortMethod::Select) {
    SelectParams p{};
    p.flip = largest;
    p.k = k - 1;
    select(*from, Split(x, dim), p, *to, *at);
  } else {
    sort_dense(method, *from, dim, largest, k, &*to, &*at);
  }
  to.finish();
  at.finish();
}

void pick(SortMethod method, Pick what, const TensorImpl& x, int64_t k, int dim, const TensorImpl& values,
          const TensorImpl& indices) {
  static const Function kernel("sort", "pick");
  // the kernel uses these values
  static_assert(static_cast<int>(Pick::Median) == 1 && static_cast<int>(Pick::Mode) == 3);
  if (x.numel == 0) return;
  const Tensor from = dense(x);
  const DenseOut to(values), at(indices);
  const Split s(x, dim);
  if (method == SortMethod::Select) {
    SelectParams p{};
    p.one = 1;
    p.what = static_cast<int32_t>(what);
    p.k = k;
    select(*from, s, p, *to, *at);
    to.finish();
    return at.finish();
  }
  const Tensor order = make_tensor(x.sizes(), DType::I64, x.device);
  sort_dense(method, *from, dim, false, s.n, nullptr, order.get());
  PickParams p{};
  p.x = address(*from);
  p.type = tag(x);
  p.order = address(*order);
  p.values = address(*to);
  p.indices = address(*at);
  p.what = static_cast<int32_t>(what);
  p.lines = s.lines();
  p.n = s.n;
  p.inner = s.inner;
  p.k = k;
  stream_of(x.device).launch(kernel, {static_cast<uint32_t>(p.lines)}, {kThreads}, 0, p);
  to.finish();
  at.finish();
}

SortedKeys sort_keys(const Tensor& keys, int bits) {
  const int64_t n = keys.numel();
  if (n <= kSortBlock) {
    SortedKeys sorted{words(n, DType::I32, keys.device()), words(n, DType::I64, keys.device())};
    sort_dense(SortMethod::Lines, *keys, 0, false, n, sorted.keys.get(), sorted.places.get());
    return sorted;
  }
  Radix radix(keys, 1, keys.numel());
  radix.run(std::max(bits, 1));
  return {radix.keys(), radix.places()};
}

void search(const TensorImpl& rows, const TensorImpl* order, const TensorImpl& values, bool right,
            const TensorImpl& out) {
  static const Function kernels[] = {{"search", "search_f32"}, {"search", "search_f64"}, {"search", "search_i64"}};
  if (values.numel == 0) return;
  SearchParams p{};
  p.rows = address(rows);
  p.order = order ? address(*order) : 0;
  p.wanted = address(values);
  p.out = address(out);
  p.out_type = tag(out);
  p.right = right;
  p.count = values.numel;
  p.n = rows.shape[rows.ndim - 1];
  p.per_row = rows.ndim == 1 ? 0 : values.shape[values.ndim - 1];
  stream_of(out.device).launch(kernels[kernel_index(rows.dtype)], {blocks_for(p.count, kThreads)}, {kThreads}, 0, p);
}

}  // namespace strata::cuda
