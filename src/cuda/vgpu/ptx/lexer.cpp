// PTX text into tokens.
#include "cuda/vgpu/ptx/lexer.h"

#include <fmt/core.h>

#include "base/error.h"

namespace strata::cuda::vgpu::ptx {

namespace {
bool word_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '%' || c == '.';
}
bool digit(char c) { return c >= '0' && c <= '9'; }
}  // namespace

void fail_at(std::string_view source, uint32_t line, const std::string& what) {
  uint32_t at = 1;
  size_t begin = 0;
  while (at < line && begin < source.size()) {
    const size_t next = source.find('\n', begin);
    if (next == std::string_view::npos) break;
    begin = next + 1;
    ++at;
  }
  std::string_view text = source.substr(begin, source.find('\n', begin) - begin);
  const size_t first = text.find_first_not_of(" \t\r");
  text = first == std::string_view::npos ? std::string_view() : text.substr(first, 200);
  fail(ErrorKind::Value, fmt::format("PTX line {}: {}\n  {}", line, what, text));
}

std::vector<Token> tokens_of(std::string_view s) {
  std::vector<Token> out;
  uint32_t line = 1;
  size_t i = 0;
  const auto at = [&](size_t k) { return k < s.size() ? s[k] : '\0'; };
  while (i < s.size()) {
    const char c = s[i];
    if (c == '\n') {
      ++line;
      ++i;
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\0') {
      ++i;
    } else if (c == '/' && at(i + 1) == '/') {
      while (i < s.size() && s[i] != '\n') ++i;
    } else if (c == '/' && at(i + 1) == '*') {
      const size_t end = s.find("*/", i + 2);
      if (end == std::string_view::npos) fail_at(s, line, "a comment that begins here has no end");
      for (; i < end + 2; ++i) line += s[i] == '\n';
    } else if (c == '"') {
      size_t end = i + 1;
      while (end < s.size() && s[end] != '"' && s[end] != '\n') ++end;
      if (at(end) != '"') fail_at(s, line, "a string that begins here has no end");
      out.push_back({Token::String, line, s.substr(i + 1, end - i - 1)});
      i = end + 1;
    } else if (word_start(c)) {
      size_t end = i + 1;
      while (end < s.size()) {  // "shared::cta" is one word, "label:" is not; ".reg.b32" is two
        if (c == '.' && s[end] == '.') break;
        if (word_start(s[end]) || digit(s[end])) ++end;
        else if (s[end] == ':' && at(end + 1) == ':') end += 2;
        else break;
      }
      out.push_back({Token::Word, line, s.substr(i, end - i)});
      i = end;
    } else if (digit(c)) {
      size_t end = i + 1;
      const bool hex = at(end) == 'x' || at(end) == 'X' || ((at(end) | 32) == 'f' || (at(end) | 32) == 'd');
      while (end < s.size()) {
        const char n = s[end];
        const bool exponent_sign = (n == '-' || n == '+') && !hex && (s[end - 1] == 'e' || s[end - 1] == 'E');
        if (!digit(n) && !(n >= 'a' && n <= 'z') && !(n >= 'A' && n <= 'Z') && n != '.' && !exponent_sign) break;
        ++end;
      }
      out.push_back({Token::Number, line, s.substr(i, end - i)});
      i = end;
    } else if (std::string_view("{}[]()<>,;:=+-!|@*").find(c) != std::string_view::npos) {
      out.push_back({Token::Punctuation, line, s.substr(i, 1)});
      ++i;
    } else {
      fail_at(s, line, fmt::format("unexpected character 0x{:02x}", static_cast<unsigned char>(c)));
    }
  }
  out.push_back({Token::End, line, "end of the text"});
  return out;
}

}  // namespace strata::cuda::vgpu::ptx
