/* What the parts of `bsp.arrays.compiled._quick` share. */
#ifndef BSP_QUICK_H
#define BSP_QUICK_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Find what a part needs of the package; return 0, or -1 with an exception. */
int find_nodes(void);
int find_numpy(void);

/* The functions of the module. */
PyObject *capture(PyObject *self, PyObject *roots);
PyObject *numbers_of_lines(PyObject *self, PyObject *args);
PyObject *rows_times_rows(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *rows_times_vector(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *small_blocks(PyObject *self, PyObject *const *args, Py_ssize_t count);

#endif
