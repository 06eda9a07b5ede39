// Tests generated from the op records: each sample of each op runs, its fast kernels agree with the reference, and each
// error sample raises the expected error and leaks no memory.
#include "strata/strata.h"

#include <fmt/core.h>

#include <cmath>

#include "dispatch/samples.h"
#include "tests/expect_error.h"

namespace strata {
namespace {

std::vector<Tensor> run(const OpRecord& op, const Args& args) {
  if (op.returns_list) return call_list(op, args);
  std::vector<Tensor> outs(op.outputs);
  call_into(op, args, outs.data());
  return outs;
}

double value_at(const Tensor& t, int64_t i) {
  return dispatch_dtype(t.dtype(), [&]<class T> { return convert<double>(t.data<T>()[i]); });
}

// Where a and b differ: exactly for integers, within the tolerance (relative to the largest value) for floats.
std::string difference(const Tensor& a, const Tensor& b) {
  if (!a || !b) return static_cast<bool>(a) == static_cast<bool>(b) ? "" : "one of them is undefined";
  if (a.dtype() != b.dtype()) return fmt::format("dtypes {} and {}", name_of(a.dtype()), name_of(b.dtype()));
  if (!a->same_shape(*b)) return fmt::format("shapes {} and {}", to_string(a.shape()), to_string(b.shape()));
  if (is_complex(a.dtype())) return difference(view_as_real(a), view_as_real(b));
  const Tensor x = contiguous(a), y = contiguous(b);
  double scale = 1;
  for (int64_t i = 0; i < y.numel(); ++i)
    if (std::isfinite(value_at(y, i))) scale = std::max(scale, std::abs(value_at(y, i)));
  const double tolerance = !is_floating(a.dtype()) ? 0
                           : a.dtype() == kFloat64 ? 1e-9
                           : a.dtype() == kFloat32 ? 2e-5
                                                   : 2e-2;
  for (int64_t i = 0; i < x.numel(); ++i) {
    const double v = value_at(x, i), w = value_at(y, i);
    if (v == w || (std::isnan(v) && std::isnan(w)) || std::abs(v - w) <= tolerance * scale) continue;
    return fmt::format("element {}: {} and {}", i, v, w);
  }
  return {};
}

// An op without results changes its arguments instead.
bool changes_arguments(const OpRecord& op) { return op.outputs == 0 && !op.returns_list; }
bool arbitrary(const OpRecord& op) {
  return op.random || op.name.find("empty") != std::string::npos || op.name.ends_with('_');
}
std::string label(const OpRecord& op, const char* text) { return fmt::format("{} with \"{}\"", op.schema, text); }

TEST(Records, LastKernelIsThePlainReference) {
  for (const OpRecord* op : all_ops()) {
    if (op->kernels(Backend::Cpu).empty()) continue;
    EXPECT_STREQ(op->kernels(Backend::Cpu).back().name, "reference") << op->schema;
  }
}

std::vector<Tensor> changed_or_returned(const OpRecord& op, const Sample& sample) {
  const std::vector<Tensor> returned = run(op, sample.args);
  return changes_arguments(op) ? sample.tensors : returned;
}

class RecordsOf : public ::testing::TestWithParam<DType> {};

TEST_P(RecordsOf, EverySampleRunsAndAgreesWithTheReference) {
  int count = 0;
  for (const OpRecord* op : all_ops()) {
    if (!op->accepts.has(GetParam())) continue;
    for (const char* text : op->sample_texts) {
      // Complex numbers have no order to round to.
      if (is_complex(GetParam()) && std::string_view(text).find("rounding_mode") != std::string_view::npos) continue;
      SCOPED_TRACE(label(*op, text));
      try {
        const Sample sample(*op, text, GetParam());
        const std::vector<Tensor> fast = changed_or_returned(*op, sample);
        ++count;
        for (const Tensor& t : fast) ASSERT_TRUE(!t || t->data || t.numel() == 0);
        if (arbitrary(*op)) continue;
        const Scoped<bool> reference(thread_state.reference_only, true);
        const Sample again(*op, text, GetParam());
        const std::vector<Tensor> plain = changed_or_returned(*op, again);
        ASSERT_EQ(fast.size(), plain.size());
        for (size_t o = 0; o < fast.size(); ++o) EXPECT_EQ(difference(fast[o], plain[o]), "") << "output " << o;
      } catch (const std::exception& e) { ADD_FAILURE() << e.what(); }
    }
  }
  EXPECT_GT(count, is_complex(GetParam()) ? 250 : 500);
}

INSTANTIATE_TEST_SUITE_P(Floats, RecordsOf, ::testing::Values(kFloat32, kFloat64, kComplex64, kComplex128),
                         [](const auto& info) { return std::string(name_of(info.param)); });

// The same values with other strides: every second element of a wider tensor, last dimension first in memory.
Tensor scattered(const Tensor& t) {
  std::vector<int64_t> order, back(static_cast<size_t>(t.dim()));
  for (int d = t.dim(); d-- > 0;) order.push_back(d);
  for (size_t d = 0; d < order.size(); ++d) back[static_cast<size_t>(order[d])] = static_cast<int64_t>(d);
  const Tensor turned = contiguous(permute(t, order)), wide = zeros({t.numel(), 2}, t.dtype());
  copy_(select(wide, 1, 1), reshape(turned, {-1}));
  std::vector<int64_t> strides(order.size(), 0);
  int64_t step = 2;
  for (size_t d = order.size(); d-- > 0;) {
    strides[d] = step;
    step *= std::max<int64_t>(turned.size(static_cast<int64_t>(d)), 1);
  }
  return permute(as_strided(wide, turned.shape(), strides, t.numel() ? 1 : 0), back);
}

TEST(Records, LayoutOfTheInputsDoesNotMatter) {
  for (const OpRecord* op : all_ops()) {
    const bool about_strides = op->view_fn || op->name.find("strided") != std::string::npos || op->name == "unview";
    if (!op->accepts.has(kFloat32) || arbitrary(*op) || about_strides || op->name.starts_with("view")) continue;
    for (const char* text : op->sample_texts) {
      SCOPED_TRACE(label(*op, text));
      try {
        const Sample plain(*op, text, kFloat32);
        Sample moved(*op, text, kFloat32);
        for (size_t k = 0; k < moved.tensors.size(); ++k) moved.replace(k, scattered(moved.tensors[k]));
        const std::vector<Tensor> want = run(*op, plain.args), got = run(*op, moved.args);
        ASSERT_EQ(want.size(), got.size());
        for (size_t o = 0; o < want.size(); ++o) EXPECT_EQ(difference(got[o], want[o]), "") << "output " << o;
      } catch (const std::exception& e) { ADD_FAILURE() << e.what(); }
    }
  }
}

// The gradients of the sum of all outputs, by the value tensors of the sample.
std::vector<Tensor> gradients(const OpRecord& op, const char* text) {
  Sample sample(op, text, kFloat32);
  std::vector<Tensor> roots, seeds;
  for (Tensor& t : sample.tensors) t.set_requires_grad();
  for (const Tensor& out : run(op, sample.args))
    if (out && out.requires_grad()) {
      roots.push_back(out);
      seeds.push_back(ones_like(out));
    }
  if (roots.empty() || sample.tensors.empty()) return {};
  return autograd::grad(roots, sample.tensors, seeds, false, false, true);
}

TEST(Records, GradientsRunAndAgreeWithTheReference) {
  int count = 0;
  for (const OpRecord* op : all_ops()) {
    if (!op->accepts.has(kFloat32) || arbitrary(*op) || op->grad_fn == no_derivative) continue;
    for (const char* text : op->sample_texts) {
      SCOPED_TRACE(label(*op, text));
      try {
        const std::vector<Tensor> fast = gradients(*op, text);
        const Scoped<bool> reference(thread_state.reference_only, true);
        const std::vector<Tensor> plain = gradients(*op, text);
        ASSERT_EQ(fast.size(), plain.size());
        for (size_t k = 0; k < fast.size(); ++k) EXPECT_EQ(difference(fast[k], plain[k]), "") << "input " << k;
        count += !fast.empty();
      } catch (const Error& e) {
        // A sample with '!' may have a gradient that raises, such as that of igamma's order. That of complex eigenvectors
        // does if it depends on their phase, which is arbitrary.
        const bool turns = std::string_view(e.what()).find("ill-defined") != std::string_view::npos;
        EXPECT_TRUE(turns || (e.kind() == ErrorKind::NotImplemented && text[0] == '!')) << e.what();
      } catch (const std::exception& e) { ADD_FAILURE() << e.what(); }
    }
  }
  EXPECT_GT(count, 500);
}

TEST(Records, SamplesAreNotChangedByTheCall) {
  for (const OpRecord* op : all_ops()) {
    if (!op->accepts.has(kFloat32) || op->name.ends_with('_') || changes_arguments(*op)) continue;
    for (const char* text : op->sample_texts) {
      const Sample sample(*op, text, kFloat32);
      if (sample.tensors.empty() || op->constant_inputs) continue;  // running statistics are updated
      const Tensor before = clone(sample.tensors[0]);
      run(*op, sample.args);
      EXPECT_EQ(difference(sample.tensors[0], before), "") << label(*op, text);
    }
  }
}

TEST(Records, ErrorSamplesRaiseWhatTheyPromise) {
  int count = 0;
  for (const OpRecord* op : all_ops())
    for (const ErrorSample& error : op->error_samples) {
      SCOPED_TRACE(label(*op, error.args));
      const Sample sample(*op, error.args);
      const size_t before = memory_stats().allocated_bytes;
      EXPECT_EQ(testing::error_problem(error.kind, error.message, [&] { run(*op, sample.args); }), "");
      EXPECT_EQ(memory_stats().allocated_bytes, before) << "the failing call kept memory";
      ++count;
    }
  EXPECT_GT(count, 200);
}

}  // namespace
}  // namespace strata
