/* Where blocks are received, in C; bsp/values/blocks.py is the reference. */
#include "compiled.h"

/* What a put of the superstep writes to. */
typedef struct {
    unsigned long long low, high; /* addresses, the second exclusive */
    unsigned long long reach;     /* the furthest end of those that are not empty, up to this one in the order of `low` */
    Py_ssize_t element;           /* of the sender */
    PyObject *memory;             /* of the coarray, a reference, if a block comes from another element; else NULL */
    Py_ssize_t start;             /* in that memory */
    int alone;                    /* whether it meets no other */
} Target;

typedef struct {
    Target *targets;   /* in the order of the elements, and of their records */
    Target **by_low;   /* the same in the order of their addresses */
    Py_ssize_t count, room;
} Targets;

/* Add what a put writes to; return 0, or -1 with an exception. */
static int add_target(Targets *all, PyObject *tasks, Py_ssize_t first, const Head *head, const char *data, Py_ssize_t element,
                      int comes)
{
    PlaceOfRecord place;
    if (all->count == all->room) {
        Py_ssize_t room = 2 * all->room + 8;
        Target *more = PyMem_Realloc(all->targets, room * sizeof *more);
        if (!more) {
            PyErr_NoMemory();
            return -1;
        }
        all->targets = more;
        all->room = room;
    }
    if (find_place(tasks, first, head, data, &place))
        return -1;
    unsigned long long from = (unsigned long long)(uintptr_t)place.buffer.buf;
    comes = comes && is_block(head->kind);
    all->targets[all->count++] = (Target){.low = from + place.low, .high = from + place.high, .element = element,
                                          .start = head->start, .memory = comes ? Py_NewRef(place.memory) : NULL, .alone = 1};
    leave_place(&place);
    return 0;
}

/* Find what all packets write to; return 0, or -1 with an exception. */
static int find_targets(Targets *all, PyObject *packets, PyObject *order, PyObject *tasks, Py_ssize_t first, Py_ssize_t index)
{
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(order); k++) {
        PyObject *packet = PyDict_GetItemWithError(packets, PyList_GET_ITEM(order, k)); /* borrowed */
        Py_ssize_t element = PyLong_AsSsize_t(PyList_GET_ITEM(order, k)), at = 0;
        Py_buffer bytes;
        Head head;
        const char *data;
        if (!packet && !PyErr_Occurred())
            PyErr_SetObject(PyExc_KeyError, PyList_GET_ITEM(order, k));
        if (!packet || (element == -1 && PyErr_Occurred()) || PyObject_GetBuffer(packet, &bytes, PyBUF_SIMPLE))
            return -1;
        int more;
        while ((more = next_record(bytes.buf, bytes.len, &at, &head, &data)) > 0)
            if (is_put(head.kind) && add_target(all, tasks, first, &head, data, element, element != index)) {
                more = -1;
                break;
            }
        PyBuffer_Release(&bytes);
        if (more)
            return -1;
    }
    return 0;
}

static int compare(const void *a, const void *b)
{
    const Target *one = *(Target *const *)a, *other = *(Target *const *)b;
    if (one->low != other->low)
        return one->low < other->low ? -1 : 1;
    return (one->high > other->high) - (one->high < other->high);
}

/* Put the targets in order, and find those that are alone; return 0, or -1 with an exception. */
static int sort_targets(Targets *all)
{
    Target *widest = NULL; /* the earlier one that reaches furthest */
    unsigned long long reach = 0;
    all->by_low = PyMem_Calloc(all->count + 1, sizeof *all->by_low);
    if (!all->by_low) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t k = 0; k < all->count; k++)
        all->by_low[k] = all->targets + k;
    qsort(all->by_low, all->count, sizeof *all->by_low, compare);
    for (Py_ssize_t k = 0; k < all->count; k++) {
        Target *target = all->by_low[k];
        if (widest && target->low < widest->high)
            target->alone = widest->alone = 0;
        if (!widest || target->high > widest->high)
            widest = target;
        if (target->low < target->high && target->high > reach)
            reach = target->high;
        target->reach = reach;
    }
    return 0;
}

/* Return 1 if a block shares memory with a target, 0 if not, -1 with an exception. */
static int meets(PyObject *block, const Targets *all)
{
    Py_buffer bytes;
    if (PyObject_GetBuffer(block, &bytes, PyBUF_SIMPLE))
        return -1;
    unsigned long long start = (uintptr_t)bytes.buf, stop = start + bytes.len;
    PyBuffer_Release(&bytes);
    Py_ssize_t before = 0; /* targets that begin before the block ends */
    for (Py_ssize_t above = all->count; before < above;) {
        Py_ssize_t middle = (before + above) / 2;
        if (all->by_low[middle]->low < stop)
            before = middle + 1;
        else
            above = middle;
    }
    return start < stop && before && all->by_low[before - 1]->reach > start;
}

