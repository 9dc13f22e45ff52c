/* The graph below some nodes.  The reference is arrays/expressions/graph.py: capture. */
#include "quick.h"
#include "structmember.h"

static PyObject *node_type, *leaf, *param, *graph_type;
static Py_ssize_t args_at, computed_at, kind_at, layout_at, op_at, value_at; /* where a node holds its attributes */

/* Return where objects of a class hold an attribute of its __slots__, or -1 with an exception. */
static Py_ssize_t offset_of(PyObject *type, const char *name)
{
    PyObject *member = PyObject_GetAttrString(type, name);
    Py_ssize_t offset = -1;
    if (member && Py_IS_TYPE(member, &PyMemberDescr_Type))
        offset = ((PyMemberDescrObject *)member)->d_member->offset;
    else if (member)
        PyErr_Format(PyExc_TypeError, "%s of a node is no slot", name);
    Py_XDECREF(member);
    return offset;
}

int find_nodes(void)
{
    PyObject *module = PyImport_ImportModule("bsp.arrays.expressions.graph");
    if (!module)
        return -1;
    node_type = PyObject_GetAttrString(module, "Node");
    leaf = PyObject_GetAttrString(module, "LEAF");
    param = PyObject_GetAttrString(module, "PARAM");
    graph_type = PyObject_GetAttrString(module, "ExpressionGraph");
    Py_DECREF(module);
    if (!node_type || !leaf || !param || !graph_type)
        return -1;
    args_at = offset_of(node_type, "args");
    computed_at = offset_of(node_type, "computed");
    kind_at = offset_of(node_type, "kind");
    layout_at = offset_of(node_type, "layout");
    op_at = offset_of(node_type, "op");
    value_at = offset_of(node_type, "value");
    return args_at < 0 || computed_at < 0 || kind_at < 0 || layout_at < 0 || op_at < 0 || value_at < 0 ? -1 : 0;
}

/* Return an attribute of a node, borrowed; None if it is not set. */
static PyObject *of(PyObject *node, Py_ssize_t offset)
{
    PyObject *found = *(PyObject **)((char *)node + offset);
    return found ? found : Py_None;
}

/* Return the arguments of a node, a new reference; NULL with an exception. */
static PyObject *args_of(PyObject *node)
{
    PyObject *args = of(node, args_at);
    if (PyTuple_CheckExact(args))
        return Py_NewRef(args);
    PyErr_SetString(PyExc_TypeError, "the arguments of a node are a tuple");
    return NULL;
}

/* A node on its way, and whether all of its arguments have positions. */
typedef struct {
    PyObject *node;
    int ready;
} Entry;

typedef struct {
    PyObject *positions, *nodes, *leaves, *params, *known, *kept; /* `kept`: NULL until there is one */
    PyObject *key;                                                 /* the positions of the roots and their number come first */
    Entry *stack;
    Py_ssize_t depth, room;
} Capture;

static int push(Capture *graph, PyObject *node, int ready)
{
    if (!PyObject_TypeCheck(node, (PyTypeObject *)node_type)) {
        PyErr_Format(PyExc_TypeError, "a node, not %.100s", Py_TYPE(node)->tp_name);
        return -1;
    }
    if (graph->depth == graph->room) {
        Py_ssize_t room = 2 * graph->room + 64;
        Entry *stack = PyMem_Realloc(graph->stack, room * sizeof *stack);
        if (!stack) {
            PyErr_NoMemory();
            return -1;
        }
        graph->stack = stack, graph->room = room;
    }
    graph->stack[graph->depth++] = (Entry){Py_NewRef(node), ready};
    return 0;
}

/* Push the arguments of a node that have no positions yet, the first on top, and below them the node, as ready.
 * Return 1; 0 if all have positions, -1 with an exception.
 */
static int push_waiting(Capture *graph, PyObject *node)
{
    PyObject *args = args_of(node);
    Py_ssize_t below = graph->depth;
    int has = args ? 0 : -1;
    for (Py_ssize_t i = args ? PyTuple_GET_SIZE(args) : 0; has >= 0 && i-- > 0;) {
        PyObject *arg = PyTuple_GET_ITEM(args, i);
        has = PyDict_Contains(graph->positions, arg);
        if (!has && ((graph->depth == below && push(graph, node, 1)) || push(graph, arg, 0)))
            has = -1;
    }
    Py_XDECREF(args);
    return has < 0 ? -1 : graph->depth > below;
}

/* Return the form of an operation, which equal subexpressions have alike: operation, kind, positions of the arguments. */
static PyObject *form_of(Capture *graph, PyObject *node)
{
    PyObject *args = args_of(node), *form = args ? PyTuple_New(2 + PyTuple_GET_SIZE(args)) : NULL;
    if (form) {
        PyTuple_SET_ITEM(form, 0, Py_NewRef(of(node, op_at)));
        PyTuple_SET_ITEM(form, 1, Py_NewRef(of(node, kind_at)));
    }
    for (Py_ssize_t i = 0; form && i < PyTuple_GET_SIZE(args); i++) {
        PyObject *arg = PyTuple_GET_ITEM(args, i), *position = PyDict_GetItemWithError(graph->positions, arg), *op = of(arg, op_at);
        int kept = of(arg, computed_at) == Py_True && of(node, computed_at) != Py_True && op != leaf && op != param;
        if (kept && !graph->kept)
            graph->kept = PyDict_New();
        if (!position || (kept && (!graph->kept || PyDict_SetItem(graph->kept, arg, Py_None))))
            Py_CLEAR(form);
        else
            PyTuple_SET_ITEM(form, 2 + i, Py_NewRef(position));
    }
    Py_XDECREF(args);
    return form;
}

