// Tensors as arguments of kernels, with sizes and strides: PyTorch's packed accessors, x[i][j] in device code. Host and
// device code share the layout.
#pragma once

#ifdef __CUDACC__
#define STRATA_ACCESS __host__ __device__
#else
#define STRATA_ACCESS
#endif

namespace at {

template <class T> struct DefaultPtrTraits { using PtrType = T*; };
template <class T> struct RestrictPtrTraits { using PtrType = T* __restrict__; };

template <class T, int N, template <class> class Traits = DefaultPtrTraits, class I = long> class TensorAccessor {
 public:
  using Pointer = typename Traits<T>::PtrType;
  STRATA_ACCESS TensorAccessor(T* data, const I* sizes, const I* strides)
      : data_(data), sizes_(sizes), strides_(strides) {}
  STRATA_ACCESS I size(int dim) const { return sizes_[dim]; }
  STRATA_ACCESS I stride(int dim) const { return strides_[dim]; }
  STRATA_ACCESS T* data() const { return data_; }
  STRATA_ACCESS decltype(auto) operator[](I i) const {
    if constexpr (N == 1) return (data_[strides_[0] * i]);
    else return TensorAccessor<T, N - 1, Traits, I>(data_ + strides_[0] * i, sizes_ + 1, strides_ + 1);
  }

 private:
  Pointer data_;
  const I *sizes_, *strides_;
};

// The same with its own copy of the sizes, to be passed to a kernel.
template <class T, int N, template <class> class Traits = DefaultPtrTraits, class I = long>
class GenericPackedTensorAccessor {
 public:
  template <class From> GenericPackedTensorAccessor(T* data, const From* sizes, const From* strides) : data_(data) {
    for (int d = 0; d < N; ++d) {
      sizes_[d] = static_cast<I>(sizes[d]);
      strides_[d] = static_cast<I>(strides[d]);
    }
  }
  STRATA_ACCESS I size(int dim) const { return sizes_[dim]; }
  STRATA_ACCESS I stride(int dim) const { return strides_[dim]; }
  STRATA_ACCESS T* data() const { return data_; }
  STRATA_ACCESS decltype(auto) operator[](I i) const {
    return TensorAccessor<T, N, Traits, I>(data_, sizes_, strides_)[i];
  }

 private:
  T* data_;
  I sizes_[N], strides_[N];
};
template <class T, int N, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor32 = GenericPackedTensorAccessor<T, N, Traits, int>;
template <class T, int N, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor64 = GenericPackedTensorAccessor<T, N, Traits, long>;

}  // namespace at
namespace torch {
using at::DefaultPtrTraits;
using at::GenericPackedTensorAccessor;
using at::PackedTensorAccessor32;
using at::PackedTensorAccessor64;
using at::RestrictPtrTraits;
using at::TensorAccessor;
}  // namespace torch
