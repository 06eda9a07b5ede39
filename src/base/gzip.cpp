#include "base/gzip.h"

#define ZLIB_CONST
#include <fmt/core.h>

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"

namespace strata {

struct ByteStream::Inflate {
  z_stream z{};
  bool ended = false;
  ~Inflate() { inflateEnd(&z); }
};

ByteStream::ByteStream(Bytes bytes, std::string name)
    : bytes_(bytes), packed_size_(bytes.size()), name_(std::move(name)) {
  if (bytes.size() < 2 || bytes[0] != std::byte{0x1f} || bytes[1] != std::byte{0x8b}) return;
  auto state = std::make_unique<Inflate>();
  constexpr int kGzipOnly = 16;
  STRATA_CHECK(inflateInit2(&state->z, kGzipOnly + MAX_WBITS) == Z_OK, OutOfMemory, "no memory to unpack '{}'", name_);
  inflate_ = std::move(state);
}
ByteStream::~ByteStream() = default;

uint64_t ByteStream::most() const { return packed() ? 1032 * packed_size_ : bytes_.size(); }

size_t ByteStream::read(std::byte* to, size_t n) {
  if (!packed()) {
    n = std::min(n, bytes_.size());
    if (n) std::memcpy(to, bytes_.data(), n);
    bytes_ = bytes_.subspan(n);
    return n;
  }
  constexpr size_t kStep = size_t{1} << 30;  // zlib counts in 32 bits
  z_stream& z = inflate_->z;
  size_t got = 0;
  while (got < n && !inflate_->ended) {
    const size_t in = std::min(bytes_.size(), kStep), room = std::min(n - got, kStep);
    z.next_in = reinterpret_cast<const Bytef*>(bytes_.data());
    z.avail_in = static_cast<uInt>(in);
    z.next_out = reinterpret_cast<Bytef*>(to + got);
    z.avail_out = static_cast<uInt>(room);
    const int status = inflate(&z, Z_NO_FLUSH);
    bytes_ = bytes_.subspan(in - z.avail_in);
    got += room - z.avail_out;
    if (status == Z_STREAM_END) {
      if (bytes_.empty()) inflate_->ended = true;
      else if (bytes_.size() > 1 && bytes_[0] == std::byte{0x1f} && bytes_[1] == std::byte{0x8b})
        inflateReset(&z);  // gzip files may be concatenated
      else
        fail(ErrorKind::Runtime,
             fmt::format("'{}': {} bytes after the end of the gzip data; the file is damaged, download it again", name_,
                         bytes_.size()));
    } else if (status == Z_BUF_ERROR && bytes_.empty()) {
      fail(ErrorKind::Runtime,
           fmt::format("'{}': the gzip data ends too early; the file is truncated, download it again", name_));
    } else if (status != Z_OK) {
      fail(ErrorKind::Runtime, fmt::format("'{}': the gzip data is damaged ({}); download the file again", name_,
                                           z.msg ? z.msg : zError(status)));
    }
  }
  return got;
}

bool ByteStream::at_end() {
  std::byte more;
  return read(&more, 1) == 0;
}

bool unpacks_to(Bytes bytes, const std::string& name, uint64_t n) {
  ByteStream stream(bytes, name);
  auto scratch = std::make_unique<std::array<std::byte, 1 << 16>>();
  uint64_t seen = 0;
  for (;;) {
    const size_t got = stream.read(scratch->data(), scratch->size());
    seen += got;
    if (seen > n) return false;
    if (got < scratch->size()) return seen == n;
  }
}

}  // namespace strata
