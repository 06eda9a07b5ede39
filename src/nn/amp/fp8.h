// Linear layers in float8 with delayed scaling: forward in e4m3, gradients in e5m2, with scales from the largest values of
// recent steps.
//
//   amp::Fp8Linear layer(256, 128);
//   layer(x).sum().backward();
//   optimizer.step();
//   layer.update();  // once per step: new scales
#pragma once
#include "nn/module.h"

namespace strata::amp {

// The state of one layer; the columns are input, weight and gradient of the output.
struct Fp8State {
  Tensor amax;     // [3]: the largest |value| since the last update
  Tensor history;  // [length, 3]: those of the last steps, the newest first
  Tensor scale;    // [3]: values are multiplied by it before they are rounded to float8
};
STRATA_API Fp8State make_fp8_state(int64_t history_length = 16, Device device = {});

// input @ weight.T + bias with both factors in e4m3, in the dtype of input, or that of autocast. The gradient is in e5m2.
// Values beyond the range become the largest one; infinities and NaN become NaN. Without `amax` nothing is recorded, for
// evaluation.
STRATA_API Tensor fp8_linear(const Tensor& input, const Tensor& weight, const Tensor& bias, const Tensor& amax,
                             const Tensor& scale);

// Moves amax into the history and sets the scales so that the largest value of the history, times 2^margin, is the
// largest float8. A column without a finite value above 0 keeps its scale. Does not wait for a device.
STRATA_API void fp8_update(const Fp8State& state, int64_t margin = 0);

struct Fp8LinearOptions {
  bool bias = true;
  int64_t history_length = 16;
  int64_t margin = 0;
  std::optional<DType> dtype = {};
  std::optional<Device> device = {};
};
// nn::Linear with fp8_linear. Its state is in the buffers fp8_amax, fp8_history and fp8_scale, which stay float32: set the
// dtype with the options, not with to(dtype).
class STRATA_API Fp8Linear : public nn::Module {
 public:
  Fp8Linear(int64_t in_features, int64_t out_features, const Fp8LinearOptions& options = {});
  Tensor forward(const Tensor& input) override;
  void update() const;  // once per step, after backward
  Tensor weight, bias;
  Fp8State fp8;

 private:
  int64_t margin_;
};

}  // namespace strata::amp
