#include "record/precision.h"

#include <fmt/core.h>

#include <array>
#include <atomic>

#include "base/error.h"

namespace strata {
namespace {

constexpr std::array<std::string_view, 3> kLevels = {"highest", "high", "medium"};
std::atomic<size_t> level = 0;
std::atomic<bool> convolutions = false, deterministic = true;

}  // namespace

bool allow_tf32_products() { return level.load(std::memory_order_relaxed) != 0; }
void set_allow_tf32_products(bool allow) { level.store(allow ? 1 : 0, std::memory_order_relaxed); }
bool allow_tf32_convolutions() { return convolutions.load(std::memory_order_relaxed); }
void set_allow_tf32_convolutions(bool allow) { convolutions.store(allow, std::memory_order_relaxed); }

bool is_deterministic() { return deterministic.load(std::memory_order_relaxed); }
void set_deterministic(bool on) { deterministic.store(on, std::memory_order_relaxed); }

std::string_view float32_matmul_precision() { return kLevels[level.load(std::memory_order_relaxed)]; }

void set_float32_matmul_precision(std::string_view precision) {
  for (size_t i = 0; i < kLevels.size(); ++i)
    if (kLevels[i] == precision) return level.store(i, std::memory_order_relaxed);
  fail(ErrorKind::Value,
       fmt::format("set_float32_matmul_precision: found '{}', expected 'highest', 'high' or 'medium'", precision));
}

}  // namespace strata
