// The pointwise engine: dense and blocked kernels against the reference, for all records, dtypes and layouts.
#include "cpu/pointwise/pointwise.h"

#include <fmt/core.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/parallel.h"
#include "dispatch/samples.h"
#include "record/promotion.h"
#include "strata/ops.h"

namespace strata {
namespace {

constexpr DType kEveryType[] = {DType::Bool, DType::U8,  DType::I8,   DType::I16, DType::I32,
                                DType::I64,  DType::F16, DType::BF16, DType::F32, DType::F64};

double element(const TensorImpl& t, int64_t position) {
  int64_t offset = 0;
  for (int d = t.ndim; d-- > 0; position /= t.shape[d]) offset += position % t.shape[d] * t.strides[d];
  return dispatch_dtype(t.dtype,
                        [&]<class T>() { return convert<double>(reinterpret_cast<const T*>(t.data)[offset]); });
}

Tensor filled(Shape shape, DType type, double (*value)(int64_t)) {
  Tensor t = make_tensor(shape, type);
  dispatch_dtype(type, [&]<class T>() {
    for (int64_t i = 0; i < t.numel(); ++i) t.data<T>()[i] = convert<T>(value(i));
  });
  return t;
}
double wave(int64_t i) { return std::sin(static_cast<double>(i) * 0.37) * 3 + static_cast<double>(i % 7) - 3; }
double above_zero(int64_t i) { return static_cast<double>(i % 5) + 1; }

// The same values in a layout with gaps, and with the dimensions in reverse order in memory.
Tensor with_gaps(const Tensor& t, bool reversed) {
  Tensor out = shape_only(*t);
  int64_t n = 2;
  for (int k = 0; k < t.dim(); ++k) {
    const int d = reversed ? k : t.dim() - 1 - k;
    out->strides[d] = n;
    n *= t->shape[d] + 1;
  }
  out->storage = allocate(static_cast<size_t>(n) * size_of(t.dtype()));
  out->data = out->storage->data;
  out->update_contiguous();
  dispatch_size(t.dtype(), [&]<class U>() {
    for (int64_t i = 0; i < t.numel(); ++i) {
      int64_t offset = 0, from = 0, position = i;
      for (int d = t.dim(); d-- > 0; position /= t->shape[d]) {
        offset += position % t->shape[d] * out->strides[d];
        from += position % t->shape[d] * t->strides[d];
      }
      reinterpret_cast<U*>(out.bytes())[offset] = reinterpret_cast<const U*>(t.bytes())[from];
    }
  });
  return out;
}

Tensor by_reference(const OpRecord& op, const Args& args) {
  Scoped<bool> scope(thread_state.reference_only, true);
  return call(op, args);
}

void expect_close(const Tensor& got, const Tensor& expected, const std::string& what) {
  ASSERT_EQ(got.dtype(), expected.dtype()) << what;
  ASSERT_TRUE(got->same_shape(*expected)) << what;
  if (is_complex(got.dtype())) return expect_close(view_as_real(got), view_as_real(expected), what);
  const DType t = got.dtype();
  const double rtol = t == DType::F64    ? 1e-12
                      : t == DType::F32  ? 1.3e-6
                      : t == DType::F16  ? 1e-3
                      : t == DType::BF16 ? 1.6e-2
                                         : 0;
  const double atol = t == DType::F64 ? 1e-12 : is_floating(t) ? 1e-5 : 0;
  for (int64_t i = 0; i < got.numel(); ++i) {
    const double a = element(*got, i), b = element(*expected, i);
    if (std::isnan(b) ? std::isnan(a) : a == b) continue;
    ASSERT_LE(std::fabs(a - b), atol + rtol * std::fabs(b))
      << what << ": element " << i << " is " << a << ", expected " << b;
  }
}
void expect_same(const Tensor& a, const Tensor& b, const std::string& what) {
  ASSERT_EQ(a.dtype(), b.dtype()) << what;
  ASSERT_TRUE(a->same_shape(*b)) << what;
  if (is_complex(a.dtype())) return expect_same(view_as_real(a), view_as_real(b), what);
  for (int64_t i = 0; i < a.numel(); ++i) {
    const double x = element(*a, i), y = element(*b, i);
    ASSERT_TRUE(std::memcmp(&x, &y, sizeof x) == 0 || (std::isnan(x) && std::isnan(y)))
      << what << ": element " << i << ": " << x << " and " << y;
  }
}

std::string describe(const OpRecord& op, const char* text, DType type) {
  return fmt::format("{}({}) with {}", op.name, text, name_of(type));
}

TEST(Pointwise, EveryRecordMatchesItsReferenceInEveryDtypeAndLayout) {
  int checked = 0;
  for (const OpRecord* op : all_ops()) {
    if (!op->formulas) continue;
    EXPECT_FALSE(op->sample_texts.empty()) << op->name;
    for (const char* text : op->sample_texts) {
      for (DType type : kEveryType) {
        if (!op->accepts.has(type)) continue;
        Sample s(*op, text, type);
        const std::string what = describe(*op, text, type);
        Tensor expected;
        try {
          expected = by_reference(*op, s.args);
        } catch (
          const Error& e) {  // integer division by a zero of the sample, incompatible types: the others raise too
          EXPECT_THROW(call(*op, s.args), Error) << what << ": " << e.what();
          continue;
        }
        const Tensor dense = call(*op, s.args);
        expect_close(dense, expected, what);
        for (bool reversed : {false, true}) {
          Sample strided(*op, text, type);
          std::vector<Tensor> keep;
          for (Value& v : std::span(strided.args.v, strided.args.size))
            if (v.tag == Tag::Tensor) {
              keep.push_back(with_gaps(Tensor(Ref<TensorImpl>::share(v.tensor)), reversed));
              v = Value(keep.back());
            }
          expect_same(call(*op, strided.args), dense, what + (reversed ? ", reversed" : ", with gaps"));
        }
        ++checked;
        if (HasFatalFailure()) return;
      }
    }
  }
  EXPECT_GT(checked, 1000);
}

TEST(Pointwise, ErrorSamplesAreRefused) {
  for (const OpRecord* op : all_ops()) {
    if (!op->formulas) continue;
    for (const ErrorSample& e : op->error_samples) {
      try {
        Sample s(*op, e.args);
        call(*op, s.args);
        ADD_FAILURE() << op->name << '(' << e.args << ") was accepted";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), e.kind) << error.what();
        EXPECT_NE(std::string(error.what()).find(e.message), std::string::npos) << error.what();
      }
    }
  }
}

