/* The module `bsp.arrays.compiled._quick`: what every evaluation of an expression does before and between its kernels, and the
 * numbers of text files, and products of sparse rows, in C.  The reference is the code that each part names;
 * tests/arrays/planning/test_quick.py, test_numbers_in_c.py and test_products_in_c.py compare them.
 */
#include "quick.h"

static PyMethodDef functions[] = {
    {"capture", capture, METH_O, "graph.capture in C."},
    {"numbers_of_lines", numbers_of_lines, METH_VARARGS, "fields.exact in C, of plain numbers."},
    {"rows_times_rows", (PyCFunction)(void (*)(void))rows_times_rows, METH_FASTCALL, "scipy's product of CSR arrays, in order."},
    {"rows_times_vector", (PyCFunction)(void (*)(void))rows_times_vector, METH_FASTCALL, "scipy's CSR array times a vector."},
    {"small_blocks", (PyCFunction)(void (*)(void))small_blocks, METH_FASTCALL, "kernels.Map.compute in C, of small blocks."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, .m_name = "_quick", .m_doc = "Evaluations in C.", .m_size = -1, .m_methods = functions,
};

PyMODINIT_FUNC PyInit__quick(void)
{
    if (!find_nodes() && !find_numpy())
        return PyModule_Create(&module);
    if (PyErr_ExceptionMatches(PyExc_Exception)) /* then the package does without, as where there was no compiler */
        PyErr_SetString(PyExc_ImportError, "it was compiled for another version of bsp.arrays");
    return NULL;
}
