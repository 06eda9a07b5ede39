#include "tensor/generator.h"

#include <random>

#include "tensor/promise.h"

namespace strata {
namespace {
void tell() {
  if (promising.load(std::memory_order_relaxed)) [[unlikely]]
    tell_of_generator();
}
}  // namespace

Generator::Draw Generator::reserve(uint64_t blocks) {
  std::lock_guard lock(mutex_);
  const Draw draw{seed_, position_};
  position_ += blocks;
  return draw;
}

void Generator::manual_seed(uint64_t seed) {
  tell();
  std::lock_guard lock(mutex_);
  seed_ = seed;
  position_ = 0;
}

uint64_t Generator::initial_seed() const {
  std::lock_guard lock(mutex_);
  return seed_;
}

uint64_t Generator::seed() {
  std::random_device device;
  const uint64_t fresh =
    (static_cast<uint64_t>(device()) << 21) ^ device();  // within the 53 bits that all front ends preserve
  manual_seed(fresh);
  return fresh;
}

Generator::State Generator::state() const {
  std::lock_guard lock(mutex_);
  return {seed_, position_};
}

void Generator::set_state(State s) {
  tell();
  std::lock_guard lock(mutex_);
  seed_ = s.seed;
  position_ = s.position;
}

Generator& default_generator() {
  static auto* g = new Generator;
  return *g;
}
void manual_seed(uint64_t seed) { default_generator().manual_seed(seed); }

}  // namespace strata
