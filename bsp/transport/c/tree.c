/* The tree of D3 over values of Python's own types, which numbers given to all mostly are, and over small arrays of one dtype
 * and shape.  The reference is bsp/values/operations.py: combine.
 */
#include "compiled.h"

static PyObject *loads, *ndarray; /* of pickle, of NumPy */

/* What small arrays have in common: the bytes before their items, and what these say. */
typedef struct {
    PyObject *head, *shape, *dtype;
} Form;

/* Return whether a value is of a type whose values cannot change. */
static int is_plain(PyObject *value)
{
    return PyFloat_CheckExact(value) || PyLong_CheckExact(value) || PyBool_Check(value) || PyComplex_CheckExact(value)
           || PyUnicode_CheckExact(value) || PyBytes_CheckExact(value) || value == Py_None;
}

/* Unpickle the values of a dictionary; return how many there are, fewer if some is not plain, -1 with an exception. */
static Py_ssize_t unpickle(PyObject *packed, PyObject **values)
{
    PyObject *source, *data;
    Py_ssize_t at = 0, found = 0;
    while (PyDict_Next(packed, &at, &source, &data)) {
        if (!PyBytes_CheckExact(data))
            return found;
        PyObject *value = PyObject_CallOneArg(loads, data);
        if (!value)
            return -1;
        values[found++] = value;
        if (!is_plain(value))
            return found - 1;
    }
    return found;
}

/* Make arrays of the bytes in a dictionary, in that memory; return how many there are, fewer if some value is no array of the
 * form, -1 with an exception.
 */
static Py_ssize_t view(PyObject *packed, const Form *form, PyObject **values)
{
    PyObject *source, *data, *offset = PyLong_FromSsize_t(PyBytes_GET_SIZE(form->head));
    Py_ssize_t at = 0, found = 0;
    while (offset && PyDict_Next(packed, &at, &source, &data)) {
        if (!PyByteArray_CheckExact(data) || PyByteArray_GET_SIZE(data) < PyBytes_GET_SIZE(form->head)
            || memcmp(PyByteArray_AS_STRING(data), PyBytes_AS_STRING(form->head), PyBytes_GET_SIZE(form->head)))
            break;
        PyObject *arguments[] = {form->shape, form->dtype, data, offset};
        values[found] = PyObject_Vectorcall(ndarray, arguments, 4, NULL);
        if (!values[found++])
            Py_CLEAR(offset);
    }
    Py_XDECREF(offset);
    return offset ? found : -1;
}

/* Call the function with two values. */
static PyObject *both(PyObject *function, PyObject *a, PyObject *b)
{
    PyObject *arguments[] = {a, b};
    return PyObject_Vectorcall(function, arguments, 2, NULL);
}

/* Combine neighbours: `count` values become half as many, and a last one without a neighbour passes up.  Return how many
 * there are then, or -1 with an exception; `above` has new references.
 */
static Py_ssize_t level_up(PyObject **values, Py_ssize_t count, PyObject *function, PyObject **above)
{
    for (Py_ssize_t i = 0; i < count; i += 2) {
        above[i / 2] = i + 1 < count ? both(function, values[i], values[i + 1]) : Py_NewRef(values[i]);
        if (!above[i / 2])
            return -1;
    }
    return (count + 1) / 2;
}

/* All levels of the tree over some values, one after the other; level j has blocks of 2^j values. */
typedef struct {
    PyObject **blocks[65];
    Py_ssize_t levels, count, room;
    PyObject **memory;
} Tree;

static int make_tree(Tree *tree, PyObject *packed, const Form *form)
{
    tree->count = PyDict_GET_SIZE(packed);
    tree->room = 2 * tree->count + 65; /* each level has at most half of the one below, and one more */
    tree->memory = PyMem_Calloc(tree->room, sizeof *tree->memory);
    if (!tree->memory) {
        PyErr_NoMemory();
        return -1;
    }
    tree->blocks[0] = tree->memory;
    Py_ssize_t read = form ? view(packed, form, tree->memory) : unpickle(packed, tree->memory);
    return read == tree->count && read ? 0 : -1;
}

