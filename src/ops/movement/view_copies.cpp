// Copies of views.
#include "strata/ops/movement/view_copies.h"

#include "strata/ops/movement/copy.h"
#include "strata/ops/movement/splits.h"
#include "strata/ops/movement/strided.h"
#include "strata/ops/movement/views.h"

namespace strata {
namespace {
Tensor dense(const Tensor& view) { return clone(view, "contiguous_format"); }
}  // namespace

STRATA_OP(expand_copy, "expand_copy(Tensor input, int[] size, *, bool implicit=False) -> Tensor")
  .doc("expand, as a copy.\n\n>>> strata.expand_copy(strata.ones(1), (3,))\ntensor([1., 1., 1.])")
  .composite([](const Tensor& input, IntList size, bool) { return dense(expand(input, size)); })
  .no_method()
  .dtypes(kStorageTypes)
  .samples({"f(3,1), [3, 4]"})
  .error("f(3), [2]", ErrorKind::Runtime, "must match the existing size");
STRATA_OP(narrow_copy, "narrow_copy(Tensor input, int dim, int start, int length) -> Tensor")
  .doc("narrow, as a copy.\n\n>>> strata.arange(5).narrow_copy(0, 1, 3)\ntensor([1, 2, 3])")
  .composite([](const Tensor& input, int64_t dim, int64_t start, int64_t length) {
    return dense(narrow(input, dim, start, length));
  })
  .dtypes(kStorageTypes)
  .samples({"f(5,3), 0, 1, 3"})
  .error("f(5), 0, 3, 3", ErrorKind::Runtime, "exceeds dimension size");
STRATA_OP(permute_copy, "permute_copy(Tensor input, int[] dims) -> Tensor")
  .doc("permute, as a copy.\n\n>>> strata.permute_copy(strata.ones(2, 3), (1, 0)).shape\nstrata.Size([3, 2])")
  .composite([](const Tensor& input, IntList dims) { return dense(permute(input, dims)); })
  .no_method()
  .dtypes(kStorageTypes)
  .samples({"f(2,3), [1, 0]"})
  .error("f(2,3), [0]", ErrorKind::Runtime, "does not match the length");
STRATA_OP(unfold_copy, "unfold_copy(Tensor input, int dimension, int size, int step) -> Tensor")
  .doc("unfold, as a copy.\n\n>>> strata.unfold_copy(strata.arange(3), 0, 2, 1)\ntensor([[0, 1],\n        [1, 2]])")
  .composite([](const Tensor& input, int64_t dimension, int64_t size, int64_t step) {
    return dense(unfold(input, dimension, size, step));
  })
  .no_method()
  .dtypes(kStorageTypes)
  .samples({"f(7), 0, 3, 2"})
  .error("f(3), 0, 4, 1", ErrorKind::Runtime, "maximum size");
STRATA_OP(alias_copy, "alias_copy(Tensor input) -> Tensor")
  .doc("A copy of input.\n\n>>> strata.alias_copy(strata.ones(2))\ntensor([1., 1.])")
  .composite([](const Tensor& input) { return clone(input); })
  .no_method()
  .dtypes(kStorageTypes)
  .samples({"f(2,3)"});
STRATA_OP(as_strided_copy,
          "as_strided_copy(Tensor input, int[] size, int[] stride, int? storage_offset=None) -> Tensor")
  .doc("as_strided, as a copy.\n\n>>> strata.as_strided_copy(strata.arange(3), (2,), (2,))\ntensor([0, 2])")
  .composite([](const Tensor& input, IntList size, IntList stride, std::optional<int64_t> storage_offset) {
    return dense(as_strided(input, size, stride, storage_offset));
  })
  .no_method()
  .dtypes(kStorageTypes)
  .samples({"f(6), [2, 2], [2, 1], 1"})
  .error("f(6), [3, 3], [2, 1], 3", ErrorKind::Runtime, "out of bounds");
STRATA_OP(diagonal_copy, "diagonal_copy(Tensor input, int offset=0, int dim1=0, int dim2=1) -> Tensor")
  .doc("diagonal, as a copy.\n\n>>> strata.diagonal_copy(strata.tensor([[1, 2], [3, 4]]))\ntensor([1, 4])")
  .composite([](const Tensor& input, int64_t offset, int64_t dim1, int64_t dim2) {
    return dense(diagonal(input, offset, dim1, dim2));
  })
  .no_method()
  .dtypes(kStorageTypes)
  .samples({"f(3,4), 1"})
  .error("f(3)", ErrorKind::Index, "out of range");
STRATA_OP(squeeze_copy, "squeeze_copy(Tensor input) -> Tensor")
  .doc("squeeze, as a copy.\n\n>>> strata.squeeze_copy(strata.ones(1, 2))\ntensor([1., 1.])")
  .composite([](const Tensor& input) { return dense(squeeze(input)); })
  .no_method()
  .dtypes(kStorageTypes)
  .samples({"f(1,3,1)"});
STRATA_OP(squeeze_copy_dim, "squeeze_copy.dim(Tensor input, int dim) -> Tensor")
  .doc("squeeze of one dimension, as a copy.\n\n>>> strata.squeeze_copy(strata.ones(1, 2), 0)\ntensor([1., 1.])")
  .composite([](const Tensor& input, int64_t dim) { return dense(squeeze(input, dim)); })
  .no_method()
  .dtypes(kStorageTypes)
  .samples({"f(1,3,1), 0"})
  .error("f(2,3), 2", ErrorKind::Index, "out of range");
STRATA_OP(squeeze_copy_dims, "squeeze_copy.dims(Tensor input, int[] dim) -> Tensor")
  .doc("squeeze of some dimensions, as a copy.\n\n>>> strata.squeeze_copy(strata.ones(1, 2), (0,))\ntensor([1., 1.])")
  .composite([](const Tensor& input, IntList dim) { return dense(squeeze(input, dim)); })
  .no_method()
  .dtypes(kStorageTypes)
  .samples({"f(1,3,1), [0, 2]"})
  .error("f(2,3), [2]", ErrorKind::Index, "out of range");
STRATA_OP(t_copy, "t_copy(Tensor input) -> Tensor")
  .doc("t, as a copy.\n\n>>> strata.t_copy(strata.ones(2, 3)).shape\nstrata.Size([3, 2])")
  .composite([](const Tensor& input) { return dense(t(input)); })
  .no_method()
  .dtypes(kStorageTypes)
  .samples({"f(2,3)", "f(3)"})
  .error("f(2,3,4)", ErrorKind::Runtime, "<= 2 dimensions");
STRATA_OP(transpose_copy, "transpose_copy(Tensor input, int dim0, int dim1) -> Tensor")
  .doc("transpose, as a copy.\n\n>>> strata.transpose_copy(strata.ones(2, 3), 0, 1).shape\nstrata.Size([3, 2])")
  .composite([](const Tensor& input, int64_t dim0, int64_t dim1) { return dense(transpose(input, dim0, dim1)); })
  .no_method()
  .dtypes(kStorageTypes)
  .samples({"f(2,3), 0, 1"})
  .error("f(2,3), 0, 2", ErrorKind::Index, "out of range");
STRATA_OP(unsqueeze_copy, "unsqueeze_copy(Tensor input, int dim) -> Tensor")
  .doc("unsqueeze, as a copy.\n\n>>> strata.unsqueeze_copy(strata.ones(2), 0).shape\nstrata.Size([1, 2])")
  .composite([](const Tensor& input, int64_t dim) { return dense(unsqueeze(input, dim)); })
  .no_method()
  .dtypes(kStorageTypes)
  .samples({"f(2,3), 1"})
  .error("f(2,3), 3", ErrorKind::Index, "out of range");
STRATA_OP(unbind_copy, "unbind_copy(Tensor input, int dim=0) -> Tensor[]")
  .doc("unbind, as copies.\n\n>>> strata.unbind_copy(strata.tensor([1, 2]))\n(tensor(1), tensor(2))")
  .composite([](const Tensor& input, int64_t dim) {
    std::vector<Tensor> out = unbind(input, dim);
    for (Tensor& t : out) t = dense(t);
    return out;
  })
  .no_method()
  .dtypes(kStorageTypes)
  .samples({"f(2,3)", "f(2,3), 1"})
  .error("f(2,3), 2", ErrorKind::Index, "out of range");

}  // namespace strata
