// Files: saving and loading trees of tensors, the readers of data sets.
#include <fmt/core.h>

#include <unordered_map>

#include "nn/data/idx.h"
#include "nn/data/image_sets.h"
#include "nn/data/synthetic_digits.h"
#include "nn/files/checkpoint.h"
#include "python/binding.h"
#include "python/files.h"

namespace strata::python {
namespace {

std::string utf8(PyObject* text) {
  Py_ssize_t n;
  const char* s = PyUnicode_AsUTF8AndSize(text, &n);
  if (!s) throw PythonError{};
  return {s, static_cast<size_t>(n)};
}
PyObject* text_object(const std::string& s) {
  return need(PyUnicode_DecodeUTF8(s.data(), static_cast<Py_ssize_t>(s.size()), nullptr));
}

// --- from Python -------------------------------------------------------------------------------------------------------

Tree tree_of(PyObject* o, const std::string& path, int depth);

// A class by its name: borrowed.
PyObject* class_of(const char* module, const char* name) {
  const Object home(need(PyImport_ImportModule(module)));
  const Object found(need(PyObject_GetAttrString(home.get(), name)));
  return found.get();  // the module keeps it
}
PyObject* parameter_class() {
  static PyObject* const kind = class_of("strata.nn.parameter", "Parameter");
  return kind;
}
PyObject* ordered_class() {
  static PyObject* const kind = class_of("collections", "OrderedDict");
  return kind;
}
Tree tensor_leaf(PyObject* o) {
  const Tensor t = tensor_of(o), values = autograd::detach(t);
  if (t.requires_grad() && autograd::is_leaf(t)) values->requires_grad = true;
  Tree leaf = Tree::Value(values);
  leaf.parameter = PyObject_TypeCheck(o, reinterpret_cast<PyTypeObject*>(parameter_class()));
  return leaf;
}

TreeDict dict_of(PyObject* o, const std::string& path, int depth) {
  TreeDict dict;
  dict.ordered = PyObject_TypeCheck(o, reinterpret_cast<PyTypeObject*>(ordered_class()));
  const Object items(need(PyDict_Items(o)));  // a copy: user code (__str__, item) may change the dict
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) {
    PyObject* key = PyTuple_GET_ITEM(PyList_GET_ITEM(items.get(), i), 0);
    PyObject* value = PyTuple_GET_ITEM(PyList_GET_ITEM(items.get(), i), 1);
    const Object text(need(PyObject_Str(key)));
    const std::string below = path + "[" + shown(text.get()) + "]";
    if (!PyUnicode_Check(key) && !PyLong_Check(key) && !PyFloat_Check(key) && key != Py_None)
      fail(ErrorKind::Type,
           fmt::format("save: a key at {} is of type {}; keys are strings or numbers", below, Py_TYPE(key)->tp_name));
    dict.keys.push_back(tree_of(key, below, depth + 1));
    dict.values.push_back(tree_of(value, below, depth + 1));
  }
  return dict;
}

// The Python number of a NumPy number; empty for everything else, including arrays.
Object plain_number(PyObject* o) {
  if (Py_TYPE(o)->tp_name == std::string_view("numpy.ndarray")) return {};
  const Object dtype(PyObject_GetAttrString(o, "dtype"));
  if (!dtype) {
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) throw PythonError{};
    PyErr_Clear();
    return {};
  }
  Object number(need(PyObject_CallMethod(o, "item", nullptr)));
  return number && (PyLong_Check(number.get()) || PyFloat_Check(number.get())) ? std::move(number) : Object();
}

