// Loss scaling for float16: unscaling the gradients, and adapting the scale. On a device, neither waits.
#include <cmath>

#include "cpu/optim/grad_scale.h"
#include "cuda/optim/clip.h"
#include "ops/transfer.h"
#include "strata/args/optim/grad_scale.h"

namespace strata {
namespace {

void check_number(const TensorImpl& t, const char* op, const char* what) {
  STRATA_CHECK(t.numel == 1, Runtime, "{}: {} must be one number, found shape {}", op, what, to_string(t.sizes()));
}

void unscale_here(const Call& c) {
  const args::_amp_foreach_non_finite_check_and_unscale a(c);
  const bool finite = cpu::scale_and_check(a.grads(), a.share_inv_scale().item<float>());
  if (!finite || a.share_found_inf().item<float>() != 0) fill_values(a.found_inf(), 1.0);
}

void unscale_on_device(const Call& c, Workspace& workspace) {
  const args::_amp_foreach_non_finite_check_and_unscale a(c);
  cuda::scale_and_check(a.grads(), a.found_inf(), a.inv_scale(), workspace);
}

void update_here(const Call& c) {
  const args::_amp_update_scale a(c);
  const double scale = a.share_scale().item<double>();
  const int64_t tracker = a.share_growth_tracker().item<int64_t>() + 1;
  if (a.share_found_inf().item<double>() != 0) {
    fill_values(a.scale(), scale * a.scale_backoff_factor());
    fill_values(a.growth_tracker(), 0.0);
  } else if (tracker == a.growth_interval()) {
    const auto grown = static_cast<float>(scale * a.scale_growth_factor());
    if (std::isfinite(grown)) fill_values(a.scale(), grown);
    fill_values(a.growth_tracker(), 0.0);
  } else {
    fill_values(a.growth_tracker(), static_cast<double>(tracker));
  }
}

void update_on_device(const Call& c) {
  const args::_amp_update_scale a(c);
  cuda::update_scale(a.scale(), a.growth_tracker(), a.found_inf(), a.scale_growth_factor(), a.scale_backoff_factor(),
                     a.growth_interval());
}

}  // namespace

STRATA_OP(_amp_foreach_non_finite_check_and_unscale,
          "_amp_foreach_non_finite_check_and_unscale_(Tensor(a!)[] grads, Tensor(b!) found_inf, Tensor inv_scale) -> "
          "()")
  .doc(
    "Multiplies gradients by inv_scale in place; found_inf becomes 1 if it is not 0, or an element is infinite or NaN.")
  .helper()
  .no_out()
  .dtypes(kFloatingTypes)
  .infer([](const args::_amp_foreach_non_finite_check_and_unscale& c) {
    const char* op = "_amp_foreach_non_finite_check_and_unscale_";
    check_number(c.found_inf(), op, "found_inf");
    check_number(c.inv_scale(), op, "inv_scale");
    for (const Tensor& t : c.grads())
      STRATA_CHECK(kFloatingTypes.has(t.dtype()), Runtime, "{}: expected gradients of floating dtype, found {}", op,
                   name_of(t.dtype()));
  })
  .kernel("reference", unscale_here)
  .cuda("fused", unscale_on_device)
  .samples({"[f(2,3), f(4)], z(), p()"})
  .error("[f(2)], f(3), f()", ErrorKind::Runtime, "found_inf must be one");

STRATA_OP(_amp_update_scale,
          "_amp_update_scale_(Tensor(a!) scale, Tensor(b!) growth_tracker, Tensor found_inf, float "
          "scale_growth_factor, float scale_backoff_factor, int growth_interval) -> ()")
  .doc(
    "Multiplies scale by the backoff factor if found_inf is not 0, and by the growth factor after growth_interval "
    "calls without.")
  .helper()
  .no_out()
  .dtypes(kFloatingTypes)
  .infer([](const args::_amp_update_scale& c) {
    const char* op = "_amp_update_scale_";
    check_number(c.scale(), op, "scale");
    check_number(c.growth_tracker(), op, "growth_tracker");
    check_number(c.found_inf(), op, "found_inf");
  })
  .kernel("reference", update_here)
  .cuda("fused", update_on_device)
  .samples({"p(), i9(), z(), 2.0, 0.5, 10", "p(), t[8], z(), 2.0, 0.5, 10"})
  .error("f(2), f(), f(), 2.0, 0.5, 10", ErrorKind::Runtime, "scale must be one");

}  // namespace strata
