#include "nn/data/dataset.h"

#include <algorithm>
#include <numeric>

#include "strata/ops.h"

namespace strata::data {
namespace {
void check_index(int64_t index, int64_t size) {
  STRATA_CHECK(index >= 0 && index < size, Index, "index {} is out of range for {} samples", index, size);
}
}  // namespace

Example collate(std::span<const Example> samples) {
  Example batch;
  if (samples.empty()) return batch;
  const size_t fields = samples[0].size();
  std::vector<Tensor> column(samples.size());
  for (size_t f = 0; f < fields; ++f) {
    for (size_t i = 0; i < samples.size(); ++i) {
      STRATA_CHECK(samples[i].size() == fields, Value,
                   "collate: sample {} of the batch has {} fields, the first has {}", i, samples[i].size(), fields);
      column[i] = samples[i][f];
    }
    batch.push_back(stack(column));
  }
  return batch;
}

std::vector<Example> Dataset::samples(const Tensor& indices) const {
  STRATA_CHECK(indices.dtype() == DType::I64, Type, "positions of samples are int64, got {}", name_of(indices.dtype()));
  std::vector<Example> found;
  found.reserve(static_cast<size_t>(indices.numel()));
  const Tensor places = contiguous(indices);
  for (int64_t i = 0; i < places.numel(); ++i) found.push_back(get(places.data<int64_t>()[i]));
  return found;
}
Example Dataset::get_batch(const Tensor& indices) const { return collate(samples(indices)); }

TensorDataset::TensorDataset(std::vector<Tensor> tensors) : tensors_(std::move(tensors)) {
  for (const Tensor& t : tensors_)
    STRATA_CHECK(t && t.dim() > 0 && t.size(0) == size(), Value,
                 "TensorDataset: the tensors have {} and {} samples; all must have the same number", size(),
                 t && t.dim() > 0 ? t.size(0) : 0);
}
Example TensorDataset::get(int64_t index) const {
  check_index(index, size());
  Example sample;
  for (const Tensor& t : tensors_) sample.push_back(select(t, 0, index));
  return sample;
}
Example TensorDataset::get_batch(const Tensor& indices) const {
  Example batch;
  for (const Tensor& t : tensors_) batch.push_back(index_select(t, 0, indices));
  return batch;
}

Subset::Subset(DatasetRef of, Tensor indices) : of_(std::move(of)), indices_(contiguous(indices)) {
  STRATA_CHECK(indices_.dtype() == DType::I64 && indices_.dim() == 1, Type,
               "Subset: indices are int64 of one dimension, got {} of shape {}", name_of(indices_.dtype()),
               to_string(indices_.shape()));
  for (int64_t i = 0; i < indices_.numel(); ++i) check_index(indices_.data<int64_t>()[i], of_->size());
}
Example Subset::get(int64_t index) const {
  check_index(index, size());
  return of_->get(indices_.data<int64_t>()[index]);
}
Example Subset::get_batch(const Tensor& indices) const { return of_->get_batch(index_select(indices_, 0, indices)); }

ConcatDataset::ConcatDataset(std::vector<DatasetRef> parts) : parts_(std::move(parts)) {
  STRATA_CHECK(!parts_.empty(), Value, "ConcatDataset: there are no data sets to put together");
  int64_t end = 0;
  for (const DatasetRef& part : parts_) ends_.push_back(end += part->size());
}
Example ConcatDataset::get(int64_t index) const {
  check_index(index, size());
  const auto which = static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), index) - ends_.begin());
  return parts_[which]->get(index - (which ? ends_[which - 1] : 0));
}

StackDataset::StackDataset(std::vector<DatasetRef> parts) : parts_(std::move(parts)) {
  STRATA_CHECK(!parts_.empty(), Value, "StackDataset: there are no data sets to put together");
  for (const DatasetRef& part : parts_)
    STRATA_CHECK(part->size() == size(), Value,
                 "StackDataset: the data sets have {} and {} samples; all must have the same number", size(),
                 part->size());
}
Example StackDataset::get(int64_t index) const {
  Example sample;
  for (const DatasetRef& part : parts_)
    for (Tensor& field : part->get(index)) sample.push_back(std::move(field));
  return sample;
}
Example StackDataset::get_batch(const Tensor& indices) const {
  Example batch;
  for (const DatasetRef& part : parts_)
    for (Tensor& field : part->get_batch(indices)) batch.push_back(std::move(field));
  return batch;
}

std::vector<std::shared_ptr<Subset>> random_split(const DatasetRef& dataset, std::span<const int64_t> lengths,
                                                  Generator* generator) {
  const int64_t total = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  STRATA_CHECK(
    total == dataset->size() && std::all_of(lengths.begin(), lengths.end(), [](int64_t n) { return n >= 0; }), Value,
    "random_split: the lengths {} sum to {}, the data set has {} samples", to_string(lengths), total, dataset->size());
  const Tensor order = randperm(total, generator);
  std::vector<std::shared_ptr<Subset>> parts;
  int64_t begin = 0;
  for (int64_t n : lengths) {
    parts.push_back(std::make_shared<Subset>(dataset, narrow(order, 0, begin, n)));
    begin += n;
  }
  return parts;
}

}  // namespace strata::data
