/* Small messages in C; bsp/values/records.py: message_in is the reference. */
#include "compiled.h"

static PyObject *ndarray, *by_number; /* of NumPy; the dtypes of plain numbers, a dictionary */

enum { FRONT = 5, ARRAY_FRONT = 8 }; /* bytes before a tag; before the lengths of an array's axes */

/* Raise ValueError for data that are no message; return NULL. */
static PyObject *not_a_message(void)
{
    PyErr_SetString(PyExc_ValueError, "a message ends inside its array or its tag");
    return NULL;
}

/* Return the shape of an array, whose lengths begin at `data`; NULL with an exception. */
static PyObject *shape_of(const char *data, Py_ssize_t axes)
{
    PyObject *shape = PyTuple_New(axes);
    for (Py_ssize_t axis = 0; shape && axis < axes; axis++) {
        int64_t length;
        memcpy(&length, data + sizeof length * axis, sizeof length);
        PyObject *number = PyLong_FromLongLong(length);
        if (number)
            PyTuple_SET_ITEM(shape, axis, number);
        else
            Py_CLEAR(shape);
    }
    return shape;
}

/* Write all items of a new array; return 0, or -1 with an exception. */
static int write_items(PyObject *array, const char *data, Py_ssize_t size)
{
    Py_buffer bytes;
    if (PyObject_GetBuffer(array, &bytes, PyBUF_WRITABLE))
        return -1;
    int fits = bytes.len == size;
    if (fits)
        memcpy(bytes.buf, data, size);
    else
        not_a_message();
    PyBuffer_Release(&bytes);
    return fits ? 0 : -1;
}

/* Return the array of payload.array_out, in memory of its own; NULL with an exception. */
static PyObject *array_of(const char *data, Py_ssize_t size)
{
    Py_ssize_t start = size < ARRAY_FRONT ? ARRAY_FRONT : ARRAY_FRONT + 8 * (Py_ssize_t)(uint8_t)data[1];
    if (size < start)
        return not_a_message();
    PyObject *number = PyLong_FromLong((uint8_t)data[0]), *shape = shape_of(data + ARRAY_FRONT, (uint8_t)data[1]);
    PyObject *dtype = number ? PyDict_GetItemWithError(by_number, number) : NULL, *array = NULL; /* borrowed */
    if (number && !dtype && !PyErr_Occurred())
        PyErr_SetObject(PyExc_KeyError, number);
    if (dtype && shape) {
        PyObject *arguments[] = {shape, dtype};
        array = PyObject_Vectorcall(ndarray, arguments, 2, NULL);
    }
    if (array && write_items(array, data + start, size - start))
        Py_CLEAR(array);
    Py_XDECREF(shape);
    Py_XDECREF(number);
    return array;
}

PyObject *message_in(PyObject *Py_UNUSED(self), PyObject *message)
{
    if (!PyBytes_Check(message))
        return PyErr_Format(PyExc_TypeError, "a message is bytes, not %.100s", Py_TYPE(message)->tp_name);
    if (find_once(&ndarray, "numpy", "ndarray") || find_once(&by_number, "bsp.values.payload", "BY_NUMBER"))
        return NULL;
    const char *data = PyBytes_AS_STRING(message);
    Py_ssize_t size = PyBytes_GET_SIZE(message), start = FRONT;
    int32_t length;
    if (size < FRONT)
        return not_a_message();
    memcpy(&length, data + 1, sizeof length);
    if (length > size - FRONT)
        return not_a_message();
    if (length > 0)
        start += length;
    PyObject *tag = length < 0 ? Py_NewRef(Py_None) : PyBytes_FromStringAndSize(data + FRONT, length);
    PyObject *array = data[0] ? array_of(data + start, size - start) : Py_NewRef(Py_None);
    PyObject *pickled = data[0] ? Py_NewRef(Py_None) : PyBytes_FromStringAndSize(data + start, size - start);
    PyObject *found = tag && array && pickled ? PyTuple_Pack(3, tag, array, pickled) : NULL;
    Py_XDECREF(tag);
    Py_XDECREF(array);
    Py_XDECREF(pickled);
    return found;
}
