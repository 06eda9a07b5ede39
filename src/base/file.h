// Files: read into memory or mapped, written atomically.
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

// The contents of a file (or of any memory in place of one) and its name for messages.
class STRATA_API FileBytes {
 public:
  // Reads a regular file, or its first `most` bytes. Later changes to the file have no effect. Throws Io if the file is
  // truncated while it is read.
  static std::shared_ptr<FileBytes> read(const std::string& path, size_t most = SIZE_MAX);
  // Maps a regular file: pages are read on first access, and writing to the memory does not change the file. If another
  // process writes into the file, the contents here change; if it truncates the file, the next access dies by SIGBUS.
  // Replacing the file (AtomicFile, rename) is safe.
  static std::shared_ptr<FileBytes> map(const std::string& path);
  // Maps the file `name` in a folder or below it. A name that leads out of the folder, links and files with several names
  // (hard links) are refused: the name comes from a file that may be hostile.
  static std::shared_ptr<FileBytes> map_below(const std::string& folder, const std::string& name);
  static std::shared_ptr<FileBytes> copy(Bytes bytes, std::string name);

  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;
  ~FileBytes();

  Bytes bytes() const { return {data_, size_}; }
  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  const std::string& name() const { return name_; }
  // Returns whole pages in this range to the system; their contents are no longer needed.
  void forget(size_t offset, size_t bytes);

 private:
  FileBytes(std::byte* data, size_t size, bool mapped, std::string name)
      : data_(data), size_(size), mapped_(mapped), name_(std::move(name)) {}
  std::byte* data_;
  size_t size_;
  bool mapped_;
  std::string name_;
};

// Writes a file atomically: into a new file of the same folder, which replaces the old one when every byte is on disk.
// If anything fails or the process is killed, the path has either the old contents or the new ones. A symbolic link
// stays; its target is replaced. A replaced file keeps its permissions.
class STRATA_API AtomicFile {
 public:
  // `size` is the number of bytes to be written: a full disk is detected before the first one.
  AtomicFile(const std::string& path, size_t size);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();  // without commit(): leaves the old file unchanged

  void write(Bytes bytes);
  void commit();

 private:
  void discard();
  [[noreturn]] void fail_writing(int code) const;
  // the path as given; the file to replace; its folder; the temporary file's name, if it has one
  std::string shown_, target_, folder_, temporary_;
  size_t size_, written_ = 0;
  int file_ = -1;
};

STRATA_API void write_file(const std::string& path, std::string_view text);  // uses AtomicFile

}  // namespace strata
