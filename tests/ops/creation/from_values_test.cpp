// C++ programs as libtorch users write them: literals, memory of the caller, options, indexing, methods.
#include "ops/creation/from_values.h"

#include <gtest/gtest.h>

#include <sstream>

#include "strata/strata.h"
#include "tests/expect_error.h"

namespace strata {
namespace {

std::vector<int64_t> sizes_of(const Tensor& t) { return {t.sizes().begin(), t.sizes().end()}; }

TEST(TensorLiteral, HasTheShapeOfItsBraces) {
  EXPECT_EQ(sizes_of(tensor(2.5)), std::vector<int64_t>{});
  EXPECT_EQ(sizes_of(tensor({1, 2, 3})), (std::vector<int64_t>{3}));
  EXPECT_EQ(sizes_of(tensor({{1, 2}, {3, 4}, {5, 6}})), (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(sizes_of(tensor({{{1.0}, {2.0}}})), (std::vector<int64_t>{1, 2, 1}));
  EXPECT_TRUE(tensor({{1, 2}, {3, 4}}).equal(arange(1, 5).view({2, 2})));
  EXPECT_ERROR(Value, "same length", tensor({{1, 2}, {3}}));
}

TEST(TensorLiteral, HasTheDtypeOfPython) {
  EXPECT_EQ(tensor({1, 2}).dtype(), kInt64);
  EXPECT_EQ(tensor({1.0, 2.0}).dtype(), kFloat32);
  EXPECT_EQ(tensor({1, 2.5}).dtype(), kFloat32);
  EXPECT_EQ(tensor({true, false}).dtype(), kBool);
  EXPECT_EQ(tensor({1, 2}, kFloat64).dtype(), kFloat64);
  EXPECT_EQ(tensor({int64_t{1} << 62}).item<int64_t>(), int64_t{1} << 62);
  EXPECT_EQ(tensor(std::vector<double>{0.1, 0.2}).dtype(), kFloat32);
  EXPECT_EQ(tensor(std::vector<double>{0.1}, dtype(kFloat64)).item<double>(), 0.1);
  EXPECT_EQ(tensor(std::vector<int>{}).numel(), 0);
  EXPECT_TRUE(tensor({1.0}, requires_grad()).requires_grad());
}

TEST(FromBlob, SharesTheMemoryAndCallsTheDeleter) {
  std::vector<float> values{1, 2, 3, 4, 5, 6};
  int deleted = 0;
  {
    const Tensor t = from_blob(values.data(), {2, 3}, [&](void* p) { deleted += p == values.data(); });
    const Tensor row = t[1];
    add_(row, 10);
    EXPECT_EQ(values[3], 14);
    EXPECT_EQ(t.data_ptr<float>(), values.data());
    const Tensor columns = from_blob(values.data(), {3, 2}, {1, 3}, dtype(kFloat32));
    EXPECT_TRUE(columns.equal(t.t()));
  }
  EXPECT_EQ(deleted, 1);
  EXPECT_EQ(from_blob(nullptr, {0, 3}).numel(), 0);
}

TEST(FromBlob, RejectsWhatIsNotThere) {
  float value = 0;
  EXPECT_ERROR(Value, "null pointer", from_blob(nullptr, {2}));
  EXPECT_ERROR(Value, "negative", from_blob(&value, {1}, {-1}, dtype(kFloat32)));
  EXPECT_ERROR(Value, "1 sizes and 2 strides", from_blob(&value, {1}, {1, 1}, dtype(kFloat32)));
  EXPECT_ERROR(Value, "not aligned", from_blob(reinterpret_cast<char*>(&value) + 1, {1}));
  EXPECT_ERROR(Value, "the host's", from_blob(&value, {1}, device("cuda")));
  EXPECT_ERROR(Runtime, "", from_blob(&value, {int64_t{1} << 40, int64_t{1} << 40}));
}

TEST(Options, ComeInOneOrderForAllFactories) {
  const TensorOptions options = dtype(kInt32).device("cpu");
  EXPECT_EQ(zeros({2}, options).dtype(), kInt32);
  EXPECT_EQ(full({2}, 7, options).dtype(), kInt32);
  EXPECT_EQ(arange(3, options).dtype(), kInt32);
  EXPECT_EQ(arange(1, 3, options).numel(), 2);
  EXPECT_EQ(randint(5, {4}, options).dtype(), kInt32);
  EXPECT_EQ(randperm(4, options).dtype(), kInt32);
  EXPECT_EQ(randperm(4, TensorOptions(kCPU)).dtype(), kInt64);
  EXPECT_EQ(rand({2}, dtype(kFloat64)).dtype(), kFloat64);
  EXPECT_EQ(eye(2, options).dtype(), kInt32);
  EXPECT_EQ(logspace(0, 1, 2, dtype(kFloat64))[1].item<double>(), 10);
  EXPECT_EQ(ones_like(zeros({2}), options).dtype(), kInt32);
  EXPECT_TRUE(ones({2}, requires_grad()).requires_grad());
  EXPECT_EQ(zeros({2}, kInt64).dtype(), kInt64);
  EXPECT_EQ(zeros({2}, "meta").device(), Device("meta"));
  EXPECT_EQ(zeros({2}, zeros({1}, options).options()).dtype(), kInt32);
}

TEST(Devices, HaveNames) {
  EXPECT_EQ(Device("cuda:1"), Device(kCUDA, 1));
  EXPECT_EQ(Device("cpu"), Device(kCPU));
  EXPECT_ERROR(Runtime, "invalid device 'tpu'", Device("tpu"));
  EXPECT_EQ(ones({2}).to("meta").device().type, kMeta);
  EXPECT_EQ(ones({2}).to(kMeta).device().type, kMeta);
  EXPECT_EQ(ones({2}).to(Device("meta")).device().type, kMeta);
  EXPECT_EQ(ones({2}).to(dtype(kInt8).device("meta")).dtype(), kInt8);
  EXPECT_TRUE(ones({2}).cpu().is_cpu());
}

TEST(Methods, IndexLikePython) {
  using namespace indexing;
  const Tensor x = arange(24).view({2, 3, 4});
  EXPECT_EQ(x[1][2][3].item<int64_t>(), 23);
  EXPECT_EQ(x[-1][0][0].item<int64_t>(), 12);
  EXPECT_TRUE(x.index({"...", 0}).equal(x.select(2, 0)));
  EXPECT_TRUE(x.index({Slice(), Slice(1, None), None}).equal(x.slice(1, 1).unsqueeze(2)));
  EXPECT_TRUE(x.index({0, Slice(None, None, 2)}).equal(x[0].slice(0, {}, {}, 2)));
  EXPECT_TRUE(x[tensor({1, 0})].equal(x.flip({0})));
  EXPECT_EQ(x.index({x > 20}).numel(), 3);
  const Tensor y = zeros({3, 3});
  y.index_put_({1}, 5);
  y.index_put_({Slice(), 0}, tensor({1.0, 2.0, 3.0}));
  EXPECT_TRUE(y.equal(tensor({{1.0, 0.0, 0.0}, {2.0, 5.0, 5.0}, {3.0, 0.0, 0.0}})));
  EXPECT_ERROR(Index, "out of", x[2]);
  EXPECT_ERROR(Type, "must be \"...\"", x.index({"all"}));
  EXPECT_ERROR(Index, "", zeros(IntList())[0]);
}

TEST(Methods, TellWhatATensorIs) {
  const Tensor x = ones({2, 3}, kFloat64);
  EXPECT_EQ(x.nbytes(), 48U);
  EXPECT_EQ(x.element_size(), 8U);
  EXPECT_EQ(x.stride(0), 3);
  EXPECT_EQ(x.stride(-1), 1);
  EXPECT_ERROR(Index, "", zeros(IntList()).stride(0));
  EXPECT_TRUE(x.defined());
  EXPECT_FALSE(Tensor().defined());
  EXPECT_TRUE(x.allclose(x + 1e-9));
  EXPECT_FALSE(x.equal(x + 1));
  EXPECT_FALSE(x.equal(ones({3, 2})));
  EXPECT_FALSE(x.is_cuda());
  EXPECT_ERROR(Type, "undefined", Tensor().sizes());
  EXPECT_ERROR(Type, "undefined", Tensor().equal(x));
}

TEST(Methods, CheckTheElementType) {
  const Tensor x = ones({2});
  EXPECT_EQ(x.data_ptr<float>()[0], 1);
  EXPECT_EQ(x.data<const float>()[0], 1);
  EXPECT_ERROR(Type, "elements of float32, and was read as float64", x.data<double>());
  EXPECT_ERROR(Type, "int64", x.data_ptr<int64_t>());
  EXPECT_ERROR(Type, "bool", x.data<bool>());
  EXPECT_NE(x.data<uint8_t>(), nullptr);  // its bytes
}

TEST(Streams, PrintTensors) {
  std::ostringstream out;
  out << tensor({1, 2}) << ' ' << Tensor();
  EXPECT_EQ(out.str(), "tensor([1, 2]) [ Tensor (undefined) ]");
}

TEST(Guards, SwitchRecording) {
  const Tensor w = ones({2}, requires_grad());
  EXPECT_TRUE(w.is_leaf() && is_grad_enabled());
  {
    const NoGradGuard guard;
    EXPECT_FALSE(is_grad_enabled() || (w * 2).requires_grad());
    const AutoGradMode on(true);
    EXPECT_TRUE((w * 2).requires_grad());
  }
  const Tensor y = w * 2;
  y.retain_grad();
  sum(y).backward();
  EXPECT_TRUE(w.grad().equal(tensor({2.0, 2.0})));
  EXPECT_TRUE(y.grad().equal(tensor({1.0, 1.0})));
  Tensor z = zeros({2});
  z.requires_grad_();
  EXPECT_TRUE(z.requires_grad());
}

}  // namespace
}  // namespace strata
