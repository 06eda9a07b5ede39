// The header of a safetensors file, parsed with limits, since files are untrusted.
#pragma once
#include "files/safetensors.h"

namespace strata::files {

constexpr size_t kMaxHeader = 100'000'000, kMaxTensors = 100'000;  // the first is the format's own limit
constexpr const char* kMetadataKey = "__metadata__";

struct HeaderEntry {
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;  // in the data after the header
};
struct Header {
  std::vector<HeaderEntry> entries;
  Metadata metadata;
  size_t size = 0;  // of length and header together: the start of the data
};

const char* format_name(DType t);                              // "F32"
uint64_t header_length(Bytes start, const std::string& name);  // from the first 8 bytes; rejects one over the limit
Header read_header(Bytes file, const std::string& name);

}  // namespace strata::files
