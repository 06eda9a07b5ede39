// Files: read into memory or mapped, written whole or not at all.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/api.h"

namespace strata {

using Bytes = std::span<const std::byte>;

// The contents of a file (or of any memory that stands in for one) and the name that messages give it.
class STRATA_API FileBytes {
 public:
  // Reads a regular file, or its first `most` bytes. What happens to the file afterwards changes nothing; one that is cut short
  // while it is read throws Io.
  static std::shared_ptr<FileBytes> read(const std::string& path, size_t most = SIZE_MAX);
  // Maps a regular file: nothing is read before it is used, and writing to the memory does not change the file. Others that
  // write into the file change what is seen here, and one that cuts it short takes the pages away: the process ends by SIGBUS
  // when it touches them. Replacing the file (AtomicFile, rename) does no harm.
  static std::shared_ptr<FileBytes> map(const std::string& path);
  static std::shared_ptr<FileBytes> copy(Bytes bytes, std::string name);

  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;
  ~FileBytes();

  Bytes bytes() const { return {data_, size_}; }
  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  const std::string& name() const { return name_; }
  // Nobody needs these bytes any more: whole pages of them go back to the system.
  void forget(size_t offset, size_t bytes);

 private:
  FileBytes(std::byte* data, size_t size, bool mapped, std::string name)
      : data_(data), size_(size), mapped_(mapped), name_(std::move(name)) {}
  std::byte* data_;
  size_t size_;
  bool mapped_;
  std::string name_;
};

// Writes a file whole or not at all: into a new file of the same folder, which takes the place of the old one once every
// byte is on the disk. Whatever fails, whenever the process is killed, the path names the old contents or the new ones. A
// symbolic link stays one: what it points to is replaced. A replaced file keeps its permissions.
class STRATA_API AtomicFile {
 public:
  // `size` is the number of bytes to come: a disk without room is noticed before the first is written.
  AtomicFile(const std::string& path, size_t size);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();  // without commit(): nothing has happened

  void write(Bytes bytes);
  void commit();

 private:
  void discard();
  [[noreturn]] void fail_writing(int code) const;
  std::string shown_, target_, folder_, temporary_;  // as given; what is replaced; where it lies; named while it exists
  size_t size_, written_ = 0;
  int file_ = -1;
};

STRATA_API void write_file(const std::string& path, std::string_view text);  // through AtomicFile

}  // namespace strata
