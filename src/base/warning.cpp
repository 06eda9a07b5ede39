#include "base/warning.h"

#include <atomic>
#include <cstdio>

namespace strata {
namespace {
std::atomic<void (*)(const std::string&)> current_hook{nullptr};
}  // namespace

void set_warning_hook(void (*hook)(const std::string&)) { current_hook.store(hook, std::memory_order_relaxed); }

void warn(const std::string& text) {
  if (auto* hook = current_hook.load(std::memory_order_relaxed)) return hook(text);
  std::fprintf(stderr, "warning: %s\n", text.c_str());
}

}  // namespace strata
