// Writes safetensors files. Separate from the reader, which must not need the ops: the fuzz targets are built without
// them.
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <unordered_set>

#include "autograd/autograd.h"
#include "files/safetensors_header.h"
#include "strata/ops/movement/copy.h"

namespace strata::files {

Tensor SafeTensorsWriter::row_major(const Tensor& t) {
  if (t.device().type != DeviceType::Cpu) return row_major(to_host(*t));
  const autograd::NoGrad no_grad;
  return contiguous(t);
}

SafeTensorsWriter::SafeTensorsWriter(const TensorDict& tensors, const Metadata& metadata) {
  STRATA_CHECK(tensors.size() <= kMaxTensors, Value, "a safetensors file holds at most {} tensors, got {}", kMaxTensors,
               tensors.size());
  // The widest elements come first, so that every tensor is aligned; the header keeps the given order.
  std::vector<size_t> place(tensors.size());
  std::iota(place.begin(), place.end(), size_t{0});
  for (const auto& [name, t] : tensors) {
    STRATA_CHECK(t, Value, "tensor '{}' is undefined and cannot be saved; leave it out", name);
    STRATA_CHECK(name != kMetadataKey, Value, "a tensor cannot be saved under the name '{}': the format uses it", name);
    STRATA_CHECK(!t.is_meta(), NotImplemented, "tensor '{}' is on device meta: there are no values to save", name);
    STRATA_CHECK(t->data || t.numel() == 0, Value, "tensor '{}' has no memory and cannot be saved", name);
  }
  std::stable_sort(place.begin(), place.end(), [&](size_t a, size_t b) {
    return size_of(tensors[a].second.dtype()) > size_of(tensors[b].second.dtype());
  });
  std::vector<size_t> begin(tensors.size());
  for (size_t i : place) {
    const Tensor& t = tensors[i].second;
    begin[i] = data_size_;
    data_size_ += static_cast<size_t>(t.numel()) * size_of(t.dtype());
    order_.push_back(t);
  }

  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  std::unordered_set<std::string_view> seen;
  try {
    if (!metadata.empty()) header[kMetadataKey] = metadata;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const auto& [name, t] = tensors[i];
      STRATA_CHECK(seen.insert(name).second, Value, "two tensors are named '{}'; names must differ", name);
    }
    // Appended, not looked up: ordered_json searches keys linearly.
    auto& object = header.get_ref<nlohmann::ordered_json::object_t&>();
    for (size_t i = 0; i < tensors.size(); ++i) {
      const auto& [name, t] = tensors[i];
      nlohmann::ordered_json entry;
      entry["dtype"] = format_name(t.dtype());
      entry["shape"] = std::vector<int64_t>(t.shape().begin(), t.shape().end());
      entry["data_offsets"] = {begin[i], begin[i] + static_cast<size_t>(t.numel()) * size_of(t.dtype())};
      object.push_back({name, std::move(entry)});
    }
    header_ = header.dump();
  } catch (const nlohmann::json::exception& e) {
    fail(ErrorKind::Value,
         fmt::format("a tensor name or metadata text is not UTF-8 and cannot be saved ({})", e.what()));
  }
  header_.resize((header_.size() + 7) / 8 * 8, ' ');
  STRATA_CHECK(header_.size() <= kMaxHeader, Value,
               "the names, shapes and metadata take {} bytes; a safetensors header has at most {}", header_.size(),
               kMaxHeader);
  std::string length(8, '\0');
  for (size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(header_.size() >> (8 * i) & 0xff);
  header_.insert(0, length);
}

}  // namespace strata::files
