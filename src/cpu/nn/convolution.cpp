#include "cpu/nn/convolution.h"

#include <algorithm>

#include "base/parallel.h"
#include "cpu/linalg/gemm.h"
#include "cpu/onednn_loader.h"
#include "cpu/packed.h"
#include "cpu/staging.h"
#include "device/math.h"

namespace strata::cpu {
namespace {

int64_t product(const int64_t* v, int count) {
  int64_t n = 1;
  for (int i = 0; i < count; ++i) n *= v[i];
  return n;
}

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

onednn::Convolution describe(const ConvShape& s, ConvMode mode, const TensorImpl& big, const TensorImpl& weight,
                             const TensorImpl& small, bool bias) {
  onednn::Convolution c;
  c.pass = mode == ConvMode::Forward ? onednn::ConvPass::Forward
           : mode == ConvMode::Data  ? onednn::ConvPass::BackwardInput
                                     : onednn::ConvPass::BackwardWeight;
  c.type = big.dtype == DType::F32 ? onednn::Type::F32 : onednn::Type::BF16;
  c.spatial = s.dims;
  c.bias = bias;
  c.groups = s.groups;
  const int n = s.dims + 2, shift = s.groups > 1;
  std::copy_n(big.shape, n, c.input);
  std::copy_n(big.strides, n, c.input_stride);
  std::copy_n(small.shape, n, c.output);
  std::copy_n(small.strides, n, c.output_stride);
  std::copy_n(weight.shape, n, c.weight + shift);
  std::copy_n(weight.strides, n, c.weight_stride + shift);
  if (shift) {
    c.weight[0] = s.groups;
    c.weight[1] = s.o / s.groups;
    c.weight_stride[0] = weight.strides[0] * c.weight[1];
  }
  for (int d = 0; d < s.dims; ++d) {
    c.stride[d] = s.stride[d];
    c.dilation[d] = s.dilation[d];
    c.pad_left[d] = s.padding[d];
    // The right padding that makes the sizes match exactly; negative if the last inputs are never read.
    c.pad_right[d] = (s.out[d] - 1) * s.stride[d] + s.dilation[d] * (s.kernel[d] - 1) + 1 - s.in[d] - s.padding[d];
  }
  return c;
}
// The order of packed weights depends on all parameters of the primitive.
FormKey form_key(const onednn::Convolution& c) {
  uint64_t hash = static_cast<uint64_t>(num_threads());
  const auto mix = [&](const int64_t* values, int count) {
    for (int i = 0; i < count; ++i) {
      hash = (hash ^ static_cast<uint64_t>(values[i])) * 0x9e3779b97f4a7c15ull;
      hash ^= hash >> 31;
    }
  };
  const int n = c.spatial + 2;
  for (const int64_t* p : {c.input, c.input_stride, c.output, c.output_stride}) mix(p, n);
  for (const int64_t* p : {c.weight, c.weight_stride}) mix(p, n + (c.groups > 1));
  for (const int64_t* p : {c.stride, c.dilation, c.pad_left, c.pad_right}) mix(p, c.spatial);
  return {static_cast<int64_t>(Form::OneDnn),
          static_cast<int64_t>(hash),
          c.input[0],
          c.input[1],
          c.output[1],
          static_cast<int64_t>(c.pass) * 16 + static_cast<int64_t>(c.type) * 2 + c.bias,
          c.groups,
          n};
}

// oneDNN splits the batch by the number of threads to sum a weight gradient, so its bits depend on it. Here the
// partition depends on the sizes only: pieces of the batch, pieces of the first spatial dimension if the images are few and
// large, and blocks of output channels if there still are few pieces.
struct WeightPieces {
  static constexpr int64_t kMost = 16, kPositions = 512;  // fewer results per piece: its sums take longer to add
  int64_t batch, rows, blocks;

