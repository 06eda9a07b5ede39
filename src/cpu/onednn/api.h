// The interface of the oneDNN module: plain pointers, sizes and strides. The module is a separate shared object, opened
// on first use, so that programs without matrix products never load oneDNN and machines without it still work.
#pragma once
#include <cstddef>
#include <cstdint>

namespace strata {
class TeamBarrier;
}

namespace strata::onednn {

enum class Type : uint8_t { F32, BF16, F16, S8, U8, S32 };

// Functions that the library provides to the module.
struct Host {
  int (*threads)();                 // threads that a call may use now: as many will run a region
  void* (*allocate)(size_t bytes);  // 64-byte aligned; null if there is no memory
  void (*release)(void* memory);
  // A parallel region, see base/region.h.
  void (*start_region)(int members, void (*body)(void* context, int index, int members), void* context);
  void (*finish_region)();
  void (*wait)(TeamBarrier& barrier, int members);
};

// What follows the sums of a product or a convolution in the same kernel: a second tensor of the result's layout, an activation,
// and for bytes the conversion. Without `bytes`: result = activation(sum + bias + other), or activation(sum + bias) + other.
// With it the factors and the result are bytes, or the result is float32:
//   result = round(r / result_scale) + result_zero, with r as above, sum = scale[channel] * (sum of (input - input_zero) * weight),
//   and other = other_scale * (byte - other_zero).
struct After {
  enum Activation : int32_t { None, Relu, LeakyRelu, Clamp };
  int32_t activation = None;
  float low = 0, high = 0;  // LeakyRelu: the slope and nothing; Clamp: the limits
  int32_t other = 0;        // 1: added before the activation, 2: after it
  float other_scale = 1, other_zero = 0;
  int32_t bytes = 0;
  int32_t input_zero = 0, result_zero = 0;                                     // whether there are zeros other than 0
  Type input_type = Type::S8, other_type = Type::S8, result_type = Type::F32;  // with bytes; weights are S8
  uint8_t unused = 0;
  bool any() const { return activation != None || other || bytes; }
};
static_assert(sizeof(After) == 40);  // without padding: it is part of keys
// The arguments of After at run time.
struct Extra {
  const void* other = nullptr;
  const float* scales = nullptr;        // with bytes: of each channel of the result
  const float* result_scale = nullptr;  // if the result is bytes
  const int32_t *input_zero = nullptr, *result_zero = nullptr;
};

// c[..., m, n] = alpha * a[..., m, k] b[..., k, n] + beta * c + bias[n]. Strides in elements. A batch size may be 1 in a or b.
struct Matmul {
  static constexpr int kMaxDims = 6;
  int32_t ndim = 2;
  Type a_type = Type::F32, b_type = Type::F32, c_type = Type::F32;
  bool bias = false;
  bool packed = false;  // b is in the order of matmul_pack; b_stride is then ignored
  float alpha = 1, beta = 0;
  After after;  // the bias of bytes is float32
  int64_t a_size[kMaxDims] = {}, b_size[kMaxDims] = {}, c_size[kMaxDims] = {};
  int64_t a_stride[kMaxDims] = {}, b_stride[kMaxDims] = {}, c_stride[kMaxDims] = {};
};

// The format of b in oneDNN's order. Products with equal `layout` share it.
struct PackedWeight {
  size_t bytes = 0;  // 0: the plain order is best
  int64_t layout = 0;
};

enum class ConvPass : uint8_t { Forward, BackwardInput, BackwardWeight };

// A convolution of `spatial` dimensions. input [n, c, ...], output [n, o, ...], weight [g, o/g, c/g, ...] (four or more
// dimensions when groups > 1, without g otherwise). Strides in elements.
struct Convolution {
  static constexpr int kMaxDims = 6;
  ConvPass pass = ConvPass::Forward;
  Type type = Type::F32;
  int32_t spatial = 2;
  bool bias = false;
  bool wide_weight = false;  // BackwardWeight: the result is float32 whatever `type` is
  int64_t groups = 1;
  After after;  // Forward, with channels-last tensors; the bias of bytes is float32
  int64_t input[kMaxDims] = {}, weight[kMaxDims] = {}, output[kMaxDims] = {};
  int64_t input_stride[kMaxDims] = {}, weight_stride[kMaxDims] = {}, output_stride[kMaxDims] = {};
  int64_t stride[3] = {}, dilation[3] = {}, pad_left[3] = {}, pad_right[3] = {};  // dilation 1: dense
};

struct Table {
  // Null: oneDNN has a fast implementation for this description. Otherwise the reason, a static string.
  const char* (*matmul_ready)(const Matmul&);
  const char* (*convolution_ready)(const Convolution&);
  // False on failure; last_error then returns the message.
  bool (*matmul)(const Matmul&, const void* a, const void* b, const void* bias, void* c, const Extra&);
  PackedWeight (*matmul_weight)(const Matmul&);
  bool (*matmul_pack)(const Matmul&, const void* b, void* packed);
  // Forward: reads input, weight, bias, writes output. BackwardInput: reads weight, output, writes input.
  // BackwardWeight: reads input, output, writes weight and bias. packed, if not null, is the weight as packed by
  // convolution_pack.
  bool (*convolution)(const Convolution&, void* input, void* weight, void* bias, void* output, const void* packed,
                      const Extra&);
  // Bytes of the weight in the order of Forward and BackwardInput; 0: they use the plain order.
  size_t (*convolution_weight_bytes)(const Convolution&);
  bool (*convolution_pack)(const Convolution&, const void* weight, void* packed);
  // Whether Forward and BackwardInput would reorder both images, and compute with the channels of a pixel adjacent.
  bool (*convolution_wants_channels_last)(const Convolution&);
  const char* (*last_error)();
  const char* version;
};

constexpr const char* kTableSymbol = "strata_onednn_table";
using TableFunction = const Table* (*)(const Host*);

}  // namespace strata::onednn
