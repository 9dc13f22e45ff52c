/* The module `bsp.transport._compiled`: the short superstep and copies in C.  Results are those of the Python functions that
 * each part names, byte for byte; tests/bsp/transport/test_compiled.py and test_superstep_in_c.py compare them.
 */
#include "compiled.h"

#define DEFINE(name) PyObject *name_##name;
NAMES(DEFINE)

int intern_names(void)
{
#define INTERN(name) \
    if (!(name_##name = PyUnicode_InternFromString(#name))) \
        return -1;
    NAMES(INTERN)
    return 0;
}

int find_once(PyObject **place, const char *module, const char *name)
{
    PyObject *found = *place ? NULL : PyImport_ImportModule(module);
    if (found)
        *place = PyObject_GetAttrString(found, name);
    Py_XDECREF(found);
    return *place ? 0 : -1;
}

static PyMethodDef functions[] = {
    {"pack", pack, METH_VARARGS, "records.pack in C."},
    {"apply", apply, METH_VARARGS, "records.apply in C."},
    {"read_asked", read_asked, METH_VARARGS, "records.read_asked in C."},
    {"arranged", arranged, METH_VARARGS, "blocks.arranged in C."},
    {"fill", fill, METH_VARARGS, "slots.fill in C."},
    {"read", read_slots, METH_VARARGS, "slots.read in C."},
    {"copy", copy, METH_VARARGS, "copies.copy in C."},
    {"message_in", message_in, METH_O, "records.message_in in C."},
    {"prefixes_of_plain", (PyCFunction)(void (*)(void))prefixes_of_plain, METH_FASTCALL,
     "operations.Prefixes of plain values in C."},
    {"tree_of_plain", (PyCFunction)(void (*)(void))tree_of_plain, METH_FASTCALL, "operations.combine of plain values in C."},
    {"tree_of_small", (PyCFunction)(void (*)(void))tree_of_small, METH_FASTCALL, "operations.combine of small arrays in C."},
    {"end_superstep", (PyCFunction)(void (*)(void))end_superstep, METH_FASTCALL, "Element._end_superstep in C."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, .m_name = "_compiled", .m_doc = "The short superstep in C.", .m_size = -1, .m_methods = functions,
};

PyMODINIT_FUNC PyInit__compiled(void)
{
    _Static_assert(sizeof(Head) == 32 && sizeof(Header) == 64, "layouts have no gaps");
    return intern_names() ? NULL : PyModule_Create(&module);
}
