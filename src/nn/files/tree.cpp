// The structure is JSON: null, true, 1, 1.5, "text" and [...] as they are; the rest is an object with one key: {"dict": [[key,
// value], ...]}, {"ordered": [...]} (an OrderedDict), {"tuple": [...]}, {"size": [...]}, {"tensor": name}, {"dtype": name},
// {"float": "nan"}; around a tensor, {"parameter": ...} and {"requires_grad": ...}. A tensor that shares memory with another is
// {"view": [name, offset, [sizes], [strides]]} of a tensor that holds the elements of all.
#include "nn/files/tree.h"

#include <fmt/core.h>

#include <algorithm>
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
  if (!dict || dict->ordered) return false;
  for (size_t i = 0; i < dict->keys.size(); ++i)
    if (!dict->keys[i].get<std::string>() || !dict->values[i].get<Tensor>() || dict->values[i].parameter ||
        dict->values[i].get<Tensor>()->requires_grad())
      return false;
  return true;
}

// A tensor over a part of the memory of `whole`, which is contiguous and has one dimension.
Tensor view_of(const Tensor& whole, int64_t offset, Shape shape, Shape strides) {
  Tensor t(Ref<TensorImpl>::adopt(TensorImpl::make()));
  t->dtype = whole.dtype();
  t->device = whole.device();
  t->set_shape(shape);
  t->set_contiguous_strides();  // checks the number of elements
  std::copy(strides.begin(), strides.end(), t->strides);
  t->update_contiguous();
  t->storage = whole->storage;
  t->data = whole.bytes() + offset * static_cast<int64_t>(size_of(t->dtype));
  return t;
}

// The position of a tensor's last element after its first.
int64_t reach(const TensorImpl& t) {
  int64_t last = 0;
  for (int d = 0; d < t.ndim; ++d) last += (t.shape[d] - 1) * t.strides[d];
  return last;
}

// The tensors of a tree that share memory: one tensor over the elements of all of them.
class SharedMemory {
 public:
  explicit SharedMemory(const Tree& tree) {
    collect(tree, 0);
    for (auto& [storage, group] : groups_) {
      group.whole = joined(group);
      for (const Tensor& t : group.tensors) group.equal = group.equal && same_view(*t, *group.tensors[0]);
    }
  }
  struct Group {
    std::vector<Tensor> tensors;
    Tensor whole;       // undefined if nothing is shared
    bool equal = true;  // all are the same view: the first is stored as it is
    std::string name;   // of what is stored, once it is written
  };
  Group* find(const Tensor& t) {
    const auto at = groups_.find(t->storage.get());
    return at == groups_.end() || !at->second.whole ? nullptr : &at->second;
  }
  bool any() const {
    return std::any_of(groups_.begin(), groups_.end(), [](const auto& g) { return bool(g.second.whole); });
  }

 private:
  void collect(const Tree& tree, int depth) {
    if (depth > kMaxDepth) return;  // the writer rejects it
    if (const auto* t = tree.get<Tensor>()) {
      if (t->numel() && (*t)->storage && !t->is_meta()) groups_[(*t)->storage.get()].tensors.push_back(*t);
    } else if (const auto* list = tree.get<TreeList>()) {
      for (const Tree& item : list->items) collect(item, depth + 1);
    } else if (const auto* dict = tree.get<TreeDict>()) {
      for (const Tree& value : dict->values) collect(value, depth + 1);
    }
  }
  static bool same_view(const TensorImpl& a, const TensorImpl& b) {
    return a.data == b.data && a.dtype == b.dtype && a.same_shape(b) &&
           std::equal(a.strides, a.strides + a.ndim, b.strides);
  }
  static Tensor joined(const Group& group) {
    if (group.tensors.size() < 2) return {};
    const Tensor& first = group.tensors[0];
    const auto item = static_cast<int64_t>(size_of(first.dtype()));
    std::byte *begin = first.bytes(), *end = begin;
    for (const Tensor& t : group.tensors) {
      if (t.dtype() != first.dtype()) return {};  // views of other dtypes are stored separately
      begin = std::min(begin, t.bytes());
      end = std::max(end, t.bytes() + (reach(*t) + 1) * item);
    }
    const int64_t n = (end - begin) / item, one = 1;
    Tensor whole = view_of(first, 0, {&n, 1}, {&one, 1});
    whole->data = begin;
    return whole;
  }
  std::unordered_map<Storage*, Group> groups_;
};

class Writer {
 public:
  explicit Writer(SharedMemory& shared) : shared_(shared) {}
  SafeTensors result;
  std::string text;

  void add(const Tree& tree, const std::string& path, int depth) {
    STRATA_CHECK(depth <= kMaxDepth, Value, "what is saved at '{}' is nested deeper than {} levels",
                 path.substr(0, 200), kMaxDepth);
    if (tree.parameter) text += R"({"parameter":)";
    std::visit([&](const auto& v) { add_value(v, path, depth); }, tree.value);
    if (tree.parameter) text += '}';
  }

