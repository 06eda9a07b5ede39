// Descriptions of tensors for bulk copies (CUtensorMap). The layout of the 128 bytes is the virtual GPU's own.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "base/api.h"

namespace strata::cuda::vgpu {

struct alignas(64) TensorMap {
  static constexpr uint32_t kMagic = 0x56544d31;
  static constexpr size_t kMostDims = 5;
  uint64_t address = 0;
  uint64_t strides[kMostDims] = {};  // bytes, from one element to the next; that of dimension 0 is the element's size
  uint32_t last[kMostDims] = {};     // the last index of each dimension
  uint32_t magic = kMagic;
  uint16_t box[kMostDims] = {};  // elements
  uint8_t rank = 0, swizzle = 0;

  uint32_t element() const { return static_cast<uint32_t>(strides[0]); }
  uint32_t row_bytes() const { return box[0] * element(); }
  uint32_t box_bytes() const {
    uint32_t n = row_bytes();
    for (int d = 1; d < rank; ++d) n *= box[d];
    return n;
  }
};
static_assert(sizeof(TensorMap) == 128);

struct TensorMapRequest {  // the arguments of cuTensorMapEncodeTiled
  int type;
  unsigned rank;
  uint64_t address;
  const unsigned long long *sizes, *strides;
  const unsigned *box, *steps;
  int interleave, swizzle, fill;
};
// Returns why the request is invalid, or an empty text. `supported` is false if only the virtual GPU refuses it.
STRATA_API std::string encode(const TensorMapRequest& request, TensorMap& out, bool& supported);

// Swizzle modes 1, 2, 3 (32, 64, 128 bytes): XORs bits 7.. of an address into bits 4.., in blocks of 16 bytes.
inline uint32_t swizzled(uint32_t address, int mode) { return address ^ (address >> 7 & ((1u << mode) - 1)) << 4; }

// Calls body(address, first, bytes, offset) for every row of a box: the bytes [first, first + bytes) of the row are in
// the tensor, from `address` on, and the row begins `offset` bytes after the box. bytes is 0 for a row outside.
template <class Body> void each_row(const TensorMap& m, const int32_t* at, const Body& body) {
  const int64_t size = int64_t{m.last[0]} + 1, begin = at[0];
  const int64_t low = begin < 0 ? 0 : begin, high = begin + m.box[0] < size ? begin + m.box[0] : size;
  uint32_t place[TensorMap::kMostDims] = {}, offset = 0;
  for (;;) {
    uint64_t address = m.address + static_cast<uint64_t>(low) * m.strides[0];
    bool inside = low < high;
    for (int d = 1; d < m.rank; ++d) {
      const int64_t index = int64_t{at[d]} + place[d];
      inside = inside && index >= 0 && index <= int64_t{m.last[d]};
      address += static_cast<uint64_t>(index) * m.strides[d];
    }
    body(address, inside ? static_cast<uint32_t>(low - begin) * m.element() : 0,
         inside ? static_cast<uint32_t>(high - low) * m.element() : 0, offset);
    offset += m.row_bytes();
    int d = 1;
    for (; d < m.rank; ++d) {
      if (++place[d] < m.box[d]) break;
      place[d] = 0;
    }
    if (d >= m.rank) return;
  }
}

}  // namespace strata::cuda::vgpu