Tree tree_of(PyObject* o, const std::string& path, int depth) {
  STRATA_CHECK(depth <= files::kMaxDepth, Value,
               "save: the object is nested deeper than {} levels at {}; does it hold itself?", files::kMaxDepth,
               path.substr(0, 200));
  if (o == Py_None) return {};
  if (PyBool_Check(o)) return Tree::Value(o == Py_True);
  if (PyLong_Check(o)) {
    int overflow = 0;
    const long long v = PyLong_AsLongLongAndOverflow(o, &overflow);
    STRATA_CHECK(!overflow, Value, "save: the integer at {} has more than 64 bits; save it as a string",
                 path.empty() ? "the top" : path);
    if (v == -1 && PyErr_Occurred()) throw PythonError{};
    return Tree::Value(static_cast<int64_t>(v));
  }
  if (PyFloat_Check(o)) return Tree::Value(PyFloat_AS_DOUBLE(o));
  if (PyUnicode_Check(o)) return Tree::Value(utf8(o));
  if (is_tensor(o)) return tensor_leaf(o);
  if (Py_TYPE(o) == dtype_type) return Tree::Value(dtype_of_object(o));
  if (Py_TYPE(o) == device_type) return Tree::Value(to_string(device_of_object(o)));
  if (PyDict_Check(o)) return Tree::Value(dict_of(o, path, depth));
  if (PyList_Check(o) || PyTuple_Check(o)) {
    TreeList list{{}, PyTuple_Check(o) != 0, Py_TYPE(o) == size_type};
    const Object items(need(PySequence_Tuple(o)));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i)
      list.items.push_back(tree_of(PyTuple_GET_ITEM(items.get(), i), fmt::format("{}[{}]", path, i), depth + 1));
    return Tree::Value(std::move(list));
  }
  if (const Object number = plain_number(o); number) return tree_of(number.get(), path, depth);
  fail(
    ErrorKind::Type,
    fmt::format("save: cannot save an object of type {} at {}; a checkpoint holds tensors, numbers, strings, None, and "
                "lists, tuples and dicts of these. Save module.state_dict() in place of a module, "
                "strata.tensor(array) in place of an array",
                Py_TYPE(o)->tp_name, path.empty() ? "the top" : path));
}

// A dict of names to tensors, as in safetensors.
TensorDict tensors_of(PyObject* o) {
  if (!PyDict_Check(o))
    fail(ErrorKind::Type, fmt::format("save_file: expected a dict of names to tensors, got {}", Py_TYPE(o)->tp_name));
  TensorDict tensors;
  PyObject *key, *value;
  Py_ssize_t at = 0;
  while (PyDict_Next(o, &at, &key, &value)) {
    if (!PyUnicode_Check(key) || !is_tensor(value))
      fail(ErrorKind::Type, fmt::format("save_file: expected a dict of names to tensors, found an entry {}: {}",
                                        Py_TYPE(key)->tp_name, Py_TYPE(value)->tp_name));
    tensors.emplace_back(utf8(key), autograd::detach(tensor_of(value)));
  }
  return tensors;
}
Metadata metadata_of(PyObject* o) {
  Metadata metadata;
  if (o == Py_None) return metadata;
  PyObject *key, *value;
  Py_ssize_t at = 0;
  STRATA_CHECK(PyDict_Check(o), Type, "save_file: metadata is a dict of strings to strings");
  while (PyDict_Next(o, &at, &key, &value)) {
    STRATA_CHECK(PyUnicode_Check(key) && PyUnicode_Check(value), Type,
                 "save_file: metadata is a dict of strings to strings");
    metadata[utf8(key)] = utf8(value);
  }
  return metadata;
}

// --- to Python ---------------------------------------------------------------------------------------------------------

// Builds Python objects. A Parameter that appears twice in a tree is one object.
class Objects {
 public:
  PyObject* make(const Tree& tree) {
    if (tree.parameter) return parameter(*tree.get<Tensor>());
    return std::visit([&](const auto& v) { return make_value(v); }, tree.value);
  }

