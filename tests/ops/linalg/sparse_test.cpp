// Sparse tensors from C++, beside dense ones.
#include <gtest/gtest.h>

#include "strata/strata.h"
#include "tests/expect_error.h"

namespace strata {
namespace {

Tensor normal(IntList shape) { return to(randn(shape), DType::F64); }

// Coordinates that may repeat, of an element in four.
SparseTensor some(int64_t rows, int64_t columns, Device device = {}) {
  const int64_t count = rows * columns / 4;
  const Tensor indices = stack({randint(0, rows, {count}), randint(0, columns, {count})});
  return sparse_coo_tensor(to(indices, device), to(normal({count}), device), {rows, columns});
}
void expect_close(const Tensor& a, const Tensor& b) {
  EXPECT_TRUE(allclose(to(a, Device()), to(b, Device()), 1e-10, 1e-12));
}

TEST(Sparse, AgreesWithDenseTensorsOnBothDevices) {
  manual_seed(3);
  for (const DeviceType type : {DeviceType::Cpu, DeviceType::Vgpu}) {
    const Device device{type, 0};
    const SparseTensor a = some(9, 14, device), b = some(14, 6, device);
    const Tensor x = to(normal({14, 20}), device);
    expect_close(sparse_mm(a, x), matmul(a.to_dense(), x));
    expect_close(sparse_mm(a, b).to_dense(), matmul(a.to_dense(), b.to_dense()));
    expect_close(a.coalesce().to_dense(), a.to_dense());
    expect_close(a.t().to_dense(), transpose(a.to_dense(), 0, 1));
    expect_close((a + a).to_dense(), mul(a.to_dense(), 2));
    expect_close(a.sum(), sum(a.to_dense()));
    expect_close(to_sparse(x).to_dense(), x);
    EXPECT_TRUE(sparse_mm(a, b).is_coalesced());
  }
}

TEST(Sparse, PassesGradientsToValues) {
  const Tensor indices = tensor({0, 2, 1, 2, 1, 3, 0, 3}).reshape({2, 4});
  Tensor values = normal({4}), x = normal({4, 3});
  values.requires_grad_();
  x.requires_grad_();
  const auto multiply = [&](const std::vector<Tensor>& inputs) {
    return std::vector{sparse_mm(sparse_coo_tensor(indices, inputs[0], {3, 4}), inputs[1])};
  };
  EXPECT_TRUE(gradcheck(multiply, {values, x}));
  EXPECT_TRUE(gradgradcheck(multiply, {values, x}));
}

TEST(Sparse, RefusesWhatDoesNotFit) {
  const Tensor indices = tensor({0, 3}).reshape({2, 1}), one = ones({1});
  EXPECT_ERROR(Runtime, "for dim 1, size is 3 but found index 3", sparse_coo_tensor(indices, one, {3, 3}));
  EXPECT_ERROR(Runtime, "do not fit 1 elements", sparse_coo_tensor(indices, ones({2}), {3, 4}));
  const SparseTensor a = sparse_coo_tensor(indices, one, {3, 4});
  EXPECT_ERROR(Runtime, "do not fit", sparse_mm(a, ones({3, 2})));
  EXPECT_ERROR(Runtime, "not coalesced", a.compressed());
}

TEST(CompressedTensor, ConvertsBetweenLayouts) {
  const Tensor dense = tensor({1.0f, 0.0f, 2.0f, 0.0f, 0.0f, 0.0f, 0.0f, 3.0f}).reshape({2, 4});
  const CompressedTensor rows = to_sparse_csr(dense), columns = to_sparse_csc(dense);
  EXPECT_TRUE(equal(rows.compressed_indices(), tensor({0, 2, 3}).to(DType::I64)));
  EXPECT_TRUE(equal(columns.compressed_indices(), tensor({0, 1, 1, 2, 3}).to(DType::I64)));
  EXPECT_TRUE(equal(columns.plain_indices(), tensor({0, 0, 1}).to(DType::I64)));
  for (const CompressedTensor& x : {rows, columns, to_sparse_bsr(dense, {2, 2}), to_sparse_bsc(dense, {1, 4})}) {
    EXPECT_TRUE(equal(x.to_dense(), dense));
    EXPECT_TRUE(equal(x.t().to_dense(), transpose(dense, 0, 1)));
    EXPECT_TRUE(allclose(sparse_mm(x, ones({4, 3})), matmul(dense, ones({4, 3}))));
    EXPECT_TRUE(equal(CompressedTensor(x.to_coo(), SparseLayout::Csc).values(), columns.values()) ||
                x.values().dim() == 3);  // blocks store zeros too
  }
  EXPECT_EQ(to_sparse_bsr(dense, {2, 2}).nnz(), 2);
  EXPECT_EQ(rows.t().layout(), SparseLayout::Csc);
}

TEST(CompressedTensor, ChecksItsParts) {
  const Tensor starts = tensor({0, 1, 2}).to(DType::I64), plain = tensor({1, 0}).to(DType::I64), values = ones({2});
  EXPECT_TRUE(equal(CompressedTensor(starts, plain, values, {2, 2}, SparseLayout::Csr).to_dense(),
                    tensor({0.0f, 1.0f, 1.0f, 0.0f}).reshape({2, 2})));
  EXPECT_ERROR(Runtime, "do not fit a matrix", CompressedTensor(starts, plain, values, {3, 2}, SparseLayout::Csr));
  EXPECT_ERROR(Runtime, "must be within 0 and 0", CompressedTensor(starts, plain, values, {2, 1}, SparseLayout::Csr));
  EXPECT_ERROR(Runtime, "needs values of 3", CompressedTensor(starts, plain, values, {2, 2}, SparseLayout::Bsr));
  EXPECT_ERROR(Runtime, "must be divisible by given blocksize", to_sparse_bsr(ones({3, 4}), {2, 2}));
}

}  // namespace
}  // namespace strata
