// scatter_ and scatter_add_: the in-place forms of scatter.cpp.
#include "strata/ops/indexing/scatter_inplace.h"

#include "strata/ops/creation/fills.h"
#include "strata/ops/indexing/scatter.h"
#include "strata/ops/movement/copy.h"

namespace strata {

STRATA_OP(scatter_inplace, "scatter_(Tensor(a!) input, int dim, Tensor index, Tensor src) -> Tensor(a!)")
  .doc(
    "Writes the elements of src at index along a dimension.\n\n>>> strata.zeros(2).scatter_(0, strata.tensor([1]), "
    "strata.ones(1))\ntensor([0., 1.])")
  .composite([](const Tensor& input, int64_t dim, const Tensor& index, const Tensor& src) {
    return scatter_core_(input, dim, index, src.dim() == 0 ? to(src, input.dtype()) : src, "assign");
  })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(4,3), 0, i1(1,3), f(1,3)"})
  .error("f(2,3), 0, i9(50,3), f(50,3)", ErrorKind::Runtime, "out of bounds");
STRATA_OP(scatter_inplace_value, "scatter_.value(Tensor(a!) input, int dim, Tensor index, Scalar value) -> Tensor(a!)")
  .doc(
    "Writes a number at index along a dimension.\n\n>>> strata.zeros(2).scatter_(0, strata.tensor([1]), "
    "3.)\ntensor([0., 3.])")
  .composite([](const Tensor& input, int64_t dim, const Tensor& index, Scalar value) {
    return scatter_core_(input, dim, index, full({}, value, input.dtype()), "assign");
  })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(4,3), 0, i1(1,3), 2"})
  .error("f(2,3), 0, i9(50,3), 1", ErrorKind::Runtime, "out of bounds");
STRATA_OP(scatter_inplace_reduce,
          "scatter_.reduce(Tensor(a!) input, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor(a!)")
  .doc(
    "Adds or multiplies the elements of src into input.\n\n>>> strata.ones(2).scatter_(0, strata.tensor([1]), "
    "strata.ones(1), reduce='add')\ntensor([1., 2.])")
  .composite([](const Tensor& input, int64_t dim, const Tensor& index, const Tensor& src, std::string_view reduce) {
    STRATA_CHECK(reduce == "add" || reduce == "multiply", Runtime,
                 "scatter_: reduce argument must be either add or multiply, got {}", reduce);
    return scatter_core_(input, dim, index, src, reduce);
  })
  .no_out()
  .dtypes(kNumericTypes)
  .samples({"f(4,3), 0, i4(2,3), f(2,3), reduce='add'"})
  .error("f(2), 0, i2(2), f(2), reduce='max'", ErrorKind::Runtime, "add or multiply");
STRATA_OP(scatter_add_inplace, "scatter_add_(Tensor(a!) input, int dim, Tensor index, Tensor src) -> Tensor(a!)")
  .doc(
    "Adds the elements of src at index along a dimension.\n\n>>> strata.zeros(2).scatter_add_(0, strata.tensor([1, "
    "1]), strata.ones(2))\ntensor([0., 2.])")
  .composite([](const Tensor& input, int64_t dim, const Tensor& index, const Tensor& src) {
    return scatter_core_(input, dim, index, src, "sum");
  })
  .no_out()
  .dtypes(kNumericTypes)
  .add_dtypes(kComplexTypes)
  .samples({"f(4,3), 0, i4(2,3), f(2,3)"})
  .error("f(2,3), 0, i9(50,3), f(50,3)", ErrorKind::Runtime, "out of bounds");

}  // namespace strata
