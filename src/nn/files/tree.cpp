// The structure is JSON: null, true, 1, 1.5, "text" and [...] as they are; the rest is an object with one key: {"dict": [[key,
// value], ...]}, {"tuple": [...]}, {"tensor": name}, {"dtype": name}, {"float": "nan"}.
#include "nn/files/tree.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>

namespace strata {

const Tree* Tree::find(std::string_view key) const {
  const auto* dict = get<TreeDict>();
  for (size_t i = 0; dict && i < dict->keys.size(); ++i)
    if (const auto* text = dict->keys[i].get<std::string>(); text && *text == key) return &dict->values[i];
  return nullptr;
}

namespace files {
namespace {

bool is_flat(const Tree& tree) {
  const auto* dict = tree.get<TreeDict>();
  if (!dict) return false;
  for (size_t i = 0; i < dict->keys.size(); ++i)
    if (!dict->keys[i].get<std::string>() || !dict->values[i].get<Tensor>()) return false;
  return true;
}

class Writer {
 public:
  SafeTensors result;
  std::string text;

  void add(const Tree& tree, const std::string& path, int depth) {
    STRATA_CHECK(depth <= kMaxDepth, Value, "what is saved at '{}' is nested deeper than {} levels",
                 path.substr(0, 200), kMaxDepth);
    std::visit([&](const auto& v) { add_value(v, path, depth); }, tree.value);
  }

 private:
  static std::string quoted(const std::string& s) {
    try {
      return nlohmann::json(s).dump();
    } catch (const nlohmann::json::exception&) { fail(ErrorKind::Value, "a saved text is not UTF-8"); }
  }
  void add_value(std::monostate, const std::string&, int) { text += "null"; }
  void add_value(bool v, const std::string&, int) { text += v ? "true" : "false"; }
  void add_value(int64_t v, const std::string&, int) { text += std::to_string(v); }
  void add_value(double v, const std::string&, int) {
    text += std::isfinite(v) ? nlohmann::json(v).dump()
            : std::isnan(v)  ? R"({"float":"nan"})"
            : v > 0          ? R"({"float":"inf"})"
                             : R"({"float":"-inf"})";
  }
  void add_value(const std::string& v, const std::string&, int) { text += quoted(v); }
  void add_value(DType v, const std::string&, int) { text += fmt::format(R"({{"dtype":"{}"}})", name_of(v)); }
  void add_value(const Tensor& v, const std::string& path, int) {
    std::string name = path.empty() ? "tensor" : path;
    for (int i = 2; !names_.insert(name).second; ++i) name = fmt::format("{}#{}", path, i);
    result.tensors.emplace_back(name, v);
    text += R"({"tensor":)" + quoted(name) + "}";
  }
  void add_value(const TreeList& v, const std::string& path, int depth) {
    text += v.tuple ? R"({"tuple":[)" : "[";
    for (size_t i = 0; i < v.items.size(); ++i) {
      if (i) text += ',';
      add(v.items[i], below(path, std::to_string(i)), depth + 1);
    }
    text += v.tuple ? "]}" : "]";
  }
  void add_value(const TreeDict& v, const std::string& path, int depth) {
    text += R"({"dict":[)";
    for (size_t i = 0; i < v.keys.size(); ++i) {
      const std::string* key = v.keys[i].get<std::string>();
      const int64_t* number = v.keys[i].get<int64_t>();
      text += i ? ",[" : "[";
      add(v.keys[i], path, depth + 1);
      text += ',';
      add(v.values[i], below(path, key ? *key : number ? std::to_string(*number) : std::to_string(i)), depth + 1);
      text += ']';
    }
    text += "]}";
  }
  static std::string below(const std::string& path, const std::string& name) {
    return path.empty() ? name : path + "." + name;
  }

  std::unordered_set<std::string> names_;
};

// Builds the tree from the JSON parser's events, with its limits.
class TreeReader {
 public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  TreeReader(const TensorDict& tensors, const std::string& file) : file_(file) {
    for (const auto& [name, t] : tensors) tensors_.emplace(name, t);
    frames_.emplace_back();
  }
  Tree take() {
    if (frames_.size() != 1 || frames_[0].items.size() != 1) bad("it is not one value");
    return std::move(frames_[0].items[0]);
  }

