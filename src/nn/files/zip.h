// Zip archives as PyTorch writes them: uncompressed members. Anything that only an attacker would write is rejected.
#pragma once
#include <map>
#include <string>

#include "base/file.h"

namespace strata::files {

class STRATA_API ZipFile {
 public:
  // Reads the directory at the end of the file, including zip64, and checks every offset in it. Throws Runtime.
  explicit ZipFile(const std::shared_ptr<FileBytes>& file);

  struct Member {
    uint64_t offset, size;  // of its bytes in the file
    uint32_t crc;
    bool stored;
  };
  const std::map<std::string, Member>& members() const { return members_; }
  bool has(const std::string& name) const { return members_.contains(name); }
  Bytes read(const std::string& name) const;  // verifies the checksum; rejects compressed members
  const std::shared_ptr<FileBytes>& file() const { return file_; }

 private:
  std::shared_ptr<FileBytes> file_;
  std::map<std::string, Member> members_;
};

}  // namespace strata::files
