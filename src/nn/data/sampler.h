// Samplers: in which order a loader takes the samples. Each pass draws once from the generator, with the same ops as in
// Python: one seed gives one order in both languages.
#pragma once
#include "nn/data/dataset.h"

namespace strata::data {

class STRATA_API Sampler {
 public:
  virtual ~Sampler() = default;
  virtual Tensor order() = 0;  // int64: the positions of one pass
  virtual int64_t size() const = 0;
};

class STRATA_API SequentialSampler : public Sampler {
 public:
  explicit SequentialSampler(int64_t n) : n_(n) {}
  Tensor order() override;
  int64_t size() const override { return n_; }

 private:
  int64_t n_;
};

class STRATA_API RandomSampler : public Sampler {  // a random order, or independent draws
 public:
  explicit RandomSampler(int64_t n, Generator* generator = nullptr, bool replacement = false,
                         std::optional<int64_t> num_samples = std::nullopt);
  Tensor order() override;
  int64_t size() const override { return wanted_; }

 private:
  int64_t n_, wanted_;
  Generator* generator_;
  bool replacement_;
};

class STRATA_API SubsetRandomSampler : public Sampler {  // the given positions in random order
 public:
  explicit SubsetRandomSampler(Tensor indices, Generator* generator = nullptr)
      : indices_(std::move(indices)), generator_(generator) {}
  Tensor order() override;
  int64_t size() const override { return indices_.numel(); }

 private:
  Tensor indices_;
  Generator* generator_;
};

class STRATA_API WeightedRandomSampler : public Sampler {  // positions drawn by weight
 public:
  WeightedRandomSampler(Tensor weights, int64_t num_samples, bool replacement = true, Generator* generator = nullptr);
  Tensor order() override;
  int64_t size() const override { return wanted_; }

 private:
  Tensor weights_;
  int64_t wanted_;
  bool replacement_;
  Generator* generator_;
};

}  // namespace strata::data
