// dtype, device, Size and Generator objects.
#include <fmt/core.h>

#include "dispatch/settings.h"
#include "python/binding.h"
#include "tensor/generator.h"
#include "tensor/package_name.h"

namespace strata::python {

PyTypeObject *dtype_type = nullptr, *device_type = nullptr, *size_type = nullptr, *generator_type = nullptr;

namespace {

// --- dtype: one immortal object per type -----------------------------------------------------------------------------

struct PyDType {
  PyObject_HEAD DType value;
};
PyObject* dtype_objects[kDTypeCount];
DType dtype_at(PyObject* o) { return reinterpret_cast<PyDType*>(o)->value; }

PyObject* dtype_repr(PyObject* o) { return PyUnicode_FromFormat("%s.%s", package_name.c_str(), name_of(dtype_at(o))); }
PyObject* dtype_reduce(PyObject* o, PyObject*) { return PyUnicode_FromString(name_of(dtype_at(o))); }
PyObject* dtype_floating(PyObject* o, void*) { return PyBool_FromLong(is_floating(dtype_at(o))); }
PyObject* dtype_complex(PyObject* o, void*) { return PyBool_FromLong(is_complex(dtype_at(o))); }
PyObject* dtype_to_real(PyObject* o, PyObject*) { return wrap(real_type(dtype_at(o))); }
PyObject* dtype_to_complex(PyObject* o, PyObject*) { return wrap(complex_type(dtype_at(o))); }
PyObject* dtype_signed(PyObject* o, void*) { return PyBool_FromLong(is_signed(dtype_at(o))); }
PyObject* dtype_itemsize(PyObject* o, void*) { return PyLong_FromSize_t(size_of(dtype_at(o))); }
PyObject* dtype_limits(PyObject* o, void*) {
  const DTypeInfo& info = info_of(dtype_at(o));
  return Py_BuildValue("(id)", info.digits, info.largest);
}
PyGetSetDef dtype_properties[] = {{"is_floating_point", dtype_floating, nullptr, nullptr, nullptr},
                                  {"is_complex", dtype_complex, nullptr, nullptr, nullptr},
                                  {"is_signed", dtype_signed, nullptr, nullptr, nullptr},
                                  {"itemsize", dtype_itemsize, nullptr, nullptr, nullptr},
                                  {"_limits", dtype_limits, nullptr, "(digits, largest) of tensor/dtypes.inc", nullptr},
                                  {}};
PyMethodDef dtype_methods[] = {
  {"__reduce__", dtype_reduce, METH_NOARGS, nullptr},
  {"to_real", dtype_to_real, METH_NOARGS, "to_real($self, /)\n--\n\nThe dtype of the parts of a complex dtype."},
  {"to_complex", dtype_to_complex, METH_NOARGS, "to_complex($self, /)\n--\n\nThe complex dtype with such parts."},
  {}};

// --- device ----------------------------------------------------------------------------------------------------------

struct PyDevice {
  PyObject_HEAD Device value;
};
Device device_at(PyObject* o) { return reinterpret_cast<PyDevice*>(o)->value; }

std::string shown_repr(PyObject* o) {
  const Object text(need(PyObject_Repr(o)));
  return shown(text.get());
}

PyObject* device_new(PyTypeObject*, PyObject* args, PyObject* keywords) {
  const char* names[] = {"type", "index", nullptr};
  PyObject *type, *index = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|O", const_cast<char**>(names), &type, &index)) return nullptr;
  return guarded([&] {
    Device d = device_of_object(type);
    if (index == Py_None) return wrap(d);
    STRATA_CHECK(d.index < 0, Runtime, "device: '{}' has a number already, and index={} is given beside it",
                 to_string(d), shown_repr(index));
    int overflow = 0;
    const long long number = checked(PyLong_AsLongLongAndOverflow(index, &overflow));
    STRATA_CHECK(!overflow, Runtime, "device: index {} is out of range; device numbers go from 0 to {}",
                 shown_repr(index), kMaxDeviceIndex);
    return wrap(Device{d.type, device_index(number)});
  });
}
PyObject* device_repr(PyObject* o) {
  return guarded([&] {
    const Device d = device_at(o);
    const std::string name = to_string(Device{d.type, -1});
    return d.index < 0 ? PyUnicode_FromFormat("device(type='%s')", name.c_str())
                       : PyUnicode_FromFormat("device(type='%s', index=%d)", name.c_str(), int{d.index});
  });
}
PyObject* device_str(PyObject* o) {
  return guarded([&] { return PyUnicode_FromString(to_string(device_at(o)).c_str()); });
}
PyObject* device_compare(PyObject* a, PyObject* b, int op) {
  if (Py_TYPE(b) != device_type || (op != Py_EQ && op != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
  return PyBool_FromLong((device_at(a) == device_at(b)) == (op == Py_EQ));
}
Py_hash_t device_hash(PyObject* o) { return static_cast<Py_hash_t>(device_at(o).type) * 131 + device_at(o).index + 2; }
PyObject* device_get_type(PyObject* o, void*) {
  return guarded([&] { return PyUnicode_FromString(to_string(Device{device_at(o).type, -1}).c_str()); });
}
PyObject* device_get_index(PyObject* o, void*) {
  if (device_at(o).index < 0) Py_RETURN_NONE;
  return PyLong_FromLong(device_at(o).index);
}
// with device('meta'): the default device of this thread inside the block.
thread_local std::vector<Device> outer_devices;
PyObject* device_enter(PyObject* self, PyObject*) {
  return guarded([&] {
    const Device inner = require_available(device_at(self));
    outer_devices.push_back(thread_state.default_device);
    thread_state.default_device = inner;
    return Py_NewRef(self);
  });
}
PyObject* device_exit(PyObject*, PyObject*) {
  return guarded([&] {
    STRATA_CHECK(!outer_devices.empty(), Runtime, "device: __exit__ without __enter__ in this thread");
    thread_state.default_device = outer_devices.back();
    outer_devices.pop_back();
    return Py_NewRef(Py_False);
  });
}
PyMethodDef device_methods[] = {
  {"__enter__", device_enter, METH_NOARGS, "Makes this the default device of the thread."},
  {"__exit__", device_exit, METH_VARARGS, "Restores the default device."},
  {}};
PyGetSetDef device_properties[] = {
  {"type", device_get_type, nullptr, nullptr, nullptr}, {"index", device_get_index, nullptr, nullptr, nullptr}, {}};

// --- Size: a tuple that prints and counts like PyTorch's ----------------------------------------------------------------

PyObject* size_repr(PyObject* o) {
  Object list(PySequence_List(o));
  if (!list) return nullptr;
  return PyUnicode_FromFormat("%s.Size(%R)", package_name.c_str(), list.get());
}
// Size(iterable): every element an integer.
PyObject* size_new(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  Object tuple(PyTuple_Type.tp_new(type, args, keywords));
  if (!tuple) return nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple.get()); ++i) {
    PyObject* item = PyTuple_GET_ITEM(tuple.get(), i);
    if (PyLong_Check(item)) continue;
    PyObject* number = PyIndex_Check(item) ? PyNumber_Index(item) : nullptr;
    if (!number) {
      if (!PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "strata.Size() takes an iterable of 'int' (item %zd is '%s')", i,
                     Py_TYPE(item)->tp_name);
      return nullptr;
    }
    PyTuple_SET_ITEM(tuple.get(), i, number);
    Py_DECREF(item);
  }
  return tuple.release();
}
PyObject* size_numel(PyObject* o, PyObject*) {
  return guarded([&] {
    std::vector<int64_t> sizes;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); ++i)
      sizes.push_back(checked(PyLong_AsLongLong(PyTuple_GET_ITEM(o, i))));
    return PyLong_FromLongLong(checked_numel(sizes));
  });
}
// Slices, sums and multiples of a Size are Sizes.
PyObject* as_size(PyObject* tuple) {  // takes the reference
  const Object owned(tuple);
  if (!tuple || !PyTuple_CheckExact(tuple)) return Py_XNewRef(tuple);
  const Object one(PyTuple_Pack(1, tuple));
  return one ? size_new(size_type, one.get(), nullptr) : nullptr;
}
PyObject* size_item(PyObject* o, PyObject* key) {
  PyObject* item = PyTuple_Type.tp_as_mapping->mp_subscript(o, key);
  return PySlice_Check(key) ? as_size(item) : item;
}
// Also with a plain tuple on the left.
PyObject* size_add(PyObject* a, PyObject* b) {
  if (!PyTuple_Check(a) || !PyTuple_Check(b)) Py_RETURN_NOTIMPLEMENTED;
  return as_size(PyTuple_Type.tp_as_sequence->sq_concat(a, b));
}
PyObject* size_concat(PyObject* a, PyObject* b) {
  if (!PyTuple_Check(b)) {
    PyErr_Format(PyExc_TypeError, "can only concatenate tuple (not \"%s\") to strata.Size", Py_TYPE(b)->tp_name);
    return nullptr;
  }
  return size_add(a, b);
}
PyObject* size_repeat(PyObject* o, Py_ssize_t n) { return as_size(PyTuple_Type.tp_as_sequence->sq_repeat(o, n)); }
PyMethodDef size_methods[] = {
  {"numel", size_numel, METH_NOARGS, "numel($self, /)\n--\n\nThe number of elements a tensor of this size has."}, {}};

