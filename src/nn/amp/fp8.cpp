#include "nn/amp/fp8.h"

#include <cmath>

#include "autograd/function.h"
#include "dispatch/autocast.h"
#include "strata/nn/linear.h"
#include "strata/ops.h"

namespace strata::amp {
namespace {

constexpr double kLargest4 = 448, kLargest5 = 57344;  // of e4m3 and e5m2
enum Column : int64_t { kInput, kWeight, kGradient };

// Rounded to float8. Finite values saturate: one that has grown since the last step must not become NaN.
Tensor quantized(const Tensor& values, const Tensor& scale, DType dtype) {
  const double largest = dtype == DType::F8E4M3 ? kLargest4 : kLargest5;
  const Tensor scaled = mul(to(values, DType::F32), scale);
  return to(where(isfinite(scaled), clamp(scaled, -largest, largest), std::nan("")), dtype);
}

void record_amax(const Tensor& amax_of_layer, Column column, const Tensor& values) {
  if (!amax_of_layer || values.numel() == 0) return;
  const Tensor place = select(amax_of_layer, 0, column);
  copy_(place, maximum(place, to(amax(abs(values)), DType::F32)));
}

// The same matrix with its columns contiguous, as products of float8 on tensor cores need the right factor.
Tensor by_columns(const Tensor& matrix) { return t(contiguous(t(matrix))); }

Tensor of_column(const Tensor& numbers, Column column) { return contiguous(select(numbers, 0, column)); }

struct Fp8Product : Function<Fp8Product> {
  static Tensor forward(FunctionContext& ctx, const Tensor& input, const Tensor& weight, const Tensor& bias,
                        const Tensor& amax, const Tensor& scale, DType result) {
    const Tensor rows = reshape(input, {-1, weight.size(1)});
    record_amax(amax, kInput, rows);
    record_amax(amax, kWeight, weight);
    const Tensor x = quantized(rows, of_column(scale, kInput), DType::F8E4M3);
    const Tensor w = quantized(weight, of_column(scale, kWeight), DType::F8E4M3);
    const Tensor undo = reciprocal(scale);
    ctx.save_for_backward({x, w});
    ctx.saved_data["undo"] = undo;
    ctx.saved_data["amax"] = amax;
    ctx.saved_data["scale"] = scale;
    ctx.saved_data["input"] = shape_only(*input);
    ctx.saved_data["weight"] = weight.dtype();
    ctx.saved_data["bias"] = bias ? bias.dtype() : DType::F32;
    std::vector<int64_t> shape(input.shape().begin(), input.shape().end());
    shape.back() = weight.size(0);
    const Tensor y = _scaled_mm(x, t(w), of_column(undo, kInput), of_column(undo, kWeight),
                                bias ? to(bias, result) : bias, {}, result);
    return reshape(y, shape);
  }

