#include "nn/files/safetensors.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <unordered_set>

#include "autograd/autograd.h"
#include "nn/files/safetensors_header.h"
#include "strata/ops/copy.h"

namespace strata::files {
namespace {

// Sizes are multiplied as the file gives them: any product may wrap.
uint64_t bytes_of(const HeaderEntry& e, const std::string& file) {
  uint64_t n = size_of(e.dtype);
  bool overflow = false;
  for (int64_t s : e.shape) overflow |= __builtin_mul_overflow(n, static_cast<uint64_t>(s), &n);
  if (std::find(e.shape.begin(), e.shape.end(), 0) != e.shape.end()) return 0;
  STRATA_CHECK(!overflow, Runtime, "'{}': tensor '{}' has shape {}, more elements than can be addressed", file, e.name,
               to_string(e.shape));
  return n;
}

// Every byte belongs to exactly one tensor: no overlap, no hole, nothing after the last.
void check_places(const Header& header, uint64_t data_size, const std::string& file) {
  std::vector<const HeaderEntry*> order;
  order.reserve(header.entries.size());
  for (const HeaderEntry& e : header.entries) {
    STRATA_CHECK(e.begin <= e.end, Runtime, "'{}': data_offsets of tensor '{}' are reversed: [{}, {}]", file, e.name,
                 e.begin, e.end);
    STRATA_CHECK(
      e.end <= data_size, Runtime,
      "'{}': data_offsets of tensor '{}' are [{}, {}], but the file has {} bytes of data; it is truncated or damaged",
      file, e.name, e.begin, e.end, data_size);
    const uint64_t need = bytes_of(e, file);
    STRATA_CHECK(e.end - e.begin == need, Runtime,
                 "'{}': data_offsets of tensor '{}' span {} bytes, its shape {} of {} needs {}", file, e.name,
                 e.end - e.begin, to_string(e.shape), name_of(e.dtype), need);
    order.push_back(&e);
  }
  std::sort(order.begin(), order.end(), [](const HeaderEntry* a, const HeaderEntry* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  uint64_t at = 0;
  for (const HeaderEntry* e : order) {
    STRATA_CHECK(e->begin == at, Runtime,
                 "'{}': data_offsets of tensor '{}' start at {}, {} the end of the one before ({})", file, e->name,
                 e->begin, e->begin < at ? "before" : "after", at);
    at = e->end;
  }
  STRATA_CHECK(at == data_size, Runtime, "'{}': {} bytes after the last tensor; the file is damaged", file,
               data_size - at);
}

void check_bools(const Tensor& t, const std::string& name, const std::string& file) {
  const auto* p = t.data<uint8_t>();
  STRATA_CHECK(std::all_of(p, p + t.numel(), [](uint8_t v) { return v <= 1; }), Runtime,
               "'{}': tensor '{}' is of dtype BOOL and has bytes other than 0 and 1", file, name);
}

void release_file(void* p) { delete static_cast<std::shared_ptr<FileBytes>*>(p); }
}  // namespace

Ref<Storage> storage_in(const std::shared_ptr<FileBytes>& file, size_t offset, size_t bytes, DType dtype) {
  std::byte* data = file->data() + offset;
  if (reinterpret_cast<uintptr_t>(data) % size_of(dtype) != 0) {
    Ref<Storage> copy = allocate(bytes);
    std::memcpy(copy->data, data, bytes);
    return copy;
  }
  // One storage per tensor, not one per file: version counters live there, and a write to one weight is no write to all.
  auto owner = std::make_unique<std::shared_ptr<FileBytes>>(file);
  Ref<Storage> storage = adopt_memory(data, bytes, release_file, owner.get());
  (void)owner.release();
  return storage;
}

SafeTensors read_safetensors(const std::shared_ptr<FileBytes>& file) {
  const std::string& name = file->name();
  const Header header = read_header(file->bytes(), name);
  check_places(header, file->size() - header.size, name);
  SafeTensors result;
  result.metadata = header.metadata;
  result.tensors.reserve(header.entries.size());
  for (const HeaderEntry& e : header.entries) {
    Tensor t(Ref<TensorImpl>::adopt(TensorImpl::make()));
    t->dtype = e.dtype;
    t->set_shape(e.shape);
    t->set_contiguous_strides();
    t->storage = e.begin == e.end ? allocate(0) : storage_in(file, header.size + e.begin, e.end - e.begin, e.dtype);
    t->data = t->storage->data;
    if (e.dtype == DType::Bool) check_bools(t, e.name, name);
    result.tensors.emplace_back(e.name, std::move(t));
  }
  return result;
}

Tensor SafeTensorsWriter::row_major(const Tensor& t) {
  const autograd::NoGrad no_grad;
  return contiguous(t);
}

SafeTensorsWriter::SafeTensorsWriter(const TensorDict& tensors, const Metadata& metadata) {
  STRATA_CHECK(tensors.size() <= kMaxTensors, Value, "a safetensors file holds at most {} tensors, got {}", kMaxTensors,
               tensors.size());
  // The widest elements come first, so that every tensor is aligned to its elements; the header keeps the given order.
  std::vector<size_t> place(tensors.size());
  std::iota(place.begin(), place.end(), size_t{0});
  for (const auto& [name, t] : tensors) {
    STRATA_CHECK(t, Value, "tensor '{}' is undefined and cannot be saved; leave it out", name);
    STRATA_CHECK(name != kMetadataKey, Value, "a tensor cannot be saved under the name '{}': the format uses it", name);
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
    // Appended, not looked up: ordered_json finds a key by going through all of them.
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
         fmt::format("a tensor name or metadata text is no UTF-8 and cannot be saved ({})", e.what()));
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
