#include "ops/linalg/sparse_compressed.h"

#include <algorithm>

#include "strata/ops.h"

namespace strata {
namespace {

struct Block {
  int64_t rows = 1, columns = 1;
};
Block block_of(const Tensor& values) { return values.dim() == 3 ? Block{values.size(1), values.size(2)} : Block{}; }
void check_block(const char* op, Block block, IntList size) {
  STRATA_CHECK(size.size == 2, Runtime, "{}: expected a matrix, got size {}", op, to_string(Shape(size)));
  STRATA_CHECK(block.rows > 0 && block.columns > 0, Runtime, "{}: blocksize needs to be positive, but got [{}, {}]", op,
               block.rows, block.columns);
  STRATA_CHECK(size.data[0] % block.rows == 0 && size.data[1] % block.columns == 0, Runtime,
               "{}: tensor sparse size ({}, {}) must be divisible by given blocksize ({}, {})", op, size.data[0],
               size.data[1], block.rows, block.columns);
}

bool has_blocks(SparseLayout layout) { return layout == SparseLayout::Bsr || layout == SparseLayout::Bsc; }
bool is_by_columns(SparseLayout layout) { return layout == SparseLayout::Csc || layout == SparseLayout::Bsc; }

}  // namespace

void check_compressed(const CompressedParts& parts, IntList size, bool by_columns) {
  const auto& [starts, plain, values] = parts;
  const char* const op = "sparse_compressed_tensor";
  const char *const outer = by_columns ? "ccol_indices" : "crow_indices", *const inner =
                                                                            by_columns ? "row_indices" : "col_indices";
  STRATA_CHECK(starts.dim() == 1 && plain.dim() == 1 && (values.dim() == 1 || values.dim() == 3) &&
                 values.size(0) == plain.size(0),
               Runtime,
               "{}: expected vectors of {} and {}, and a number or block for each of them, got shapes {}, {} and {}",
               op, outer, inner, to_string(starts.shape()), to_string(plain.shape()), to_string(values.shape()));
  STRATA_CHECK(starts.dtype() == DType::I64 && plain.dtype() == DType::I64, Runtime,
               "{}: expected indices of dtype int64, got {} and {}", op, name_of(starts.dtype()),
               name_of(plain.dtype()));
  const Block block = block_of(values);
  check_block(op, block, size);
  const int64_t lines[] = {size.data[0] / block.rows, size.data[1] / block.columns};
  const int64_t count = plain.size(0), outer_lines = lines[by_columns], inner_lines = lines[!by_columns];
  STRATA_CHECK(starts.size(0) == outer_lines + 1, Runtime, "{}: {} {} do not fit a matrix of size {}", op,
               starts.size(0), outer, to_string(Shape(size)));
  if (starts.is_meta()) return;
  const Tensor first = to(starts, Device()), second = to(plain, Device());
  const Tensor from = contiguous(first), at = contiguous(second);
  const int64_t *begin = from.data<int64_t>(), *place = at.data<int64_t>();
  STRATA_CHECK(begin[0] == 0 && begin[outer_lines] == count, Runtime,
               "{}: {} must rise from 0 to the number of elements, {}, but they begin with {} and end with {}", op,
               outer, count, begin[0], begin[outer_lines]);
  for (int64_t i = 0; i < outer_lines; ++i) {
    STRATA_CHECK(begin[i] <= begin[i + 1] && begin[i + 1] <= count, Runtime,
                 "{}: {} must rise from 0 to the number of elements, {}, found {} before {}", op, outer, count,
                 begin[i], begin[i + 1]);
    for (int64_t k = begin[i]; k < begin[i + 1]; ++k) {
      STRATA_CHECK(place[k] >= 0 && place[k] < inner_lines, Runtime, "{}: {} must be within 0 and {}, found {}", op,
                   inner, inner_lines - 1, place[k]);
      STRATA_CHECK(k == begin[i] || place[k] > place[k - 1], Runtime,
                   "{}: {} must rise within each {}, without repetitions, found {} before {}", op, inner,
                   by_columns ? "column" : "row", place[k - 1], place[k]);
    }
  }
}

std::pair<Tensor, Tensor> compressed_to_coo(const CompressedParts& parts, bool by_columns) {
  const OnDeviceOf scope(parts.values.device());
  const auto& [starts, plain, values] = parts;
  const Tensor outer = _expand_indices(starts, plain.size(0));
  Tensor row = by_columns ? plain : outer, column = by_columns ? outer : plain;
  if (values.dim() != 3) return std::pair(stack({row, column}), values);
  const Block block = block_of(values);
  const auto spread = [&](const Tensor& line, int64_t size, bool down) {
    const Tensor inside = arange(size, DType::I64);
    const Tensor places =
      add(mul(reshape(line, {-1, 1, 1}), size), reshape(inside, down ? IntList({1, -1, 1}) : IntList({1, 1, -1})));
    return reshape(expand(places, values.shape()), {-1});
  };
  row = spread(row, block.rows, true);
  column = spread(column, block.columns, false);
  return std::pair(stack({row, column}), reshape(values, {-1}));
}

CompressedParts coo_to_compressed(const Tensor& indices, const Tensor& values, IntList size, IntList blocksize,
                                  bool by_columns) {
  const OnDeviceOf scope(values.device());
  const char* const op = "to_sparse";
  STRATA_CHECK(indices.dim() == 2 && indices.size(0) == 2 && values.dim() == 1 && size.size == 2, Runtime,
               "{}: expected a sparse matrix, got size {} with {} sparse dimensions", op, to_string(Shape(size)),
               indices.dim() ? indices.size(0) : 0);
  STRATA_CHECK(blocksize.size == 0 || blocksize.size == 2, Runtime, "{}: blocksize must be two numbers, got {}", op,
               to_string(Shape(blocksize)));
  const bool blocks = blocksize.size == 2;
  const Block block = blocks ? Block{blocksize.data[0], blocksize.data[1]} : Block{};
  check_block(op, block, size);
  const Tensor row = select(indices, 0, 0), column = select(indices, 0, 1);
  const Tensor block_row = blocks ? floor_divide(row, block.rows) : row,
               block_column = blocks ? floor_divide(column, block.columns) : column;
  const int64_t rows = size.data[0] / block.rows, columns = size.data[1] / block.columns;
  const Tensor outer = by_columns ? block_column : block_row, inner = by_columns ? block_row : block_column;
  const int64_t outer_lines = by_columns ? columns : rows,
                inner_lines = std::max<int64_t>(1, by_columns ? rows : columns);
  // The flat number of each block orders them; elements of one block, or equal coordinates, share it.
  const auto found = unique(add(mul(outer, inner_lines), inner), true, true);
  const Tensor &number = std::get<0>(found), &of_each = std::get<1>(found);
  Tensor place = of_each;
  if (blocks)
    place = add(mul(add(mul(of_each, block.rows), remainder(row, block.rows)), block.columns),
                remainder(column, block.columns));
  const int64_t count = number.size(0), each = block.rows * block.columns;
  const bool is_bool = values.dtype() == DType::Bool;
  const Tensor addends = is_bool ? to(values, DType::I64) : values;
  Tensor held = index_add(zeros({count * each}, addends.dtype()), 0, place, addends);
  if (is_bool) held = ne(held, 0);
  if (blocks) held = reshape(held, {count, block.rows, block.columns});
  return {_compress_indices(floor_divide(number, inner_lines), outer_lines), remainder(number, inner_lines), held};
}

CompressedTensor::CompressedTensor(CompressedParts parts, std::vector<int64_t> size, SparseLayout layout)
    : parts_(std::move(parts)), size_(std::move(size)), layout_(layout) {}
CompressedTensor::CompressedTensor(const Tensor& compressed_indices, const Tensor& plain_indices, const Tensor& values,
                                   IntList size, SparseLayout layout)
    : CompressedTensor({compressed_indices, plain_indices, values}, {size.begin(), size.end()}, layout) {
  check_compressed(parts_, size, is_by_columns(layout));
  STRATA_CHECK(has_blocks(layout) == (values.dim() == 3), Runtime,
               "a sparse matrix of {} needs values of {} dimensions, got shape {}",
               has_blocks(layout) ? "blocks" : "elements", has_blocks(layout) ? 3 : 1, to_string(values.shape()));
}
CompressedTensor::CompressedTensor(const SparseTensor& matrix, SparseLayout layout, IntList blocksize)
    : CompressedTensor(
        coo_to_compressed(matrix.indices(), matrix.values(), matrix.sizes(), blocksize, is_by_columns(layout)),
        {matrix.sizes().begin(), matrix.sizes().end()}, layout) {
  STRATA_CHECK(has_blocks(layout) == (blocksize.size == 2), Runtime, "the layout needs {} numbers as blocksize, got {}",
               has_blocks(layout) ? 2 : 0, blocksize.size);
}

SparseTensor CompressedTensor::to_coo() const {
  const auto [indices, values] = compressed_to_coo(parts_, is_by_columns(layout_));
  return sparse_coo_tensor(indices, values, size_);
}
CompressedTensor CompressedTensor::to(Device device) const {
  const CompressedParts moved{strata::to(parts_.starts, device), strata::to(parts_.plain, device),
                              strata::to(parts_.values, device)};
  return {moved, size_, layout_};
}
CompressedTensor CompressedTensor::t() const {
  constexpr SparseLayout kOther[] = {SparseLayout::Csc, SparseLayout::Csr, SparseLayout::Bsc, SparseLayout::Bsr};
  const Tensor& held = parts_.values;
  const CompressedParts exchanged{parts_.starts, parts_.plain, held.dim() == 3 ? transpose(held, 1, 2) : held};
  return {exchanged, std::vector<int64_t>{size_[1], size_[0]}, kOther[static_cast<size_t>(layout_)]};
}

CompressedTensor to_sparse_csr(const Tensor& input) { return {to_sparse(input), SparseLayout::Csr}; }
CompressedTensor to_sparse_csc(const Tensor& input) { return {to_sparse(input), SparseLayout::Csc}; }
CompressedTensor to_sparse_bsr(const Tensor& input, IntList blocksize) {
  return {to_sparse(input), SparseLayout::Bsr, blocksize};
}
CompressedTensor to_sparse_bsc(const Tensor& input, IntList blocksize) {
  return {to_sparse(input), SparseLayout::Bsc, blocksize};
}
Tensor sparse_mm(const CompressedTensor& a, const Tensor& b) {
  if (a.layout() != SparseLayout::Csr) return sparse_mm(a.to_coo(), b);
  STRATA_CHECK(b.dim() == 2 && b.size(0) == a.sizes()[1], Runtime, "mm: shapes {} and {} do not fit",
               to_string(a.sizes()), to_string(b.shape()));
  return _compressed_product(a.compressed_indices(), a.plain_indices(), a.values(), b);
}

}  // namespace strata
