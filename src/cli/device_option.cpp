#include "cli/device_option.h"

#include <fmt/core.h>

#include "base/error.h"

namespace strata::cli {

Device device_of_option(const std::string& name) {
  Device named;
  try {
    named = device_from_name(name);
  } catch (const Error&) {
    fail(ErrorKind::Value, fmt::format("--device {}: no such device; `strata devices` lists them", name));
  }
  try {
    return require_available(named);
  } catch (const Error& e) { fail(ErrorKind::NotImplemented, fmt::format("--device {}: {}", name, e.what())); }
}

}  // namespace strata::cli
