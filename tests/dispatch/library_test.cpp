// Custom ops in C++: records that are defined at run time. tests/python/test_custom_ops_cpp.py loads shared libraries.
#include "dispatch/library.h"

#include <fmt/core.h>

#include <atomic>
#include <thread>

#include "strata/strata.h"
#include "tests/expect_error.h"

namespace strata {
namespace {

std::vector<int64_t> list(Shape s) { return {s.begin(), s.end()}; }
bool same(const Tensor& a, const Tensor& b) { return all(eq(a, b)).item<bool>(); }

// x * by, with a kernel and a gradient.
const OpRecord& scale() {
  static const OpRecord& op =
    library::custom_op("cpp_tests::scale(Tensor input, float by=2.0) -> Tensor")
      .infer([](const Call& c) {
        c.outs[0]->dtype = c.args.tensor(0).dtype;
        c.outs[0]->set_shape(c.args.tensor(0).sizes());
      })
      .kernel("plain",
              [](const Call& c) {
                const Tensor x = contiguous(c.args.share(0));
                const double by = c.args[1].number();
                for (int64_t i = 0; i < x.numel(); ++i)
                  c.out().data<float>()[i] = static_cast<float>(x.data<float>()[i] * by);
              })
      .grad([](const GradContext& c, const Tensor& g) -> Grads { return {mul(g, c.arg(1).number())}; });
  return op;
}

Tensor run(const OpRecord& op, const Tensor& x, double by) { return call(op, Args(x, by)); }

TEST(Library, AnOpHasAKernelAGradientAndAnExplanation) {
  Tensor x = view(to(arange(6), kFloat32), {2, 3});
  x.set_requires_grad();
  Explanation seen;
  const Scoped<Explanation*> look(thread_state.explain, &seen);
  const Tensor y = run(scale(), x, 3);
  EXPECT_EQ(seen.chosen().op, &scale());
  EXPECT_STREQ(seen.chosen().kernel->name, "plain");
  EXPECT_TRUE(same(y.detach(), x.detach() * 3));
  autograd::backward(sum(y));
  EXPECT_TRUE(same(x.grad(), full({2, 3}, 3)));
  EXPECT_TRUE(same(run(scale(), x.detach().t(), 2), x.detach().t() * 2));
  EXPECT_EQ(list(run(scale(), ones({0, 4}), 2).shape()), (std::vector<int64_t>{0, 4}));
  EXPECT_EQ(&library::find("cpp_tests::scale"), &scale());
}

TEST(Library, ShapesOnMetaComeFromTheRule) {
  const Tensor y = run(scale(), zeros({5, 7}, kFloat32, Device{DeviceType::Meta, 0}), 2);
  EXPECT_TRUE(y.is_meta());
  EXPECT_EQ(list(y.shape()), (std::vector<int64_t>{5, 7}));
}

TEST(Library, DevicesWithoutAKernelAreRefused) {
  const Tensor x = zeros({2}, kFloat32, Device{DeviceType::Vgpu, 0});
  EXPECT_ERROR(NotImplemented, "cpp_tests::scale", run(scale(), x, 2));
}

TEST(Library, NamesAndSchemasAreChecked) {
  scale();
  EXPECT_ERROR(Value, "is defined already", library::custom_op("cpp_tests::scale(Tensor x) -> Tensor"));
  for (const char* schema :
       {"", "f(Tensor x) -> Tensor", "a::(Tensor x) -> Tensor", "::f(Tensor x) -> Tensor",
        "a::b::c(Tensor x) -> Tensor", "a::f.out(Tensor x) -> Tensor", "a b::f(Tensor x) -> Tensor"})
    EXPECT_ERROR(Value, "a schema begins with", library::custom_op(schema)) << schema;
  for (const char* schema :
       {"a::f", "a::f(Tensor x)", "a::f(Tensor) -> Tensor", "a::f(Zork x) -> Tensor", "a::f(Tensor x) -> Zork",
        "a::f(int x=zork) -> Tensor", "a::f(int x=) -> Tensor", "a::f(float x=1.5.2) -> Tensor",
        "a::f(Tensor(a x) -> Tensor", "a::f(Tensor x) -> Tensor(b)", "a::f(Tensor x) -> (Tensor, Zork)"})
    EXPECT_ERROR(Value, "custom_op: ", library::custom_op(schema)) << schema;
  EXPECT_ERROR(Value, "there is no custom op 'a::f'", library::find("a::f"));
}

TEST(Library, IncompleteOpsSayWhatIsMissing) {
  const OpRecord& one = library::custom_op("cpp_tests::one(Tensor x) -> Tensor");
  EXPECT_ERROR(NotImplemented, "cpp_tests::one has no shape rule", call(one, Args(ones({2}))));
  const OpRecord& list = library::custom_op("cpp_tests::list(Tensor x) -> Tensor[]");
  EXPECT_ERROR(NotImplemented, "cpp_tests::list: an op that returns a list needs composite()",
               call_list(list, Args(ones({2}))));
}

TEST(Library, ThreadsDefineOpsWhileOthersListThem) {
  std::atomic<bool> stop = false;
  std::thread reader([&] {
    while (!stop) {
      size_t named = 0;
      for (const OpRecord* op : all_ops()) named += op->name.empty() ? 0 : 1;
      EXPECT_GE(named, 600u);
      find_op("add");
    }
  });
  std::vector<std::thread> writers;
  for (int t = 0; t < 4; ++t)
    writers.emplace_back([t] {
      for (int i = 0; i < 8; ++i)
        library::custom_op(fmt::format("cpp_tests::thread{}_{}(Tensor x) -> Tensor", t, i))
          .composite([](const Tensor& x) { return add(x, 1); });
    });
  for (std::thread& w : writers) w.join();
  stop = true;
  reader.join();
  EXPECT_EQ(call(library::find("cpp_tests::thread3_7"), Args(ones({1}))).item<float>(), 2);
}

TEST(Library, FilesThatAreNoLibrariesOfOps) {
  EXPECT_ERROR(Io, "no_such_file.so", library::load("/no_such_folder/no_such_file.so"));
  EXPECT_ERROR(Value, "defines no ops; put them into a STRATA_LIBRARY() block", library::load("libc.so.6"));
}

}  // namespace
}  // namespace strata
