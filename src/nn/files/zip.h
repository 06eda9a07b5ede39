// Zip archives as PyTorch writes them: members stored as they are. Anything that only an attacker would write is refused.
#pragma once
#include <map>
#include <string>

#include "base/file.h"

namespace strata::files {

class STRATA_API ZipFile {
 public:
  // Reads the directory at the end of the file, zip64 included, and checks every place in it. Throws Runtime.
  explicit ZipFile(const std::shared_ptr<FileBytes>& file);

  struct Member {
    uint64_t offset, size;  // of its bytes in the file
    uint32_t crc;
    bool stored;
  };
  const std::map<std::string, Member>& members() const { return members_; }
  bool has(const std::string& name) const { return members_.contains(name); }
  Bytes read(const std::string& name) const;  // checks the sum; a compressed member is refused
  const std::shared_ptr<FileBytes>& file() const { return file_; }

 private:
  std::shared_ptr<FileBytes> file_;
  std::map<std::string, Member> members_;
};

}  // namespace strata::files
