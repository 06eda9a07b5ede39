#include "base/error.h"

#include <fmt/args.h>
#include <fmt/core.h>

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

namespace detail {
namespace {

void append(fmt::dynamic_format_arg_store<fmt::format_context>& list, const MessageArg& a) {
  switch (a.kind) {
    case MessageArg::Kind::Bool: list.push_back(a.integer != 0); break;
    case MessageArg::Kind::Char: list.push_back(static_cast<char>(a.integer)); break;
    case MessageArg::Kind::Int: list.push_back(a.integer); break;
    case MessageArg::Kind::Unsigned: list.push_back(a.natural); break;
    case MessageArg::Kind::Float: list.push_back(static_cast<float>(a.number)); break;
    case MessageArg::Kind::Double: list.push_back(a.number); break;
    case MessageArg::Kind::Text: list.push_back(a.text); break;
  }
}

std::string formatted(std::string_view format, const MessageArg* args, size_t count) {
  fmt::dynamic_format_arg_store<fmt::format_context> list;
  for (size_t i = 0; i < count; ++i) append(list, args[i]);
  try {
    return fmt::vformat(fmt::string_view(format.data(), format.size()), list);
  } catch (const std::runtime_error&) { return std::string(format); }  // the wrong letter after a colon hides no error
}

}  // namespace

void fail_message(ErrorKind kind, const char* format, const MessageArg* args, size_t count) {
  fail(kind, formatted(format, args, count));
}

}  // namespace detail
}  // namespace strata
