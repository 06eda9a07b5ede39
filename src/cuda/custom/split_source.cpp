#include "cuda/custom/split_source.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "cuda/custom/source_text.h"

namespace strata::cuda {
namespace {

using Words = std::vector<std::string_view>;

bool is_one_of(std::string_view word, std::initializer_list<const char*> list) {
  return std::ranges::any_of(list, [&](const char* w) { return word == w; });
}
bool has_any(const Words& words, std::initializer_list<const char*> list) {
  return std::ranges::any_of(words, [&](std::string_view w) { return is_one_of(w, list); });
}

enum Part : uint8_t { kNeither = 0, kHost = 1, kDevice = 2, kBoth = 3 };

// The name that a directive includes, or "".
std::string_view included(std::string_view directive) {
  const Words words = words_of(directive);
  if (words.empty() || words[0] != "include") return "";
  const size_t open = directive.find_first_of("<\"");
  if (open == directive.npos) return "";
  const size_t close = directive.find_first_of(">\"", open + 1);
  return directive.substr(open + 1, close == directive.npos ? close : close - open - 1);
}

bool is_header_of_torch(std::string_view name) {
  return std::ranges::any_of(std::initializer_list<const char*>{"torch/", "ATen/", "c10/", "pybind11/"},
                             [&](const char* folder) { return name.starts_with(folder); });
}

// Where an include belongs. <strata/torch.h> replaces PyTorch's headers and the CUDA runtime's.
Part part_of_include(std::string_view name, bool quoted) {
  if (is_header_of_torch(name) || name.starts_with("cuda_runtime") ||
      is_one_of(name, {"cuda.h", "device_launch_parameters.h", "cuda_device_runtime_api.h"}))
    return kNeither;
  if (is_one_of(name, {"cstdint", "cmath", "stdint.h", "math.h", "string.h"})) return kBoth;
  const bool of_library = name.find('.') == name.npos;
  if (of_library || is_one_of(name, {"stdio.h", "stdlib.h", "assert.h", "float.h", "limits.h", "stddef.h"}))
    return kHost;
  if (name.ends_with(".hpp") || name.starts_with("strata/")) return kHost;
  // A file of the user is for both, unless its name says otherwise.
  const bool of_kernels = name.ends_with(".cuh") || name.starts_with("device/") || name.starts_with("cuda/");
  return quoted && !of_kernels ? kBoth : kDevice;
}

// A piece of host code with `k<<<grid, block>>>(` as `configure(grid, block), k(`, and with checks of the device that
// accept every GPU: x.device().is_cuda() is x.is_gpu().
class HostRewriter {
 public:
  explicit HostRewriter(std::string_view piece) : source_(piece, true), piece_(piece) {}

  std::string run() {
    for (size_t i = 0; i < piece_.size();) {
      if (source_.code(i) == '<' && piece_.substr(i).starts_with("<<<")) i = launch(i);
      else if (begins_word(i)) i = word(i);
      else out_ += piece_[i++];
    }
    return std::move(out_);
  }

 private:
  bool begins_word(size_t i) const { return in_word(source_.code(i)) && (i == 0 || !in_word(source_.code(i - 1))); }

  size_t word(size_t i) {
    size_t end = i;
    while (end < piece_.size() && in_word(source_.code(end))) ++end;
    const std::string_view name = piece_.substr(i, end - i);
    if (name != "is_cuda") {
      out_ += name;
      return end;
    }
    for (const char* before : {"device().", "type()."})
      if (out_.ends_with(before)) out_.resize(out_.size() - std::string_view(before).size());
    out_ += "is_gpu";
    return end;
  }

