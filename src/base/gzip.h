// A stream of bytes from memory, unpacked on the way if it is gzip: as much as is asked for, never more.
#pragma once
#include <memory>
#include <optional>

#include "base/file.h"

namespace strata {

class STRATA_API ByteStream {
 public:
  // `name` is for messages. Packed or not is told by the first two bytes.
  ByteStream(Bytes bytes, std::string name);
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;
  ~ByteStream();

  size_t read(std::byte* to, size_t n);  // fewer bytes than n: the end. Throws Runtime where the gzip data are damaged
  bool at_end();                         // nothing left: also checks the sum at the end of gzip data
  bool packed() const { return inflate_ != nullptr; }
  // The most bytes that can come out: what is left or, packed, 1032 times the whole, the best that deflate can do. What
  // claims more is false without looking.
  uint64_t most() const;

 private:
  struct Inflate;
  Bytes bytes_;  // still to be read
  uint64_t packed_size_;
  std::string name_;
  std::unique_ptr<Inflate> inflate_;
};

// Whether exactly n bytes come out, found by unpacking without keeping anything.
STRATA_API bool unpacks_to(Bytes bytes, const std::string& name, uint64_t n);

}  // namespace strata
