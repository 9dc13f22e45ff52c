/* The tree of D3 over values of Python's own types, which numbers given to all mostly are.  The reference is
 * bsp/values/operations.py: combine.
 */
#include "compiled.h"

static PyObject *loads; /* of pickle */

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

/* Combine values level by level: neighbours combine, and a last one without a neighbour passes up.  The result is the first
 * value.  Return 0, or -1 with an exception.
 */
static int combine(PyObject **values, Py_ssize_t count, PyObject *function)
{
    for (; count > 1; count = (count + 1) / 2)
        for (Py_ssize_t i = 0; i < count; i += 2) {
            PyObject *result = values[i];
            if (i + 1 < count) {
                result = PyObject_CallFunctionObjArgs(function, values[i], values[i + 1], NULL);
                if (!result)
                    return -1;
                Py_DECREF(values[i]);
                Py_CLEAR(values[i + 1]);
            }
            values[i] = NULL;
            values[i / 2] = result;
        }
    return 0;
}

PyObject *tree_of_plain(PyObject *Py_UNUSED(self), PyObject *const *args, Py_ssize_t arguments)
{
    if (arguments != 2 || !PyDict_CheckExact(args[0]))
        return PyErr_Format(PyExc_TypeError, "a dictionary and a function, not %zd arguments", arguments);
    if (!loads) {
        PyObject *pickle = PyImport_ImportModule("pickle");
        loads = pickle ? PyObject_GetAttrString(pickle, "loads") : NULL;
        Py_XDECREF(pickle);
        if (!loads)
            return NULL;
    }
    Py_ssize_t size = PyDict_GET_SIZE(args[0]);
    PyObject **values = PyMem_Calloc(size + 1, sizeof *values), *result = NULL;
    if (!values)
        return PyErr_NoMemory();
    PyObject *packed = Py_NewRef(args[0]);
    Py_ssize_t found = size > 1 ? unpickle(packed, values) : 0;
    if (found == size && !combine(values, size, args[1]))
        result = Py_NewRef(values[0]);
    else if (!PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_Exception))
        result = Py_NewRef(Py_NotImplemented); /* the reference says what does not combine */
    if (result)
        PyErr_Clear();
    for (Py_ssize_t k = 0; k < size; k++)
        Py_XDECREF(values[k]);
    PyMem_Free(values);
    Py_DECREF(packed);
    return result;
}
