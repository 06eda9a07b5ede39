// Tensor.__dlpack__ and from_dlpack.
#include "tensor/dlpack.h"

#include "python/binding.h"

namespace strata::python {
namespace {

constexpr const char *kFresh = "dltensor", *kUsed = "used_dltensor";

void free_capsule(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, kFresh)) return;  // another owner has taken it
  auto* managed = static_cast<dlpack::DLManagedTensor*>(PyCapsule_GetPointer(capsule, kFresh));
  managed->deleter(managed);
}

PyObject* to_dlpack(PyObject*, PyObject* tensor) {
  return guarded([&] {
    dlpack::DLManagedTensor* managed = dlpack::export_tensor(require_tensor(tensor, "to_dlpack"));
    PyObject* capsule = PyCapsule_New(managed, kFresh, free_capsule);
    if (!capsule) managed->deleter(managed);
    return capsule;
  });
}

PyObject* from_capsule(PyObject*, PyObject* capsule) {
  return guarded([&] { return wrap(tensor_of_capsule(capsule)); });
}
}  // namespace

Tensor tensor_of_capsule(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, kFresh))
    fail(ErrorKind::Type,
         "from_dlpack: expected an object with __dlpack__ or a fresh 'dltensor' capsule; a capsule can be used once "
         "only");
  auto* managed = static_cast<dlpack::DLManagedTensor*>(PyCapsule_GetPointer(capsule, kFresh));
  Tensor t = dlpack::import_tensor(managed);
  need(PyCapsule_SetName(capsule, kUsed));
  return t;
}

PyMethodDef dlpack_functions[] = {{"_to_dlpack", to_dlpack, METH_O, "A DLPack capsule over the tensor's memory."},
                                  {"_from_dlpack", from_capsule, METH_O, "A tensor over a DLPack capsule's memory."},
                                  {}};

}  // namespace strata::python
