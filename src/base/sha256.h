// SHA-256, for downloaded files and for plans.
#pragma once
#include <array>
#include <string>

#include "base/file.h"

namespace strata {

// Of bytes that come in pieces.
class STRATA_API Sha256 {
 public:
  void add(Bytes bytes);
  std::string digits();  // 64 hexadecimal digits, of everything that was added; the last call

 private:
  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> rest_ = {};
  uint64_t size_ = 0;
};

STRATA_API std::string sha256(Bytes bytes);

}  // namespace strata
