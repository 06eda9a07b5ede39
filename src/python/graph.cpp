// The bindings of strata.export: graphs as capsules.
#include "compile/capture.h"
#include "compile/passes.h"
#include "onnx/save.h"
#include "python/binding.h"
#include "python/control_flow.h"
#include "python/files.h"
#include "python/graph_capsule.h"
#include "python/kernels.h"

namespace strata::python {

namespace {

using States = std::vector<std::pair<std::string, Tensor>>;

Object sequence_of(PyObject* o, const char* what) { return Object(need(PySequence_Fast(o, what))); }
std::vector<Tensor> tensors_of(PyObject* list, const char* who) {
  const Object items = sequence_of(list, "expected a list of tensors");
  std::vector<Tensor> tensors;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i)
    tensors.push_back(require_tensor(PySequence_Fast_GET_ITEM(items.get(), i), who));
  return tensors;
}
States states_of(PyObject* list) {
  const Object items = sequence_of(list, "expected a list of (name, tensor)");
  States states;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
    const Object pair = sequence_of(PySequence_Fast_GET_ITEM(items.get(), i), "expected (name, tensor)");
    STRATA_CHECK(PySequence_Fast_GET_SIZE(pair.get()) == 2, Type, "graph: expected pairs of a name and a tensor");
    states.emplace_back(text_of(PySequence_Fast_GET_ITEM(pair.get(), 0), "the name of a state"),
                        require_tensor(PySequence_Fast_GET_ITEM(pair.get(), 1), "graph"));
  }
  return states;
}
PyObject* wrap_text(const std::string& s) {
  return need(PyUnicode_FromStringAndSize(s.data(), static_cast<Py_ssize_t>(s.size())));
}
PyObject* names_of(const graph::Graph& g, const std::vector<graph::ValueId>& ids) {
  Object list(need(PyList_New(0)));
  for (const graph::ValueId id : ids) append(list, wrap_text(g.values[id].name));
  return list.release();
}

