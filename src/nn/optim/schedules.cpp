#include "nn/optim/schedules.h"

#include <algorithm>

#include "base/error.h"
#include "nn/optim/formulas.h"

namespace strata::optim {

const Schedule& find_schedule(std::string_view name) {
  const std::span<const Schedule> all = all_schedules();
  const auto found = std::ranges::find(all, name, &Schedule::name);
  STRATA_CHECK(found != all.end(), Value, "there is no schedule '{}'", name);
  return *found;
}

}  // namespace strata::optim
