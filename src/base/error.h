// Errors: one type with a kind. Messages say what was wrong, what was found, what to do. The library never aborts or
// exits.
#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "base/api.h"
#include "base/message.h"

namespace strata {

// A table in the Python binding maps each kind to the exception that PyTorch users expect.
enum class ErrorKind : uint8_t {
  Runtime,         // incompatible shapes, misuse of the tape: RuntimeError
  Type,            // an argument of the wrong type: TypeError
  Value,           // an invalid value: ValueError
  Index,           // an index or a dimension out of range: IndexError
  NotImplemented,  // no kernel for this dtype or device: NotImplementedError
  OutOfMemory,     // strata.OutOfMemoryError
  Io,              // OSError
  Internal,        // a bug in Strata; the message asks for a report: RuntimeError
};

class STRATA_API Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& what) : std::runtime_error(what), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

// An error of the operating system. Python turns the code (errno) into FileNotFoundError and similar exceptions.
class STRATA_API IoError : public Error {
 public:
  IoError(int code, const std::string& what) : Error(ErrorKind::Io, what), code_(code) {}
  int code() const { return code_; }

 private:
  int code_;
};

// Out of line and cold, so that a check costs a compare and a never-taken jump.
[[noreturn, gnu::cold]] STRATA_API void fail(ErrorKind kind, std::string what);
[[noreturn, gnu::cold]] STRATA_API void fail_io(int code, std::string_view what);  // appends strerror(code)
[[noreturn, gnu::cold]] STRATA_API void fail_assert(const char* condition, const char* file, int line);

namespace detail {

[[noreturn, gnu::cold]] STRATA_API void fail_message(ErrorKind kind, const char* format, const MessageArg* args,
                                                     size_t count);
// Inlined, so that the values are copied where the check fails: a reference to a variable of a loop would keep it in
// memory.
template <class... T>
[[noreturn, gnu::always_inline]] inline void fail_check(ErrorKind kind, MessageFormat<sizeof...(T)> format,
                                                        const T&... args) {
  if constexpr (sizeof...(T) == 0) {
    fail_message(kind, format.text, nullptr, 0);
  } else {
    const MessageArg list[] = {MessageArg(args)...};
    fail_message(kind, format.text, list, sizeof...(T));
  }
}

}  // namespace detail

}  // namespace strata

// For user errors: STRATA_CHECK(dim < n, Index, "sum: dim {} is out of range", dim).
#define STRATA_CHECK(condition, kind, ...)                                  \
  do {                                                                      \
    if (!(condition)) [[unlikely]]                                          \
      ::strata::detail::fail_check(::strata::ErrorKind::kind, __VA_ARGS__); \
  } while (0)

// For internal errors. Stays on in release builds, costs a compare.
#define STRATA_ASSERT(condition)                             \
  do {                                                       \
    if (!(condition)) [[unlikely]]                           \
      ::strata::fail_assert(#condition, __FILE__, __LINE__); \
  } while (0)