  explicit WeightPieces(const ConvShape& s) {
    const int64_t positions = s.n * product(s.out, s.dims);
    const int64_t most = std::clamp<int64_t>(positions / kPositions, kMost / 2, kMost);
    batch = std::min(s.n, most);
    rows = std::clamp<int64_t>(std::min(most, positions / kPositions) / batch, 1, std::max<int64_t>(1, s.out[0] / 2));
    blocks = s.groups == 1 && batch * rows < 4 ? std::clamp<int64_t>(s.o / 16, 1, 8) : 1;
  }
  int64_t sums() const { return batch * rows; }  // of each weight
  int64_t count() const { return sums() * blocks; }
};

// Rows [begin, end) of dimension d, as plain sizes and strides.
Tensor piece(const TensorImpl& t, int d, int64_t begin, int64_t end) {
  Tensor p = shape_only(t);
  p->data = t.data + begin * t.strides[d] * static_cast<int64_t>(size_of(t.dtype));
  p->shape[d] = end - begin;
  p->update_contiguous();
  return p;
}

// The part of a weight gradient that one piece computes.
struct WeightPiece {
  Tensor big, small, weight;
  onednn::Convolution what;
  bool only_padding = false;  // it reads no element of `big`

  // `sums`: a weight that holds one of the sums.
  WeightPiece(const ConvShape& s, const TensorImpl& whole_big, const TensorImpl& sums, const TensorImpl& whole_small,
              int64_t p, const WeightPieces& pieces) {
    const int64_t o = p % pieces.blocks, n = p / pieces.blocks / pieces.rows, r = p / pieces.blocks % pieces.rows;
    const auto cut = [](int64_t size, int64_t parts, int64_t i) { return size * i / parts; };
    const int64_t n0 = cut(s.n, pieces.batch, n), n1 = cut(s.n, pieces.batch, n + 1), o0 = cut(s.o, pieces.blocks, o),
                  o1 = cut(s.o, pieces.blocks, o + 1), y0 = cut(s.out[0], pieces.rows, r),
                  y1 = cut(s.out[0], pieces.rows, r + 1);
    // The rows of `big` that the results [y0, y1) read.
    const int64_t first = y0 * s.stride[0] - s.padding[0],
                  last = (y1 - 1) * s.stride[0] - s.padding[0] + s.dilation[0] * (s.kernel[0] - 1) + 1;
    const int64_t x0 = std::clamp<int64_t>(first, 0, s.in[0]), x1 = std::clamp<int64_t>(last, x0, s.in[0]);
    only_padding = x0 == x1;
    big = piece(*piece(whole_big, 0, n0, n1), 2, x0, x1);
    small = piece(*piece(*piece(whole_small, 0, n0, n1), 1, o0, o1), 2, y0, y1);
    weight = piece(sums, 0, o0, o1);
    ConvShape part = s;
    part.n = n1 - n0;
    part.o = o1 - o0;
    part.in[0] = x1 - x0;
    part.out[0] = y1 - y0;
    part.padding[0] = x0 - first;
    what = describe(part, ConvMode::Weight, *big, *weight, *small, false);
    what.wide_weight = true;
  }
};

void weight_in_pieces(const ConvShape& s, const TensorImpl& big, const TensorImpl& weight, const TensorImpl& small) {
  const WeightPieces pieces(s);
  int64_t shape[kMaxDims];
  std::copy_n(weight.shape, weight.ndim, shape);
  shape[0] *= pieces.sums();
  const Tensor partial = make_tensor(Shape(shape, weight.ndim), DType::F32);
  parallel_for(pieces.count(), 1, [&](int64_t begin, int64_t end) {  // one thread each: oneDNN sees no thread pool
    for (int64_t p = begin; p < end; ++p) {
      const int64_t sum = p / pieces.blocks;
      const WeightPiece part(s, big, *piece(*partial, 0, sum * s.o, (sum + 1) * s.o), small, p, pieces);
      if (part.only_padding) std::fill_n(part.weight.data<float>(), part.weight.numel(), 0.f);
      else if (!onednn_table()->convolution(part.what, part.big.bytes(), part.weight.bytes(), nullptr,
                                            part.small.bytes(), nullptr))
        onednn_failed("convolution");
    }
  });
  const Tensor sum = make_tensor(weight.sizes(), DType::F32);
  const int64_t count = sum.numel();
  parallel_for(count, 16384, [&](int64_t begin, int64_t end) {
    float* to = sum.data<float>();
    std::copy(partial.data<float>() + begin, partial.data<float>() + end, to + begin);
    for (int64_t n = 1; n < pieces.sums(); ++n) {
      const float* from = partial.data<float>() + n * count;
      for (int64_t i = begin; i < end; ++i) to[i] += from[i];
    }
  });
  copy_values(weight, *sum);
}

// The operand as oneDNN gets it: shapes and strides only.
Tensor dense_form(const TensorImpl& t) {
  Tensor form = shape_only(t);
  if (!t.is_dense()) form->set_contiguous_strides();
  return form;
}
}  // namespace

const char* conv_onednn_ready(const ConvShape& s, ConvMode mode, const TensorImpl& given_big,
                              const TensorImpl& given_weight, const TensorImpl& given_small, bool bias) {
  const TensorImpl& result = mode == ConvMode::Forward ? given_small
                             : mode == ConvMode::Data  ? given_big
                                                       : given_weight;
  if (!result.is_dense()) return "the result is not dense";
  const Tensor dense[] = {dense_form(given_big), dense_form(given_weight), dense_form(given_small)};
  const TensorImpl &big = *dense[0], &weight = *dense[1], &small = *dense[2];
  if (big.dtype != DType::F32 && big.dtype != DType::BF16) return "oneDNN is used for float32 and bfloat16";
  if (!onednn_table()) return onednn_missing();
  if (big.numel == 0 || weight.numel == 0 || small.numel == 0) return "a size is 0";
  if (mode == ConvMode::Weight) {
    const WeightPieces pieces(s);
    if (pieces.count() == 1) return "one image and few channels: too little to share between threads";
    const Tensor like = shape_only(weight);
    like->set_contiguous_strides();
    for (int64_t r = 0; r < pieces.rows; ++r) {
      const WeightPiece part(s, big, *like, small, r * pieces.blocks, pieces);
      const char* why = part.only_padding ? nullptr : onednn_table()->convolution_ready(part.what);
      if (why) return why;
    }
    return nullptr;
  }
  return onednn_table()->convolution_ready(describe(s, mode, big, weight, small, bias));
}

void conv_onednn(const ConvShape& s, ConvMode mode, const TensorImpl& big, const TensorImpl& weight,
                 const TensorImpl& small, const TensorImpl* bias) {
  // Slices and expanded gradients are copied, except the result, which is dense.
  if (!big.is_dense()) return conv_onednn(s, mode, *staged(big, big.dtype), weight, small, bias);
  if (!weight.is_dense()) return conv_onednn(s, mode, big, *staged(weight, weight.dtype), small, bias);
  if (!small.is_dense()) return conv_onednn(s, mode, big, weight, *staged(small, small.dtype), bias);
  if (mode == ConvMode::Weight) return weight_in_pieces(s, big, weight, small);
  const Tensor row = bias ? staged(*bias, bias->dtype) : Tensor();
  const auto c = describe(s, mode, big, weight, small, bias != nullptr);
  if (onednn_table()->convolution_wants_channels_last(c)) {  // our transposes are faster than its reorders
    const bool forward = mode == ConvMode::Forward;
    const TensorImpl &in = forward ? big : small, &out = forward ? small : big;
    const Tensor x = staged_like(in, *channels_last_form(in), in.dtype), y = channels_last_form(out);
    y->allocate();
    conv_onednn(s, mode, forward ? *x : *y, weight, forward ? *y : *x, bias);
    return copy_values(out, *y);
  }
  Ref<Storage> packed;
  if (const size_t bytes = onednn_table()->convolution_weight_bytes(c))
    packed = form_of(weight, form_key(c), bytes, [&](std::byte* to) {
      if (!onednn_table()->convolution_pack(c, weight.data, to)) onednn_failed("convolution");
    });
  if (!onednn_table()->convolution(c, big.data, weight.data, row ? row.bytes() : nullptr, small.data,
                                   packed ? packed->data : nullptr))
    onednn_failed("convolution");
}

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
