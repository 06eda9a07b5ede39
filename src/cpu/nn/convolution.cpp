#include "cpu/nn/convolution.h"

#include <algorithm>

#include "base/parallel.h"
#include "cpu/linalg/gemm.h"
#include "cpu/staging.h"
#include "device/math.h"

namespace strata::cpu {
namespace {

// Outputs along one dimension whose window element `k` is inside the input: [first, last).
void valid_range(int64_t in, int64_t out, int64_t stride, int64_t offset, int64_t& first, int64_t& last) {
  first = offset >= 0 ? 0 : (-offset + stride - 1) / stride;
  last = in - offset <= 0 ? 0 : std::min(out, (in - offset + stride - 1) / stride);
  first = std::min(first, out);
  last = std::max(first, last);
}

// Visits every (column row, image row) pair: f(columns row of out[last] elements, image offset of its first element or
// -1, range).
template <class F> void each_row(const ConvShape& s, int64_t channel, F f) {
  const int d = s.dims;
  int64_t in[3] = {1, 1, 1}, kernel[3] = {1, 1, 1}, out[3] = {1, 1, 1}, stride[3] = {1, 1, 1}, pad[3] = {0, 0, 0},
          dilation[3] = {1, 1, 1};
  for (int i = 0; i < d; ++i) {  // right-aligned: missing leading dimensions have size 1
    const int to = 3 - d + i;
    in[to] = s.in[i];
    kernel[to] = s.kernel[i];
    out[to] = s.out[i];
    stride[to] = s.stride[i];
    pad[to] = s.padding[i];
    dilation[to] = s.dilation[i];
  }
  const int64_t plane = channel * in[0] * in[1] * in[2];
  int64_t row = channel * kernel[0] * kernel[1] * kernel[2] * out[0] * out[1];
  for (int64_t a = 0; a < kernel[0]; ++a)
    for (int64_t b = 0; b < kernel[1]; ++b)
      for (int64_t c = 0; c < kernel[2]; ++c) {
        const int64_t offset = c * dilation[2] - pad[2];
        int64_t first, last;
        valid_range(in[2], out[2], stride[2], offset, first, last);
        for (int64_t x = 0; x < out[0]; ++x)
          for (int64_t y = 0; y < out[1]; ++y, ++row) {
            const int64_t p = x * stride[0] + a * dilation[0] - pad[0], q = y * stride[1] + b * dilation[1] - pad[1];
            const bool inside = p >= 0 && p < in[0] && q >= 0 && q < in[1];
            f(row * out[2], inside ? plane + (p * in[1] + q) * in[2] + offset : int64_t{0}, inside ? first : 0,
              inside ? last : 0, out[2], stride[2]);
          }
      }
}
}  // namespace

template <class T> void im2col(const ConvShape& s, int64_t channels, const T* image, T* columns) {
  const int64_t work = product(s.kernel, s.dims) * product(s.out, s.dims);
  parallel_for(channels, std::max<int64_t>(1, 32768 / std::max<int64_t>(1, work)), [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c)
      each_row(s, c, [&](int64_t at, int64_t from, int64_t first, int64_t last, int64_t count, int64_t stride) {
        T* to = columns + at;
        std::fill(to, to + first, T(0));
        if (stride == 1) std::copy(image + from + first, image + from + last, to + first);
        else
          for (int64_t i = first; i < last; ++i) to[i] = image[from + i * stride];
        std::fill(to + last, to + count, T(0));
      });
  });
}

template <class T> void col2im(const ConvShape& s, int64_t channels, const T* columns, T* image) {
  const int64_t work = product(s.kernel, s.dims) * product(s.out, s.dims), plane = product(s.in, s.dims);
  parallel_for(channels, std::max<int64_t>(1, 32768 / std::max<int64_t>(1, work)), [&](int64_t begin, int64_t end) {
    std::fill(image + begin * plane, image + end * plane, T(0));
    for (int64_t c = begin; c < end; ++c)
      each_row(s, c, [&](int64_t at, int64_t from, int64_t first, int64_t last, int64_t, int64_t stride) {
        for (int64_t i = first; i < last; ++i) image[from + i * stride] += columns[at + i];
      });
  });
}
template void im2col(const ConvShape&, int64_t, const float*, float*);
template void im2col(const ConvShape&, int64_t, const double*, double*);
template void im2col(const ConvShape&, int64_t, const int64_t*, int64_t*);
template void col2im(const ConvShape&, int64_t, const float*, float*);
template void col2im(const ConvShape&, int64_t, const double*, double*);
template void col2im(const ConvShape&, int64_t, const int64_t*, int64_t*);

