// Libraries that are opened at run time: where they are looked for, what was found, which other copies there are, and why one
// cannot be used. Strata links none of them; everything works without them, more slowly.
#pragma once
#include <string>
#include <vector>

#include "base/api.h"
#include "base/error.h"

namespace strata {

struct LibrarySpec {
  const char* name;                // in messages: "cuBLASLt"
  std::vector<std::string> files;  // names for the loader's own search, or paths, in this order
  const char* variable = nullptr;  // an environment variable that names the file
  const char* advice = "";         // what to install or do where it is missing
  bool global = false;             // its symbols are for libraries that are opened later, too
};

// A library, or the reason why there is none. It is never closed: some have threads that must not lose their code.
class STRATA_API Library {
 public:
  explicit Library(const LibrarySpec& spec);

  explicit operator bool() const { return handle_ != nullptr && why_.empty(); }
  const std::string& name() const { return name_; }
  const std::string& path() const { return path_; }  // of the file that is in use
  const std::string& why() const { return why_; }    // empty: it can be used
  // Other copies of it that this process could have opened: in LD_LIBRARY_PATH, in the system's folders.
  std::vector<std::string> shadowed() const;

  // The function of this name, or null. Every one that is needed is asked for before the library is used.
  template <class F> F find(const char* symbol) const { return reinterpret_cast<F>(address_of(symbol)); }
  // The same; a missing one makes the library unusable.
  template <class F> F need(const char* symbol) {
    const F f = find<F>(symbol);
    if (!f && why_.empty()) refuse("it has no " + std::string(symbol));
    return f;
  }
  // Makes it unusable, e.g. because of its version.
  void refuse(const std::string& why);
  void require() const;  // throws NotImplemented with the reason where it cannot be used

 private:
  void* address_of(const char* symbol) const;
  void* handle_ = nullptr;
  std::string name_, path_, why_, advice_;
  std::vector<std::string> files_;
};

}  // namespace strata