// --- Generator -------------------------------------------------------------------------------------------------------

struct PyGenerator {
  PyObject_HEAD Generator* generator;
  Device device;
  bool owned;
};
Generator& generator_at(PyObject* o) { return *reinterpret_cast<PyGenerator*>(o)->generator; }

PyObject* generator_new(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  const char* names[] = {"device", nullptr};
  PyObject* device = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O", const_cast<char**>(names), &device)) return nullptr;
  return guarded([&]() -> PyObject* {
    const Device where = device && device != Py_None ? require_available(device_of_object(device)) : Device{};
    STRATA_CHECK(where.type != DeviceType::Meta, Runtime, "Generator: device meta draws no numbers");
    Object o(need(type->tp_alloc(type, 0)));
    auto* g = reinterpret_cast<PyGenerator*>(o.get());
    g->generator = new Generator;
    g->device = where;
    g->owned = true;
    return o.release();
  });
}
void generator_dealloc(PyObject* o) {
  auto* g = reinterpret_cast<PyGenerator*>(o);
  if (g->owned) delete g->generator;
  PyTypeObject* type = Py_TYPE(o);
  type->tp_free(o);
  Py_DECREF(type);
}
PyObject* generator_manual_seed(PyObject* o, PyObject* args, PyObject* keywords) {
  const char* names[] = {"seed", nullptr};
  PyObject* seed;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "O:manual_seed", const_cast<char**>(names), &seed)) return nullptr;
  return guarded([&] {
    generator_at(o).manual_seed(seed_of(seed));
    return Py_NewRef(o);
  });
}
PyObject* generator_initial_seed(PyObject* o, PyObject*) {
  return PyLong_FromUnsignedLongLong(generator_at(o).initial_seed());
}
PyObject* generator_seed(PyObject* o, PyObject*) {
  return guarded([&] { return PyLong_FromUnsignedLongLong(generator_at(o).seed()); });
}
PyObject* generator_get_state(PyObject* o, PyObject*) {
  return guarded([&] { return wrap(get_state(generator_at(o))); });
}
PyObject* generator_set_state(PyObject* o, PyObject* state) {
  return guarded([&] {
    set_state(generator_at(o), require_tensor(state, "set_state"));
    return Py_NewRef(o);
  });
}
PyObject* generator_device(PyObject* o, void*) { return wrap(reinterpret_cast<PyGenerator*>(o)->device); }
PyMethodDef generator_methods[] = {
  {"manual_seed", method(generator_manual_seed), METH_VARARGS | METH_KEYWORDS,
   "manual_seed($self, seed)\n--\n\nStarts the stream of this seed from its beginning."},
  {"initial_seed", generator_initial_seed, METH_NOARGS, "initial_seed($self, /)\n--\n\nThe seed in use."},
  {"seed", generator_seed, METH_NOARGS, "seed($self, /)\n--\n\nTakes a fresh seed from the system and returns it."},
  {"get_state", generator_get_state, METH_NOARGS, "get_state($self, /)\n--\n\nSeed and position, as a uint8 tensor."},
  {"set_state", generator_set_state, METH_O,
   "set_state($self, state, /)\n--\n\nContinues where get_state() was taken."},
  {}};
