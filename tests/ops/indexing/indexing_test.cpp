// Indexing, exact against plain loops; the same for any thread count.
#include <gtest/gtest.h>

#include "autograd/autograd.h"
#include "base/parallel.h"
#include "ops/indexing/expression.h"
#include "strata/ops.h"
#include "tensor/generator.h"

namespace strata {
namespace {

using Ints = std::vector<int64_t>;

Tensor numbered(IntList shape, DType dtype = kFloat32) {
  return to(reshape(arange(checked_numel(shape)), shape), dtype);
}
Tensor ints(const Ints& values) {
  Tensor t = make_tensor(Shape(std::array{static_cast<int64_t>(values.size())}), kInt64);
  std::copy(values.begin(), values.end(), t.data<int64_t>());
  return t;
}
std::vector<double> values(const Tensor& t) {
  const Tensor d = contiguous(to(t, kFloat64));
  return {d.data<double>(), d.data<double>() + d.numel()};
}
Ints shape_of(const Tensor& t) { return {t.shape().begin(), t.shape().end()}; }
const Slice kAll{};

TEST(GetItem, MixesIntegersSlicesNoneAndEllipsis) {
  const Tensor x = numbered({4, 5, 6});
  EXPECT_EQ(shape_of(get_item(x, {2})), (Ints{5, 6}));
  EXPECT_EQ(shape_of(get_item(x, {Ellipsis{}, -1})), (Ints{4, 5}));
  EXPECT_EQ(shape_of(get_item(x, {NewAxis{}, Ellipsis{}, NewAxis{}})), (Ints{1, 4, 5, 6, 1}));
  EXPECT_EQ(shape_of(get_item(x, {kAll, Slice{1, 5, 2}, 0})), (Ints{4, 2}));
  EXPECT_EQ(values(get_item(x, {1, Slice{-2, std::nullopt, std::nullopt}, 3})), (std::vector<double>{51, 57}));
  EXPECT_EQ(shape_of(get_item(x, {true})), (Ints{1, 4, 5, 6}));
  EXPECT_EQ(shape_of(get_item(x, {false})), (Ints{0, 4, 5, 6}));
  EXPECT_EQ(get_item(x, {kAll, 1})->storage.get(), x->storage.get());
}

TEST(GetItem, ErrorsNameIndexDimensionAndSize) {
  const Tensor x = numbered({4, 5});
  const auto message = [&](std::initializer_list<Index> indices) -> std::string {
    try {
      get_item(x, indices);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::Index);
      return e.what();
    }
    return "none";
  };
  EXPECT_EQ(message({4}), "index 4 is out of bounds for dimension 0 with size 4");
  EXPECT_NE(message({kAll, ints({0, 7})}).find("index 7 is out of range for dimension 1 with size 5"),
            std::string::npos);
  EXPECT_NE(message({0, 0, 0}).find("too many indices"), std::string::npos);
  EXPECT_NE(message({Ellipsis{}, Ellipsis{}}).find("single ellipsis"), std::string::npos);
  EXPECT_NE(message({gt(numbered({3}), 1)}).find("does not match the shape"), std::string::npos);
}

TEST(GetItem, TensorsBroadcastAndGoWhereNumPyPutsThem) {
  const Tensor x = numbered({4, 5, 6, 7});
  const Tensor i = ints({3, 0}), j = reshape(ints({1, 2, -1}), {3, 1});
  // Adjacent: their dimensions replace the first.
  const Tensor a = get_item(x, {kAll, i, j});
  ASSERT_EQ(shape_of(a), (Ints{4, 3, 2, 7}));
  const auto* p = a.data<float>();
  for (int64_t n = 0; n < 4; ++n)
    for (int64_t r = 0; r < 3; ++r)
      for (int64_t c = 0; c < 2; ++c)
        for (int64_t k = 0; k < 7; ++k) {
          const int64_t rows[] = {1, 2, 5}, cols[] = {3, 0};
          ASSERT_EQ(*p++, static_cast<float>(((n * 5 + cols[c]) * 6 + rows[r]) * 7 + k));
        }
  // Not adjacent: they come first.
  EXPECT_EQ(shape_of(get_item(x, {kAll, i, kAll, j})), (Ints{3, 2, 4, 6}));
  EXPECT_EQ(shape_of(get_item(x, {i, kAll, 2, ints({1, 1})})), (Ints{2, 5}));
  EXPECT_EQ(shape_of(get_item(x, {Ellipsis{}, ints({})})), (Ints{4, 5, 6, 0}));
}

TEST(GetItem, Masks) {
  const Tensor x = numbered({3, 4}), mask = gt(x, 5);
  EXPECT_EQ(values(get_item(x, {mask})), (std::vector<double>{6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(shape_of(get_item(x, {gt(numbered({3}), 0)})), (Ints{2, 4}));
  EXPECT_EQ(shape_of(get_item(x, {kAll, gt(numbered({4}), 9)})), (Ints{3, 0}));
}

TEST(SetItem, WritesViewsMasksAndPositions) {
  const Tensor x = zeros({3, 4}, kInt64);
  set_item(x, {1}, 5);
  set_item(x, {Ellipsis{}, -1}, numbered({3}, kInt64));
  set_item(x, {ints({0, 2}), ints({1, 0})}, full({}, 7.9));
  set_item(x, {eq(x, 5)}, -1);
  EXPECT_EQ(values(x), (std::vector<double>{0, 7, 0, 0, -1, -1, -1, 1, 7, 0, 0, 2}));
  set_item(x, {Slice{0, 2, 1}, Slice{0, 2, 1}}, ones({1, 1, 2, 2}));
  EXPECT_EQ(values(x)[0], 1);
  EXPECT_THROW(set_item(x, {0}, ones({3})), Error);
}

TEST(SetItem, LaterValuesWinAndNothingElseChanges) {
  const Tensor x = zeros({100000});
  Ints at;
  for (int64_t i = 0; i < 200000; ++i) at.push_back((i * 7919) % 50000);
  set_item(x, {ints(at)}, numbered({200000}));
  std::vector<double> expected(100000, 0.0);
  for (size_t i = 0; i < at.size(); ++i) expected[static_cast<size_t>(at[i])] = static_cast<double>(i);
  EXPECT_EQ(values(x), expected);
}

TEST(SetItem, GradientsOfBothSides) {
  Tensor a = numbered({3, 4}), v = numbered({4});
  a.set_requires_grad();
  v.set_requires_grad();
  const Tensor x = mul(a, 1.0);
  set_item(x, {ints({0, 2})}, v);
  autograd::backward(sum(mul(x, numbered({3, 4}))));
  EXPECT_EQ(values(a.grad()), (std::vector<double>{0, 0, 0, 0, 4, 5, 6, 7, 0, 0, 0, 0}));
  EXPECT_EQ(values(v.grad()), (std::vector<double>{8, 10, 12, 14}));
}

TEST(Indexing, SameBitsForAnyThreadCount) {
  const int before = num_threads();
  manual_seed(3);
  const Tensor index = randint(500, {20000}), rows = randn({20000, 33}), flat = randn({20000}),
               lines = randint(40, {300, 200}), src = randn({300, 200});
  std::vector<std::vector<double>> results[2];
  for (int k = 0; k < 2; ++k) {
    set_num_threads(k ? 5 : 1);
    for (const Tensor& t :
         {index_add(zeros({500, 33}), 0, index, rows), index_add(zeros({500}), 0, index, flat),
          scatter_add(zeros({40, 200}), 0, lines, src), scatter_add(zeros({300, 40}), 1, lines, src),
          scatter(zeros({40, 200}), 0, lines, src), index_select(rows, 0, index), to(nonzero(gt(rows, 0)), kFloat64)})
      results[k].push_back(values(t));
  }
  set_num_threads(before);
  EXPECT_EQ(results[0], results[1]);
}

TEST(Indexing, GatherAndScatterMatchLoops) {
  manual_seed(5);
  const Tensor x = randn({6, 7, 8}), index = randint(7, {5, 9, 8}), strided = permute(randn({8, 7, 6}), {2, 1, 0});
  for (const Tensor& from : {x, strided}) {
    const Tensor out = gather(from, 1, index);
    Tensor sums = zeros({6, 7, 8}, kFloat64);
    const Tensor src = randn({6, 9, 8}, nullptr, kFloat64);
    for (int64_t a = 0; a < 5; ++a)
      for (int64_t b = 0; b < 9; ++b)
        for (int64_t c = 0; c < 8; ++c) {
          const int64_t k = index.data<int64_t>()[(a * 9 + b) * 8 + c];
          ASSERT_EQ(out.data<float>()[(a * 9 + b) * 8 + c],
                    from.data<float>()[a * from->strides[0] + k * from->strides[1] + c * from->strides[2]]);
          sums.data<double>()[(a * 7 + k) * 8 + c] += src.data<double>()[(a * 9 + b) * 8 + c];
        }
    EXPECT_EQ(values(scatter_add(zeros({6, 7, 8}, kFloat64), 1, index, src)), values(sums));
  }
}

TEST(Indexing, FailedInPlaceWriteChangesNothing) {
  const Tensor x = numbered({4});
  EXPECT_THROW(set_item(x, {ints({0, 1, 9})}, 5.0), Error);
  EXPECT_THROW(scatter_add_(x, 0, ints({0, 9}), ones(2)), Error);
  EXPECT_EQ(values(x), (std::vector<double>{0, 1, 2, 3}));
}

}  // namespace
}  // namespace strata