// (function, inputs, states, input names, allow_reads, composites) -> graph
PyObject* graph_capture(PyObject*, PyObject* args) {
  PyObject *function, *inputs, *states, *names;
  int allow_reads, composites;
  if (!PyArg_ParseTuple(args, "OOOOpp", &function, &inputs, &states, &names, &allow_reads, &composites)) return nullptr;
  return guarded([&]() -> PyObject* {
    graph::CaptureOptions options{
      .states = states_of(states), .allow_reads = allow_reads != 0, .composites = composites != 0};
    const Object given = sequence_of(names, "expected a list of names");
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(given.get()); ++i)
      options.input_names.push_back(text_of(PySequence_Fast_GET_ITEM(given.get(), i), "the name of an input"));
    const auto program = [&](const std::vector<Tensor>& tensors) {
      const Object list(wrap_list(tensors));
      const Object result(need(PyObject_CallOneArg(function, list.get())));
      return tensors_of(result.get(), "capture");
    };
    return capsule(graph::capture(program, tensors_of(inputs, "capture"), options));
  });
}
PyObject* graph_onnx(PyObject*, PyObject* args) {
  PyObject *g, *path, *inputs, *outputs;
  long long opset;
  int external;
  if (!PyArg_ParseTuple(args, "OOOOLp", &g, &path, &inputs, &outputs, &opset, &external)) return nullptr;
  return guarded([&]() -> PyObject* {
    const graph::Graph& graph = inside<graph::Graph>(g);
    const auto texts = [](PyObject* list) {
      const Object given = sequence_of(list, "expected a list of names");
      std::vector<std::string> names;
      for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(given.get()); ++i)
        names.push_back(text_of(PySequence_Fast_GET_ITEM(given.get(), i), "the name of a value"));
      return names;
    };
    const onnx::SaveOptions options{texts(inputs), texts(outputs), opset, external != 0};
    if (path == Py_None) {
      const std::string bytes = onnx::to_bytes(graph, options);
      return need(PyBytes_FromStringAndSize(bytes.data(), static_cast<Py_ssize_t>(bytes.size())));
    }
    Path where;
    if (!PyUnicode_FSConverter(path, &where.bytes)) throw PythonError{};
    const WithoutGil free;
    onnx::save(graph, where.text(), options);
    return Py_NewRef(Py_None);
  });
}
PyObject* graph_onnx_missing(PyObject*, PyObject* g) {
  return guarded([&]() -> PyObject* {
    Object list(need(PyList_New(0)));
    for (const std::string& name : onnx::records_without_export(inside<graph::Graph>(g)))
      append(list, PyUnicode_FromStringAndSize(name.data(), static_cast<Py_ssize_t>(name.size())));
    return list.release();
  });
}
// (graph, inputs) -> outputs
PyObject* graph_run(PyObject*, PyObject* args) {
  PyObject *g, *inputs;
  if (!PyArg_ParseTuple(args, "OO", &g, &inputs)) return nullptr;
  return guarded([&]() -> PyObject* {
    const graph::Graph& graph = inside<graph::Graph>(g);
    const std::vector<Tensor> tensors = tensors_of(inputs, "graph");
    std::vector<Tensor> outputs;
    {
      const WithoutGil unlocked;
      outputs = graph::run(graph, tensors);
    }
    return wrap_list(outputs);
  });
}
// (graphs, points, [(name, min, max)], [(input, axis, dim)]) -> graph
PyObject* graph_generalize(PyObject*, PyObject* args) {
  PyObject *graphs, *points, *dims, *axes;
  if (!PyArg_ParseTuple(args, "OOOO", &graphs, &points, &dims, &axes)) return nullptr;
  return guarded([&]() -> PyObject* {
    const auto each = [](PyObject* list, const auto& f) {
      const Object items = sequence_of(list, "expected a list");
      for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i)
        f(PySequence_Fast_GET_ITEM(items.get(), i));
    };
    std::vector<graph::Graph> captures;
    each(graphs, [&](PyObject* g) { captures.push_back(inside<graph::Graph>(g)); });
    std::vector<std::vector<int64_t>> sizes;
    each(points, [&](PyObject* point) {
      sizes.emplace_back();
      each(point, [&](PyObject* size) { sizes.back().push_back(checked(PyLong_AsLongLong(size))); });
    });
    std::vector<graph::Graph::Dim> names;
    each(dims, [&](PyObject* dim) {
      const char* name;
      long long min, max;
      need(PyArg_ParseTuple(dim, "sLL", &name, &min, &max) ? 0 : -1);
      names.push_back({name, min, max});
    });
    std::vector<graph::Axis> where;
    each(axes, [&](PyObject* axis) {
      Py_ssize_t input, at, dim;
      need(PyArg_ParseTuple(axis, "nnn", &input, &at, &dim) ? 0 : -1);
      where.push_back({static_cast<size_t>(input), static_cast<size_t>(at), static_cast<size_t>(dim)});
    });
    return capsule(graph::generalize(captures, sizes, names, where));
  });
}
PyObject* graph_text(PyObject*, PyObject* g) {
  return guarded([&]() -> PyObject* { return wrap_text(graph::to_string(inside<graph::Graph>(g))); });
}
PyObject* graph_json(PyObject*, PyObject* g) {
  return guarded([&]() -> PyObject* { return wrap_text(graph::to_json(inside<graph::Graph>(g))); });
}
// (text, states) -> graph
PyObject* graph_from_json(PyObject*, PyObject* args) {
  PyObject *json, *states;
  if (!PyArg_ParseTuple(args, "UO", &json, &states)) return nullptr;
  return guarded(
    [&]() -> PyObject* { return capsule(graph::from_json(text_of(json, "the graph"), states_of(states))); });
}
// (graph, name of a pass) -> number of removed nodes
PyObject* graph_pass(PyObject*, PyObject* args) {
  PyObject* g;
  const char* name;
  if (!PyArg_ParseTuple(args, "Os", &g, &name)) return nullptr;
  return guarded([&]() -> PyObject* {
    graph::Graph& graph = inside<graph::Graph>(g);
    const std::string_view pass = name;
    if (pass == "remove_unused") return PyLong_FromSize_t(graph::remove_unused(graph));
    if (pass == "merge_equal") return PyLong_FromSize_t(graph::merge_equal(graph));
    if (pass == "fold_constants") return PyLong_FromSize_t(graph::fold_constants(graph));
    fail(ErrorKind::Value, "graph: there is no pass '" + std::string(pass) + "'");
  });
}
PyObject* graph_copy(PyObject*, PyObject* g) {
  return guarded([&]() -> PyObject* { return capsule(graph::Graph(inside<graph::Graph>(g))); });
}
// [(name, tensor, named)]
PyObject* graph_states(PyObject*, PyObject* g) {
  return guarded([&]() -> PyObject* {
    const graph::Graph& graph = inside<graph::Graph>(g);
    Object list(need(PyList_New(0)));
    for (const graph::Graph::State& s : graph.states)
      append(list,
             Py_BuildValue("(NNN)", wrap_text(graph.values[s.id].name), wrap(s.tensor), PyBool_FromLong(s.named)));
    return list.release();
  });
}
// A dict for each node: {op, inputs, results, source, scope, functions: [its nodes]}
Object nodes_of(const graph::Graph& graph) {
  Object nodes(need(PyList_New(0)));
  for (const graph::Node& n : graph.nodes) {
    std::vector<graph::ValueId> results, used;
    for (const graph::ValueId id : n.results)
      if (id != graph::kNoValue) results.push_back(id);
    for_each_use(n, [&](graph::ValueId id) { used.push_back(id); });
    Object functions(need(PyList_New(0)));
    for (const graph::Graph& body : n.bodies) append(functions, nodes_of(body).release());
    append(nodes, Py_BuildValue("{s:N,s:N,s:N,s:N,s:N,s:N}", "op", wrap_text(n.op->name), "inputs",
                                names_of(graph, used), "results", names_of(graph, results), "source",
                                wrap_text(n.source), "scope", wrap_text(n.scope), "functions", functions.release()));
  }
  return nodes;
}
// {dims, inputs, outputs, writes: [(target, value)], nodes}
PyObject* graph_contents(PyObject*, PyObject* g) {
  return guarded([&]() -> PyObject* {
    const graph::Graph& graph = inside<graph::Graph>(g);
    Object writes(need(PyList_New(0)));
    for (const graph::Graph::Write& w : graph.writes)
      append(writes,
             Py_BuildValue("(NN)", wrap_text(graph.values[w.target].name), wrap_text(graph.values[w.value].name)));
    Object dims(need(PyDict_New()));
    for (const graph::Graph::Dim& d : graph.dims) {
      const Object range(need(Py_BuildValue("(LL)", static_cast<long long>(d.min), static_cast<long long>(d.max))));
      need(PyDict_SetItemString(dims.get(), d.name.c_str(), range.get()));
    }
    return Py_BuildValue("{s:N,s:N,s:N,s:N,s:N}", "dims", dims.release(), "inputs", names_of(graph, graph.inputs),
                         "outputs", names_of(graph, graph.outputs), "writes", writes.release(), "nodes",
                         nodes_of(graph).release());
  });
}
// (name) -> the previous one
PyObject* graph_scope(PyObject*, PyObject* name) {
  return guarded([&]() -> PyObject* {
    return wrap_text(std::exchange(graph::capture_scope(), text_of(name, "the name of a module")));
  });
}

}  // namespace

