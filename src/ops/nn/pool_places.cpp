// Scatter and gather within planes: unpooling, and the gradients of pooling with indices.
#include "strata/args/nn/pool_places.h"
#include "autograd/autograd.h"
#include "base/checked.h"
#include "cpu/nn/pooling.h"
#include "cpu/reference.h"
#include "cpu/staging.h"
#include "cuda/nn/pooling.h"
#include "ops/device_inputs.h"
#include "ops/transfer.h"

namespace strata {
namespace {

struct Planes {
  int64_t planes = 1, in = 1, out = 1;
  Planes(Shape big, Shape small, int64_t dims) {
    STRATA_CHECK(big.size() == small.size() && static_cast<int64_t>(big.size()) >= dims, Runtime,
                 "pooling: shapes {} and {} do not fit", to_string(big), to_string(small));
    for (size_t d = 0; d < big.size(); ++d) {
      if (static_cast<int64_t>(big.size() - d) <= dims) {
        in = (Checked(in) * big[d]).get();
        out = (Checked(out) * small[d]).get();
      } else {
        STRATA_CHECK(big[d] == small[d], Runtime, "pooling: shapes {} and {} do not fit", to_string(big),
                     to_string(small));
        planes = (Checked(planes) * big[d]).get();
      }
    }
  }
};
int64_t checked_place(int64_t i, int64_t size) {
  STRATA_CHECK(i >= 0 && i < size, Runtime, "found an invalid max index: {} (planes have {} elements)", i, size);
  return i;
}
void check_indices(const TensorImpl& index, const TensorImpl& like) {
  STRATA_CHECK(index.dtype == DType::I64, Runtime, "pooling: indices should be of dtype int64, got {}",
               name_of(index.dtype));
  STRATA_CHECK(index.same_shape(like), Runtime,
               "pooling: expected the shape of indices to be that of the values, {}, got {}", to_string(like.sizes()),
               to_string(index.sizes()));
}
}  // namespace

STRATA_OP(plane_scatter,
          "_plane_scatter(Tensor input, Tensor indices, int[] shape, int dims, bool accumulate) -> Tensor")
  .doc("Zeros of the given shape with values put, or added, at indices into each plane of the last `dims` dimensions.")
  .helper()
  .dtypes(kNumericTypes)
  .infer([](const args::plane_scatter& c) {
    check_indices(c.indices(), c.input());
    Planes(c.shape(), c.input().sizes(), c.dims());
    c.out()->dtype = c.input().dtype;
    c.out()->set_shape(c.shape());
  })
  .kernel("planes",
          [](const args::plane_scatter& c) {
            const Planes p(c.shape(), c.input().sizes(), c.dims());
            dispatch_compute(c.out().dtype(), [&]<class T>() {
              const cpu::In<T> in(c.input());
              const cpu::In<int64_t> index(c.indices());
              const cpu::Out<T> out(c.out());
              cpu::plane_scatter<T>(p.planes, p.in, p.out, in, index, out, c.accumulate());
              out.finish();
            });
          })
  .kernel("reference",
          [](const args::plane_scatter& c) {
            const Planes p(c.shape(), c.input().sizes(), c.dims());
            cpu::dispatch_wide(c.out().dtype(), [&]<class T>() {
              const cpu::In<T> in(c.input());
              const cpu::In<int64_t> index(c.indices());
              const cpu::Out<T> out(c.out());
              out.fill(0);
              for (int64_t i = 0; i < p.planes * p.out; ++i) {
                T& to = out[i / p.out * p.in + checked_place(index[i], p.in)];
                to = c.accumulate() ? to + in[i] : in[i];
              }
              out.finish();
            });
          })
  .cuda("planes",
        [](const args::plane_scatter& c, Workspace& workspace) {
          const Planes p(c.shape(), c.input().sizes(), c.dims());
          const bool add = c.accumulate();
          const cuda::DenseOut out(*c.out(), compute_type(c.out().dtype()), workspace);
          const Tensor values = dense(c.share_input(), workspace), index = dense(c.share_indices(), workspace);
          // Indices to add at come from a pool; those to assign at come from the user.
          const Tensor failed = add ? Tensor() : workspace.take(Shape(), DType::I64);
          if (workspace.planning()) return;
          fill_values(*out, 0);
          const auto wrong = cuda::plane_scatter(p.planes, p.in, p.out, *values, *index, *out, add, failed);
          if (wrong) checked_place(*wrong, p.in);
          out.finish();
        })
  .saves({"indices"})
  .grad([](const grads::plane_scatter& c, const Tensor& g) -> Grads {
    return {_plane_gather(g, c.indices(), c.dims())};
  })
  .samples({"f(2,3), i4(2,3), [2,4], 1, True"});

STRATA_OP(plane_gather, "_plane_gather(Tensor input, Tensor indices, int dims) -> Tensor")
  .doc("The values at indices into each plane of the last `dims` dimensions.")
  .helper()
  .dtypes(kNumericTypes)
  .infer([](const args::plane_gather& c) {
    check_indices(c.indices(), c.indices());
    Planes(c.input().sizes(), c.indices().sizes(), c.dims());
    c.out()->dtype = c.input().dtype;
    c.out()->set_shape(c.indices().sizes());
  })
  .kernel("planes",
          [](const args::plane_gather& c) {
            const Planes p(c.input().sizes(), c.indices().sizes(), c.dims());
            dispatch_compute(c.out().dtype(), [&]<class T>() {
              const cpu::In<T> in(c.input());
              const cpu::In<int64_t> index(c.indices());
              const cpu::Out<T> out(c.out());
              cpu::plane_gather<T>(p.planes, p.in, p.out, in, index, out);
              out.finish();
            });
          })
  .kernel("reference",
          [](const args::plane_gather& c) {
            const Planes p(c.input().sizes(), c.indices().sizes(), c.dims());
            cpu::dispatch_wide(c.out().dtype(), [&]<class T>() {
              const cpu::In<T> in(c.input());
              const cpu::In<int64_t> index(c.indices());
              const cpu::Out<T> out(c.out());
              out.fill(0);
              for (int64_t i = 0; i < p.planes * p.out; ++i)
                out[i] = in[i / p.out * p.in + checked_place(index[i], p.in)];
              out.finish();
            });
          })
  .cuda("planes",
        [](const args::plane_gather& c, Workspace& workspace) {
          const Planes p(c.input().sizes(), c.indices().sizes(), c.dims());
          const Tensor x = dense(c.share_input(), workspace), index = dense(c.share_indices(), workspace);
          if (!workspace.planning()) cuda::plane_gather(p.planes, p.in, p.out, *x, *index, *c.out());
        })
  .saves({"indices"})
  .grad([](const grads::plane_gather& c, const Tensor& g) -> Grads {
    return {_plane_scatter(g, c.indices(), c.shape_of_input(), c.dims(), true)};
  })
  .samples({"f(2,4), i4(2,3), 1"});

}  // namespace strata