/* Replace blocks that some put writes over by copies; return 0, or -1 with an exception. */
static int copy_blocks(PyObject *out, const Targets *all)
{
    PyObject *element, *blocks;
    Py_ssize_t at = 0;
    while (PyDict_Next(out, &at, &element, &blocks)) {
        if (!PyList_Check(blocks)) {
            PyErr_SetString(PyExc_TypeError, "blocks are in lists");
            return -1;
        }
        for (Py_ssize_t b = 0; b < PyList_GET_SIZE(blocks); b++) {
            int met = meets(PyList_GET_ITEM(blocks, b), all);
            PyObject *copy = met > 0 ? PyObject_CallMethodNoArgs(PyList_GET_ITEM(blocks, b), name_copy) : NULL;
            if (met < 0 || (met && !copy))
                return -1;
            if (copy)
                PyList_SetItem(blocks, b, copy);
        }
    }
    return 0;
}

/* Return memory for a block that is not received in its place; NULL with an exception. */
static PyObject *own_memory(unsigned long long size)
{
    static PyObject *at_page;
    if (!at_page) {
        PyObject *memory = PyImport_ImportModule("bsp.values.memory");
        at_page = memory ? PyObject_GetAttrString(memory, "at_page") : NULL;
        Py_XDECREF(memory);
    }
    return at_page ? PyObject_CallFunction(at_page, "K", size) : NULL;
}

/* Say where a block is received, and what is left to be written; return 0, or -1 with an exception. */
static int place_block(const Target *target, PyObject *into, PyObject *arrived)
{
    unsigned long long size = target->high - target->low;
    PyObject *block = target->alone ? PySequence_GetSlice(target->memory, target->start, target->start + (Py_ssize_t)size)
                                    : own_memory(size);
    int failed = !block || append_to(into, target->element, block)
                 || append_to(arrived, target->element, target->alone ? Py_None : block);
    Py_XDECREF(block);
    return failed ? -1 : 0;
}

/* Take the blocks for processes here out of `out`; return 0, or -1 with an exception. */
static int take_own(PyObject *out, PyObject *arrived, Py_ssize_t index)
{
    PyObject *number = PyLong_FromSsize_t(index);
    PyObject *own = number ? PyDict_GetItemWithError(out, number) : NULL; /* borrowed */
    int failed = !number || PyErr_Occurred();
    if (!failed && own)
        failed = PyDict_SetItem(arrived, number, own) || PyDict_DelItem(out, number);
    else if (!failed)
        failed = append_to(arrived, index, NULL);
    Py_XDECREF(number);
    return failed ? -1 : 0;
}

PyObject *arranged(PyObject *Py_UNUSED(self), PyObject *args)
{
    PyObject *packets, *tasks, *out;
    Py_ssize_t first, index;
    if (!PyArg_ParseTuple(args, "O!O!nnO!", &PyDict_Type, &packets, &PyList_Type, &tasks, &first, &index, &PyDict_Type,
                          &out))
        return NULL;
    Targets all = {.count = 0};
    PyObject *order = PyDict_Keys(packets), *into = PyDict_New(), *arrived = PyDict_New();
    int failed = !order || !into || !arrived || PyList_Sort(order)
                 || find_targets(&all, packets, order, tasks, first, index) || sort_targets(&all);
    for (Py_ssize_t k = 0; !failed && k < PyList_GET_SIZE(order); k++)
        failed = append_to(arrived, PyLong_AsSsize_t(PyList_GET_ITEM(order, k)), NULL);
    for (Py_ssize_t k = 0; !failed && k < all.count; k++)
        failed = all.targets[k].memory && place_block(all.targets + k, into, arrived);
    failed = failed || copy_blocks(out, &all) || take_own(out, arrived, index);
    for (Py_ssize_t k = 0; k < all.count; k++)
        Py_XDECREF(all.targets[k].memory);
    PyMem_Free(all.targets);
    PyMem_Free(all.by_low);
    Py_XDECREF(order);
    PyObject *result = failed ? NULL : PyTuple_Pack(2, into, arrived);
    Py_XDECREF(into);
    Py_XDECREF(arrived);
    return result;
}
