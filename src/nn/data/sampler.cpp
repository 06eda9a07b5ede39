#include "nn/data/sampler.h"

#include <algorithm>

#include "nn/data/pass.h"
#include "strata/ops.h"

namespace strata::data {

int64_t batches_of(int64_t samples, int64_t batch_size, bool drop_last) {
  return drop_last ? samples / batch_size : (samples + batch_size - 1) / batch_size;
}

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

Batches::Batches(Tensor order, int64_t batch_size, bool drop_last)
    : order_(contiguous(order)), batch_size_(batch_size), drop_last_(drop_last) {}
int64_t Batches::size() const {
  return is_list_ ? static_cast<int64_t>(listed_.size()) : batches_of(order_.numel(), batch_size_, drop_last_);
}
Tensor Batches::at(int64_t number) const {
  STRATA_CHECK(number >= 0 && number < size(), Index, "batch {} is out of range for {} batches", number, size());
  if (is_list_) return listed_[static_cast<size_t>(number)];
  const int64_t begin = number * batch_size_;
  return narrow(order_, 0, begin, std::min(batch_size_, order_.numel() - begin));
}

BatchSampler::BatchSampler(std::shared_ptr<Sampler> sampler, int64_t batch_size, bool drop_last)
    : sampler_(std::move(sampler)), batch_size_(batch_size), drop_last_(drop_last) {
  STRATA_CHECK(sampler_, Value, "BatchSampler: there is no sampler");
  STRATA_CHECK(batch_size > 0, Value, "BatchSampler: batch_size must be positive, got {}", batch_size);
}
Batches BatchSampler::batches() {
  STRATA_CHECK(sampler_, NotImplemented, "BatchSampler: override batches() and size()");
  return {sampler_->order(), batch_size_, drop_last_};
}
int64_t BatchSampler::size() const {
  STRATA_CHECK(sampler_, NotImplemented, "BatchSampler: override batches() and size()");
  return batches_of(sampler_->size(), batch_size_, drop_last_);
}

}  // namespace strata::data