PyGetSetDef generator_properties[] = {{"device", generator_device, nullptr, nullptr, nullptr}, {}};

PyTypeObject* make_type(PyObject* module, const char* name, int size, unsigned flags, PyType_Slot* slots,
                        PyObject* bases = nullptr) {
  PyType_Spec spec = {name, size, 0, static_cast<unsigned>(Py_TPFLAGS_DEFAULT) | flags, slots};
  PyObject* type = PyType_FromSpecWithBases(&spec, bases);
  if (type && PyModule_AddObjectRef(module, strrchr(name, '.') + 1, type) < 0) return nullptr;
  return reinterpret_cast<PyTypeObject*>(type);
}
}  // namespace

PyObject* wrap(DType t) { return Py_NewRef(dtype_objects[static_cast<int>(t)]); }

PyObject* wrap(Device d) {
  PyObject* o = device_type->tp_alloc(device_type, 0);
  if (o) reinterpret_cast<PyDevice*>(o)->value = d;
  return o;
}

bool is_dtype(PyObject* o) {
  return Py_TYPE(o) == dtype_type || o == reinterpret_cast<PyObject*>(&PyFloat_Type) ||
         o == reinterpret_cast<PyObject*>(&PyLong_Type) || o == reinterpret_cast<PyObject*>(&PyBool_Type);
}
DType dtype_of_object(PyObject* o) {
  if (Py_TYPE(o) == dtype_type) return dtype_at(o);
  if (o == reinterpret_cast<PyObject*>(&PyFloat_Type)) return DType::F64;
  if (o == reinterpret_cast<PyObject*>(&PyLong_Type)) return DType::I64;
  if (o == reinterpret_cast<PyObject*>(&PyBool_Type)) return DType::Bool;
  fail(ErrorKind::Type, fmt::format("expected a dtype such as strata.float32, got {}", Py_TYPE(o)->tp_name));
}