  size_t launch(size_t i) {
    const size_t close = piece_.find(">>>", i);
    if (close == piece_.npos) {
      out_ += "<<<";
      return i + 3;
    }
    // The kernel is the last thing written: a name with namespaces and template arguments.
    const SourceText written(out_, true);
    size_t begin = out_.size();
    const auto skip = [&] {
      while (begin > 0 && std::isspace(static_cast<unsigned char>(out_[begin - 1]))) --begin;
    };
    skip();
    if (begin > 0 && out_[begin - 1] == '>')
      if (const size_t open = written.opening_angle(begin - 1); open != std::string::npos) begin = open;
    skip();
    while (begin > 0 && (in_word(out_[begin - 1]) || out_[begin - 1] == ':')) --begin;
    const std::string configuration = HostRewriter(piece_.substr(i + 3, close - i - 3)).run();
    out_.insert(begin, "::strata::cuda::configure(" + configuration + "), ");
    return close + 3;
  }

  SourceText source_;
  std::string_view piece_;
  std::string out_;
};

class Splitter {
 public:
  Splitter(std::string_view source, std::string_view kernel_source) : source_(source), kernel_source_(kernel_source) {}

  SplitSource run() {
    declarations(0, source_.size());
    out_.host = HostRewriter(out_.host).run();
    return std::move(out_);
  }

 private:
  // A declaration: `begin` to `head` is everything before its body or its semicolon.
  struct Item {
    size_t begin, declared;  // where it begins; the same after template <...>
    size_t head, end;
    bool has_body, is_function;
    Words words;  // of the head after template <...>
  };

  void emit(size_t begin, size_t end, int parts) {
    for (size_t i = begin; i < end; ++i) {
      const char c = source_.text()[i], blank = c == '\n' ? '\n' : ' ';
      out_.host += parts & kHost ? c : blank;
      out_.device += parts & kDevice ? c : blank;
    }
  }

  void declarations(size_t at, size_t end) {
    while (at < end) {
      const size_t begin = source_.skip_blank(at, end);
      emit(at, begin, kHost);  // comments
      if (begin == end) return;
      at = source_.begins_directive(begin) ? directive(begin) : declaration(begin, end);
    }
  }

  size_t directive(size_t begin) {
    const size_t end = source_.end_of_directive(begin);
    const std::string_view line = source_.text().substr(begin, end - begin), name = included(line);
    emit(begin, end, name.empty() ? kBoth : part_of_include(name, line.find('"') != line.npos));
    return end;
  }

  // Leading "template <...>" lists.
  size_t after_templates(size_t at, size_t end) const {
    while (at < end) {
      const size_t begin = source_.skip_blank(at, end);
      const std::string_view rest = source_.code(begin, end);
      if (!rest.starts_with("template") || (rest.size() > 8 && in_word(rest[8]))) return begin;
      const size_t open = source_.skip_blank(begin + 8, end);
      if (open == end || source_.code(open) != '<') return begin;  // an explicit instantiation
      at = std::min(source_.closing_angle(open, end) + 1, end);
    }
    return at;
  }

  Item item_at(size_t begin, size_t end) const {
    Item item{begin, after_templates(begin, end), end, end, false, false, {}};
    bool assigned = false, called = false;
    size_t i = item.declared;
    for (; i < end; ++i) {
      const char c = source_.code(i);
      if (c == ';' || c == '{' || c == '}') break;
      if (c == '=') assigned = true;
      if (c == '(') {
        called = called || !assigned;
        i = source_.closing(i, end);
      }
    }
    item.head = std::min(i, end);
    item.words = words_of(source_.code(item.declared, item.head));
    const bool is_type = has_any({item.words.begin(), item.words.begin() + (item.words.empty() ? 0 : 1)},
                                 {"struct", "class", "union", "enum", "typedef", "using", "static_assert"});
    item.is_function = called && !is_type;
    item.has_body = item.head < end && source_.code(item.head) == '{';
    if (!item.has_body) {
      item.end = std::min(item.head + 1, end);
      return item;
    }
    item.end = std::min(source_.closing(item.head, end) + 1, end);
    if (!item.is_function && !opens_scope(item)) {  // a type or a constant: up to its semicolon
      while (item.end < end && source_.code(item.end) != ';')
        item.end = source_.code(item.end) == '{' ? source_.closing(item.end, end) + 1 : item.end + 1;
      item.end = std::min(item.end + 1, end);
    }
    return item;
  }

