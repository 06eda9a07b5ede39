#include "cuda/custom/source_text.h"

#include <algorithm>
#include <cctype>

namespace strata::cuda {

bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

namespace {
bool is_blank(char c) { return std::isspace(static_cast<unsigned char>(c)); }
}  // namespace

SourceText::SourceText(std::string_view text, bool with_directives)
    : text_(text), code_(text), directive_(text.size() + 1, 0) {
  bool line_is_empty = true;
  for (size_t i = 0; i < text.size();) {
    if (text[i] == '\n') line_is_empty = true;
    if (is_blank(text[i])) {
      ++i;
      continue;
    }
    if (const size_t end = end_of_text(i); end != i) {
      if (text[i] != '/') line_is_empty = false;
      blank(i, end);
      i = end;
      continue;
    }
    if (text[i] == '#' && line_is_empty && !with_directives) {
      size_t end = i;
      while (end < text.size() && (text[end] != '\n' || text[end - 1] == '\\')) {
        const size_t skipped = end_of_text(end);  // a comment may have several lines
        end = skipped == end || text[end] != '/' || text[end + 1] != '*' ? end + 1 : skipped;
      }
      directive_[i] = end - i;
      blank(i, end);
      i = end;
      continue;
    }
    line_is_empty = false;
    ++i;
  }
}

void SourceText::blank(size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i)
    if (code_[i] != '\n') code_[i] = ' ';
}

size_t SourceText::end_of_text(size_t at) const {
  const std::string_view rest = text_.substr(at);
  const auto after = [&](size_t found, size_t length) {
    return found == rest.npos ? text_.size() : at + found + length;
  };
  if (rest.starts_with("//")) {
    size_t end = at;
    while (end < text_.size() && (text_[end] != '\n' || text_[end - 1] == '\\')) ++end;
    return end;
  }
  if (rest.starts_with("/*")) return after(rest.find("*/", 2), 2);
  if (rest.starts_with("R\"") && (at == 0 || !in_word(text_[at - 1]))) {
    const size_t open = rest.find('(');
    if (open == rest.npos) return text_.size();
    const std::string close = ")" + std::string(rest.substr(2, open - 2)) + "\"";
    return after(rest.find(close, open), close.size());
  }
  if (rest[0] != '"' && rest[0] != '\'') return at;
  if (rest[0] == '\'' && at > 0 && std::isxdigit(static_cast<unsigned char>(text_[at - 1])) && rest.size() > 1 &&
      std::isxdigit(static_cast<unsigned char>(rest[1])))
    return at + 1;  // 1'000'000
  for (size_t i = 1; i < rest.size(); ++i) {
    if (rest[i] == '\\') ++i;
    else if (rest[i] == rest[0]) return at + i + 1;
    else if (rest[i] == '\n') return at + i;
  }
  return text_.size();
}

size_t SourceText::skip_blank(size_t at, size_t end) const {
  while (at < end && !directive_[at] && is_blank(code_[at])) ++at;
  return at;
}

size_t SourceText::closing(size_t open, size_t end) const {
  int depth = 0;
  for (size_t i = open; i < end; ++i) {
    const char c = code_[i];
    if (c == '(' || c == '[' || c == '{') ++depth;
    if ((c == ')' || c == ']' || c == '}') && --depth == 0) return i;
  }
  return end;
}

size_t SourceText::closing_angle(size_t open, size_t end) const {
  int depth = 0;
  for (size_t i = open; i < end; ++i) {
    const char c = code_[i];
    if (c == '(' || c == '[' || c == '{') i = closing(i, end);
    else if (c == '<') ++depth;
    else if (c == '>' && code_[i - 1] != '-' && --depth == 0) return i;
  }
  return end;
}

size_t SourceText::opening_angle(size_t close) const {
  int depth = 0, brackets = 0;
  for (size_t i = close + 1; i-- > 0;) {
    const char c = code_[i];
    if (c == ')' || c == ']' || c == '}') ++brackets;
    if (c == '(' || c == '[' || c == '{') --brackets;
    if (brackets < 0 || c == ';') break;
    if (brackets > 0) continue;
    if (c == '>' && (i == 0 || code_[i - 1] != '-')) ++depth;
    if (c == '<' && --depth == 0) return i;
  }
  return std::string::npos;
}

bool SourceText::has_word(size_t begin, size_t end, std::string_view word) const {
  const auto words = words_of(code(begin, end));
  return std::ranges::find(words, word) != words.end();
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> out;
  for (size_t i = 0; i < text.size();) {
    if (!in_word(text[i])) {
      ++i;
      continue;
    }
    const size_t begin = i;
    while (i < text.size() && in_word(text[i])) ++i;
    if (!std::isdigit(static_cast<unsigned char>(text[begin]))) out.push_back(text.substr(begin, i - begin));
  }
  return out;
}

std::string_view without_spaces_around(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> split_at_commas(std::string_view text) {
  std::vector<std::string_view> out;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '(' || c == '<' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == '>' || c == ']' || c == '}') --depth;
    if (depth != 0 || c != ',') continue;
    out.push_back(without_spaces_around(text.substr(begin, i - begin)));
    begin = i + 1;
  }
  if (const auto last = without_spaces_around(text.substr(begin)); !last.empty() || !out.empty()) out.push_back(last);
  return out;
}

}  // namespace strata::cuda