  // Of a dict of texts to tensors, other programs expect every name in the file, also of a tensor that is stored already.
  void add_names(const Tree& tree) {
    const auto* dict = tree.get<TreeDict>();
    for (size_t i = 0; dict && i < dict->keys.size(); ++i)
      if (!dict->keys[i].get<std::string>() || !dict->values[i].get<Tensor>()) return;
    for (size_t i = 0; dict && i < dict->keys.size(); ++i)
      if (const auto& name = *dict->keys[i].get<std::string>(); names_.insert(name).second)
        result.tensors.emplace_back(name, *dict->values[i].get<Tensor>());
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
    if (v.requires_grad()) text += R"({"requires_grad":)";
    SharedMemory::Group* group = shared_.find(v);
    if (group && group->equal) {
      if (group->name.empty()) group->name = add_tensor(v, path.empty() ? "tensor" : path);
      text += R"({"tensor":)" + quoted(group->name) + "}";
    } else if (group) {
      if (group->name.empty()) group->name = add_tensor(group->whole, path.empty() ? "memory" : path + ".memory");
      const int64_t offset = (v.bytes() - group->whole.bytes()) / static_cast<int64_t>(size_of(v.dtype()));
      text += fmt::format(R"({{"view":[{},{},{},{}]}})", quoted(group->name), offset, to_string(v.shape()),
                          to_string(v.strides()));
    } else {
      text += R"({"tensor":)" + quoted(add_tensor(v, path.empty() ? "tensor" : path)) + "}";
    }
    if (v.requires_grad()) text += '}';
  }
  std::string add_tensor(const Tensor& v, const std::string& path) {
    std::string name = path;
    for (int i = 2; !names_.insert(name).second; ++i) name = fmt::format("{}#{}", path, i);
    result.tensors.emplace_back(name, v);
    return name;
  }
  void add_value(const TreeList& v, const std::string& path, int depth) {
    text += v.size ? R"({"size":[)" : v.tuple ? R"({"tuple":[)" : "[";
    for (size_t i = 0; i < v.items.size(); ++i) {
      if (i) text += ',';
      add(v.items[i], below(path, std::to_string(i)), depth + 1);
    }
    text += v.tuple ? "]}" : "]";
  }
  void add_value(const TreeDict& v, const std::string& path, int depth) {
    text += v.ordered ? R"({"ordered":[)" : R"({"dict":[)";
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

  SharedMemory& shared_;
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
      if (f.tag == "tuple" || f.tag == "size") {
        list->tuple = true;
        list->size = f.tag == "size";
        if (list->size) (void)ints_of(item);
        return emit(std::move(item));
      }
      if (f.tag == "view") return emit(Tree::Value(shared_view(*list)));
      if (f.tag == "dict" || f.tag == "ordered") {
        TreeDict dict = dict_of(std::move(*list));
        dict.ordered = f.tag == "ordered";
        return emit(Tree::Value(std::move(dict)));
      }
    } else if (auto* tensor = std::get_if<Tensor>(&item.value)) {
      if (f.tag == "parameter") {
        item.parameter = true;
        return emit(std::move(item));
      }
      if (f.tag == "requires_grad" && is_floating(tensor->dtype())) {
        tensor->set_requires_grad();
        return emit(std::move(item));
      }
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
  std::vector<int64_t> ints_of(const Tree& tree) const {
    const auto* list = tree.get<TreeList>();
    std::vector<int64_t> out;
    for (size_t i = 0; list && i < list->items.size(); ++i) {
      const auto* n = list->items[i].get<int64_t>();
      if (!n || *n < 0) bad("expected a list of sizes");
      out.push_back(*n);
    }
    if (!list) bad("expected a list of sizes");
    return out;
  }
  // [name, offset, sizes, strides]. Equal views are one tensor, as they were one object.
  Tensor shared_view(const TreeList& parts) {
    const auto* name = parts.items.size() == 4 ? parts.items[0].get<std::string>() : nullptr;
    const auto* offset = name ? parts.items[1].get<int64_t>() : nullptr;
    if (!offset) bad("a view is not [name, offset, sizes, strides]");
    const auto found = tensors_.find(*name);
    if (found == tensors_.end()) bad(fmt::format("it names tensor '{}', which is not in the file", *name));
    const std::vector<int64_t> shape = ints_of(parts.items[2]), strides = ints_of(parts.items[3]);
    if (shape.size() != strides.size() || shape.size() > kMaxDims) bad("a view has unlike sizes and strides");
    int64_t last = *offset, step = 0;
    bool fits = *offset >= 0 && checked_numel(shape) > 0;
    for (size_t d = 0; d < shape.size(); ++d)
      fits =
        fits && !__builtin_mul_overflow(shape[d] - 1, strides[d], &step) && !__builtin_add_overflow(last, step, &last);
    if (!fits || found->second.dim() != 1 || last >= found->second.numel())
      bad(fmt::format("a view of shape {} is outside of tensor '{}'", to_string(shape), *name));
    Tensor& view = views_[fmt::format("{} {} {} {}", *name, *offset, to_string(shape), to_string(strides))];
    if (!view) view = view_of(found->second, *offset, shape, strides);
    return view;
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
  std::unordered_map<std::string, Tensor> tensors_, views_;
  std::vector<Frame> frames_;
  size_t nodes_ = 0;
};
}  // namespace

SafeTensors to_safetensors(const Tree& tree) {
  SharedMemory shared(tree);
  if (is_flat(tree) && !shared.any()) {
    const auto& dict = *tree.get<TreeDict>();
    SafeTensors plain;
    for (size_t i = 0; i < dict.keys.size(); ++i)
      plain.tensors.emplace_back(*dict.keys[i].get<std::string>(), *dict.values[i].get<Tensor>());
    return plain;
  }
  Writer writer(shared);
  writer.add(tree, "", 0);
  writer.add_names(tree);
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
