// Copies, conversions and fills: the pointwise kernel of the identity.
#include "device/functors/traits.h"
#include "device/math.h"

namespace strata::fn {
template <class T> struct Copy {
  static constexpr int kInputs = 1;
  STRATA_FN T operator()(T x) const { return x; }
};
}  // namespace strata::fn

#define STRATA_FUNCTOR_LIST "cuda/movement/copy.inc"
#include "cuda/pointwise/pointwise.cuh"
