// The system's C++ compiler, for the host part of sources that load_inline compiles, and the libraries that it made
// before, in files.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "base/api.h"

namespace strata::cuda {

struct HostUnit {
  std::string name;                                        // of the library
  std::string text;                                        // C++ for <strata/torch.h>, which is included
  std::vector<std::pair<std::string, std::string>> files;  // what its #line directives name: quoted in messages
  std::vector<std::string> flags, link_flags;
  std::string folder;  // for the library; "": the cache
};

struct HostLibrary {
  std::string path;
  bool is_new = true;     // false: found in the cache
  std::string temporary;  // a folder to remove once the library is loaded, if there is no cache
};

// Compiles a shared library, or finds the one that an equal unit gave before. Throws CompileError with the compiler's
// messages, NotImplemented if there is no compiler or no headers, with what to install.
STRATA_API HostLibrary build_library(const HostUnit& unit, bool again = false);

}  // namespace strata::cuda
