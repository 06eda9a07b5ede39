// Data sets by position, and combinations of them.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "tensor/generator.h"
#include "tensor/tensor.h"

namespace strata::data {

using Example = std::vector<Tensor>;  // one sample: a tensor for each field
using Batch = Example;                // several, each field stacked

// Implement get() and size(); override get_batch() too if a whole batch can be built at once. Loaders call both from
// several threads concurrently.
class STRATA_API Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  virtual Example get(int64_t index) const = 0;
  virtual Example get_batch(
    const Tensor& indices) const;  // int64; by default the samples of get(), stacked field by field
  std::vector<Example> samples(const Tensor& indices) const;  // as returned by get()
};
using DatasetRef = std::shared_ptr<const Dataset>;

// Stacks the fields of samples. Throws Value if their number differs.
STRATA_API Example collate(std::span<const Example> samples);

// The slices of tensors along their first dimension. A batch is one index_select per field.
class STRATA_API TensorDataset : public Dataset {
 public:
  explicit TensorDataset(std::vector<Tensor> tensors);
  int64_t size() const override { return tensors_.empty() ? 0 : tensors_[0].size(0); }
  Example get(int64_t index) const override;
  Example get_batch(const Tensor& indices) const override;

 private:
  std::vector<Tensor> tensors_;
};

// Another data set with a function applied to each sample.
class STRATA_API MapDataset : public Dataset {
 public:
  MapDataset(DatasetRef of, std::function<Example(Example)> f) : of_(std::move(of)), f_(std::move(f)) {}
  int64_t size() const override { return of_->size(); }
  Example get(int64_t index) const override { return f_(of_->get(index)); }

 private:
  DatasetRef of_;
  std::function<Example(Example)> f_;
};

// The samples of another data set at some positions.
class STRATA_API Subset : public Dataset {
 public:
  Subset(DatasetRef of, Tensor indices);  // int64, one dimension; checked
  int64_t size() const override { return indices_.numel(); }
  Example get(int64_t index) const override;
  Example get_batch(const Tensor& indices) const override;
  const Tensor& indices() const { return indices_; }

 private:
  DatasetRef of_;
  Tensor indices_;
};

// Concatenated data sets.
class STRATA_API ConcatDataset : public Dataset {
 public:
  explicit ConcatDataset(std::vector<DatasetRef> parts);
  int64_t size() const override { return ends_.back(); }
  Example get(int64_t index) const override;

 private:
  std::vector<DatasetRef> parts_;
  std::vector<int64_t> ends_;
};

// Data sets with their fields combined.
class STRATA_API StackDataset : public Dataset {
 public:
  explicit StackDataset(std::vector<DatasetRef> parts);
  int64_t size() const override { return parts_[0]->size(); }
  Example get(int64_t index) const override;
  Example get_batch(const Tensor& indices) const override;

 private:
  std::vector<DatasetRef> parts_;
};

// Subsets of the given lengths, which sum to the size, in random order.
STRATA_API std::vector<std::shared_ptr<Subset>> random_split(const DatasetRef& dataset,
                                                             std::span<const int64_t> lengths,
                                                             Generator* generator = nullptr);

}  // namespace strata::data
