// Views, copies and movement, exact against plain loops over multi-indices.
#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "autograd/autograd.h"
#include "base/parallel.h"
#include "strata/ops.h"
#include "tensor/generator.h"

namespace strata {
namespace {

using At = std::vector<int64_t>;

// Calls f with every multi-index of a shape, in row-major order.
void each(Shape shape, const std::function<void(const At&)>& f) {
  At at(shape.size(), 0);
  for (int64_t i = 0, n = checked_numel(shape); i < n; ++i) {
    f(at);
    for (size_t d = shape.size(); d-- > 0;) {
      if (++at[d] < shape[d]) break;
      at[d] = 0;
    }
  }
}
double value(const Tensor& t, const At& at) {
  int64_t offset = 0;
  for (size_t d = 0; d < at.size(); ++d) offset += at[d] * t->strides[d];
  return dispatch_dtype(t.dtype(), [&]<class T> { return convert<double>(t.data<T>()[offset]); });
}
Tensor numbered(IntList shape, DType dtype = kFloat32) {
  return to(reshape(arange(checked_numel(shape)), shape), dtype);
}

void expect_each(const Tensor& t, At shape, const std::function<double(const At&)>& expected) {
  ASSERT_EQ(At(t.shape().begin(), t.shape().end()), shape);
  each(shape, [&](const At& at) { ASSERT_EQ(value(t, at), expected(at)) << to_string(at); });
}
void expect_equal(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(At(a.shape().begin(), a.shape().end()), At(b.shape().begin(), b.shape().end()));
  each(a.shape(), [&](const At& at) { ASSERT_EQ(value(a, at), value(b, at)) << to_string(at); });
}

TEST(Copy, TransposesEveryElementSizeAndOddEdge) {
  for (DType dtype : {kUInt8, kBFloat16, kFloat32, kFloat64})
    for (auto [rows, cols] : {std::pair{1, 1}, {3, 5}, {16, 64}, {65, 33}, {130, 257}, {1030, 70}}) {
      const Tensor x = to(remainder(reshape(arange(rows * cols), {rows, cols}), 200), dtype);
      const Tensor y = contiguous(transpose(x, 0, 1));
      ASSERT_TRUE(y.is_contiguous());
      expect_each(y, {cols, rows}, [&](const At& at) { return value(x, {at[1], at[0]}); });
    }
}

TEST(Copy, StreamsLargeTransposes) {
  const Tensor x = reshape(arange(2048 * 2176), {2048, 2176});
  const Tensor y = contiguous(transpose(x, 0, 1));
  const auto* p = y.data<int64_t>();
  for (int64_t c = 0; c < 2176; ++c)
    for (int64_t r = 0; r < 2048; ++r) ASSERT_EQ(p[c * 2048 + r], r * 2176 + c);
}

TEST(Copy, ConvertsBetweenAnyLayoutsAndDtypes) {
  for (DType from : {kBool, kUInt8, kInt8, kInt32, kInt64, kFloat16, kBFloat16, kFloat32, kFloat64, kFloat8E5M2})
    for (DType target : {kBool, kUInt8, kInt16, kInt64, kFloat16, kBFloat16, kFloat32, kFloat64, kFloat8E4M3}) {
      const Tensor x = to(remainder(numbered({5, 70, 6}, kInt64), 7), from);
      for (const Tensor& view :
           {x, permute(x, {2, 0, 1}), slice(x, 1, 3, 60, 4), expand(slice(x, 0, 0, 1), {3, 70, 6})})
        expect_each(to(view, target, false, false, "contiguous_format"), At(view.shape().begin(), view.shape().end()),
                    [&](const At& at) { return target == kBool ? value(view, at) != 0 : value(view, at); });
    }
}

TEST(Copy, BroadcastsIntoStridedViews) {
  const Tensor base = zeros({6, 7, 8});
  const Tensor part = slice(permute(base, {2, 0, 1}), 0, 1, 8, 3), src = numbered({6, 1});
  copy_(part, src);
  expect_each(base, {6, 7, 8}, [](const At& at) { return at[2] % 3 == 1 ? static_cast<double>(at[0]) : 0.0; });
}

TEST(Copy, OverlappingSourceIsReadFirst) {
  const Tensor x = numbered({10});
  copy_(slice(x, 0, 1), slice(x, 0, 0, 9));
  expect_each(x, {10}, [](const At& at) { return static_cast<double>(std::max<int64_t>(0, at[0] - 1)); });
}

TEST(Views, ShareMemory) {
  const Tensor x = numbered({2, 3, 4});
  for (const Tensor& v :
       {view(x, {6, 4}), permute(x, {2, 1, 0}), unsqueeze(x, 1), select(x, 1, 2), slice(x, 2, 1, 3),
        diagonal(x, 0, 1, 2), unfold(x, 2, 2, 1), flatten(x, 0, 1), reshape(transpose(x, 0, 1), {3, 2, 2, 2})})
    EXPECT_EQ(v->storage.get(), x->storage.get());
  EXPECT_NE(reshape(transpose(x, 0, 2), -1)->storage.get(), x->storage.get());
}

TEST(Views, MatchIndexArithmetic) {
  const Tensor x = numbered({4, 5, 6});
  expect_each(permute(x, {1, 2, 0}), {5, 6, 4}, [&](const At& a) { return value(x, {a[2], a[0], a[1]}); });
  expect_each(slice(x, 1, -4, 99, 2), {4, 2, 6}, [&](const At& a) { return value(x, {a[0], 1 + 2 * a[1], a[2]}); });
  expect_each(select(x, -1, -2), {4, 5}, [&](const At& a) { return value(x, {a[0], a[1], 4}); });
  expect_each(diagonal(x, -1, 0, 1), {6, 3}, [&](const At& a) { return value(x, {a[1] + 1, a[1], a[0]}); });
  expect_each(unfold(x, 1, 3, 2), {4, 2, 6, 3}, [&](const At& a) { return value(x, {a[0], 2 * a[1] + a[3], a[2]}); });
  expect_each(movedim(x, {0, 2}, {2, 0}), {6, 5, 4}, [&](const At& a) { return value(x, {a[2], a[1], a[0]}); });
  expect_each(as_strided(x, {2, 3}, {7, 2}, 5), {2, 3},
              [](const At& a) { return static_cast<double>(5 + 7 * a[0] + 2 * a[1]); });
}

TEST(Views, ReshapeOfStridedTensors) {
  const Tensor x = transpose(numbered({4, 6}), 0, 1);
  expect_each(reshape(x, {3, 8}), {3, 8}, [&](const At& a) {
    const int64_t i = a[0] * 8 + a[1];
    return value(x, {i / 4, i % 4});
  });
  EXPECT_THROW(view(x, {3, 8}), Error);
  EXPECT_THROW(view(x, {5, -1}), Error);
}

TEST(Views, InPlaceWriteReachesTheBaseOnTheTape) {
  Tensor leaf = numbered({3, 4});
  leaf.set_requires_grad();
  const Tensor x = mul(leaf, 2.0), row = select(x, 0, 1), column = select(x, 1, 0);
  mul_(row, 3.0);
  autograd::backward(add(sum(x), sum(column)));  // column sees the write too
  expect_each(leaf.grad(), {3, 4}, [](const At& a) { return (a[0] == 1 ? 6.0 : 2.0) * (a[1] == 0 ? 2 : 1); });
}

TEST(Views, InPlaceThroughAViewOfABaseWithAnOffsetAndGaps) {
  const Tensor base = detach(slice(numbered({4, 6}), 1, 2, 5));  // begins inside its storage
  Tensor w = full({4, 3}, 2.0);
  w.set_requires_grad();
  mul_(base, w);
  zero_(select(base, 0, 2));
  autograd::backward(sum(base));
  expect_each(w.grad(), {4, 3}, [](const At& a) { return a[0] == 2 ? 0.0 : static_cast<double>(a[0] * 6 + a[1] + 2); });
}

TEST(Movement, JoinsAndReorders) {
  const Tensor a = numbered({2, 3}), b = add(numbered({2, 2}), 100);
  expect_each(cat({a, b}, 1), {2, 5}, [&](const At& at) {
    return at[1] < 3 ? value(a, at) : value(b, {at[0], at[1] - 3});
  });
  EXPECT_EQ(cat({to(a, kInt32), to(b, kFloat64)}, 1).dtype(), kFloat64);
  const Tensor x = numbered({4, 5, 3});
  expect_each(flip(x, {0, 2}), {4, 5, 3}, [&](const At& at) { return value(x, {3 - at[0], at[1], 2 - at[2]}); });
  expect_each(roll(x, {1, -2}, {0, 1}), {4, 5, 3}, [&](const At& at) {
    return value(x, {(at[0] + 3) % 4, (at[1] + 2) % 5, at[2]});
  });
  expect_each(repeat(x, {2, 1, 3, 2}), {2, 4, 15, 6}, [&](const At& at) {
    return value(x, {at[1], at[2] % 5, at[3] % 3});
  });
  expect_each(repeat_interleave(x, 2, 1), {4, 10, 3}, [&](const At& at) {
    return value(x, {at[0], at[1] / 2, at[2]});
  });
  expect_each(tril(x, 1), {4, 5, 3}, [&](const At& at) { return at[2] <= at[1] + 1 ? value(x, at) : 0.0; });
  expect_each(constant_pad_nd(x, {1, 0, -1, 2}, 9), {4, 6, 4}, [&](const At& at) {
    return at[2] >= 1 && at[1] + 1 < 5 ? value(x, {at[0], at[1] + 1, at[2] - 1}) : 9.0;
  });
  expect_each(nn::functional::pad(x, {2, 1}, "reflect"), {4, 5, 6}, [&](const At& at) {
    return value(x, {at[0], at[1], at[2] < 2 ? 2 - at[2] : at[2] > 4 ? 1 : at[2] - 2});
  });
  expect_each(nn::functional::pad(x, {2, 1}, "circular"), {4, 5, 6}, [&](const At& at) {
    return value(x, {at[0], at[1], (at[2] + 1) % 3});
  });
}

TEST(Random, SameStreamForAnyThreadCount) {
  const int before = num_threads();
  std::vector<Tensor> drawn[2];
  for (int k = 0; k < 2; ++k) {
    set_num_threads(k ? 4 : 1);
    manual_seed(7);
    for (DType t : {kFloat32, kFloat64, kBFloat16}) {
      drawn[k].push_back(randn(100003, nullptr, t));
      drawn[k].push_back(rand(100003, nullptr, t));
    }
    drawn[k].push_back(randint(1000, 100003));
    drawn[k].push_back(randperm(100003));
    drawn[k].push_back(multinomial(ones({50, 1000}), 20));
  }
  set_num_threads(before);
  for (size_t i = 0; i < drawn[0].size(); ++i) expect_equal(drawn[0][i], drawn[1][i]);
}

TEST(Random, HasTheMomentsOfItsDistribution) {
  manual_seed(1);
  const auto moments = [](const Tensor& x, double mean, double variance, double slack) {
    const Tensor d = to(x, kFloat64);
    const double m = sum(d).item<double>() / static_cast<double>(x.numel()),
                 v = sum(mul(sub(d, m), sub(d, m))).item<double>() / static_cast<double>(x.numel());
    EXPECT_NEAR(m, mean, slack);
    EXPECT_NEAR(v, variance, 4 * slack);
  };
  for (DType t : {kFloat32, kFloat64}) {
    moments(rand(200000, nullptr, t), 0.5, 1.0 / 12, 0.005);
    moments(randn(200000, nullptr, t), 0, 1, 0.01);
    moments(exponential_(empty(200000, t), 2.0), 0.5, 0.25, 0.01);
    moments(geometric_(empty(200000, t), 0.5), 2, 2, 0.02);
  }
  moments(bernoulli_(empty(200000), 0.25), 0.25, 0.1875, 0.01);
  const Tensor u = rand(1 << 20, nullptr, kBFloat16);
  EXPECT_LT(amax(u).item<double>(), 1.0);
  EXPECT_GE(amin(u).item<double>(), 0.0);
}

}  // namespace
}  // namespace strata