 private:
  PyObject* make_value(std::monostate) { return Py_NewRef(Py_None); }
  PyObject* make_value(bool v) { return PyBool_FromLong(v); }
  PyObject* make_value(int64_t v) { return need(PyLong_FromLongLong(v)); }
  PyObject* make_value(double v) { return need(PyFloat_FromDouble(v)); }
  PyObject* make_value(const std::string& v) { return text_object(v); }
  PyObject* make_value(DType v) { return wrap(v); }
  PyObject* make_value(const Tensor& v) { return need(wrap(v)); }
  PyObject* make_value(const TreeList& v) {
    const auto n = static_cast<Py_ssize_t>(v.items.size());
    Object out(need(v.tuple ? PyTuple_New(n) : PyList_New(n)));
    for (Py_ssize_t i = 0; i < n; ++i) {
      PyObject* item = make(v.items[static_cast<size_t>(i)]);
      if (v.tuple) PyTuple_SET_ITEM(out.get(), i, item);
      else PyList_SET_ITEM(out.get(), i, item);
    }
    if (v.size) return need(PyObject_CallOneArg(reinterpret_cast<PyObject*>(size_type), out.get()));
    return out.release();
  }
  PyObject* make_value(const TreeDict& v) {
    Object out(need(v.ordered ? PyObject_CallNoArgs(ordered_class()) : PyDict_New()));
    for (size_t i = 0; i < v.keys.size(); ++i) {
      const Object key(make(v.keys[i])), value(make(v.values[i]));
      need(PyObject_SetItem(out.get(), key.get(), value.get()));
    }
    return out.release();
  }
  PyObject* parameter(const Tensor& t) {
    Object& known = parameters_[t.get()];
    if (!known) {
      const Object plain(need(wrap(t))), on(PyBool_FromLong(t.requires_grad()));
      known = Object(need(PyObject_CallFunctionObjArgs(parameter_class(), plain.get(), on.get(), nullptr)));
    }
    return Py_NewRef(known.get());
  }
  std::unordered_map<const TensorImpl*, Object> parameters_;
};
PyObject* object_of(const Tree& tree) { return Objects().make(tree); }

// --- saving and loading ------------------------------------------------------------------------------------------------

// The bytes of a file with these contents.
PyObject* bytes_of(const SafeTensors& contents) {
  const files::SafeTensorsWriter writer(contents.tensors, contents.metadata);
  Object out(need(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(writer.size()))));
  char* to = PyBytes_AS_STRING(out.get());
  writer.write([&](Bytes piece) { to = std::copy_n(reinterpret_cast<const char*>(piece.data()), piece.size(), to); });
  return out.release();
}
PyObject* write(const SafeTensors& contents, const std::string& path) {
  {
    const WithoutGil free;
    strata::save(path, contents.tensors, contents.metadata);
  }
  Py_RETURN_NONE;
}
std::shared_ptr<FileBytes> copy_of(Py_buffer* view, const char* name) {
  return FileBytes::copy({static_cast<const std::byte*>(view->buf), static_cast<size_t>(view->len)}, name);
}

// _save(object, path or None): None returns the bytes.
PyObject* save(PyObject*, PyObject* args) {
  PyObject *object, *target;
  if (!PyArg_ParseTuple(args, "OO", &object, &target)) return nullptr;
  return guarded([&]() -> PyObject* {
    const SafeTensors contents = files::to_safetensors(tree_of(object, "", 0));
    if (target == Py_None) return bytes_of(contents);
    Path path;
    if (!PyUnicode_FSConverter(target, &path.bytes)) throw PythonError{};
    return write(contents, path.text());
  });
}
template <class F> auto without_gil(F f) {
  const WithoutGil free;
  return f();
}
// _load(path, mmap)
PyObject* load(PyObject*, PyObject* args) {
  Path path;
  int mmap;
  if (!PyArg_ParseTuple(args, "O&p", PyUnicode_FSConverter, &path.bytes, &mmap)) return nullptr;
  return guarded([&] { return object_of(without_gil([&] { return load_tree(path.text(), mmap != 0); })); });
}
PyObject* load_bytes(PyObject*, PyObject* args) {
  Py_buffer data;
  if (!PyArg_ParseTuple(args, "y*", &data)) return nullptr;
  PyObject* result = guarded([&] { return object_of(files::read_any(copy_of(&data, "<bytes>"))); });
  PyBuffer_Release(&data);
  return result;
}
PyObject* save_file(PyObject*, PyObject* args) {
  PyObject *tensors, *target, *metadata;
  if (!PyArg_ParseTuple(args, "OOO", &tensors, &target, &metadata)) return nullptr;
  return guarded([&]() -> PyObject* {
    const SafeTensors contents{tensors_of(tensors), metadata_of(metadata)};
    if (target == Py_None) return bytes_of(contents);
    Path path;
    if (!PyUnicode_FSConverter(target, &path.bytes)) throw PythonError{};
    return write(contents, path.text());
  });
}
// The contents of a file as (tensors, metadata or None)
PyObject* pair_of(const SafeTensors& contents) {
  Object tensors(need(PyDict_New())), metadata(contents.metadata.empty() ? Py_NewRef(Py_None) : need(PyDict_New()));
  for (const auto& [name, t] : contents.tensors)
    need(PyDict_SetItem(tensors.get(), Object(text_object(name)).get(), Object(need(wrap(t))).get()));
  for (const auto& [key, value] : contents.metadata)
    need(PyDict_SetItem(metadata.get(), Object(text_object(key)).get(), Object(text_object(value)).get()));
  return PyTuple_Pack(2, tensors.get(), metadata.get());
}
PyObject* load_file(PyObject*, PyObject* args) {
  Path path;
  int mmap;
  if (!PyArg_ParseTuple(args, "O&p", PyUnicode_FSConverter, &path.bytes, &mmap)) return nullptr;
  return guarded([&] { return pair_of(without_gil([&] { return load_safetensors(path.text(), mmap != 0); })); });
}
PyObject* load_file_bytes(PyObject*, PyObject* args) {
  Py_buffer data;
  if (!PyArg_ParseTuple(args, "y*", &data)) return nullptr;
  PyObject* result = guarded([&] { return pair_of(files::read_safetensors(copy_of(&data, "<bytes>"))); });
  PyBuffer_Release(&data);
  return result;
}

