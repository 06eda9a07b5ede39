// Samplers: the order in which a loader takes the samples. Each epoch draws once from the generator, with the same ops
// as in Python: one seed gives one order in both languages.
#pragma once
#include "nn/data/dataset.h"

namespace strata::data {

class STRATA_API Sampler {
 public:
  virtual ~Sampler() = default;
  virtual Tensor order() = 0;  // int64: the indices of one epoch
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

// The indices of each batch of an epoch.
class STRATA_API Batches {
 public:
  Batches(Tensor order, int64_t batch_size, bool drop_last);  // an order, split into batches on demand
  explicit Batches(std::vector<Tensor> batches) : listed_(std::move(batches)), is_list_(true) {}
  int64_t size() const;
  Tensor at(int64_t number) const;

 private:
  std::vector<Tensor> listed_;
  bool is_list_ = false;
  Tensor order_;
  int64_t batch_size_ = 1;
  bool drop_last_ = false;
};

// Batches of batch_size indices of another sampler; the last is shorter, or dropped with drop_last. Override both
// functions for other batches, e.g. of samples of similar length.
class STRATA_API BatchSampler {
 public:
  BatchSampler(std::shared_ptr<Sampler> sampler, int64_t batch_size, bool drop_last);
  virtual ~BatchSampler() = default;
  virtual Batches batches();  // of one epoch
  virtual int64_t size() const;

 protected:
  BatchSampler() = default;

 private:
  std::shared_ptr<Sampler> sampler_;
  int64_t batch_size_ = 1;
  bool drop_last_ = false;
};

}  // namespace strata::data
