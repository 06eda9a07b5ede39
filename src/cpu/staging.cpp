#include "cpu/staging.h"

#include "base/parallel.h"
#include "cpu/movement/copy.h"
#include "device/math.h"
#include "tensor/channels_last.h"

namespace strata::cpu {
namespace {

// Strides of both sides over dst's shape, with adjacent dimensions merged where both allow it.
struct Pair {
  int ndim = 0;
  int64_t shape[kMaxDims], d[kMaxDims], s[kMaxDims], numel = 1;
  Pair(const TensorImpl& dst, const TensorImpl& src) {
    for (int i = 0; i < dst.ndim; ++i) {
      const int own = i - (dst.ndim - src.ndim);
      const int64_t n = dst.shape[i], ds = dst.strides[i], ss = own < 0 || src.shape[own] == 1 ? 0 : src.strides[own];
      numel *= n;
      if (n == 1) continue;
      if (ndim && d[ndim - 1] == ds * n && s[ndim - 1] == ss * n) {
        shape[ndim - 1] *= n;
        d[ndim - 1] = ds;
        s[ndim - 1] = ss;
      } else {
        shape[ndim] = n;
        d[ndim] = ds;
        s[ndim] = ss;
        ++ndim;
      }
    }
    if (ndim == 0) {
      shape[0] = 1;
      d[0] = s[0] = 0;
      ndim = 1;
    }
  }
};

template <class To, class From> void copy_loop(const Pair& p, To* dst, const From* src) {
  const int64_t inner = p.shape[p.ndim - 1], rows = p.numel / std::max<int64_t>(inner, 1);
  const int64_t ds = p.d[p.ndim - 1], ss = p.s[p.ndim - 1];
  const auto row = [&](To* to, const From* from, int64_t begin, int64_t end) {
    if (ds == 1 && ss == 1)
      for (int64_t i = begin; i < end; ++i) to[i] = convert<To>(from[i]);
    else
      for (int64_t i = begin; i < end; ++i) to[i * ds] = convert<To>(from[i * ss]);
  };
  if (rows == 1) return parallel_for(inner, 32768, [&](int64_t begin, int64_t end) { row(dst, src, begin, end); });
  parallel_for(rows, std::max<int64_t>(1, 32768 / std::max<int64_t>(inner, 1)), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      int64_t rest = r, to = 0, from = 0;
      for (int i = p.ndim - 1; i-- > 0; rest /= p.shape[i]) {
        to += rest % p.shape[i] * p.d[i];
        from += rest % p.shape[i] * p.s[i];
      }
      row(dst + to, src + from, 0, inner);
    }
  });
}
}  // namespace

void copy_values(const TensorImpl& dst, const TensorImpl& src) {
  if (dst.numel == 0) return;
  const Pair pair(dst, src);
  if (dst.dtype == src.dtype)
    return dispatch_size(dst.dtype, [&]<class T>() {
      copy_loop(pair, reinterpret_cast<T*>(dst.data), reinterpret_cast<const T*>(src.data));
    });
  if (is_complex(dst.dtype) || is_complex(src.dtype)) return copy(dst, src);
  if (compute_type(dst.dtype) == dst.dtype)
    return dispatch_compute(dst.dtype, [&]<class To>() {
      dispatch_real(src.dtype, [&]<class From>() {
        copy_loop(pair, reinterpret_cast<To*>(dst.data), reinterpret_cast<const From*>(src.data));
      });
    });
  STRATA_ASSERT(compute_type(src.dtype) == src.dtype);
  dispatch_compute(src.dtype, [&]<class From>() {
    dispatch_real(dst.dtype, [&]<class To>() {
      copy_loop(pair, reinterpret_cast<To*>(dst.data), reinterpret_cast<const From*>(src.data));
    });
  });
}

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
      if (factor == 0) std::fill_n(p, n, T(0));
      else
        for (int64_t i = 0; i < n; ++i) p[i] = fn::math::mul(p[i], f);  // integers wrap
    });
  if (work.get() != dst.get()) copy_values(*dst, *work);
}

}  // namespace strata::cpu
