// 3x3 convolutions of stride 1 by Winograd's F(4x4, 3x3): a tile of 4x4 outputs costs 36 products per pair of channels
// instead of 144.
#pragma once
#include <cstdint>

#include "base/api.h"

namespace strata::cpu {

// Channels-last float32. The padding may be up to 2 on each side; out = in + 2 * padding - 2.
struct Winograd {
  int64_t n, c, o;
  int64_t in[2], out[2], padding[2];
  // y = relu(sum + bias + other), or relu(sum + bias) + other; other may be null, and relu left out.
  const float* other = nullptr;
  bool relu = false, add_last = false;
  int64_t tiles() const { return n * ((out[0] + 3) / 4) * ((out[1] + 3) / 4); }
};

// Strides of the weights of one output and one input channel. flip: rotated by 180 degrees, for input gradients.
struct WinogradWeights {
  int64_t o, c;
  int64_t o_stride, c_stride, y_stride, x_stride;
  bool flip;
};

// Whether it is faster than direct summation, by an estimate; weights_ready: the weights are already transformed.
bool winograd_pays(const Winograd& w, bool weights_ready);
int64_t winograd_weight_count(int64_t c, int64_t o);  // size of transformed weights in floats
void winograd_weights(const WinogradWeights& s, const float* w, float* u);
// y = the convolution of x with weights that were transformed into u, plus bias (or null). The same bits for any number
// of threads: a tile depends only on its inputs.
void winograd(const Winograd& w, const float* x, const float* u, const float* bias, float* y);
// For so few tiles that reading the weights takes longer than the products: each thread has its own outputs and, if u
// is null, transforms their weights itself, so that they are in its cache.
bool winograd_is_few(const Winograd& w);
void winograd_few(const Winograd& w, const float* x, const WinogradWeights& from, const float* weights, const float* u,
                  const float* bias, float* y);

// The gradient to[o][3][3][c] of the weights, from the input x and the output's gradient g; both channels-last.
bool winograd_weight_pays(const Winograd& w);
void winograd_weight(const Winograd& w, const float* x, const float* g, float* to);

}  // namespace strata::cpu