// --- data sets -----------------------------------------------------------------------------------------------------------

PyObject* pair_of(const data::ImageSet& set) {
  const Object images(need(wrap(set.images))), labels(need(wrap(set.labels)));
  return PyTuple_Pack(2, images.get(), labels.get());
}
PyObject* read_idx(PyObject*, PyObject* args) {
  Path path;
  if (!PyArg_ParseTuple(args, "O&", PyUnicode_FSConverter, &path.bytes)) return nullptr;
  return guarded([&] { return wrap(without_gil([&] { return data::read_idx(path.text()); })); });
}
PyObject* mnist(PyObject*, PyObject* args) {
  Path root;
  int train;
  const char* name;
  if (!PyArg_ParseTuple(args, "O&ps", PyUnicode_FSConverter, &root.bytes, &train, &name)) return nullptr;
  return guarded([&] { return pair_of(without_gil([&] { return data::mnist(root.text(), train != 0, name); })); });
}
PyObject* has_mnist(PyObject*, PyObject* args) {
  Path root;
  const char* name;
  if (!PyArg_ParseTuple(args, "O&s", PyUnicode_FSConverter, &root.bytes, &name)) return nullptr;
  return guarded([&] { return PyBool_FromLong(data::has_mnist(root.text(), name)); });
}
PyObject* cifar10(PyObject*, PyObject* args) {
  Path root;
  int train;
  if (!PyArg_ParseTuple(args, "O&p", PyUnicode_FSConverter, &root.bytes, &train)) return nullptr;
  return guarded([&] { return pair_of(without_gil([&] { return data::cifar10(root.text(), train != 0); })); });
}
PyObject* draw_digits(PyObject*, PyObject* args) {
  long long first, n;
  unsigned long long seed;
  if (!PyArg_ParseTuple(args, "LLK", &first, &n, &seed)) return nullptr;
  return guarded([&] { return pair_of(without_gil([&] { return data::draw_digits(first, n, seed); })); });
}
}  // namespace

PyMethodDef file_functions[] = {{"_save", save, METH_VARARGS, nullptr},
                                {"_load", load, METH_VARARGS, nullptr},
                                {"_load_bytes", load_bytes, METH_VARARGS, nullptr},
                                {"_save_file", save_file, METH_VARARGS, nullptr},
                                {"_load_file", load_file, METH_VARARGS, nullptr},
                                {"_load_file_bytes", load_file_bytes, METH_VARARGS, nullptr},
                                {"_read_idx", read_idx, METH_VARARGS, nullptr},
                                {"_mnist", mnist, METH_VARARGS, nullptr},
                                {"_has_mnist", has_mnist, METH_VARARGS, nullptr},
                                {"_cifar10", cifar10, METH_VARARGS, nullptr},
                                {"_draw_digits", draw_digits, METH_VARARGS, nullptr},
                                {}};

}  // namespace strata::python
