// Views that change the shape of their input itself.
#include "strata/ops/movement/views_inplace.h"

#include <algorithm>

#include "autograd/autograd.h"
#include "ops/layout.h"
#include "strata/ops/movement/views.h"

namespace strata {
namespace {

// Gives input the geometry and history of a view of itself. The history changes even without recording: the old one
// belongs to a tensor of another shape.
template <class View> Tensor become(const Tensor& input, const char* op, const View& view_of) {
  STRATA_CHECK(!(thread_state.grad_mode && input->requires_grad && !input->history), Runtime,
               "a leaf Variable that requires grad is being used in an in-place operation ({})", op);
  const bool follow = thread_state.grad_mode || (input->history && !thread_state.inference_mode);
  const Scoped mode(thread_state.grad_mode, follow);
  const Tensor view = view_of(input);
  input->set_ndim(view->ndim);
  input->contiguous = view->contiguous;
  std::copy_n(view->shape, view->ndim, input->shape);
  std::copy_n(view->strides, view->ndim, input->strides);
  if (input->storage) input->count_write();  // a gradient that saved the tensor must not use it in its new shape
  if (view->history) {
    input->history = view->history;
    input->output = view->output;
    input->requires_grad = true;
    if (!input->base) ++input->rebases;  // views that exist already lead through the new history
  }
  return input;
}
}  // namespace

STRATA_OP(squeeze_inplace, "squeeze_(Tensor(a!) input) -> Tensor(a!)")
  .doc("squeeze that changes input's own shape.\n\n>>> strata.ones(1, 2).squeeze_().shape\nstrata.Size([2])")
  .composite([](const Tensor& input) { return become(input, "squeeze_", [](const Tensor& t) { return squeeze(t); }); })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"i5(1,3,1)"});
STRATA_OP(squeeze_inplace_dim, "squeeze_.dim(Tensor(a!) input, int dim) -> Tensor(a!)")
  .doc(
    "squeeze of one dimension that changes input's own shape.\n\n>>> strata.ones(1, "
    "2).squeeze_(0).shape\nstrata.Size([2])")
  .composite([](const Tensor& input, int64_t dim) {
    return become(input, "squeeze_", [&](const Tensor& t) { return squeeze(t, dim); });
  })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"i5(1,3,1), 0"})
  .error("i5(2,3), 2", ErrorKind::Index, "out of range");
STRATA_OP(unsqueeze_inplace, "unsqueeze_(Tensor(a!) input, int dim) -> Tensor(a!)")
  .doc("unsqueeze that changes input's own shape.\n\n>>> strata.ones(2).unsqueeze_(0).shape\nstrata.Size([1, 2])")
  .composite([](const Tensor& input, int64_t dim) {
    return become(input, "unsqueeze_", [&](const Tensor& t) { return unsqueeze(t, dim); });
  })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"i5(3), 0"})
  .error("i5(2,3), 3", ErrorKind::Index, "out of range");
STRATA_OP(transpose_inplace, "transpose_(Tensor(a!) input, int dim0, int dim1) -> Tensor(a!)")
  .doc("transpose that changes input's own shape.\n\n>>> strata.ones(2, 3).transpose_(0, 1).shape\nstrata.Size([3, 2])")
  .composite([](const Tensor& input, int64_t dim0, int64_t dim1) {
    return become(input, "transpose_", [&](const Tensor& t) { return transpose(t, dim0, dim1); });
  })
  .alias("swapaxes_")
  .alias("swapdims_")
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"i5(2,3), 0, 1"})
  .error("i5(2,3), 0, 2", ErrorKind::Index, "out of range");
STRATA_OP(t_inplace, "t_(Tensor(a!) input) -> Tensor(a!)")
  .doc("t that changes input's own shape.\n\n>>> strata.ones(2, 3).t_().shape\nstrata.Size([3, 2])")
  .composite([](const Tensor& input) { return become(input, "t_", [](const Tensor& x) { return t(x); }); })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"i5(2,3)"})
  .error("i5(2,3,4)", ErrorKind::Runtime, "<= 2 dimensions");
STRATA_OP(detach_inplace, "detach_(Tensor(a) input) -> Tensor(a)")
  .doc("Drops input's own history.\n\n>>> strata.ones(2).detach_().requires_grad\nFalse")
  .composite([](const Tensor& input) {
    STRATA_CHECK(!input->base || !input->history, Runtime,
                 "detach_: can't detach views in-place; use detach() instead");
    input->history = {};
    input->requires_grad = false;
    return input;
  })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"i5(2,3)"});

}  // namespace strata