  static bool opens_scope(const Item& item) {
    const Words& w = item.words;
    return (!w.empty() && (w[0] == "namespace" || (w[0] == "inline" && w.size() > 1 && w[1] == "namespace"))) ||
           (w.size() == 1 && w[0] == "extern");
  }

  Part part_of(const Item& item) const {
    if (has_any(item.words, {"__device__", "__constant__", "__shared__", "__managed__"}))
      return has_any(item.words, {"__host__"}) ? kBoth : kDevice;
    const Words all = words_of(source_.code(item.begin, item.end));
    if (has_any(all, {"torch", "at", "c10", "std", "pybind11", "py", "strata"})) return kHost;
    if (item.is_function) return has_any(item.words, {"constexpr", "__host__"}) ? kBoth : kHost;
    if (item.words.empty() || has_any(item.words, {"struct", "class", "union", "enum", "typedef", "using", "const",
                                                   "constexpr", "static_assert", "namespace"}))
      return kBoth;
    return kHost;
  }

  size_t declaration(size_t begin, size_t end) {
    const Item item = item_at(begin, end);
    if (item.has_body && opens_scope(item)) return scope(item);
    if (has_any(item.words, {"__global__"})) return kernel(item);
    const Part part = part_of(item);
    const bool is_type = !item.words.empty() && is_one_of(item.words[0], {"struct", "class", "union"});
    if (part == kBoth && is_type && item.has_body) return type(item);
    emit(item.begin, item.end, part);
    return item.end;
  }

  size_t scope(const Item& item) {
    const size_t close = item.end - 1;
    std::string name;
    for (const std::string_view word : item.words)
      if (!is_one_of(word, {"inline", "namespace", "extern"})) name += (name.empty() ? "" : "::") + std::string(word);
    // An anonymous namespace is left out of the device part: its kernels could not be found by name.
    const bool is_namespace = !has_any(item.words, {"extern"});
    const int parts = is_namespace && name.empty() ? kHost : kBoth;
    emit(item.begin, item.head + 1, parts);
    const size_t kept = scope_.size();
    if (!name.empty()) scope_ += name + "::";
    declarations(item.head + 1, close);
    scope_.resize(kept);
    emit(close, item.end, parts);
    return item.end;
  }

  // The host sees the members of a type that kernels and host functions share, but not the bodies of its device
  // functions, which may use what only a GPU has.
  size_t type(const Item& item) {
    const size_t close = source_.closing(item.head, item.end);
    emit(item.begin, item.head + 1, kBoth);
    for (size_t at = item.head + 1; at < close;) {
      const size_t begin = source_.skip_blank(at, close);
      emit(at, begin, kBoth);
      if (begin == close) break;
      if (source_.begins_directive(begin)) {
        at = directive(begin);
        continue;
      }
      const Item member = item_at(begin, close);
      const bool of_device = has_any(member.words, {"__device__"}) && !has_any(member.words, {"__host__"});
      emit(member.begin, member.head, kBoth);
      if (of_device && member.is_function && member.has_body) {
        out_.host += ';';
        emit(member.head, member.end, kDevice);
      } else {
        emit(member.head, member.end, kBoth);
      }
      at = member.end;
    }
    emit(close, item.end, kBoth);
    return item.end;
  }

  // The name of a parameter, or "" if it has none: "const float* x" is x, "int n = 3" is n, "float x[]" is x.
  static std::string_view name_of_parameter(std::string_view declared) {
    declared = without_spaces_around(declared.substr(0, declared.find('=')));
    if (const size_t open = declared.find('['); open != declared.npos)
      declared = without_spaces_around(declared.substr(0, open));
    size_t begin = declared.size();
    while (begin > 0 && in_word(declared[begin - 1])) --begin;
    const std::string_view name = declared.substr(begin), before = without_spaces_around(declared.substr(0, begin));
    const bool is_type = before.empty() || before.ends_with("::") ||
                         is_one_of(name, {"int", "long", "short", "char", "float", "double", "bool", "unsigned",
                                          "signed", "const", "__restrict__", "typename", "class"});
    return is_type ? "" : name;
  }