TEST(Pointwise, LargeOperandsOfManyLayouts) {
  const int64_t shapes[][3] = {{1, 1, 70001}, {3, 5, 1}, {20, 30, 70}, {200, 100, 3},
                               {2, 3, 400},   {0, 4, 5}, {1, 1, 1}};
  for (const auto& shape : shapes) {
    for (DType type : {DType::F32, DType::BF16, DType::I32, DType::I64, DType::F64}) {
      const Tensor a = filled(shape, type, wave), b = filled(shape, DType::F32, above_zero);
      const int64_t row_shape[] = {shape[2]}, column_shape[] = {shape[1], 1};
      const Tensor row = filled(row_shape, type, wave), column = filled(column_shape, DType::U8, above_zero);
      const std::string what = fmt::format("{} {}", to_string(a.shape()), name_of(type));
      for (const Tensor& x : {a, with_gaps(a, false), with_gaps(a, true)}) {
        for (const Tensor& y : {b, with_gaps(b, true), row, column}) {
          const Args args(x, y, 1);
          expect_close(call(op_add, args), by_reference(op_add, args), what + " add");
          expect_close(call(op_lt, Args(x, y)), by_reference(op_lt, Args(x, y)), what + " lt");
        }
        const Args scaled(x, 2.5);
        expect_close(call(op_mul, scaled), by_reference(op_mul, scaled), what + " mul by a number");
      }
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Pointwise, EveryThreadCountGivesTheSameBits) {
  const int64_t shape[] = {311, 1001};
  const Tensor x = filled(shape, DType::F32, wave), h = filled(shape, DType::F16, wave);
  const int before = num_threads();
  for (const OpRecord* op : {&op_exp, &op_sin, &op_tanh, &op_erf, &op_log}) {
    for (const Tensor& t : {x, h, with_gaps(x, true)}) {
      set_num_threads(1);
      const Tensor one = call(*op, Args(t));
      for (int threads : {2, 3, 5}) {
        set_num_threads(threads);
        expect_same(call(*op, Args(t)), one, fmt::format("{} on {} threads", op->name, threads));
      }
    }
  }
  set_num_threads(before);
}

TEST(Pointwise, ChoosesTheDenseKernelAndSaysWhyNot) {
  const int64_t shape[] = {4, 4};
  const Tensor x = filled(shape, DType::F32, wave);
  const auto lines = [](const OpRecord& op, const Args& args) {
    Explanation e;
    Scoped<Explanation*> scope(thread_state.explain, &e);
    call(op, args);
    return e.lines;
  };
  const auto dense = lines(op_exp, Args(x));
  ASSERT_EQ(dense.size(), op_exp.record.kernels(Backend::Cpu).size());
  EXPECT_STREQ(dense[0].kernel->name, "flat_simd");
  EXPECT_EQ(dense[0].reason, "");
  EXPECT_EQ(dense[1].reason, "ready, but flat_simd comes first");
  const auto strided = lines(op_exp, Args(with_gaps(x, false)));
  ASSERT_GE(strided.size(), 2u);
  EXPECT_EQ(strided[0].reason, "an operand has another memory order");
  EXPECT_EQ(strided[1].reason, "");
  EXPECT_STREQ(strided[1].kernel->name, "blocked");
}

TEST(Pointwise, KeepsTheMemoryOrderOfItsInputs) {
  const int64_t shape[] = {2, 3, 4, 5}, bias_shape[] = {3, 1, 1};
  Tensor x = filled(shape, DType::F32, wave);
  const int64_t channels_last[] = {60, 1, 15, 3};
  std::copy_n(channels_last, 4, x->strides);
  x->update_contiguous();
  const Tensor y = call(op_add, Args(x, filled(bias_shape, DType::F32, wave), 1));
  EXPECT_EQ(std::vector<int64_t>(y.strides().begin(), y.strides().end()),
            std::vector<int64_t>(channels_last, channels_last + 4));
}

TEST(Pointwise, PromotesAsPyTorchDoes) {
  const int64_t one[] = {1};
  const auto vector = [&](DType t) { return make_tensor(one, t); };
  const auto zero_dim = [](DType t) { return make_tensor({}, t); };
  const auto type = [](const auto&... operands) { return result_type(Args(operands...), sizeof...(operands)); };
  EXPECT_EQ(type(vector(DType::I32), zero_dim(DType::I64)), DType::I32);
  EXPECT_EQ(type(vector(DType::I32), zero_dim(DType::F64)), DType::F64);
  EXPECT_EQ(type(vector(DType::F16), zero_dim(DType::F64)), DType::F16);
  EXPECT_EQ(type(vector(DType::F16), 2.5), DType::F16);
  EXPECT_EQ(type(vector(DType::U8), 300), DType::U8);
  EXPECT_EQ(type(vector(DType::U8), 2.5), DType::F32);
  EXPECT_EQ(type(zero_dim(DType::Bool), 1), DType::I64);
  EXPECT_EQ(type(vector(DType::Bool), true), DType::Bool);
  EXPECT_EQ(type(vector(DType::U8), vector(DType::I8)), DType::I16);
  EXPECT_EQ(type(vector(DType::F16), vector(DType::BF16)), DType::F32);
  EXPECT_EQ(type(vector(DType::I64), vector(DType::F16)), DType::F16);
  EXPECT_EQ(type(zero_dim(DType::I32), vector(DType::Bool)), DType::I32);
  EXPECT_EQ(call(op_div, Args(vector(DType::I64), vector(DType::I64), Value())).dtype(), DType::F32);
  EXPECT_EQ(call(op_exp, Args(vector(DType::Bool))).dtype(), DType::F32);
  EXPECT_EQ(call(op_eq, Args(vector(DType::F16), 1)).dtype(), DType::Bool);
}

TEST(Pointwise, IntegersWrapAndDivideAsInPython) {
  const int64_t n[] = {6};
  const int64_t a_values[] = {7, -7, 7, -7, INT64_MIN, INT64_MAX}, b_values[] = {3, 3, -3, -3, -1, 1};
  Tensor a = make_tensor(n, DType::I64), b = make_tensor(n, DType::I64);
  std::copy_n(a_values, 6, a.data<int64_t>());
  std::copy_n(b_values, 6, b.data<int64_t>());
  const auto values = [](const Tensor& t) {
    return std::vector<int64_t>(t.data<int64_t>(), t.data<int64_t>() + t.numel());
  };
  EXPECT_EQ(values(floor_divide(a, b)), (std::vector<int64_t>{2, -3, -3, 2, INT64_MIN, INT64_MAX}));
  EXPECT_EQ(values(remainder(a, b)), (std::vector<int64_t>{1, 2, -2, -1, 0, 0}));
  EXPECT_EQ(values(fmod(a, b)), (std::vector<int64_t>{1, -1, 1, -1, 0, 0}));
  EXPECT_EQ(values(div(a, b, "trunc")), (std::vector<int64_t>{2, -2, -2, 2, INT64_MIN, INT64_MAX}));
  EXPECT_EQ(values(add(a, 1))[5], INT64_MIN);
  EXPECT_THROW(remainder(a, 0), Error);
}

}  // namespace
}  // namespace strata
