// The registry of all ops, and saved arguments.
#include "record/op.h"

#include <fmt/core.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

namespace strata {

STRATA_THREAD_LOCAL ThreadState thread_state;

namespace {

// A shared library may define ops while other threads use the registry.
struct Registry {
  std::shared_mutex mutex;
  // The last list is the current one. A list that a caller may hold is not changed any more: it is kept, and copied.
  std::deque<std::vector<OpRecord*>> lists{1};
  std::atomic<bool> is_held = false;
  std::unordered_map<std::string, OpRecord*> by_name;  // "name" (first overload) and "name.overload"
  std::deque<std::string> texts;                       // storage of names that records point to
};
Registry& registry() {
  static auto* r = new Registry;
  return *r;
}
}  // namespace

const char* name_of(Autocast policy) {
  static constexpr const char* names[] = {"none", "lower", "float32", "float32_result", "promote", "refuse"};
  return names[static_cast<size_t>(policy)];
}

const std::vector<OpRecord*>& all_ops() {
  Registry& r = registry();
  const std::shared_lock hold(r.mutex);
  r.is_held.store(true, std::memory_order_relaxed);
  return r.lists.back();
}

const OpRecord& find_op(std::string_view name, std::string_view overload) {
  std::string key(name);
  if (!overload.empty()) key += "." + std::string(overload);
  Registry& r = registry();
  const std::shared_lock hold(r.mutex);
  const auto found = r.by_name.find(key);
  if (found == r.by_name.end()) fail(ErrorKind::Internal, "there is no op '" + key + "'");
  return *found->second;
}

OpRecord& OpRecord::define(const char* op_schema) {
  schema = op_schema;
  read_schema();
  Registry& r = registry();
  const std::unique_lock hold(r.mutex);
  if (r.is_held.exchange(false, std::memory_order_relaxed)) r.lists.push_back(r.lists.back());
  r.lists.back().push_back(this);
  r.by_name.try_emplace(name, this);
  if (!overload.empty() && !r.by_name.try_emplace(name + "." + overload, this).second)
    fail(ErrorKind::Internal, fmt::format("schema \"{}\": defined twice", schema));
  return *this;
}

uint8_t OpRecord::place_of(std::string_view param) const {
  for (size_t i = 0; i < params.size(); ++i)
    if (param == params[i].name) return static_cast<uint8_t>(i);
  fail(ErrorKind::Internal, fmt::format("schema \"{}\": there is no parameter '{}'", schema, param));
}
uint32_t OpRecord::mask_of(Names names) const {
  uint32_t mask = 0;
  for (const std::string_view n : names) mask |= 1u << place_of(n);
  return mask;
}

OpRecord& OpRecord::alias_nn() { return alias(registry().texts.emplace_back("nn.functional." + name).c_str()); }

void SavedArgs::save(const Args& args, uint32_t mask, bool keep_shapes) {
  const auto copy_bytes = [](const void* from, size_t bytes) {
    void* copy = std::malloc(bytes + 1);
    if (!copy) throw std::bad_alloc();
    if (bytes) std::memcpy(copy, from, bytes);  // an empty list may have no address
    return static_cast<const char*>(copy);
  };
  for (uint32_t i = 0; i < args.size; ++i) {
    Value v = args[i];
    if (v.tag == Tag::Tensor) {
      if (mask >> i & 1) {
        versions_[i] = v.tensor->version();
        v.tensor = Ref<TensorImpl>::share(v.tensor).release();
      } else if (keep_shapes) v.tensor = shape_only(*v.tensor).release();
      else v = Value();
    } else if (v.tag == Tag::Tensors) {
      const bool values = mask >> i & 1;
      auto* copy = new Tensor[v.size];
      list_versions_ = std::make_unique<uint32_t[]>(v.size);
      for (uint32_t k = 0; k < v.size; ++k) {
        if (!v.tensors[k]) continue;
        list_versions_[k] = v.tensors[k]->version();
        copy[k] = values ? v.tensors[k] : shape_only(*v.tensors[k]);
      }
      v.tensors = copy;
    } else if (v.tag == Tag::Ints) {
      v.ints = reinterpret_cast<const int64_t*>(copy_bytes(v.ints, v.size * sizeof(int64_t)));
    } else if (v.tag == Tag::Floats) {
      v.floats = reinterpret_cast<const double*>(copy_bytes(v.floats, v.size * sizeof(double)));
    } else if (v.tag == Tag::Complex) {
      v.complex = reinterpret_cast<const Complex<double>*>(copy_bytes(v.complex, sizeof *v.complex));
    } else if (v.tag == Tag::Str) {
      v.str = copy_bytes(v.str, v.size);
    } else if (v.tag == Tag::Generator) {
      v = Value();  // a gradient never draws, and the generator may be destroyed by then
    }
    args_[i] = v;
    args_.size = i + 1;  // owned from here on, also when a later one throws
  }
}

void SavedArgs::clear() {
  for (uint32_t i = 0; i < args_.size; ++i) {
    const Value& v = args_[i];
    switch (v.tag) {
      case Tag::Tensor: Ref<TensorImpl>::drop(v.tensor); break;
      case Tag::Tensors: delete[] v.tensors; break;
      case Tag::Ints:
      case Tag::Floats:
      case Tag::Complex:
      case Tag::Str: std::free(const_cast<char*>(v.str)); break;
      default: break;
    }
  }
  args_.size = 0;
}

}  // namespace strata