  size_t kernel(const Item& item) {
    // `static` would hide the kernel from the driver.
    size_t at = item.begin;
    for (size_t i = item.declared; i + 6 <= item.head; ++i) {
      if (source_.code(i, i + 6) != "static" || (i > 0 && in_word(source_.code(i - 1))) || in_word(source_.code(i + 6)))
        continue;
      emit(at, i, kBoth);
      emit(i, i + 6, kHost);
      at = i + 6;
    }
    if (!item.has_body) {  // a declaration
      emit(at, item.end, kBoth);
      return item.end;
    }
    // The last group of parentheses holds the parameters; the word before it is the name.
    size_t close = item.head;
    while (close > item.declared && source_.code(close) != ')') --close;
    size_t open = close;
    for (size_t i = item.declared; i < close; ++i)
      if (source_.code(i) == '(') {
        const size_t its_end = source_.closing(i, item.head);
        if (its_end == close) open = i;
        i = its_end;
      }
    size_t name_end = open;
    while (name_end > item.declared && !in_word(source_.code(name_end - 1))) --name_end;
    size_t name_begin = name_end;
    while (name_begin > item.declared && in_word(source_.code(name_begin - 1))) --name_begin;
    const std::string name = scope_ + std::string(source_.code(name_begin, name_end));
    STRATA_CHECK(
      open < close && name_begin < name_end, Value,
      "load_inline: the declaration of the kernel in \"{}\" is not understood; expected __global__ void name(...)",
      std::string(without_spaces_around(source_.code(item.begin, item.head))));

    std::string instance, values;
    if (item.declared != item.begin) {
      const size_t angle = source_.code(item.begin, item.declared).find('<') + item.begin;
      const size_t last = source_.closing_angle(angle, item.declared);
      for (const std::string_view p : split_at_commas(source_.code(angle + 1, last)))
        instance += fmt::format("{}::strata::cuda::instance_name<{}>(){}", instance.empty() ? "" : ", ",
                                name_of_parameter(p), p.find("...") == p.npos ? "" : "...");
    } else {
      out_.kernels.push_back(name);
    }
    // Parameters without a name get one in the host part.
    emit(at, open + 1, kBoth);
    at = open + 1;
    int number = 0;
    for (const std::string_view p : split_at_commas(source_.code(open + 1, close))) {
      if (p == "void" || p.empty()) continue;
      std::string of_parameter(name_of_parameter(p));
      if (of_parameter.empty()) {
        of_parameter = fmt::format("strata_unnamed_{}", number);
        const size_t its_end = static_cast<size_t>(p.data() + p.size() - source_.code(0, 0).data());
        emit(at, its_end, kBoth);
        out_.host += " " + of_parameter;
        at = its_end;
      }
      values += fmt::format(", {}{}", of_parameter, p.find("...") == p.npos ? "" : "...");
      ++number;
    }
    emit(at, item.head, kBoth);
    out_.host += fmt::format("{{ ::{}.launch_stub(\"{}\", {{{}}}{}); }}", kernel_source_, name, instance, values);
    emit(item.head, item.end, kDevice);
    return item.end;
  }

  SourceText source_;
  std::string_view kernel_source_;
  std::string scope_;  // "mine::"
  SplitSource out_;
};
}  // namespace

SplitSource split_source(std::string_view source, std::string_view kernel_source) {
  return Splitter(source, kernel_source).run();
}

std::string host_source(std::string_view source) {
  const SourceText text(source);
  std::string out;
  for (size_t i = 0; i < source.size();) {
    if (text.begins_directive(i)) {
      const size_t end = text.end_of_directive(i);
      if (is_header_of_torch(included(source.substr(i, end - i)))) {
        for (; i < end; ++i)
          if (source[i] == '\n') out += '\n';
        continue;
      }
    }
    out += source[i++];
  }
  return HostRewriter(out).run();
}

}  // namespace strata::cuda
