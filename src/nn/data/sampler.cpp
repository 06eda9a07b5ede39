#include "nn/data/sampler.h"

#include <algorithm>

#include "strata/ops.h"

namespace strata::data {

Tensor SequentialSampler::order() { return arange(n_); }

RandomSampler::RandomSampler(int64_t n, Generator* generator, bool replacement, std::optional<int64_t> num_samples)
    : n_(n), wanted_(num_samples.value_or(n)), generator_(generator), replacement_(replacement) {
  STRATA_CHECK(!num_samples || *num_samples > 0, Value, "RandomSampler: num_samples must be positive, got {}",
               num_samples.value_or(0));
  STRATA_CHECK(n > 0 || wanted_ == 0, Value, "RandomSampler: the data set is empty; there is nothing to draw from");
}
Tensor RandomSampler::order() {
  if (replacement_) return randint(0, n_, {wanted_}, generator_);
  std::vector<Tensor> rounds;
  for (int64_t have = 0; rounds.empty() || have < wanted_; have += n_) rounds.push_back(randperm(n_, generator_));
  return narrow(rounds.size() == 1 ? rounds[0] : cat(rounds), 0, 0, wanted_);
}

Tensor SubsetRandomSampler::order() { return index_select(indices_, 0, randperm(indices_.numel(), generator_)); }

WeightedRandomSampler::WeightedRandomSampler(Tensor weights, int64_t num_samples, bool replacement,
                                             Generator* generator)
    : weights_(to(weights, DType::F64)), wanted_(num_samples), replacement_(replacement), generator_(generator) {
  STRATA_CHECK(weights.dim() == 1, Value, "WeightedRandomSampler: weights have one dimension, got shape {}",
               to_string(weights.shape()));
  STRATA_CHECK(num_samples > 0, Value, "WeightedRandomSampler: num_samples must be positive, got {}", num_samples);
}
Tensor WeightedRandomSampler::order() { return multinomial(weights_, wanted_, replacement_, generator_); }

}  // namespace strata::data
