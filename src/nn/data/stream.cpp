// Data sets as streams.
#include "nn/data/stream.h"

namespace strata::data {

ChainDataset::ChainDataset(std::vector<IterableDatasetRef> parts) : parts_(std::move(parts)) {
  for (const IterableDatasetRef& part : parts_)
    STRATA_CHECK(part, Value, "ChainDataset: one of the {} data sets is null", parts_.size());
}
Stream ChainDataset::iterate() const {
  return [parts = parts_, at = size_t{0}, current = Stream()]() mutable -> std::optional<Example> {
    for (; at < parts.size(); ++at, current = nullptr) {
      if (!current) current = parts[at]->iterate();
      if (std::optional<Example> sample = current()) return sample;
    }
    return std::nullopt;
  };
}
std::optional<int64_t> ChainDataset::size() const {
  int64_t total = 0;
  for (const IterableDatasetRef& part : parts_) {
    const std::optional<int64_t> n = part->size();
    if (!n) return std::nullopt;
    total += *n;
  }
  return total;
}

}  // namespace strata::data
