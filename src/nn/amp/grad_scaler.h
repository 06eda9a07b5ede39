// GradScaler: keeps the gradients of a float16 forward pass in range by scaling the loss.
//
//   scaler.scale(loss).backward();
//   scaler.step(optimizer);  // skipped if a gradient is infinite or NaN
//   scaler.update();         // adapts the scale
#pragma once
#include <map>

#include "nn/optim/optimizer.h"

namespace strata::amp {

struct GradScalerOptions {
  double init_scale = 65536, growth_factor = 2, backoff_factor = 0.5;
  int64_t growth_interval = 2000;  // steps without infinities after which the scale grows
  bool enabled = true;             // false: scale() returns its input, step() takes the step, update() does nothing
};

class STRATA_API GradScaler {
 public:
  explicit GradScaler(const GradScalerOptions& options = {});

  Tensor scale(const Tensor& output);
  // Divides the gradients by the scale, e.g. before they are clipped. step() does it otherwise.
  void unscale_(optim::Optimizer& optimizer);
  // Whether the step was taken.
  bool step(optim::Optimizer& optimizer);
  // Call it once per iteration, after all steps.
  void update();
  void update(double new_scale);

  double get_scale() const;  // waits for the device
  bool is_enabled() const { return options_.enabled; }
  double get_growth_factor() const { return options_.growth_factor; }
  double get_backoff_factor() const { return options_.backoff_factor; }
  int64_t get_growth_interval() const { return options_.growth_interval; }
  void set_growth_factor(double factor) { options_.growth_factor = factor; }
  void set_backoff_factor(double factor) { options_.backoff_factor = factor; }
  void set_growth_interval(int64_t interval) { options_.growth_interval = interval; }

  // PyTorch's keys, each with a zero-dimensional float64 tensor; empty if scaling is off.
  optim::StateDict state_dict() const;
  void load_state_dict(const optim::StateDict& saved);

 private:
  enum class Stage : uint8_t { Ready, Unscaled, Stepped };
  struct Progress {  // of one optimizer since the last update()
    Stage stage = Stage::Ready;
    std::vector<Tensor> found_inf;  // per device: 0 if all gradients are finite
  };
  void check_scale(const char* function) const;

  GradScalerOptions options_;
  int64_t init_growth_tracker_ = 0;
  Tensor scale_, growth_tracker_;  // on the device of the first loss
  std::map<const optim::Optimizer*, Progress> progress_;
};

}  // namespace strata::amp
