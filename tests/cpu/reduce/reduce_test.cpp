// Reductions compared with plain float64 loops: every layout and reduction, and the same bits for any thread count.
#include "cpu/reduce/reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "base/parallel.h"

namespace strata {
namespace {

Tensor random_tensor(Shape shape, DType dtype, uint32_t seed) {
  Tensor t = make_tensor(shape, dtype);
  std::mt19937 gen(seed);
  std::normal_distribution<double> normal;
  dispatch_dtype(dtype, [&]<class T>() {
    for (int64_t i = 0; i < t.numel(); ++i) {
      if constexpr (std::is_integral_v<T>) t.data<T>()[i] = static_cast<T>(gen() % 7);
      else t.data<T>()[i] = convert<T>(normal(gen));
    }
  });
  return t;
}

Tensor view(const Tensor& t, std::vector<int64_t> shape, std::vector<int64_t> strides, int64_t offset = 0) {
  Tensor v = alias(*t);
  v->set_shape(Shape(shape));
  std::copy(strides.begin(), strides.end(), v->strides);
  v->data += offset * static_cast<int64_t>(size_of(t.dtype()));
  v->update_contiguous();
  return v;
}

double element(const TensorImpl& t, int64_t index) {
  int64_t at = 0;
  for (int d = t.ndim; d-- > 0; index /= t.shape[d]) at += index % t.shape[d] * t.strides[d];
  return dispatch_dtype(t.dtype, [&]<class T>() { return convert<double>(reinterpret_cast<const T*>(t.data)[at]); });
}

double identity(Fold f) {
  switch (f) {
    case Fold::Prod:
    case Fold::All: return 1;
    case Fold::Max: return -INFINITY;
    case Fold::Min:
    case Fold::MinAbs: return INFINITY;
    default: return 0;
  }
}
double step(Fold f, double a, double v) {
  switch (f) {
    case Fold::Sum: return a + v;
    case Fold::NanSum: return std::isnan(v) ? a : a + v;
    case Fold::CountNonzero: return a + (v != 0);
    case Fold::SumAbs: return a + std::abs(v);
    case Fold::SumSquares: return a + v * v;
    case Fold::Prod: return a * v;
    case Fold::Max: return std::isnan(a) || a > v ? a : v;
    case Fold::Min: return std::isnan(a) || a < v ? a : v;
    case Fold::MaxAbs: return std::isnan(a) || a > std::abs(v) ? a : std::abs(v);
    case Fold::MinAbs: return std::isnan(a) || a < std::abs(v) ? a : std::abs(v);
    case Fold::Any: return a != 0 || v != 0;
    case Fold::All: return a != 0 && v != 0;
  }
  return 0;
}

std::vector<int64_t> kept_shape(const TensorImpl& x, uint32_t reduced) {
  std::vector<int64_t> shape;
  for (int d = 0; d < x.ndim; ++d)
    if (!(reduced >> d & 1)) shape.push_back(x.shape[d]);
  return shape;
}

std::vector<double> expected(Fold f, const TensorImpl& x, uint32_t reduced) {
  const auto shape = kept_shape(x, reduced);
  std::vector<double> out(static_cast<size_t>(checked_numel(Shape(shape))), identity(f));
  for (int64_t i = 0; i < x.numel; ++i) {
    int64_t rest = i, at = 0, stride = 1;
    for (int d = x.ndim; d-- > 0; rest /= x.shape[d])
      if (!(reduced >> d & 1)) {
        at += rest % x.shape[d] * stride;
        stride *= x.shape[d];
      }
    out[static_cast<size_t>(at)] = step(f, out[static_cast<size_t>(at)], element(x, i));
  }
  return out;
}

void check(Fold f, const Tensor& x, uint32_t reduced, double tolerance) {
  const auto want = expected(f, *x, reduced);
  const auto shape = kept_shape(*x, reduced);
  const DType dtype =
    x.dtype() == DType::F64 || is_integral(x.dtype()) ? (is_integral(x.dtype()) ? DType::I64 : DType::F64) : DType::F32;
  std::vector<std::byte> first;
  for (int threads : {1, 2, 3}) {
    set_num_threads(threads);
    const Tensor out = make_tensor(Shape(shape), dtype);
    cpu::reduce(f, *x, reduced, x.dtype(), *out);
    const std::vector<std::byte> bytes(out.bytes(), out.bytes() + out.numel() * static_cast<int64_t>(size_of(dtype)));
    if (first.empty()) first = bytes;
    EXPECT_EQ(first, bytes) << "thread count " << threads << " changes the bits";
    for (size_t i = 0; i < want.size(); ++i) {
      const double got = element(*out, static_cast<int64_t>(i));
      if (std::isnan(want[i])) EXPECT_TRUE(std::isnan(got));
      else if (std::isinf(want[i])) EXPECT_EQ(got, want[i]);
      else
        ASSERT_NEAR(got, want[i], tolerance * (1 + std::abs(want[i])))
          << "fold " << int(f) << " at " << i << " of " << to_string(x.shape());
    }
  }
  set_num_threads(hardware_threads());
}

const std::vector<std::vector<int64_t>> kShapes = {
  {7},      {3, 4},   {0, 3},     {3, 0},     {},         {1, 5, 1},   {33, 65},  {2, 3, 4, 5}, {300, 3},
  {3, 300}, {200000}, {70, 1000}, {1000, 70}, {5000, 17}, {600, 3, 2}, {4, 9000}, {3, 2, 70000}};

TEST(Reduce, EverySetOfDimensionsOfManyShapes) {
  for (const auto& shape : kShapes)
    for (uint32_t mask = 0; mask < 1u << shape.size(); ++mask)
      check(Fold::Sum, random_tensor(Shape(shape), DType::F32, 1), mask, 3e-5);
}

TEST(Reduce, EveryFoldAndType) {
  for (int f = 0; f < kFoldCount; ++f)
    for (DType t : {DType::F32, DType::F64, DType::BF16, DType::F16, DType::I32, DType::U8, DType::Bool}) {
      if (static_cast<Fold>(f) == Fold::SumSquares && is_integral(t)) continue;
      for (uint32_t mask : {1u, 2u, 3u})
        check(static_cast<Fold>(f), random_tensor(Shape(std::vector<int64_t>{19, 37}), t, 2), mask, 1e-5);
    }
}

TEST(Reduce, ReadsAnyLayoutInPlace) {
  for (DType t : {DType::F32, DType::F64, DType::BF16, DType::I64}) {
    const Tensor base = random_tensor(Shape(std::vector<int64_t>{40, 50, 60}), t, 3);
    const Tensor views[] = {view(base, {60, 50, 40}, {1, 60, 3000}),  view(base, {50, 60, 40}, {60, 1, 3000}),
                            view(base, {20, 25, 30}, {6000, 120, 2}), view(base, {40, 7, 60}, {3000, 0, 1}),
                            view(base, {40, 60, 7}, {3000, 1, 0}),    view(base, {40, 50, 60}, {3000, 60, -1}, 59)};
    for (const Tensor& v : views)
      for (uint32_t mask = 0; mask < 8; ++mask) check(Fold::Sum, v, mask, 3e-5);
  }
}

TEST(Reduce, NanReachesTheResultAndStays) {
  for (int64_t at : {0, 5, 700, 4999})
    for (Fold f : {Fold::Max, Fold::Min, Fold::Sum, Fold::NanSum, Fold::MaxAbs}) {
      Tensor x = random_tensor(Shape(std::vector<int64_t>{50, 100}), DType::F32, 4);
      x.data<float>()[at] = NAN;
      for (uint32_t mask : {1u, 2u, 3u}) check(f, x, mask, 1e-4);
    }
}

TEST(Reduce, FloatSumsStayAccurate) {
  Tensor x = make_tensor(Shape(std::vector<int64_t>{3000000}), DType::F32);
  std::fill_n(x.data<float>(), x.numel(), 0.1F);
  const Tensor out = make_tensor({}, DType::F32);
  cpu::reduce(Fold::Sum, *x, 1, DType::F32, *out);
  EXPECT_NEAR(out.item<double>(), 3000000.0 * 0.1F, 0.1);
  const Tensor columns = view(x, {1000000, 3}, {3, 1}), sums = make_tensor(Shape(std::vector<int64_t>{3}), DType::F32);
  cpu::reduce(Fold::Sum, *columns, 1, DType::F32, *sums);
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(sums.data<float>()[i], 1000000.0 * 0.1F, 0.05);
}

}  // namespace
}  // namespace strata
