// Arguments of error messages, without a formatting library in the headers that users include: a message is built in
// error.cpp, from a format in fmt's syntax and a list of plain values.
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace strata::detail {

// A number or a text that is only referred to.
class MessageArg {
 public:
  enum class Kind : uint8_t { Bool, Char, Int, Unsigned, Float, Double, Text };

  MessageArg(std::same_as<bool> auto v) : kind(Kind::Bool), integer(v) {}
  MessageArg(char v) : kind(Kind::Char), integer(v) {}
  MessageArg(int v) : kind(Kind::Int), integer(v) {}
  MessageArg(long v) : kind(Kind::Int), integer(v) {}
  MessageArg(long long v) : kind(Kind::Int), integer(v) {}
  MessageArg(unsigned v) : kind(Kind::Unsigned), natural(v) {}
  MessageArg(unsigned long v) : kind(Kind::Unsigned), natural(v) {}
  MessageArg(unsigned long long v) : kind(Kind::Unsigned), natural(v) {}
  MessageArg(float v) : kind(Kind::Float), number(v) {}
  MessageArg(double v) : kind(Kind::Double), number(v) {}
  MessageArg(std::string_view v) : kind(Kind::Text), text(v) {}
  MessageArg(const char* v) : kind(Kind::Text), text(v) {}
  MessageArg(const void*) = delete;

  Kind kind;
  union {
    int64_t integer;
    uint64_t natural;
    double number;
    std::string_view text;
  };
};

// Not constexpr: the error of the compiler names it.
void the_format_must_have_a_placeholder_for_each_argument();

// A format whose number of placeholders is checked by the compiler.
template <size_t count> struct MessageFormat {
  consteval MessageFormat(const char* format) : text(format) {
    size_t found = 0;
    for (const char* c = format; *c; ++c) {
      if ((*c == '{' || *c == '}') && c[1] == *c) ++c;  // {{ and }} are the characters themselves
      else if (*c == '{') ++found;
    }
    if (found != count) the_format_must_have_a_placeholder_for_each_argument();
  }
  const char* text;
};

}  // namespace strata::detail
