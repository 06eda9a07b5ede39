// A stream of bytes from memory, decompressed on demand if it is gzip data.
#pragma once
#include <memory>
#include <optional>

#include "base/file.h"

namespace strata {

class STRATA_API ByteStream {
 public:
  // `name` is for messages. Gzip data is detected by its first two bytes.
  ByteStream(Bytes bytes, std::string name);
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;
  ~ByteStream();

  size_t read(std::byte* to, size_t n);  // fewer bytes than n: the end. Throws Runtime if the gzip data is damaged
  bool at_end();                         // at the end; also verifies the checksum of gzip data
  bool packed() const { return inflate_ != nullptr; }
  // Upper bound of the output: the remaining bytes or, for gzip data, 1032 times the input, deflate's maximum. A header
  // that claims more is wrong.
  uint64_t most() const;

 private:
  struct Inflate;
  Bytes bytes_;  // not read yet
  uint64_t packed_size_;
  std::string name_;
  std::unique_ptr<Inflate> inflate_;
};

// Whether exactly n bytes are decompressed; keeps none of them.
STRATA_API bool unpacks_to(Bytes bytes, const std::string& name, uint64_t n);

}  // namespace strata
