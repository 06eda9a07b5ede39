#include "files/safetensors.h"

#include <algorithm>

#include "files/safetensors_header.h"
#include "tensor/file_storage.h"

namespace strata::files {
namespace {

// Sizes come from the file: any product may overflow.
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
}  // namespace

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

}  // namespace strata::files
