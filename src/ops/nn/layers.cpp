// The code of modules around an op: checks of the input's rank, counting batches, inputs without a batch dimension.
#include <fmt/core.h>

#include "autograd/autograd.h"
#include "strata/ops.h"

namespace strata {
namespace {

std::string ranks_text(IntList ranks) {
  std::string text;
  for (int64_t r : ranks) text += (text.empty() ? "" : " or ") + std::to_string(r) + "D";
  return text;
}

void check_rank(const Tensor& input, IntList ranks, const char* op) {
  for (int64_t r : ranks)
    if (input.dim() == r) return;
  fail(ErrorKind::Value, fmt::format("{}: expected {} input (got {}D input)", op, ranks_text(ranks), input.dim()));
}

}  // namespace

STRATA_OP(batch_norm_layer,
          "_batch_norm_layer(Tensor input, Tensor(a!:training)? running_mean, Tensor(b!:training)? running_var, "
          "Tensor(c!:training)? num_batches_tracked, Tensor? weight, Tensor? bias, bool training, bool track, float? "
          "momentum, float eps, int[] ranks) -> Tensor")
  .doc("batch_norm for modules: counts batches, and without momentum keeps their cumulative average.")
  .helper()
  .no_out()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, const Tensor& mean, const Tensor& var, const Tensor& count, const Tensor& weight,
                const Tensor& bias, bool training, bool track, std::optional<double> momentum, double eps,
                IntList ranks) {
    check_rank(input, ranks, "batch_norm");
    double factor = momentum.value_or(0);
    if (training && track && count) {
      const autograd::NoGrad off;
      add_(count, 1);
      if (!momentum && !count.is_meta()) factor = 1 / count.item<double>();
    }
    const bool running = !training || track;
    return nn::functional::batch_norm(input, running ? mean : Tensor(), running ? var : Tensor(), weight, bias,
                                      training || (!mean && !var), factor, eps);
  })
  .samples({"f(3,4), None, None, None, f(4), f(4), True, False, 0.1, 1e-5, [2,3]",
            "f(4,3), f(3), p(3), t[7], None, None, True, True, 0.1, 1e-5, [2,3]",
            "f(2,3,4), f(3), p(3), None, None, None, False, True, None, 1e-5, [2,3]"})
  .error("f(3), None, None, None, None, None, True, False, 0.1, 1e-5, [2,3]", ErrorKind::Value,
         "expected 2D or 3D input (got 1D input)");

STRATA_OP(instance_norm_layer,
          "_instance_norm_layer(Tensor input, Tensor(a!:use_input_stats)? running_mean, Tensor(b!:use_input_stats)? "
          "running_var, Tensor? weight, Tensor? bias, bool use_input_stats, float momentum, float eps, int "
          "num_features, int rank) -> Tensor")
  .doc("instance_norm for modules: an input with one dimension less than rank has no batch.")
  .helper()
  .no_out()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, const Tensor& mean, const Tensor& var, const Tensor& weight, const Tensor& bias,
                bool use_input_stats, double momentum, double eps, int64_t features, int64_t rank) {
    check_rank(input, {rank - 1, rank}, "instance_norm");
    const bool single = input.dim() == rank - 1;
    STRATA_CHECK(input.size(single ? 0 : 1) == features || !weight, Value,
                 "instance_norm: expected input's size at dim={} to match num_features ({}), but got: {}.",
                 single ? 0 : 1, features, input.size(single ? 0 : 1));
    const Tensor out = nn::functional::instance_norm(single ? unsqueeze(input, 0) : input, mean, var, weight, bias,
                                                     use_input_stats, momentum, eps);
    return single ? squeeze(out, 0) : out;
  })
  .samples({"f(2,3,4), None, None, f(3), f(3), True, 0.1, 1e-5, 3, 3",
            "f(2,3,4), f(3), p(3), None, None, True, 0.1, 1e-5, 3, 3",
            "f(3,4), None, None, None, None, True, 0.1, 1e-5, 3, 3"})
  .error("f(2,3,4), None, None, f(2), f(2), True, 0.1, 1e-5, 2, 3", ErrorKind::Value, "to match num_features");

}  // namespace strata
