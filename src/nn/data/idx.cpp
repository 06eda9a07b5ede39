#include "nn/data/idx.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "base/gzip.h"

namespace strata::data {
namespace {

DType dtype_of(std::byte code, const std::string& name) {
  switch (std::to_integer<int>(code)) {
    case 0x08: return DType::U8;
    case 0x09: return DType::I8;
    case 0x0B: return DType::I16;
    case 0x0C: return DType::I32;
    case 0x0D: return DType::F32;
    case 0x0E: return DType::F64;
    default:
      fail(ErrorKind::Runtime,
           fmt::format(
             "'{}': the type byte of the IDX header is 0x{:02x}; expected 0x08 (uint8), 0x09 (int8), 0x0b (int16), "
             "0x0c (int32), 0x0d (float32) or 0x0e (float64). Is this an IDX file?",
             name, std::to_integer<int>(code)));
  }
}

template <size_t kSize> void swap_bytes(std::byte* data, size_t n) {
  for (size_t i = 0; i < n; ++i) std::reverse(data + i * kSize, data + (i + 1) * kSize);
}
void to_native(std::byte* data, size_t n, size_t item) {
  if (std::endian::native == std::endian::big) return;
  if (item == 2) swap_bytes<2>(data, n);
  else if (item == 4) swap_bytes<4>(data, n);
  else if (item == 8) swap_bytes<8>(data, n);
}
}  // namespace

Tensor read_idx(Bytes bytes, const std::string& name) {
  ByteStream stream(bytes, name);
  std::array<std::byte, 4> magic;
  STRATA_CHECK(stream.read(magic.data(), 4) == 4, Runtime, "'{}': too short for the 4 magic bytes of an IDX file",
               name);
  STRATA_CHECK(magic[0] == std::byte{0} && magic[1] == std::byte{0}, Runtime,
               "'{}': the IDX magic starts with 0x{:02x}{:02x}; expected 0x0000. Is this an IDX file?", name,
               std::to_integer<int>(magic[0]), std::to_integer<int>(magic[1]));
  const DType dtype = dtype_of(magic[2], name);
  const auto rank = std::to_integer<size_t>(magic[3]);
  STRATA_CHECK(rank >= 1 && rank <= kMaxDims, Runtime, "'{}': the rank byte of the IDX header is {}; expected 1 to {}",
               name, rank, kMaxDims);

  std::vector<std::byte> sizes(4 * rank);
  STRATA_CHECK(stream.read(sizes.data(), sizes.size()) == sizes.size(), Runtime,
               "'{}': the IDX header ends before its {} sizes; the file is truncated, download it again", name, rank);
  std::vector<int64_t> shape(rank);
  const size_t header = 4 + sizes.size();
  uint64_t data = size_of(dtype);
  bool overflow = false;
  for (size_t d = 0; d < rank; ++d) {
    for (size_t i = 0; i < 4; ++i) shape[d] = shape[d] << 8 | std::to_integer<int64_t>(sizes[4 * d + i]);
    overflow |= __builtin_mul_overflow(data, static_cast<uint64_t>(shape[d]), &data);
  }
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) {
    data = 0;
    overflow = false;
  }
  const auto wrong_size = [&](const std::string& found) {
    fail(ErrorKind::Runtime,
         fmt::format(
           "'{}': the IDX header announces shape {} of {} ({}), but the file holds {}; it is truncated or damaged, "
           "download it again",
           name, to_string(shape), name_of(dtype), overflow ? "more than 2^64 bytes" : fmt::format("{} bytes", data),
           found));
  };
  if (!stream.packed() && (overflow || data != stream.most())) wrong_size(fmt::format("{} bytes", stream.most()));
  if (overflow || data > stream.most()) wrong_size(fmt::format("at most {} bytes", stream.most()));
  // A small file may decompress to a large one, legitimately or not: check before allocating much memory.
  constexpr uint64_t kWithoutLooking = 64 << 20;
  if (stream.packed() && data > kWithoutLooking && !unpacks_to(bytes, name, data + header))
    wrong_size("another number of bytes when unpacked");

  Tensor t = make_tensor(shape, dtype);
  const size_t got = stream.read(t.bytes(), data);
  if (got != data) wrong_size(fmt::format("{} bytes when unpacked", got));
  if (!stream.at_end()) wrong_size("more when unpacked");
  to_native(t.bytes(), static_cast<size_t>(t.numel()), size_of(dtype));
  return t;
}

Tensor read_idx(const std::string& path) { return read_idx(FileBytes::read(path)->bytes(), path); }

}  // namespace strata::data
