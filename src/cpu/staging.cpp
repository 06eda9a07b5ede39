#include "cpu/staging.h"

#include "base/parallel.h"
#include "cpu/movement/copy.h"
#include "device/math.h"
#include "tensor/channels_last.h"

namespace strata::cpu {

constexpr int64_t kScaleGrain = 32768;  // minimum elements per thread

void copy_values(const TensorImpl& dst, const TensorImpl& src) { copy(dst, src); }

Tensor borrow(const TensorImpl& t) { return Ref<TensorImpl>::share(const_cast<TensorImpl*>(&t)); }

Tensor staged(const TensorImpl& t, DType dtype) {
  if (t.dtype == dtype && t.contiguous) return borrow(t);
  Tensor copy = make_tensor(t.sizes(), dtype);
  copy_values(*copy, t);
  return copy;
}

static bool lies_like(const TensorImpl& t, const TensorImpl& like, DType dtype) {
  bool same = t.dtype == dtype;
  for (int d = 0; same && d < t.ndim; ++d) same = t.shape[d] == 1 || t.strides[d] == like.strides[d];
  return same;
}

Tensor place_for(const TensorImpl& out, const TensorImpl& like, DType dtype) {
  if (lies_like(out, like, dtype)) return borrow(out);
  Tensor place = shape_only(like);
  place->dtype = dtype;
  place->allocate();
  return place;
}

Tensor staged_like(const TensorImpl& t, const TensorImpl& like, DType dtype) {
  Tensor place = place_for(t, like, dtype);
  if (place.get() != &t) copy(*place, t);
  return place;
}

bool channels_last(const TensorImpl& t) { return is_channels_last(t); }

Tensor channels_last_form(const TensorImpl& t) {
  Tensor form = shape_only(t);
  form->strides[1] = 1;
  int64_t n = t.shape[1];
  for (int d = t.ndim; d-- > 0;) {
    if (d == 1) continue;
    form->strides[d] = n;
    n *= t.shape[d];
  }
  form->update_contiguous();
  return form;
}

void copy_scaled(const Tensor& dst, const TensorImpl& src, double factor) {
  const Tensor work = dst.dtype() == compute_type(dst.dtype()) && dst.is_contiguous()
                        ? dst
                        : make_tensor(dst.shape(), compute_type(dst.dtype()));
  if (factor != 0 && work.get() != &src) copy_values(*work, src);  // in place, they are the same
  if (factor != 1)
    dispatch_compute(work.dtype(), [&]<class T>() {
      T* p = work.data<T>();
      const T f = static_cast<T>(factor);
      const int64_t n = work.numel();
      parallel_for(n, kScaleGrain, [&](int64_t begin, int64_t end) {
        if (factor == 0) std::fill(p + begin, p + end, T(0));
        else
          for (int64_t i = begin; i < end; ++i) p[i] = fn::math::mul(p[i], f);  // integers wrap
      });
    });
  if (work.get() != dst.get()) copy_values(*dst, *work);
}

}  // namespace strata::cpu
