// hash_tensor: the exclusive or of the bits of all elements.
#include "ops/reduce/common.h"
#include "strata/ops.h"

namespace strata {
namespace {

// Along one dimension: halves are combined until one element is left.
Tensor xor_along(Tensor bits, int dim) {
  Tensor rest;
  while (bits.size(dim) > 1) {
    const int64_t half = bits.size(dim) / 2;
    if (bits.size(dim) % 2) {
      const Tensor last = narrow(bits, dim, 2 * half, 1);
      rest = rest ? bitwise_xor(rest, last) : last;
    }
    bits = bitwise_xor(narrow(bits, dim, 0, half), narrow(bits, dim, half, half));
  }
  return rest ? bitwise_xor(bits, rest) : bits;
}
}  // namespace

STRATA_OP(hash_tensor, "hash_tensor(Tensor input, int[]? dim=None, *, bool keepdim=False, int mode=0) -> Tensor")
  .doc(
    "The exclusive or of all elements along the given dimensions, each converted to 64 bits (float64 or int64), as "
    "uint64. The only mode is 0.\n\n>>> strata.hash_tensor(strata.tensor([1, 2, 4]))\ntensor(7, dtype=strata.uint64)")
  .dtypes(kAllTypes)
  .composite([](const Tensor& input, OptIntList dim, bool keepdim, int64_t mode) {
    STRATA_CHECK(mode == 0, Runtime, "hash_tensor: Unknown hash_tensor mode: {}; the only one is 0", mode);
    const DimMask reduced = reduced_mask(*input, dim, "hash_tensor");
    require_elements(*input, reduced, "hash_tensor");
    Tensor bits = is_floating(input.dtype()) ? view(to(contiguous(input), kFloat64), kInt64) : to(input, kInt64);
    for (int d = 0; d < input.dim(); ++d)
      if (reduced >> d & 1) bits = xor_along(bits, d);
    for (int d = input.dim(); !keepdim && d-- > 0;)
      if (reduced >> d & 1) bits = squeeze(bits, d);
    return clone(view(bits, kUInt64));
  })
  .samples({"f(3,4)", "i5(2,3,5), [0,2]", "f(4,3), 0, keepdim=True", "b(7)", "f()", "f(0,3), 1"})
  .error("f(0,3), 0", ErrorKind::Index, "")
  .error("f(3), mode=1", ErrorKind::Runtime, "mode: 1");

}  // namespace strata