Device device_of_object(PyObject* o) {
  if (Py_TYPE(o) == device_type) return device_at(o);
  if (PyUnicode_Check(o)) {
    const char* name = PyUnicode_AsUTF8(o);
    if (!name) throw PythonError{};
    return device_from_name(name);
  }
  fail(ErrorKind::Type, fmt::format("expected a device or its name, got {}", Py_TYPE(o)->tp_name));
}

std::string shown(PyObject* text) {
  Py_ssize_t n;
  if (const char* valid = PyUnicode_AsUTF8AndSize(text, &n)) return {valid, static_cast<size_t>(n)};
  PyErr_Clear();
  const Object bytes(need(PyUnicode_AsEncodedString(text, "utf-8", "backslashreplace")));
  return {PyBytes_AS_STRING(bytes.get()), static_cast<size_t>(PyBytes_GET_SIZE(bytes.get()))};
}

uint64_t seed_of(PyObject* seed) {
  const Object number(need(PyNumber_Index(seed)));
  int overflow = 0;
  const long long value = checked(PyLong_AsLongLongAndOverflow(number.get(), &overflow));
  if (!overflow) return static_cast<uint64_t>(value);
  const unsigned long long large = overflow > 0 ? PyLong_AsUnsignedLongLong(number.get()) : 0;
  const bool fits = overflow > 0 && !PyErr_Occurred();
  PyErr_Clear();
  STRATA_CHECK(fits, Runtime, "manual_seed: the seed has more than 64 bits; expected -2**63 to 2**64 - 1");
  return large;
}

