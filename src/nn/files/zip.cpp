#include "nn/files/zip.h"

#include <fmt/core.h>

#include <zlib.h>

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace strata::files {
namespace {

constexpr uint32_t kLocalMark = 0x04034b50, kEntryMark = 0x02014b50, kEndMark = 0x06054b50, kEnd64Mark = 0x06064b50,
                   kLocator64Mark = 0x07064b50;
constexpr size_t kLocalSize = 30, kEntrySize = 46, kEndSize = 22, kEnd64Size = 56, kLocator64Size = 20;
constexpr size_t kMaxMembers = 200'000;

// Little-endian fields of a record; reading past its end is an error that names the file.
class Fields {
 public:
  Fields(Bytes bytes, const std::string& file) : bytes_(bytes), file_(file) {}
  Fields at(uint64_t offset, uint64_t size, const char* what) const {
    STRATA_CHECK(offset <= bytes_.size() && size <= bytes_.size() - offset, Runtime,
                 "'{}': {} is outside the file; the zip archive is truncated or damaged", file_, what);
    return {bytes_.subspan(offset, size), file_};
  }
  uint64_t get(size_t offset, size_t width) const {
    const Bytes field = at(offset, width, "a field").bytes_;
    uint64_t v = 0;
    for (size_t i = 0; i < width; ++i) v |= std::to_integer<uint64_t>(field[i]) << (8 * i);
    return v;
  }
  uint16_t u16(size_t offset) const { return static_cast<uint16_t>(get(offset, 2)); }
  uint32_t u32(size_t offset) const { return static_cast<uint32_t>(get(offset, 4)); }
  uint64_t u64(size_t offset) const { return get(offset, 8); }
  std::string text() const { return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()}; }
  size_t size() const { return bytes_.size(); }

 private:
  Bytes bytes_;
  const std::string& file_;
};

struct Directory {
  uint64_t offset, size, count;
};

Directory find_directory(const Fields& all, const std::string& file) {
  STRATA_CHECK(all.size() >= kEndSize, Runtime, "'{}' has {} bytes, too few for a zip archive; it is truncated", file,
               all.size());
  const uint64_t first = all.size() - std::min<uint64_t>(all.size(), kEndSize + 0xffff);
  for (uint64_t at = all.size() - kEndSize + 1; at-- > first;) {
    const Fields end = all.at(at, kEndSize, "the end record");
    if (end.u32(0) != kEndMark || at + kEndSize + end.u16(20) != all.size()) continue;
    STRATA_CHECK(end.u16(4) == 0 && end.u16(6) == 0, Runtime, "'{}': zip archives in several parts are not read", file);
    if (at >= kLocator64Size && all.at(at - kLocator64Size, kLocator64Size, "").u32(0) == kLocator64Mark) {
      const uint64_t place = all.at(at - kLocator64Size, kLocator64Size, "").u64(8);
      const Fields end64 = all.at(place, kEnd64Size, "the zip64 end record");
      STRATA_CHECK(end64.u32(0) == kEnd64Mark, Runtime, "'{}': the zip64 end record is not where its locator says",
                   file);
      return {end64.u64(48), end64.u64(40), end64.u64(32)};
    }
    return {end.u32(16), end.u32(12), end.u16(10)};
  }
  fail(ErrorKind::Runtime,
       fmt::format("'{}' starts like a zip archive but has no directory at its end; it is truncated", file));
}

// Sizes of 4 GiB and more are in an extra field, in this order, each only if the plain field is all ones.
void read_zip64(const Fields& extra, uint64_t& size, uint64_t& packed, uint64_t& offset) {
  for (size_t at = 0; at + 4 <= extra.size();) {
    const uint16_t id = extra.u16(at), length = extra.u16(at + 2);
    const Fields body = extra.at(at + 4, length, "an extra field");
    at += 4 + size_t{length};
    if (id != 1) continue;
    size_t k = 0;
    for (uint64_t* field : {&size, &packed, &offset})
      if (*field == 0xffffffff) {
        *field = body.u64(k);
        k += 8;
      }
    return;
  }
}
}  // namespace

ZipFile::ZipFile(const std::shared_ptr<FileBytes>& file) : file_(file) {
  const std::string& name = file->name();
  const Fields all(file->bytes(), name);
  const Directory directory = find_directory(all, name);
  STRATA_CHECK(directory.count <= kMaxMembers, Runtime, "'{}': the zip archive has {} members; at most {} are read",
               name, directory.count, kMaxMembers);
  const Fields entries = all.at(directory.offset, directory.size, "the zip directory");

  std::vector<std::pair<uint64_t, uint64_t>> places;
  uint64_t at = 0;
  for (uint64_t i = 0; i < directory.count; ++i) {
    const Fields entry = entries.at(at, kEntrySize, "an entry of the zip directory");
    STRATA_CHECK(entry.u32(0) == kEntryMark, Runtime, "'{}': entry {} of the zip directory is damaged", name, i);
    const uint16_t flags = entry.u16(8), method = entry.u16(10), name_size = entry.u16(28), extra_size = entry.u16(30),
                   comment_size = entry.u16(32);
    uint64_t packed = entry.u32(20), size = entry.u32(24), offset = entry.u32(42);
    const std::string member = entries.at(at + kEntrySize, name_size, "a member's name").text();
    read_zip64(entries.at(at + kEntrySize + name_size, extra_size, "an extra field"), size, packed, offset);
    at += kEntrySize + uint64_t{name_size} + extra_size + comment_size;

    STRATA_CHECK(!(flags & 1), Runtime, "'{}': member '{}' is encrypted", name, member);
    const bool stored = method == 0;
    STRATA_CHECK(!stored || packed == size, Runtime, "'{}': member '{}' has two sizes, {} and {}", name, member, packed,
                 size);
    const Fields local = all.at(offset, kLocalSize, "the header of a member");
    STRATA_CHECK(local.u32(0) == kLocalMark, Runtime, "'{}': member '{}' is not where the zip directory says", name,
                 member);
    const uint16_t local_name = local.u16(26), local_extra = local.u16(28);
    STRATA_CHECK(all.at(offset + kLocalSize, local_name, "a member's name").text() == member, Runtime,
                 "'{}': member '{}' has another name in its own header", name, member);
    const uint64_t begin = offset + kLocalSize + local_name + local_extra;
    (void)all.at(begin, packed, "the data of a member");
    places.emplace_back(offset, begin + packed);
    STRATA_CHECK(members_.emplace(member, Member{begin, packed, entry.u32(16), stored}).second, Runtime,
                 "'{}': the zip archive has two members '{}'", name, member);
  }
  std::sort(places.begin(), places.end());
  for (size_t i = 1; i < places.size(); ++i)
    STRATA_CHECK(places[i].first >= places[i - 1].second, Runtime, "'{}': members of the zip archive overlap", name);
}

Bytes ZipFile::read(const std::string& name) const {
  const auto found = members_.find(name);
  STRATA_CHECK(found != members_.end(), Runtime, "'{}': the zip archive has no member '{}'; it is damaged",
               file_->name(), name);
  const Member& m = found->second;
  STRATA_CHECK(
    m.stored, Runtime,
    "'{}': member '{}' is compressed; torch.save stores members as they are. Save the checkpoint again with PyTorch",
    file_->name(), name);
  const Bytes bytes = file_->bytes().subspan(m.offset, m.size);
  const auto sum = static_cast<uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
  STRATA_CHECK(sum == m.crc, Runtime,
               "'{}': the checksum of member '{}' is {:08x}, expected {:08x}; the file is damaged", file_->name(), name,
               sum, m.crc);
  return bytes;
}

}  // namespace strata::files