  bool null() { return emit({}); }
  bool boolean(bool v) { return emit(Tree::Value(v)); }
  bool number_integer(number_integer_t v) { return emit(Tree::Value(v)); }
  bool number_unsigned(number_unsigned_t v) {
    if (v > static_cast<number_unsigned_t>(INT64_MAX)) bad("an integer does not fit 64 bits");
    return emit(Tree::Value(static_cast<int64_t>(v)));
  }
  bool number_float(number_float_t v, const string_t&) { return emit(Tree::Value(v)); }
  bool string(string_t& v) { return emit(Tree::Value(std::move(v))); }
  bool binary(binary_t&) { return false; }
  bool start_object(size_t) { return open(true); }
  bool start_array(size_t) { return open(false); }
  bool key(string_t& name) {
    if (!frames_.back().tag.empty()) bad("an object has more than one key");
    frames_.back().tag = name;
    return true;
  }
  bool end_array() {
    Frame f = close();
    return emit(Tree::Value(TreeList{std::move(f.items), false}));
  }
  bool end_object() {
    Frame f = close();
    if (f.items.size() != 1) bad("an object has no key");
    Tree& item = f.items[0];
    if (auto* list = std::get_if<TreeList>(&item.value)) {
      if (f.tag == "tuple") {
        list->tuple = true;
        return emit(std::move(item));
      }
      if (f.tag == "dict") return emit(Tree::Value(dict_of(std::move(*list))));
    } else if (auto* text = std::get_if<std::string>(&item.value)) {
      if (f.tag == "dtype") return emit(Tree::Value(dtype_from_name(*text)));
      if (f.tag == "tensor") {
        const auto found = tensors_.find(*text);
        if (found == tensors_.end()) bad(fmt::format("it names tensor '{}', which is not in the file", *text));
        return emit(Tree::Value(found->second));
      }
      if (f.tag == "float" && (*text == "nan" || *text == "inf" || *text == "-inf"))
        return emit(Tree::Value(*text == "nan" ? NAN : *text == "inf" ? INFINITY : -INFINITY));
    }
    bad(fmt::format("unknown object '{}'", f.tag));
  }
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception& e) { bad(e.what()); }

 private:
  struct Frame {
    std::string tag;  // of an object: its key
    std::vector<Tree> items;
  };
  [[noreturn]] void bad(std::string_view what) const {
    fail(ErrorKind::Runtime,
         fmt::format("'{}': {} in __metadata__ does not describe a tree: {}", file_, kTreeKey, what));
  }
  bool emit(Tree t) {
    if (++nodes_ > kMaxNodes) bad(fmt::format("more than {} values", kMaxNodes));
    frames_.back().items.push_back(std::move(t));
    return true;
  }
  bool open(bool) {
    if (frames_.size() > 3 * kMaxDepth) bad("it is nested too deeply");
    frames_.emplace_back();
    return true;
  }
  Frame close() {
    Frame f = std::move(frames_.back());
    frames_.pop_back();
    return f;
  }
  TreeDict dict_of(TreeList pairs) const {
    TreeDict dict;
    for (Tree& pair : pairs.items) {
      auto* items = std::get_if<TreeList>(&pair.value);
      if (!items || items->items.size() != 2) bad("an entry of a dict is not a pair");
      dict.keys.push_back(std::move(items->items[0]));
      dict.values.push_back(std::move(items->items[1]));
    }
    return dict;
  }

  const std::string& file_;
  std::unordered_map<std::string, Tensor> tensors_;
  std::vector<Frame> frames_;
  size_t nodes_ = 0;
};
}  // namespace

SafeTensors to_safetensors(const Tree& tree) {
  if (is_flat(tree)) {
    const auto& dict = *tree.get<TreeDict>();
    SafeTensors plain;
    for (size_t i = 0; i < dict.keys.size(); ++i)
      plain.tensors.emplace_back(*dict.keys[i].get<std::string>(), *dict.values[i].get<Tensor>());
    return plain;
  }
  Writer writer;
  writer.add(tree, "", 0);
  writer.result.metadata[kTreeKey] = std::move(writer.text);
  return std::move(writer.result);
}

Tree to_tree(SafeTensors contents, const std::string& file) {
  const auto structure = contents.metadata.find(kTreeKey);
  if (structure == contents.metadata.end()) {
    TreeDict dict;
    for (auto& [name, t] : contents.tensors) {
      dict.keys.emplace_back(Tree::Value(std::move(name)));
      dict.values.emplace_back(Tree::Value(std::move(t)));
    }
    return Tree::Value(std::move(dict));
  }
  TreeReader reader(contents.tensors, file);
  nlohmann::json::sax_parse(structure->second, &reader);
  return reader.take();
}

}  // namespace files
}  // namespace strata