PyMethodDef graph_functions[] = {
  {"_graph_capture", graph_capture, METH_VARARGS,
   "_graph_capture(function, inputs, states, input_names, allow_reads, composites): the graph of a call."},
  {"_graph_run", graph_run, METH_VARARGS, "_graph_run(graph, inputs): its outputs."},
  {"_graph_generalize", graph_generalize, METH_VARARGS,
   "_graph_generalize(graphs, points, dims, axes): one graph for all sizes."},
  {"_graph_text", graph_text, METH_O, "The graph as text, a line per node."},
  {"_graph_onnx", graph_onnx, METH_VARARGS,
   "_graph_onnx(graph, path or None, input names, output names, opset, external): writes a model; None: returns its "
   "bytes."},
  {"_graph_onnx_missing", graph_onnx_missing, METH_O, "The names of the records that a model of ONNX cannot have."},
  {"_graph_json", graph_json, METH_O, "The graph as JSON, without the values of its states."},
  {"_graph_from_json", graph_from_json, METH_VARARGS, "_graph_from_json(text, states): the graph."},
  {"_graph_pass", graph_pass, METH_VARARGS,
   "_graph_pass(graph, name): runs a pass; returns how many nodes it removed."},
  {"_graph_copy", graph_copy, METH_O, "A copy of the graph, with the same states."},
  {"_graph_states", graph_states, METH_O, "The states as (name, tensor, whether the caller named it)."},
  {"_graph_contents", graph_contents, METH_O, "Inputs, outputs, writes and nodes by the names of their values."},
  {"_graph_scope", graph_scope, METH_O, "Sets the name of the running module; returns the previous one."},
  {"_cond", py_cond, METH_VARARGS,
   "_cond(pred, true_fn, false_fn, operands, mismatch): whether true_fn was taken, and its results."},
  {"_while_loop", py_while_loop, METH_VARARGS,
   "_while_loop(cond_fn, body_fn, carried, max_trips): what is carried at the end."},
  {"_scan", py_scan, METH_VARARGS,
   "_scan(combine_fn, init, xs, dim, reverse, length): what is carried at the end and the stacked results."},
  {"_makes_graph", py_makes_graph, METH_NOARGS, "Whether the calls of this thread become a graph."},
  {nullptr, nullptr, 0, nullptr}};

}  // namespace strata::python
