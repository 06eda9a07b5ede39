// Random number generators: a seed and a position in its Philox stream.
#pragma once
#include <cstdint>
#include <mutex>

#include "base/api.h"

namespace strata {

class STRATA_API Generator {
 public:
  explicit Generator(uint64_t seed = kDefaultSeed) : seed_(seed) {}

  struct Draw {  // a reserved range of the stream: blocks [first, first + blocks) of `seed`
    uint64_t seed, first;
  };
  Draw reserve(uint64_t blocks);  // each block has four 32-bit words; see device/philox.h
  Draw reserve_words(uint64_t n) { return reserve((n + 3) / 4); }

  void manual_seed(uint64_t seed);
  uint64_t initial_seed() const;
  uint64_t seed();  // a new seed from the system
  struct State {
    uint64_t seed, position;
  };
  State state() const;
  void set_state(State s);

  static constexpr uint64_t kDefaultSeed =
    67280421310721;  // PyTorch's default seed: unseeded programs are reproducible too

 private:
  mutable std::mutex mutex_;
  uint64_t seed_, position_ = 0;
};

STRATA_API Generator& default_generator();
STRATA_API void manual_seed(uint64_t seed);  // of the default generator
inline Generator& generator_or_default(Generator* g) { return g ? *g : default_generator(); }

}  // namespace strata
