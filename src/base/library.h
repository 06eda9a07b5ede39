// Libraries opened at run time: search paths, the file in use, other installed copies, and the reason if one cannot be
// used. Strata links none of them; without them everything works, but slower.
#pragma once
#include <string>
#include <vector>

#include "base/api.h"
#include "base/error.h"

namespace strata {

struct LibrarySpec {
  const char* name;                // in messages: "cuBLASLt"
  std::vector<std::string> files;  // names for the loader's search, or paths, tried in this order
  const char* variable = nullptr;  // an environment variable that names the file
  const char* advice = "";         // what to install or do if it is missing
  bool global = false;             // makes its symbols available to libraries opened later
  bool own_first = false;  // it and what it links use its functions, also where the program has others of that name
};

// Folders of Python packages (site-packages): NVIDIA's wheels put their libraries into nvidia/*/lib there. The binding names
// them when it is imported.
STRATA_API void set_package_folders(std::vector<std::string> folders);

// A library, or the reason why it is not available. Never closed: some have threads that still run its code.
class STRATA_API Library {
 public:
  explicit Library(const LibrarySpec& spec);

  explicit operator bool() const { return handle_ != nullptr && why_.empty(); }
  const std::string& name() const { return name_; }
  const std::string& path() const { return path_; }  // of the file in use
  const std::string& why() const { return why_; }    // empty if usable
  // Other copies that this process could have opened: in LD_LIBRARY_PATH, the system's folders or Python packages.
  std::vector<std::string> shadowed() const;

  // The function of this name, or null. Look up all required functions before using the library.
  template <class F> F find(const char* symbol) const { return reinterpret_cast<F>(address_of(symbol)); }
  // Like find(), but a missing function makes the library unusable.
  template <class F> F need(const char* symbol) {
    const F f = find<F>(symbol);
    if (!f && why_.empty()) refuse("it has no " + std::string(symbol));
    return f;
  }
  // Marks it unusable, e.g. because of its version.
  void refuse(const std::string& why);
  void require() const;  // throws NotImplemented with the reason if it is unusable

 private:
  void* address_of(const char* symbol) const;
  std::string open_in_folders(int mode);  // returns the loader's message about a file that does not load
  void* handle_ = nullptr;
  std::string name_, path_, why_, advice_;
  std::vector<std::string> files_;
};

}  // namespace strata