Generator* generator_of(PyObject* o) { return Py_TYPE(o) == generator_type ? &generator_at(o) : nullptr; }

PyObject* make_size(Shape shape) {
  PyObject* t = size_type->tp_alloc(size_type, static_cast<Py_ssize_t>(shape.size()));
  for (size_t i = 0; t && i < shape.size(); ++i) {
    PyObject* size = PyLong_FromLongLong(shape[i]);
    if (!size) Py_CLEAR(t);
    else PyTuple_SET_ITEM(t, i, size);
  }
  return t;
}

bool init_types(PyObject* module) {
  PyType_Slot dtype_slots[] = {doc_slot("The type of a tensor's elements: strata.float32, strata.int64, and so on."),
                               slot(Py_tp_repr, dtype_repr),
                               slot(Py_tp_getset, dtype_properties),
                               slot(Py_tp_methods, dtype_methods),
                               {}};
  dtype_type = make_type(module, "strata.dtype", sizeof(PyDType), Py_TPFLAGS_DISALLOW_INSTANTIATION, dtype_slots);
  PyType_Slot device_slots[] = {
    doc_slot("device(type, index=None)\n--\n\nWhere a tensor's memory is, e.g. device('cpu')."),
    slot(Py_tp_new, device_new),
    slot(Py_tp_repr, device_repr),
    slot(Py_tp_str, device_str),
    slot(Py_tp_richcompare, device_compare),
    slot(Py_tp_hash, device_hash),
    slot(Py_tp_methods, device_methods),
    slot(Py_tp_getset, device_properties),
    {}};
  device_type = make_type(module, "strata.device", sizeof(PyDevice), 0, device_slots);
  PyType_Slot size_slots[] = {doc_slot("The shape of a tensor: a tuple of its sizes that also knows numel()."),
                              slot(Py_tp_new, size_new),
                              slot(Py_tp_repr, size_repr),
                              slot(Py_mp_subscript, size_item),
                              slot(Py_nb_add, size_add),
                              slot(Py_sq_concat, size_concat),
                              slot(Py_sq_repeat, size_repeat),
                              slot(Py_tp_methods, size_methods),
                              {}};
  Object bases(PyTuple_Pack(1, reinterpret_cast<PyObject*>(&PyTuple_Type)));
  size_type = make_type(module, "strata.Size", 0, 0, size_slots, bases.get());
  PyType_Slot generator_slots[] = {
    doc_slot("Generator(device='cpu')\n--\n\nRandom numbers from a seed and a position in its stream."),
    slot(Py_tp_new, generator_new),
    slot(Py_tp_dealloc, generator_dealloc),
    slot(Py_tp_methods, generator_methods),
    slot(Py_tp_getset, generator_properties),
    {}};
  generator_type = make_type(module, "strata.Generator", sizeof(PyGenerator), 0, generator_slots);
  if (!dtype_type || !device_type || !size_type || !generator_type) return false;

  for (int i = 0; i < kDTypeCount; ++i) {
    auto* o = PyObject_New(PyDType, dtype_type);
    if (!o) return false;
    o->value = static_cast<DType>(i);
    dtype_objects[i] = reinterpret_cast<PyObject*>(o);
    if (PyModule_AddObjectRef(module, name_of(o->value), dtype_objects[i]) < 0) return false;
  }
  PyObject* g = generator_type->tp_alloc(generator_type, 0);
  if (!g) return false;
  reinterpret_cast<PyGenerator*>(g)->generator = &default_generator();
  reinterpret_cast<PyGenerator*>(g)->owned = false;
  return PyModule_AddObject(module, "default_generator", g) == 0;
}

}  // namespace strata::python
