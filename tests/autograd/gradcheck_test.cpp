#include "strata/strata.h"

#include "tests/autograd/values.h"

namespace strata {
namespace {
using namespace testing;  // NOLINT(google-build-using-namespace): the helpers of this folder
using List = std::vector<Tensor>;

struct WrongSin : Function<WrongSin> {  // the gradient is off by 1 %
  static Tensor forward(FunctionContext& ctx, const Tensor& x) {
    ctx.save_for_backward({x});
    return sin(x);
  }
  static List backward(FunctionContext& ctx, const List& grads) {
    return {grads[0] * cos(ctx.get_saved_variables()[0]) * 1.01};
  }
};
struct WrongSecond : Function<WrongSecond> {  // the gradient is right, its own gradient is missing
  static Tensor forward(FunctionContext& ctx, const Tensor& x) {
    ctx.save_for_backward({x});
    return x * x;
  }
  static List backward(FunctionContext& ctx, const List& grads) {
    return {grads[0] * 2 * autograd::detach(ctx.get_saved_variables()[0])};
  }
};

TEST(Gradcheck, AcceptsRightGradients) {
  const auto f = [](const List& in) { return List{in[0] * exp(in[1]), sum(in[0], 0)}; };
  EXPECT_TRUE(gradcheck(f, {leaf({1, 2, 3}), leaf({0.1, -0.5, 0.3})}));
  EXPECT_TRUE(gradgradcheck(f, {leaf({1, 2, 3}), leaf({0.1, -0.5, 0.3})}));
}

TEST(Gradcheck, FindsWrongGradients) {
  const auto f = [](const List& in) { return List{WrongSin::apply(in[0])}; };
  EXPECT_ERROR(Runtime, "Jacobian mismatch for output 0 with respect to input 0: d out[0] / d in[0]",
               gradcheck(f, {leaf({1, 2})}));
  EXPECT_FALSE(gradcheck(f, {leaf({1, 2})}, {.raise_exception = false}));
  const auto g = [](const List& in) { return List{WrongSecond::apply(in[0])}; };
  EXPECT_TRUE(gradcheck(g, {leaf({1, 2})}));
  EXPECT_ERROR(Runtime, "Jacobian mismatch", gradgradcheck(g, {leaf({1, 2})}));
}

Tensor complex_leaf() {
  Tensor z = make_tensor(std::vector<int64_t>{3}, kComplex128);
  for (int k : {0, 1, 2}) z.data<std::complex<double>>()[k] = {0.5 * k - 0.7, 1.1 - 0.3 * k};
  return z.set_requires_grad();
}
struct SquareWithoutConjugate : Function<SquareWithoutConjugate> {
  static Tensor forward(FunctionContext& ctx, const Tensor& z) {
    ctx.save_for_backward({z});
    return z * z;
  }
  static List backward(FunctionContext& ctx, const List& grads) {
    return {grads[0] * 2 * ctx.get_saved_variables()[0]};
  }
};

TEST(Gradcheck, ComparesBothPartsOfComplexNumbers) {
  const auto f = [](const List& in) { return List{in[0] * exp(in[0]), abs(in[0]), in[0] * in[1]}; };
  EXPECT_TRUE(gradcheck(f, {complex_leaf(), leaf({0.1, -0.5, 0.3})}));
  EXPECT_TRUE(gradgradcheck(f, {complex_leaf(), leaf({0.1, -0.5, 0.3})}));
  const auto g = [](const List& in) { return List{SquareWithoutConjugate::apply(in[0])}; };
  EXPECT_ERROR(Runtime, "Jacobian mismatch", gradcheck(g, {complex_leaf()}));
}

TEST(Gradcheck, LeavesTheInputsAsTheyWere) {
  const Tensor x = leaf({0.1, 0.7, -3.3});
  const Numbers before = numbers(x);
  gradcheck([](const List& in) { return List{tanh(in[0])}; }, {x});
  EXPECT_EQ(numbers(x), before);
  EXPECT_FALSE(x.grad());
  EXPECT_ERROR(Value, "refused",
               gradcheck(
                 [n = 0](const List& in) mutable {
                   ++n > 2 ? fail(ErrorKind::Value, "refused") : void();
                   return List{in[0] * 2};
                 },
                 {x}));
  EXPECT_EQ(numbers(x), before);
}

TEST(Gradcheck, NeedsADifferentiableContiguousInput) {
  const auto f = [](const List& in) { return List{in[0] * 2}; };
  EXPECT_ERROR(Value, "at least one float64 input", gradcheck(f, {values({1})}));
  EXPECT_ERROR(Value, "at least one float64 input", gradcheck(f, {leaf({1}, kFloat32)}));
  const Tensor m = reshape(values({1, 2, 3, 4}), {2, 2});
  EXPECT_ERROR(Value, "inputs must be contiguous",
               gradcheck(f, {autograd::detach(transpose(m, 0, 1)).set_requires_grad()}));
}

}  // namespace
}  // namespace strata