/* Append a new object to a list and give back the reference; return 0, or -1 with an exception. */
static int append(PyObject *list, PyObject *item)
{
    int bad = !item || PyList_Append(list, item);
    Py_XDECREF(item);
    return bad ? -1 : 0;
}

/* Give a node its position: the next one, or that of an equal node.  Return 0, or -1 with an exception. */
static int number(Capture *graph, PyObject *node)
{
    PyObject *op = of(node, op_at), *next = PyLong_FromSsize_t(PyList_GET_SIZE(graph->nodes)), *position = next;
    int bad = !next;
    if (!bad && op == leaf)
        bad = PyList_Append(graph->leaves, node)
              || append(graph->key, PyTuple_Pack(3, leaf, of(node, kind_at), of(node, layout_at)));
    else if (!bad && op == param)
        bad = PyList_Append(graph->params, of(node, value_at)) || PyList_Append(graph->key, of(node, kind_at));
    else if (!bad) {
        PyObject *form = form_of(graph, node);
        position = form ? PyDict_SetDefault(graph->known, form, next) : NULL;
        bad = !position || (position == next && PyList_Append(graph->key, form));
        Py_XDECREF(form);
    }
    bad = bad || PyDict_SetItem(graph->positions, node, position) || (position == next && PyList_Append(graph->nodes, node));
    Py_XDECREF(next);
    return bad ? -1 : 0;
}

static int visit_all(Capture *graph, PyObject *roots)
{
    for (Py_ssize_t i = PyTuple_GET_SIZE(roots); i-- > 0;)
        if (push(graph, PyTuple_GET_ITEM(roots, i), 0))
            return -1;
    while (graph->depth) {
        Entry entry = graph->stack[--graph->depth];
        int passed = entry.ready ? 0 : PyDict_Contains(graph->positions, entry.node);
        passed = passed || entry.ready ? passed : push_waiting(graph, entry.node);
        if (!passed)
            passed = number(graph, entry.node);
        Py_DECREF(entry.node);
        if (passed < 0)
            return -1;
    }
    return 0;
}

/* Append the nodes that are kept to the roots, each position once: to `every` the positions, to `given` the nodes. */
static int append_kept(Capture *graph, PyObject *every, PyObject *given)
{
    PyObject *node, *none, *position, *extra = PyDict_New();
    Py_ssize_t at = 0;
    int bad = !extra;
    while (!bad && PyDict_Next(graph->kept, &at, &node, &none)) {
        position = PyDict_GetItemWithError(graph->positions, node);
        int shown = position ? PySequence_Contains(every, position) : -1;
        bad = shown < 0 || (!shown && PyDict_SetItem(extra, position, node));
    }
    at = 0;
    while (!bad && PyDict_Next(extra, &at, &position, &node))
        bad = PyList_Append(every, position) || PyList_Append(given, node);
    Py_XDECREF(extra);
    return bad ? -1 : 0;
}

/* Return the ExpressionGraph of what was captured. */
static PyObject *result_of(Capture *graph, PyObject *roots)
{
    Py_ssize_t asked = PyTuple_GET_SIZE(roots);
    PyObject *every = PyList_New(0), *given = PySequence_List(roots), *found = NULL, *fields = NULL, *count = NULL;
    int bad = !every || !given;
    for (Py_ssize_t i = 0; !bad && i < asked; i++) {
        PyObject *position = PyDict_GetItemWithError(graph->positions, PyTuple_GET_ITEM(roots, i));
        bad = !position || PyList_Append(every, position);
    }
    bad = bad || (graph->kept && append_kept(graph, every, given));
    if (!bad && (count = PyLong_FromSsize_t(asked))) {
        PyObject *positions = PyList_AsTuple(every), *nodes = PyList_AsTuple(given), *key = NULL;
        if (positions && nodes && !PyList_SetItem(graph->key, 0, Py_NewRef(positions))
            && !PyList_SetItem(graph->key, 1, Py_NewRef(count)) && (key = PyList_AsTuple(graph->key))) {
            PyObject *all = PyTuple_Pack(8, graph->nodes, graph->positions, positions, nodes, count, graph->leaves, graph->params, key);
            fields = all ? PyTuple_Pack(1, all) : NULL;
            Py_XDECREF(all);
        }
        Py_XDECREF(positions);
        Py_XDECREF(nodes);
        Py_XDECREF(key);
    }
    if (fields) /* what ExpressionGraph(...) does, a class made by NamedTuple */
        found = PyTuple_Type.tp_new((PyTypeObject *)graph_type, fields, NULL);
    Py_XDECREF(every);
    Py_XDECREF(given);
    Py_XDECREF(count);
    Py_XDECREF(fields);
    return found;
}

PyObject *capture(PyObject *Py_UNUSED(self), PyObject *roots)
{
    Capture graph = {PyDict_New(), PyList_New(0), PyList_New(0), PyList_New(0), PyDict_New(), NULL, PyList_New(0), NULL, 0, 0};
    PyObject *given = PySequence_Tuple(roots), *found = NULL;
    if (given && graph.positions && graph.nodes && graph.leaves && graph.params && graph.known && graph.key
        && !PyList_Append(graph.key, Py_None) && !PyList_Append(graph.key, Py_None) && !visit_all(&graph, given))
        found = result_of(&graph, given);
    Py_XDECREF(given);
    Py_XDECREF(graph.positions);
    Py_XDECREF(graph.nodes);
    Py_XDECREF(graph.leaves);
    Py_XDECREF(graph.params);
    Py_XDECREF(graph.known);
    Py_XDECREF(graph.kept);
    Py_XDECREF(graph.key);
    while (graph.depth)
        Py_DECREF(graph.stack[--graph.depth].node);
    PyMem_Free(graph.stack);
    return found;
}
