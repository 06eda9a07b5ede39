#include "cuda/custom/signature.h"

#include <fmt/core.h>

#include <cctype>

#include "base/error.h"
#include "cuda/vgpu/ptx/module.h"

namespace strata::cuda {
namespace {

bool in_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$'; }

// The position of a whole word at or after `from`, or npos.
size_t find_word(std::string_view text, std::string_view word, size_t from = 0) {
  for (size_t at = text.find(word, from); at != text.npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || !in_name(text[at - 1])) && (end == text.size() || !in_name(text[end]))) return at;
  }
  return text.npos;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  return text;
}

// The declaration of an entry: "name(.param ...)".
std::string_view declaration_in_ptx(std::string_view ptx, const std::string& entry) {
  for (size_t at = ptx.find(".entry "); at != ptx.npos; at = ptx.find(".entry ", at + 1)) {
    const std::string_view rest = trimmed(ptx.substr(at + 7));
    if (!rest.starts_with(entry) || (rest.size() > entry.size() && in_name(rest[entry.size()]))) continue;
    const size_t open = rest.find_first_of("({");
    if (open == rest.npos || rest[open] == '{') return rest.substr(0, entry.size());
    return rest.substr(0, rest.find(')') + 1);
  }
  fail(ErrorKind::Internal, fmt::format("the PTX has no kernel '{}'", entry));
}

// Comments replaced by spaces.
std::string without_comments(std::string_view source) {
  std::string out(source);
  for (size_t i = 0; i + 1 < out.size(); ++i) {
    if (out[i] != '/' || (out[i + 1] != '/' && out[i + 1] != '*')) continue;
    const bool line = out[i + 1] == '/';
    size_t end = line ? out.find('\n', i) : out.find("*/", i + 2);
    end = end == out.npos ? out.size() : line ? end : end + 2;
    for (; i < end; ++i)
      if (out[i] != '\n') out[i] = ' ';
    --i;
  }
  return out;
}

// The parameters as written after "__global__ ... name(", split at commas outside of brackets. Empty: not found.
std::vector<std::string> declared_parameters(std::string_view source, std::string_view name) {
  name = name.substr(0, name.find('<'));
  if (const size_t scope = name.rfind("::"); scope != name.npos) name = name.substr(scope + 2);
  const std::string text = without_comments(source);
  const size_t global = text.find("__global__");
  for (size_t at = find_word(text, name, global); at != text.npos; at = find_word(text, name, at + 1)) {
    // Only between __global__ and the kernel's body: other uses of the name come after a brace or a semicolon.
    const size_t begin = text.rfind("__global__", at);
    if (text.substr(begin, at - begin).find_first_of("{};") != text.npos) continue;
    size_t i = text.find_first_not_of(" \t\r\n", at + name.size());
    if (i == text.npos || text[i] != '(') continue;
    std::vector<std::string> out(1);
    int depth = 0;
    for (; i < text.size(); ++i) {
      const char c = text[i];
      if (c == '(' || c == '<' || c == '[' || c == '{') ++depth;
      if (c == ')' || c == '>' || c == ']' || c == '}') --depth;
      if (depth == 0) break;
      if (depth == 1 && c == ',') out.emplace_back();
      else if (depth > 1 || c != '(') out.back() += c;
    }
    for (std::string& p : out) p = std::string(trimmed(p));
    return out;
  }
  return {};
}

Parameter::Pointer pointer_in(const std::string& declared) {
  const size_t star = declared.find_first_of("*[");
  if (star == declared.npos) {
    // Any other name may be an alias or a template parameter that is a pointer.
    for (const char* integer : {"long", "int64_t", "uint64_t", "size_t", "ptrdiff_t", "uintptr_t"})
      if (find_word(declared, integer) != declared.npos) return Parameter::Pointer::No;
    return Parameter::Pointer::Unknown;
  }
  const bool constant = find_word(declared.substr(0, star), "const") != declared.npos;
  const bool once = declared.find('*', star + 1) == declared.npos;
  return constant && once ? Parameter::Pointer::ToConst : Parameter::Pointer::Yes;
}

}  // namespace

std::string Parameter::describe() const {
  const char* what = kind == Kind::Bytes ? "struct" : kind == Kind::Float ? "float" : "integer";
  return fmt::format("{}-byte {}{}", size, what, kind == Kind::Integer && size == 8 ? " or pointer" : "");
}

std::vector<std::string> kernels_of(std::string_view ptx) {
  std::vector<std::string> out;
  for (size_t at = ptx.find(".entry "); at != ptx.npos; at = ptx.find(".entry ", at + 1)) {
    const std::string_view rest = trimmed(ptx.substr(at + 7));
    size_t end = 0;
    while (end < rest.size() && in_name(rest[end])) ++end;
    out.emplace_back(rest.substr(0, end));
  }
  return out;
}

std::vector<Parameter> parameters_of(std::string_view ptx, const std::string& entry, std::string_view source,
                                     std::string_view name) {
  // The declaration alone: the virtual GPU's parser need not know the instructions of a newer GPU.
  const vgpu::ptx::Module module = vgpu::ptx::parse(fmt::format(
    ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry {} {{ ret; }}\n", declaration_in_ptx(ptx, entry)));
  const std::vector<std::string> declared = declared_parameters(source, name);
  std::vector<Parameter> out;
  for (const vgpu::ptx::Variable& v : module.functions.at(0)->params) {
    Parameter p;
    p.size = static_cast<uint32_t>(v.bytes);
    const bool is_array = v.bytes != static_cast<uint64_t>(vgpu::size_of(v.type));
    p.kind = is_array                                                 ? Parameter::Kind::Bytes
             : v.type == vgpu::Type::F32 || v.type == vgpu::Type::F64 ? Parameter::Kind::Float
                                                                      : Parameter::Kind::Integer;
    p.text = p.describe();
    out.push_back(std::move(p));
  }
  if (declared.size() == out.size()) {
    for (size_t i = 0; i < out.size(); ++i) {
      const bool may_be_pointer = out[i].kind == Parameter::Kind::Integer && out[i].size == 8;
      out[i].pointer = may_be_pointer ? pointer_in(declared[i]) : Parameter::Pointer::No;
      if (!declared[i].empty()) out[i].text = declared[i];
    }
  }
  return out;
}

}  // namespace strata::cuda
