// Optional properties of a functor besides its formula. Used by cpu/pointwise/pointwise.h; shared by all SIMD targets.
//
// A functor is `template <class T> struct Name { static constexpr int kInputs = …; T member…; V operator()(V…) const;
// }`: T is float, double or int64_t, V is T or a SIMD vector of T, members are the op's number parameters in the order
// of its schema. tools/gen_functors.py finds functors by that form. Optional constants:
//   kSkip          mask of operands excluded from type promotion (a condition)
//   kNone[]        the value of an operand given as None
//   kNonzero       the operand that must not be 0 when computing with integers
//   kExactNumbers  a fractional number parameter is rejected when computing with integers
//   kLong          device kernels call the formula instead of inlining it
//   kOwnPrecision  the result depends on the precision itself: the reference does not compute in double
//   kBools         compiled for bytes too: bool operands are computed without widening them
//   kSmallInts     compiled for int8, uint8, int16 and int32 too
//   kUnsigned      compiled for uint64_t too: the result for uint64 depends on the sign bit. Without it, uint64 is
//                  computed as int64_t, which gives the same bits
//   whole(a, b)    a member function: the same result for doubles that are integers of at most 52 bits, because vectors
//                  cannot divide int64
#pragma once

namespace strata {

struct FloatOnly {};  // integers are converted to the default floating type first
struct IntOnly {};    // integers and bool
struct Predicate {};  // 1 or 0; the op's result is bool
struct FloatPredicate : FloatOnly, Predicate {};

}  // namespace strata
