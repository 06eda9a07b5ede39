// Operators of tensors: a + b, 2 * a, -a, a == b, a += b.
#pragma once
#include "strata/ops.h"

namespace strata {

#define STRATA_BINARY_OPERATOR(symbol, op)                                       \
  inline Tensor operator symbol(const Tensor& a, Operand b) { return op(a, b); } \
  template <class T>                                                             \
  requires std::is_arithmetic_v<T>                                               \
  inline Tensor operator symbol(T a, const Tensor& b) {                          \
    Args args = op_##op.record.defaults;                                         \
    args[0] = Value(Scalar(a));                                                  \
    args[1] = Value(b);                                                          \
    return call(op_##op, args);                                                  \
  }
STRATA_BINARY_OPERATOR(+, add)
STRATA_BINARY_OPERATOR(-, sub)
STRATA_BINARY_OPERATOR(*, mul)
STRATA_BINARY_OPERATOR(/, div)
STRATA_BINARY_OPERATOR(%, remainder)
STRATA_BINARY_OPERATOR(<, lt)
STRATA_BINARY_OPERATOR(<=, le)
STRATA_BINARY_OPERATOR(>, gt)
STRATA_BINARY_OPERATOR(>=, ge)
STRATA_BINARY_OPERATOR(&, bitwise_and)
STRATA_BINARY_OPERATOR(|, bitwise_or)
STRATA_BINARY_OPERATOR(^, bitwise_xor)
#undef STRATA_BINARY_OPERATOR

inline Tensor operator==(const Tensor& a, const Tensor& b) { return eq(a, b); }
inline Tensor operator!=(const Tensor& a, const Tensor& b) { return ne(a, b); }
inline Tensor operator-(const Tensor& a) { return neg(a); }
inline Tensor operator~(const Tensor& a) { return bitwise_not(a); }
inline Tensor operator+=(const Tensor& a, Operand b) { return add_(a, b); }
inline Tensor operator-=(const Tensor& a, Operand b) { return sub_(a, b); }
inline Tensor operator*=(const Tensor& a, Operand b) { return mul_(a, b); }
inline Tensor operator/=(const Tensor& a, Operand b) { return div_(a, b); }

}  // namespace strata