namespace {
inline void multiply(const Gemm& g, const float* a, const float* b, float* c) { gemm_simd(g, a, b, c); }
inline void multiply(const Gemm& g, const double* a, const double* b, double* c) { gemm_simd(g, a, b, c); }
inline void multiply(const Gemm& g, const int64_t* a, const int64_t* b, int64_t* c) { gemm_rows(g, a, b, c); }

template <class T>
void columns_pass(const ConvShape& s, ConvMode mode, const T* read_big, T* big, const T* read_weight, T* weight,
                  const T* read_small, T* small, const T* bias) {
  const int64_t cg = s.c / s.groups, og = s.o / s.groups, k = cg * product(s.kernel, s.dims),
                l = product(s.out, s.dims), plane = product(s.in, s.dims);
  const std::array<int64_t, 2> sizes{k, l};
  const Tensor space = make_tensor(sizes, dtype_of<T>);
  T* columns = space.data<T>();
  if (mode == ConvMode::Weight) std::fill_n(weight, s.o * k, T(0));
  for (int64_t n = 0; n < s.n; ++n)
    for (int64_t g = 0; g < s.groups; ++g) {
      const int64_t image = (n * s.c + g * cg) * plane, result = (n * s.o + g * og) * l, w = g * og * k;
      Gemm p;
      if (mode == ConvMode::Forward) {  // [og, k] x [k, l]
        im2col(s, cg, read_big + image, columns);
        p.m = og;
        p.n = l;
        p.k = k;
        p.a_m = k;
        p.a_k = 1;
        p.b_k = l;
        p.b_n = 1;
        p.c_m = l;
        p.c_n = 1;
        if (bias) {
          for (int64_t o = 0; o < og; ++o) std::fill_n(small + result + o * l, l, bias[g * og + o]);
          p.accumulate = true;
        }
        multiply(p, read_weight + w, columns, small + result);
      } else if (mode == ConvMode::Data) {  // [k, og] x [og, l]
        p.m = k;
        p.n = l;
        p.k = og;
        p.a_m = 1;
        p.a_k = k;
        p.b_k = l;
        p.b_n = 1;
        p.c_m = l;
        p.c_n = 1;
        multiply(p, read_weight + w, read_small + result, columns);
        col2im(s, cg, columns, big + image);
      } else {  // [og, l] x [l, k]
        im2col(s, cg, read_big + image, columns);
        p.m = og;
        p.n = k;
        p.k = l;
        p.a_m = l;
        p.a_k = 1;
        p.b_k = 1;
        p.b_n = l;
        p.c_m = k;
        p.c_n = 1;
        p.accumulate = true;
        multiply(p, read_small + result, columns, weight + w);
      }
    }
}

// Visits all triples of an output element of small, an input element of big and a weight.
template <class T>
void loops(const ConvShape& s, ConvMode mode, const T* read_big, T* big, const T* read_weight, T* weight,
           const T* read_small, T* small, const T* bias) {
  const int64_t cg = s.c / s.groups, og = s.o / s.groups, kernels = product(s.kernel, s.dims),
                l = product(s.out, s.dims), plane = product(s.in, s.dims);
  const auto add_product = [](T& sum, T a, T b) { sum = fn::math::add(sum, fn::math::mul(a, b)); };  // integers wrap
  if (mode == ConvMode::Weight) std::fill_n(weight, s.o * cg * kernels, T(0));
  if (mode == ConvMode::Data) std::fill_n(big, s.n * s.c * plane, T(0));
  for (int64_t n = 0; n < s.n; ++n)
    for (int64_t o = 0; o < s.o; ++o)
      for (int64_t x = 0; x < l; ++x) {
        const int64_t at = (n * s.o + o) * l + x;
        T sum = bias ? bias[o] : T(0);
        for (int64_t c = 0; c < cg; ++c)
          for (int64_t k = 0; k < kernels; ++k) {
            int64_t position = 0, xr = x, kr = k, scale = 1;
            bool inside = true;
            for (int d = s.dims; d-- > 0; xr /= s.out[d], kr /= s.kernel[d], scale *= s.in[d]) {
              const int64_t i = xr % s.out[d] * s.stride[d] + kr % s.kernel[d] * s.dilation[d] - s.padding[d];
              inside &= i >= 0 && i < s.in[d];
              position += i * scale;
            }
            if (!inside) continue;
            const int64_t source = (n * s.c + o / og * cg + c) * plane + position, w = (o * cg + c) * kernels + k;
            if (mode == ConvMode::Forward) add_product(sum, read_big[source], read_weight[w]);
            else if (mode == ConvMode::Data) add_product(big[source], read_small[at], read_weight[w]);
            else add_product(weight[w], read_small[at], read_big[source]);
          }
        if (mode == ConvMode::Forward) small[at] = sum;
      }
}

template <class Pass>
void staged_pass(ConvMode mode, const Tensor& big, const Tensor& weight, const Tensor& small, const TensorImpl* bias,
                 Pass pass) {
  const Tensor& result = mode == ConvMode::Forward ? small : mode == ConvMode::Data ? big : weight;
  if (result.numel() == 0) return;
  dispatch_compute(compute_type(result.dtype()), [&]<class T>() {
    const Out<T> out(result);
    const auto in = [&](const Tensor& t) { return &t == &result ? Tensor() : staged(*t, dtype_of<T>); };
    const Tensor b = in(big), w = in(weight), s = in(small), row = bias ? staged(*bias, dtype_of<T>) : Tensor();
    const auto read = [](const Tensor& t) { return t ? t.data<T>() : nullptr; };
    pass(read(b), out.get(), read(w), out.get(), read(s), out.get(),
         static_cast<const T*>(row ? row.data<T>() : nullptr));
    out.finish();
  });
}
}  // namespace

void conv_columns(const ConvShape& s, ConvMode mode, const Tensor& big, const Tensor& weight, const Tensor& small,
                  const TensorImpl* bias) {
  staged_pass(mode, big, weight, small, bias,
              [&]<class T>(const T* rb, T* b, const T* rw, T* w, const T* rs, T* m, const T* row) {
                columns_pass<T>(s, mode, rb, b, rw, w, rs, m, row);
              });
}
void conv_reference(const ConvShape& s, ConvMode mode, const Tensor& big, const Tensor& weight, const Tensor& small,
                    const TensorImpl* bias) {
  staged_pass(mode, big, weight, small, bias,
              [&]<class T>(const T* rb, T* b, const T* rw, T* w, const T* rs, T* m, const T* row) {
                loops<T>(s, mode, rb, b, rw, w, rs, m, row);
              });
}

}  // namespace strata::cpu
