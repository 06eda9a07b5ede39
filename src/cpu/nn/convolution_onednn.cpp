// Convolutions by oneDNN: which ones, in which layouts, and weight gradients in pieces that do not depend on the threads.
#include <algorithm>
#include <cstring>

#include "base/parallel.h"
#include "cpu/nn/byte_scales.h"
#include "cpu/nn/convolution.h"
#include "cpu/onednn_after.h"
#include "cpu/onednn_loader.h"
#include "cpu/packed.h"
#include "cpu/staging.h"

namespace strata::cpu {
namespace {

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
  int64_t after[sizeof c.after / sizeof(int64_t)];
  std::memcpy(after, &c.after, sizeof after);
  mix(after, static_cast<int>(std::size(after)));
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
                                            part.small.bytes(), nullptr, {}))
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

onednn::After after_of(const ConvTail& tail, const TensorImpl& big, const TensorImpl& small) {
  const DType* other = tail.other ? &tail.other->dtype : nullptr;
  return tail.bytes ? onednn_after_bytes(tail.epilogue, *tail.bytes, big.dtype, small.dtype, other)
                    : onednn_after(tail.epilogue, other != nullptr);
}

// Whether the elements are in channels-last order, of any rank.
bool in_that_order(const TensorImpl& t) {
  const Tensor form = channels_last_form(t);
  for (int d = 0; d < t.ndim; ++d)
    if (t.shape[d] != 1 && t.strides[d] != form->strides[d]) return false;
  return true;
}

// The operand as oneDNN gets it: shapes and strides only.
Tensor dense_form(const TensorImpl& t) {
  Tensor form = shape_only(t);
  if (!t.is_dense()) form->set_contiguous_strides();
  return form;
}
}  // namespace

const char* conv_onednn_ready(const ConvShape& s, ConvMode mode, const TensorImpl& given_big,
                              const TensorImpl& given_weight, const TensorImpl& given_small, bool bias,
                              const ConvTail& tail) {
  const TensorImpl& result = mode == ConvMode::Forward ? given_small
                             : mode == ConvMode::Data  ? given_big
                                                       : given_weight;
  if (!result.is_dense()) return "the result is not dense";
  const Tensor dense[] = {dense_form(given_big), dense_form(given_weight), dense_form(given_small)};
  const TensorImpl &big = *dense[0], &weight = *dense[1], &small = *dense[2];
  if (!tail.bytes && big.dtype != DType::F32 && big.dtype != DType::BF16)
    return "oneDNN is used for float32 and bfloat16";
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
  if (!tail.any()) return onednn_table()->convolution_ready(describe(s, mode, big, weight, small, bias));
  const Tensor x = channels_last_form(big), y = channels_last_form(small);
  auto what = describe(s, mode, *x, weight, *y, bias);
  what.after = after_of(tail, big, small);
  return onednn_table()->convolution_ready(what);
}

void conv_onednn(const ConvShape& s, ConvMode mode, const TensorImpl& big, const TensorImpl& weight,
                 const TensorImpl& small, const TensorImpl* bias, const ConvTail& tail) {
  // Slices and expanded gradients are copied, except the result, which is dense.
  if (!big.is_dense()) return conv_onednn(s, mode, *staged(big, big.dtype), weight, small, bias, tail);
  if (!weight.is_dense()) return conv_onednn(s, mode, big, *staged(weight, weight.dtype), small, bias, tail);
  if (!small.is_dense()) return conv_onednn(s, mode, big, weight, *staged(small, small.dtype), bias, tail);
  if (mode == ConvMode::Weight) return weight_in_pieces(s, big, weight, small);
  const Tensor row = bias ? staged(*bias, bias->dtype) : Tensor();
  const bool after = tail.any();
  // Dimensions of one element may have any strides: the description has those of its order.
  auto c = after ? describe(s, mode, *channels_last_form(big), weight, *channels_last_form(small), bias != nullptr)
                 : describe(s, mode, big, weight, small, bias != nullptr);
  if (after) c.after = after_of(tail, big, small);
  const bool turns =
    after ? !in_that_order(big) || !in_that_order(small) : onednn_table()->convolution_wants_channels_last(c);
  if (turns) {  // our transposes are faster than its reorders
    const bool forward = mode == ConvMode::Forward;
    const TensorImpl &in = forward ? big : small, &out = forward ? small : big;
    const Tensor x = staged_like(in, *channels_last_form(in), in.dtype), y = channels_last_form(out);
    y->allocate();
    conv_onednn(s, mode, forward ? *x : *y, weight, forward ? *y : *x, bias, tail);
    return copy_values(out, *y);
  }
  const Tensor other = tail.other ? staged_like(*tail.other, small, tail.other->dtype) : Tensor();
  const ByteArguments bytes(tail.bytes, tail.weight_scales, s.o);
  onednn::Extra extra = bytes.extra;
  extra.other = other ? other->data : nullptr;
  Ref<Storage> packed;
  if (const size_t bytes = onednn_table()->convolution_weight_bytes(c))
    packed = form_of(weight, form_key(c), bytes, [&](std::byte* to) {
      if (!onednn_table()->convolution_pack(c, weight.data, to)) onednn_failed("convolution");
    });
  if (!onednn_table()->convolution(c, big.data, weight.data, row ? row.bytes() : nullptr, small.data,
                                   packed ? packed->data : nullptr, extra))
    onednn_failed("convolution");
}

}  // namespace strata::cpu