  static std::vector<Tensor> backward(FunctionContext& ctx, const std::vector<Tensor>& grads) {
    STRATA_CHECK(!thread_state.grad_mode, NotImplemented,
                 "fp8_linear: gradients of gradients are not available; use a layer in another dtype");
    const auto saved = ctx.get_saved_variables();
    const auto &undo = std::any_cast<const Tensor&>(ctx.saved_data["undo"]),
               &amax = std::any_cast<const Tensor&>(ctx.saved_data["amax"]),
               &scale = std::any_cast<const Tensor&>(ctx.saved_data["scale"]),
               &input = std::any_cast<const Tensor&>(ctx.saved_data["input"]);
    const Tensor rows = reshape(grads[0], {-1, saved[1].size(0)});
    const Tensor of_gradient = of_column(scale, kGradient), undo_gradient = reciprocal(of_gradient);
    record_amax(amax, kGradient, rows);
    const Tensor g = quantized(rows, of_gradient, DType::F8E5M2);
    std::vector<Tensor> out(6);
    if (ctx.needs_input_grad(0))
      out[0] =
        reshape(_scaled_mm(g, by_columns(saved[1]), undo_gradient, of_column(undo, kWeight), {}, {}, input.dtype()),
                input.shape());
    if (ctx.needs_input_grad(1))
      out[1] = _scaled_mm(contiguous(t(g)), by_columns(saved[0]), undo_gradient, of_column(undo, kInput), {}, {},
                          std::any_cast<DType>(ctx.saved_data["weight"]));
    if (ctx.needs_input_grad(2))
      out[2] = to(sum(to(rows, DType::F32), 0), std::any_cast<DType>(ctx.saved_data["bias"]));
    return out;
  }
};

void check_state(const char* name, const Tensor& t, int64_t dims, Device device) {
  STRATA_CHECK(t.dtype() == DType::F32 && t.dim() == dims && t.size(-1) == 3, Value,
               "fp8_linear: {} must be float32 with {} dimensions and 3 columns, found {} of shape {}", name, dims,
               name_of(t.dtype()), to_string(t.shape()));
  STRATA_CHECK(t.device() == device, Runtime, "fp8_linear: {} is on {}, the input on {}; move the module with .to()",
               name, to_string(t.device()), to_string(device));
}
}  // namespace

Fp8State make_fp8_state(int64_t history_length, Device device) {
  STRATA_CHECK(history_length >= 1 && history_length <= 65536, Value,
               "fp8: the length of the history is {}; expected 1 to 65536", history_length);
  return {zeros({3}, DType::F32, device), zeros({history_length, 3}, DType::F32, device),
          ones({3}, DType::F32, device)};
}

Tensor fp8_linear(const Tensor& input, const Tensor& weight, const Tensor& bias, const Tensor& amax,
                  const Tensor& scale) {
  constexpr DTypeSet kTypes{DType::F32, DType::F16, DType::BF16};
  STRATA_CHECK(weight.dim() == 2, Runtime, "fp8_linear: weight must have 2 dimensions, found shape {}",
               to_string(weight.shape()));
  STRATA_CHECK(input.dim() >= 1 && input.size(-1) == weight.size(1), Runtime,
               "fp8_linear: the last dimension of input is {}, but weight has {} columns (input of shape {})",
               input.dim() ? input.size(-1) : 0, weight.size(1), to_string(input.shape()));
  STRATA_CHECK(weight.size(1) > 0, Runtime, "fp8_linear: weight has no columns (shape {})", to_string(weight.shape()));
  STRATA_CHECK(!bias || (bias.dim() == 1 && bias.size(0) == weight.size(0)), Runtime,
               "fp8_linear: bias must have one number per row of weight ({}), found shape {}", weight.size(0),
               bias ? to_string(bias.shape()) : "");
  for (const Tensor* t : {&input, &weight})
    STRATA_CHECK(kTypes.has(t->dtype()), Runtime,
                 "fp8_linear: expected float32, float16 or bfloat16, found {}; convert it first", name_of(t->dtype()));
  check_state("scale", scale, 1, input.device());
  if (amax) check_state("amax", amax, 1, input.device());
  const DeviceType type = input.device().type;
  const bool casts = autocast::is_available(type) && autocast::is_autocast_enabled(type);
  const DType result = casts ? autocast::get_autocast_dtype(type) : input.dtype();
  const autocast::Off off;
  return Fp8Product::apply(input, weight, bias, amax ? autograd::detach(amax) : amax, autograd::detach(scale), result);
}

void fp8_update(const Fp8State& state, int64_t margin) {
  STRATA_CHECK(margin >= 0 && margin <= 16, Value, "fp8: margin is {}; expected 0 to 16", margin);
  const Device device = state.scale.device();
  check_state("scale", state.scale, 1, device);
  check_state("amax", state.amax, 1, device);
  check_state("history", state.history, 2, device);
  const autograd::NoGrad no_grad;
  copy_(state.history, cat({unsqueeze(state.amax, 0), narrow(state.history, 0, 0, state.history.size(0) - 1)}, 0));
  zero_(state.amax);
  // Steps with infinities or NaN say nothing about the values to come.
  const Tensor known = where(isfinite(state.history), state.history, 0);
  const Tensor top = amax(known, {0});
  const double below = std::exp2(static_cast<double>(-margin));
  const Tensor four = full({2}, kLargest4 * below, DType::F32, device),
               five = full({1}, kLargest5 * below, DType::F32, device);
  const Tensor fresh = div(cat({four, five}, 0), top);
  copy_(state.scale, where(logical_and(gt(top, 0), isfinite(fresh)), fresh, state.scale));
}

Fp8Linear::Fp8Linear(int64_t in_features, int64_t out_features, const Fp8LinearOptions& options)
    : margin_(options.margin) {
  const nn::Linear plain(in_features, out_features,
                         nn::LinearOptions{.bias = options.bias, .dtype = options.dtype, .device = options.device});
  weight = add_parameter("weight", plain.weight());
  if (options.bias) bias = add_parameter("bias", plain.bias());
  fp8 = make_fp8_state(options.history_length, weight.device());
  add_buffer("fp8_amax", fp8.amax);
  add_buffer("fp8_history", fp8.history);
  add_buffer("fp8_scale", fp8.scale);
}

Tensor Fp8Linear::forward(const Tensor& input) {
  return fp8_linear(input, weight, bias, is_training() ? fp8.amax : Tensor(), fp8.scale);
}
void Fp8Linear::update() const { fp8_update(fp8, margin_); }

}  // namespace strata::amp
