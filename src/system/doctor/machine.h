// The machine that the doctor examines: files below a root folder, and environment variables. By default it is this
// machine; a test, or the copy of a disk, gives a root and an environment of its own.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "base/api.h"

namespace strata::doctor {

class STRATA_API Machine {
 public:
  Machine();  // this one
  Machine(std::string root, std::map<std::string, std::string> environment);

  bool real() const { return root_.empty(); }
  const std::string& root() const { return root_; }
  std::string variable(const std::string& name) const;  // "" if it is not set
  bool is_set(const std::string& name) const;
  std::vector<std::string> variables() const;  // "NAME=value"

  // Paths are absolute, without the root; symbolic links stay below the root.
  std::string resolve(const std::string& path) const;  // without links; "" if it does not exist
  std::string on_disk(const std::string& path) const;  // for the operating system; of the resolved path if there is one
  bool exists(const std::string& path) const { return !resolve(path).empty(); }
  bool is_folder(const std::string& path) const;
  bool dangling(const std::string& path) const;                                    // a symbolic link to nothing
  std::string read(const std::string& path, size_t most = size_t{1} << 20) const;  // "" if it cannot be read
  std::vector<std::string> list(const std::string& folder) const;                  // names, sorted; none if it cannot
  // Tries to open a file for reading and writing; the errno, 0: it works. Below another root the permissions of other
  // users are looked at instead.
  int open_error(const std::string& path) const;
  bool may_write(const std::string& folder) const;

 private:
  std::string root_;
  std::map<std::string, std::string> environment_;
};

std::vector<std::string> split(const std::string& text, char at);  // without empty parts
std::string trimmed(const std::string& text);
std::string first_line(const std::string& text);
// "12.4.127" -> {12, 4, 127}: the numbers at the start of the text, or after `after`.
std::vector<int> numbers_in(const std::string& text, const std::string& after = "");
std::string base_name(const std::string& path);
std::string folder_of(const std::string& path);

}  // namespace strata::doctor
