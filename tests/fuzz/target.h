// Shared parts of the fuzz targets: the entry that libFuzzer calls, and the only exception a reader may throw.
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "base/file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace strata::fuzz {

// Bad input must end in a strata::Error with a message, and not an internal one; anything else ends the program.
template <class F> void expect_typed_errors(F f) {
  try {
    f();
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::Internal || e.what()[0] == 0) __builtin_trap();
  }
}
inline Bytes bytes_of(const uint8_t* data, size_t size) { return {reinterpret_cast<const std::byte*>(data), size}; }

}  // namespace strata::fuzz
