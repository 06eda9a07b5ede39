// The rules of the pipeline: which writes are allowed, what explain() reports, the state after a failed call.
#include "strata/strata.h"

#include <thread>

#include "dispatch/samples.h"
#include "tests/expect_error.h"

namespace strata {
namespace {

using Sizes = std::vector<int64_t>;
Sizes list(Shape s) { return {s.begin(), s.end()}; }
Tensor values(std::initializer_list<double> l, DType dtype = kFloat32) {
  Tensor t = make_tensor(Shape({static_cast<int64_t>(l.size())}), kFloat64);
  std::copy(l.begin(), l.end(), t.data<double>());
  return to(t, dtype);
}
std::vector<double> numbers(const Tensor& t) {
  const Tensor d = to(contiguous(t), kFloat64);
  return {d.data<double>(), d.data<double>() + d.numel()};
}
using Numbers = std::vector<double>;
void add_out(const Tensor& a, Operand b, Tensor out) { call_out(op_add, Args(a, b, 1), &out); }

TEST(InPlace, ReturnsTheSameTensorAndCountsTheWrite) {
  const Tensor x = values({1, 2, 3});
  const uint32_t version = x->version();
  const Tensor y = add_(x, 10);
  EXPECT_EQ(y.get(), x.get());
  EXPECT_EQ(numbers(x), (Numbers{11, 12, 13}));
  EXPECT_EQ(x->version(), version + 1);
  mul_(x, x);
  EXPECT_EQ(numbers(x), (Numbers{121, 144, 169}));
}

TEST(InPlace, ShapeAndDtypeOfTheResultMustFit) {
  const Tensor x = values({1, 2, 3});
  EXPECT_ERROR(Runtime, "add_: output with shape [3] doesn't match the broadcast shape [2, 3]", add_(x, ones({2, 3})));
  EXPECT_ERROR(Runtime, "do not broadcast", add_(x, ones({2})));
  EXPECT_ERROR(Runtime, "result type float32 can't be cast to the desired output type int64",
               mul_(values({1, 2}, kInt64), 1.5));
  EXPECT_ERROR(Runtime, "result type int64 can't be cast to the desired output type bool",
               add_(values({1, 0}, kBool), 1));
  EXPECT_EQ(numbers(x), (Numbers{1, 2, 3}));
  const Tensor half = values({1, 2}, kFloat16);
  add_(half, values({0.5, 0.25}, kFloat64));  // narrower floats are allowed
  EXPECT_EQ(numbers(half), (Numbers{1.5, 2.25}));
  EXPECT_EQ(half.dtype(), kFloat16);
}

TEST(InPlace, ExpandedTensorsAreRefused) {
  EXPECT_ERROR(Runtime, "more than one element of the written-to tensor refers to a single memory location",
               add_(expand(ones({1}), {3}), 1));
  EXPECT_ERROR(Runtime, "single memory location", copy_(expand(ones({1}), {3}), ones({3})));
  EXPECT_NO_THROW(add_(expand(ones({1}), {1}), 1));
}

TEST(InPlace, OverlappingInputsAreReadBeforeTheyAreOverwritten) {
  const Tensor x = values({1, 2, 3, 4});
  add_(narrow(x, 0, 1, 3), narrow(x, 0, 0, 3));
  EXPECT_EQ(numbers(x), (Numbers{1, 3, 5, 7}));
  const Tensor y = values({1, 2, 3, 4});
  copy_(narrow(y, 0, 1, 3), narrow(y, 0, 0, 3));
  EXPECT_EQ(numbers(y), (Numbers{1, 1, 2, 3}));
  const Tensor m = reshape(values({1, 2, 3, 4}), {2, 2});
  add_(m, transpose(m, 0, 1));
  EXPECT_EQ(numbers(m), (Numbers{2, 5, 5, 8}));
  copy_(m, transpose(reshape(values({1, 2, 3, 4}), {2, 2}), 0, 1));
  EXPECT_EQ(numbers(m), (Numbers{1, 3, 2, 4}));
}

TEST(InPlace, UpdatesReadTheirSourceBeforeItChanges) {
  const Tensor swap = values({1, 0}, kInt64);
  const Tensor x = values({1, 10});
  index_add_(x, 0, swap, x);
  EXPECT_EQ(numbers(x), (Numbers{11, 11}));
  const Tensor y = values({1, 10});
  index_copy_(y, 0, swap, y);
  EXPECT_EQ(numbers(y), (Numbers{10, 1}));
  const Tensor i = values({1, 2, 0}, kInt64);
  index_put_(i, {i}, values({5, 6, 7}, kInt64));
  EXPECT_EQ(numbers(i), (Numbers{7, 5, 6}));
}

TEST(InPlace, ReadOnlyMemoryIsRefused) {
  float data[2] = {1, 2};
  Tensor t = alias(*ones({2}));
  t->storage = adopt_memory(data, sizeof data, nullptr, nullptr);
  t->data = t->storage->data;
  t->storage->read_only = true;
  EXPECT_ERROR(Runtime, "memory is read-only", add_(t, 1));
  EXPECT_EQ(sum(t).item<double>(), 3.0);
}

TEST(Out, WritesIntoTheGivenTensor) {
  const Tensor out = zeros({3});
  const auto* before = out.bytes();
  add_out(values({1, 2, 3}), 1, out);
  EXPECT_EQ(numbers(out), (Numbers{2, 3, 4}));
  EXPECT_EQ(out.bytes(), before);
  EXPECT_EQ(out->version(), 1u);
}

TEST(Out, AnInputItselfIsAllowedAPartOfItIsNot) {
  const Tensor x = values({1, 11, 12, 13});
  add_out(x, x, x);
  EXPECT_EQ(numbers(x), (Numbers{2, 22, 24, 26}));
  EXPECT_ERROR(Runtime, "single memory location", add_out(narrow(x, 0, 0, 3), 10, narrow(x, 0, 1, 3)));
  EXPECT_EQ(numbers(x), (Numbers{2, 22, 24, 26}));
}

TEST(Out, AnotherShapeIsResizedAViewIsNot) {
  const Tensor out = zeros({0});
  add_out(ones({2, 3}), 1, out);
  EXPECT_EQ(list(out.shape()), (Sizes{2, 3}));
  EXPECT_EQ(sum(out).item<double>(), 12.0);
  const Tensor base = zeros({4});
  EXPECT_ERROR(Runtime, "a view of shape [2] cannot be resized to [3]", add_out(ones({3}), 1, narrow(base, 0, 0, 2)));
  EXPECT_EQ(sum(base).item<double>(), 0.0);
}

TEST(Out, ATensorThatCannotBeResizedStaysWhole) {
  const Tensor out = zeros({4});
  const Tensor row = ones({1, 1 << 20});
  empty_cache();
  set_memory_limit(memory_stats().reserved_bytes +
                   (size_t{5} << 20));  // enough for the result, not for the resized output too
  EXPECT_ERROR(OutOfMemory, "out of memory", add_out(row, 1, out));
  set_memory_limit(0);
  EXPECT_EQ(list(out.shape()), (Sizes{4}));
  EXPECT_EQ(numbers(out), (Numbers{0, 0, 0, 0}));
}

TEST(Out, DtypeExpandedAndGradientRules) {
  EXPECT_ERROR(Runtime, "can't be cast to the desired output type int64", add_out(ones({2}), 1, zeros({2}, kInt64)));
  const Tensor wide = zeros({2}, kFloat64);
  add_out(ones({2}), 1, wide);
  EXPECT_EQ(numbers(wide), (Numbers{2, 2}));
  EXPECT_ERROR(Runtime, "single memory location", add_out(ones({3}), 1, expand(zeros({1}), {3})));
  Tensor x = ones({2}), leaf = ones({2});
  x.set_requires_grad();
  leaf.set_requires_grad();
  EXPECT_ERROR(Runtime, "don't support automatic differentiation", add_out(x, 1, zeros({2})));
  EXPECT_ERROR(Runtime, "don't support automatic differentiation", add_out(ones({2}), 1, leaf));
  EXPECT_EQ(numbers(leaf), (Numbers{1, 1}));
  autograd::NoGrad off;
  add_out(x, 1, leaf);
  EXPECT_EQ(numbers(leaf), (Numbers{2, 2}));
}

TEST(Out, SeveralOutputs) {
  Tensor outs[2] = {zeros({0}), zeros({0}, kInt64)};
  call_out(op_max_dim, Args(reshape(values({1, 5, 3, 2}), {2, 2}), 1, false), outs);
  EXPECT_EQ(numbers(outs[0]), (Numbers{5, 3}));
  EXPECT_EQ(numbers(outs[1]), (Numbers{1, 0}));
}

TEST(Explain, KeepsTheReasonsInOrder) {
  Explanation e;
  {
    const Scoped<Explanation*> scope(thread_state.explain, &e);
    matmul(ones({4, 4}, kInt64), ones({4, 4}, kInt64));
  }
  ASSERT_FALSE(e.lines.empty());
  EXPECT_EQ(e.chosen().reason, "");
  for (const auto& line : e.lines) {
    ASSERT_TRUE(line.op && line.kernel);
    if (!line.reason.empty()) { EXPECT_GT(line.reason.size(), 3u); }
  }
  const size_t count = e.lines.size();
  matmul(ones({4, 4}), ones({4, 4}));
  EXPECT_EQ(e.lines.size(), count);  // no longer watched
}

TEST(Explain, EveryKernelListEndsWithAnUnconditionalReference) {
  for (const OpRecord* op : all_ops()) {
    if (op->kernels(Backend::Cpu).empty()) continue;
    const Kernel& last = op->kernels(Backend::Cpu).back();
    EXPECT_EQ(last.when, nullptr) << op->schema << ": " << last.name;
    EXPECT_FALSE(last.plans()) << op->schema << ": " << last.name;
  }
}

TEST(Records, EveryPublicOpHasDocAndSamples) {
  for (const OpRecord* op : all_ops()) {
    EXPECT_TRUE(op->infer_fn || op->view_fn || op->composite_fn || op->formulas) << op->schema;
    if (op->internal) continue;
    EXPECT_NE(std::string(op->text), "") << op->schema;
    EXPECT_FALSE(op->sample_texts.empty()) << op->schema;
  }
}

TEST(Records, UnknownOpsAreAnInternalError) {
  EXPECT_ERROR(Internal, "there is no op 'no_such_op'", find_op("no_such_op"));
}

TEST(Inference, ResultsMayNotBeSavedForBackward) {
  Tensor w = ones({2}), x;
  w.set_requires_grad();
  {
    autograd::InferenceMode on;
    x = ones({2}) * 3;
    EXPECT_FALSE((w * x).requires_grad());
  }
  EXPECT_ERROR(Runtime, "mul: an inference tensor cannot be saved for backward", w * x);
  EXPECT_NO_THROW(w + x);  // nothing is saved
  EXPECT_NO_THROW(w * clone(x));
}

TEST(NoGrad, NothingIsRecordedAndScopesNest) {
  Tensor w = ones({2});
  w.set_requires_grad();
  autograd::NoGrad off;
  EXPECT_FALSE((w * 2).requires_grad());
  {
    autograd::EnableGrad on;
    EXPECT_TRUE((w * 2).requires_grad());
  }
  EXPECT_FALSE((w * 2).requires_grad());
  EXPECT_NO_THROW(add_(w, 1));  // a leaf may be written to here
  EXPECT_TRUE(w.requires_grad());
}

TEST(Calls, AreSafeFromManyThreads) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 300; ++i) {
        const Tensor x = full({17}, t) + i;
        if (sum(x * 2 - x).item<double>() != 17.0 * (t + i)) ++wrong;
        try {
          add(x, ones({3}));
          ++wrong;
        } catch (const Error&) {}
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong.load(), 0);
}

}  // namespace
}  // namespace strata
