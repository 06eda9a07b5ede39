#include "base/error.h"

#include <system_error>

namespace strata {

void fail(ErrorKind kind, std::string what) { throw Error(kind, what); }

void fail_io(int code, std::string_view what) {
  throw IoError(code, fmt::format("{}: {}", what, std::generic_category().message(code)));
}

void fail_assert(const char* condition, const char* file, int line) {
  fail(ErrorKind::Internal,
       fmt::format("internal error: '{}' does not hold at {}:{}; this is a bug in Strata, please report it", condition,
                   file, line));
}

}  // namespace strata
