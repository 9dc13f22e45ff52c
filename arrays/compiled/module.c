/* The module `bsp.arrays.compiled._quick`: what every evaluation of an expression does before and between its kernels, and the
 * numbers of text files, in C.  The reference is the code in Python that each part names; tests/arrays/test_quick.py and
 * test_numbers_in_c.py compare them.
 */
#include "quick.h"

static PyMethodDef functions[] = {
    {"capture", capture, METH_O, "graph.capture in C."},
    {"numbers_of_lines", numbers_of_lines, METH_VARARGS, "fields.exact in C, of plain numbers."},
    {"small_blocks", (PyCFunction)(void (*)(void))small_blocks, METH_FASTCALL, "kernels.Map.compute in C, of small blocks."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, .m_name = "_quick", .m_doc = "Evaluations in C.", .m_size = -1, .m_methods = functions,
};

PyMODINIT_FUNC PyInit__quick(void)
{
    return find_nodes() || find_numpy() ? NULL : PyModule_Create(&module);
}
