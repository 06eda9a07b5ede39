#include "nn/amp/grad_scaler.h"

#include <fmt/core.h>

#include <cmath>

#include <algorithm>

#include "autograd/autograd.h"
#include "strata/ops.h"

namespace strata::amp {
namespace {

Tensor number(double value) { return full({}, value, DType::F64); }

double number_of(const optim::StateDict& saved, std::string_view name) {
  for (const auto& [key, tensor] : saved)
    if (key == name) {
      STRATA_CHECK(tensor && tensor.numel() == 1, Value, "GradScaler.load_state_dict: {} must be one number", name);
      return tensor.item<double>();
    }
  fail(ErrorKind::Value, fmt::format("GradScaler.load_state_dict: '{}' is missing", name));
}

}  // namespace

GradScaler::GradScaler(const GradScalerOptions& options) : options_(options) {
  STRATA_CHECK(!options.enabled || options.growth_factor > 1, Value,
               "GradScaler: the growth factor must be > 1, found {}", options.growth_factor);
  STRATA_CHECK(!options.enabled || options.backoff_factor < 1, Value,
               "GradScaler: the backoff factor must be < 1, found {}", options.backoff_factor);
}

void GradScaler::check_scale(const char* function) const {
  STRATA_CHECK(scale_, Runtime, "GradScaler: {} was called before scale(); multiply the loss with scale() first",
               function);
}

Tensor GradScaler::scale(const Tensor& output) {
  if (!options_.enabled) return output;
  if (!scale_) {
    scale_ = full({}, options_.init_scale, DType::F32, output.device());
    growth_tracker_ = full({}, init_growth_tracker_, DType::I32, output.device());
  }
  return mul(output, to(scale_, std::optional(output.device()), std::nullopt));
}

void GradScaler::unscale_(optim::Optimizer& optimizer) {
  if (!options_.enabled) return;
  check_scale("unscale_");
  Progress& progress = progress_[&optimizer];
  STRATA_CHECK(progress.stage != Stage::Unscaled, Runtime,
               "unscale_() has already been called on this optimizer since the last update().");
  STRATA_CHECK(progress.stage != Stage::Stepped, Runtime, "unscale_() is being called after step().");
  const autograd::NoGrad no_grad;
  std::vector<std::pair<Device, std::vector<Tensor>>> by_device;
  for (size_t group = 0; group < optimizer.group_count(); ++group)
    for (const Tensor& param : optimizer.params(group)) {
      const Tensor grad = param.grad();
      if (!grad) continue;
      STRATA_CHECK(grad.dtype() != DType::F16, Value, "Attempting to unscale FP16 gradients.");
      auto found = std::ranges::find(by_device, grad.device(), &std::pair<Device, std::vector<Tensor>>::first);
      if (found == by_device.end()) found = by_device.insert(found, {grad.device(), {}});
      found->second.push_back(autograd::detach(grad));
    }
  const Tensor inverse = to(reciprocal(to(scale_, DType::F64)), DType::F32);
  for (const auto& [device, grads] : by_device) {
    progress.found_inf.push_back(zeros({}, DType::F32, device));
    _amp_foreach_non_finite_check_and_unscale_(grads, progress.found_inf.back(),
                                               to(inverse, std::optional(device), std::nullopt));
  }
  progress.stage = Stage::Unscaled;
}

bool GradScaler::step(optim::Optimizer& optimizer) {
  if (!options_.enabled) {
    optimizer.step();
    return true;
  }
  check_scale("step");
  if (progress_[&optimizer].stage == Stage::Ready) unscale_(optimizer);
  Progress& progress = progress_[&optimizer];
  STRATA_CHECK(progress.stage != Stage::Stepped, Runtime, "step() has already been called since the last update().");
  STRATA_CHECK(!progress.found_inf.empty(), Runtime, "No inf checks were recorded for this optimizer.");
  const bool finite = std::ranges::all_of(progress.found_inf, [](const Tensor& f) { return f.item<float>() == 0; });
  if (finite) optimizer.step();
  progress.stage = Stage::Stepped;
  return finite;
}

void GradScaler::update() {
  if (!options_.enabled) return;
  check_scale("update");
  const autograd::NoGrad no_grad;
  Tensor found;
  for (const auto& [optimizer, progress] : progress_)
    for (const Tensor& f : progress.found_inf) {
      const Tensor here = to(f, std::optional(scale_.device()), std::nullopt);
      found = found ? add(found, here) : here;
    }
  STRATA_CHECK(found, Runtime, "No inf checks were recorded prior to update.");
  _amp_update_scale_(scale_, growth_tracker_, found, options_.growth_factor, options_.backoff_factor,
                     options_.growth_interval);
  progress_.clear();
}

void GradScaler::update(double new_scale) {
  if (!options_.enabled) return;
  check_scale("update");
  fill_(scale_, new_scale);
  progress_.clear();
}

double GradScaler::get_scale() const {
  if (!options_.enabled) return 1;
  return scale_ ? scale_.item<double>() : options_.init_scale;
}

optim::StateDict GradScaler::state_dict() const {
  if (!options_.enabled) return {};
  const auto tracker = growth_tracker_ ? growth_tracker_.item<double>() : static_cast<double>(init_growth_tracker_);
  return {{"scale", number(get_scale())},
          {"growth_factor", number(options_.growth_factor)},
          {"backoff_factor", number(options_.backoff_factor)},
          {"growth_interval", number(static_cast<double>(options_.growth_interval))},
          {"_growth_tracker", number(tracker)}};
}

void GradScaler::load_state_dict(const optim::StateDict& saved) {
  if (!options_.enabled) return;
  STRATA_CHECK(!saved.empty(), Runtime,
               "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler.");
  const double scale = number_of(saved, "scale"), growth = number_of(saved, "growth_factor"),
               backoff = number_of(saved, "backoff_factor"), interval = number_of(saved, "growth_interval"),
               tracker = number_of(saved, "_growth_tracker");
  const auto is_count = [](double n, double least) { return n >= least && n <= 1e15 && n == std::floor(n); };
  STRATA_CHECK(std::isfinite(scale) && scale >= 0 && growth > 1 && std::isfinite(growth) && backoff < 1 &&
                 backoff > 0 && is_count(interval, 1) && is_count(tracker, 0),
               Value,
               "GradScaler: the saved state is damaged: scale {}, growth_factor {}, backoff_factor {}, growth_interval "
               "{}, _growth_tracker {}",
               scale, growth, backoff, interval, tracker);
  options_ = {scale, growth, backoff, static_cast<int64_t>(interval), true};
  init_growth_tracker_ = static_cast<int64_t>(tracker);
  if (!scale_) return;
  fill_(scale_, scale);
  fill_(growth_tracker_, init_growth_tracker_);
}

}  // namespace strata::amp
