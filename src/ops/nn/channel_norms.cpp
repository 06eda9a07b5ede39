// Other norms over channels, made of ops: instance and local response norm, and normalize.
#include "autograd/autograd.h"
#include "strata/ops.h"

namespace strata {

STRATA_OP(instance_norm,
          "nn.functional.instance_norm(Tensor input, Tensor(a!:use_input_stats)? running_mean=None, "
          "Tensor(b!:use_input_stats)? running_var=None, Tensor? weight=None, Tensor? bias=None, bool "
          "use_input_stats=True, float momentum=0.1, float eps=1e-5) -> Tensor")
  .no_grad_inputs({"running_mean", "running_var"})
  .doc("Normalizes each channel of each sample by its own mean and variance.")
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, const Tensor& running_mean, const Tensor& running_var, const Tensor& weight,
                const Tensor& bias, bool use_input_stats, double momentum, double eps) {
    STRATA_CHECK(input.dim() >= 2, Runtime,
                 "instance_norm: expected an input of 2 or more dimensions [N, C, ...], got shape {}",
                 to_string(input.shape()));
    STRATA_CHECK(use_input_stats || (running_mean && running_var), Runtime,
                 "instance_norm: expected running_mean and running_var when use_input_stats is False");
    const int64_t n = input.size(0), channels = input.size(1);
    int64_t spatial = 1;
    for (int d = 2; d < input.dim(); ++d) spatial *= input.size(d);
    STRATA_CHECK(!use_input_stats || spatial != 1, Value,
                 "instance_norm: expected more than 1 spatial element when training, got input size {}",
                 to_string(input.shape()));
    std::vector<int64_t> shape(input.shape().begin(), input.shape().end());
    shape[0] = 1;
    shape[1] = n * channels;
    const auto tiled = [&](const Tensor& t) {
      return t ? reshape(expand(unsqueeze(t, 0), {n, channels}), {n * channels}) : t;
    };
    Tensor means = running_mean ? clone(tiled(running_mean)) : Tensor(),
           variances = running_var ? clone(tiled(running_var)) : Tensor();
    const Tensor out = nn::functional::batch_norm(reshape(input, shape), means, variances, tiled(weight), tiled(bias),
                                                  use_input_stats, momentum, eps);
    if (use_input_stats && input.numel() > 0) {
      const autograd::NoGrad no_grad;
      if (running_mean) copy_(running_mean, mean(reshape(means, {n, channels}), 0));
      if (running_var) copy_(running_var, mean(reshape(variances, {n, channels}), 0));
    }
    return reshape(out, input.shape());
  })
  .samples({"f(2,3,4)", "f(2,3,4,5), None, None, f(3), f(3)", "f(2,3,4), f(3), p(3), None, None, False",
            "!f(2,3,4), f(3), p(3)"})
  .error("f(4)", ErrorKind::Runtime, "2 or more dimensions")
  .error("f(2,3,1)", ErrorKind::Value, "more than 1 spatial element");

STRATA_OP(
  local_response_norm,
  "nn.functional.local_response_norm(Tensor input, int size, float alpha=1e-4, float beta=0.75, float k=1.0) -> Tensor")
  .doc("Divides by a power of the mean square over neighbouring channels.")
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, int64_t size, double alpha, double beta, double k) {
    STRATA_CHECK(input.dim() >= 3, Value,
                 "local_response_norm: expected 3D or higher dimensionality input (got {} dimensions)", input.dim());
    STRATA_CHECK(size >= 1, Value, "local_response_norm: size must be positive, got {}", size);
    if (input.numel() == 0) return input;
    const int64_t n = input.size(0), c = input.size(1), rest = input.numel() / (n * c);
    const int64_t before = std::min(size / 2, c - 1),
                  after = std::min((size - 1) / 2, c - 1);  // there are no channels beyond
    const Tensor squares = nn::functional::pad(reshape(square(input), {n, c, rest}), {0, 0, before, after});
    Tensor window = narrow(squares, 1, 0, c);
    for (int64_t i = 1; i <= before + after; ++i) window = add(window, narrow(squares, 1, i, c));
    const Tensor divisor = pow(add(mul(div(window, static_cast<double>(size)), alpha), k), beta);
    return div(input, reshape(divisor, input.shape()));
  })
  .samples({"f(2,5,3), 3", "f(2,5,3,2), 2, alpha=0.1, beta=0.5, k=2.0", "f(2,3,4), 9, alpha=0.1"})
  .error("f(2,5), 3", ErrorKind::Value, "3D or higher");

STRATA_OP(normalize, "nn.functional.normalize(Tensor input, float p=2.0, int[] dim=1, float eps=1e-12) -> Tensor")
  .doc("x / max(norm(x, p, dim), eps).")
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, double p, IntList dim, double eps) {
    return div(input, clamp(linalg::vector_norm(input, p, dim, true), eps, std::nullopt));
  })
  .samples({"f(3,4)", "f(3,4), p=1.0, dim=0", "f(2,3,4), 2.0, [1,2]"})
  .error("f(3)", ErrorKind::Index, "out of range");

}  // namespace strata