/* Combine all values; return 0, or -1 with an exception. */
static int grow(Tree *tree, PyObject *function)
{
    Py_ssize_t count = tree->count;
    for (tree->levels = 1; count > 1; tree->levels++) {
        tree->blocks[tree->levels] = tree->blocks[tree->levels - 1] + count;
        count = level_up(tree->blocks[tree->levels - 1], count, function, tree->blocks[tree->levels]);
        if (count < 0)
            return -1;
    }
    return 0;
}

/* Return the first `count` values combined: aligned blocks, the largest first, folded from the right. */
static PyObject *first_of(const Tree *tree, Py_ssize_t count, PyObject *function)
{
    PyObject *result = NULL;
    Py_ssize_t stop = count;
    for (Py_ssize_t level = 0; stop; level++) {
        if (!(count >> level & 1))
            continue;
        stop -= (Py_ssize_t)1 << level;
        PyObject *block = tree->blocks[level][stop >> level], *sum = result ? both(function, block, result) : Py_NewRef(block);
        Py_XDECREF(result);
        if (!sum)
            return NULL;
        result = sum;
    }
    return result;
}

/* Return the prefixes of at least `least` values, as a list; NULL with an exception. */
static PyObject *prefixes_of(const Tree *tree, PyObject *function, Py_ssize_t least)
{
    PyObject *list = PyList_New(least > tree->count ? 0 : tree->count - least + 1);
    for (Py_ssize_t count = least; list && count <= tree->count; count++) {
        PyObject *prefix = first_of(tree, count, function);
        if (prefix)
            PyList_SET_ITEM(list, count - least, prefix);
        else
            Py_CLEAR(list);
    }
    return list;
}

/* Check that the arguments are a dictionary and so many more; return 0, or -1 with an exception. */
static int check_arguments(PyObject *const *args, Py_ssize_t count, Py_ssize_t wanted)
{
    if (count != wanted || !PyDict_CheckExact(args[0])) {
        PyErr_Format(PyExc_TypeError, "a dictionary and %zd more arguments, not %zd", wanted - 1, count);
        return -1;
    }
    return find_once(&loads, "pickle", "loads") || find_once(&ndarray, "numpy", "ndarray") ? -1 : 0;
}

/* Return the tree's last value, or with least > 0 the prefixes of at least so many values; NotImplemented if the values are not
 * plain, or not arrays of the form, or do not combine: then the reference says what is wrong.
 */
static PyObject *combined(PyObject *values, PyObject *function, Py_ssize_t least, const Form *form)
{
    Tree tree = {.count = 0};
    PyObject *packed = Py_NewRef(values), *result = NULL;
    if (!make_tree(&tree, packed, form) && !grow(&tree, function))
        result = least ? prefixes_of(&tree, function, least) : Py_NewRef(tree.blocks[tree.levels - 1][0]);
    if (!result && (!PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_Exception))) {
        PyErr_Clear();
        result = Py_NewRef(Py_NotImplemented);
    }
    for (Py_ssize_t k = 0; tree.memory && k < tree.room; k++)
        Py_XDECREF(tree.memory[k]);
    PyMem_Free(tree.memory);
    Py_DECREF(packed);
    return result;
}

PyObject *tree_of_plain(PyObject *Py_UNUSED(self), PyObject *const *args, Py_ssize_t count)
{
    return check_arguments(args, count, 2) ? NULL : combined(args[0], args[1], 0, NULL);
}

PyObject *tree_of_small(PyObject *Py_UNUSED(self), PyObject *const *args, Py_ssize_t count)
{
    if (check_arguments(args, count, 5))
        return NULL;
    if (!PyBytes_CheckExact(args[2]) || !PyTuple_CheckExact(args[3]))
        return PyErr_Format(PyExc_TypeError, "small arrays begin with bytes, and have a shape");
    Form form = {args[2], args[3], args[4]};
    return combined(args[0], args[1], 0, &form);
}

PyObject *prefixes_of_plain(PyObject *Py_UNUSED(self), PyObject *const *args, Py_ssize_t count)
{
    if (check_arguments(args, count, 3))
        return NULL;
    Py_ssize_t least = PyLong_AsSsize_t(args[2]);
    if (least < 1)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "prefixes of %zd values", least);
    return combined(args[0], args[1], least, NULL);
}
