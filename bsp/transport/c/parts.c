/* Rectangular parts in C; bsp/values/parts.py is the reference. */
#include "compiled.h"

enum { AXES = 64 }; /* the most axes of an array */

static int damaged(void)
{
    PyErr_SetString(PyExc_ValueError, "a record has the description of another part than its items fill");
    return -1;
}

int read_part(const char *data, Py_ssize_t size, uint64_t start, int filled, Part *part)
{
    int64_t head[2], items, low = 0, high = 0, from;
    if (size < (Py_ssize_t)sizeof head)
        return damaged();
    memcpy(head, data, sizeof head);
    if (head[0] < 0 || head[0] > AXES || head[1] <= 0 || size < (Py_ssize_t)sizeof head + 16 * head[0])
        return damaged();
    part->axes = (int)head[0];
    part->run = items = head[1];
    part->lengths = data + sizeof head;
    part->strides = part->lengths + 8 * part->axes;
    part->items = part->strides + 8 * part->axes;
    for (int axis = 0; axis < part->axes; axis++) {
        int64_t length, stride, span;
        memcpy(&length, part->lengths + 8 * axis, 8);
        memcpy(&stride, part->strides + 8 * axis, 8);
        if (length <= 0 || __builtin_mul_overflow(items, length, &items)
            || __builtin_mul_overflow(length - 1, stride, &span)
            || (span < 0 ? __builtin_add_overflow(low, span, &low) : __builtin_add_overflow(high, span, &high)))
            return damaged();
    }
    part->size = items;
    if ((filled ? items : 0) != data + size - part->items || start > INT64_MAX)
        return damaged();
    from = (int64_t)start;
    if (__builtin_add_overflow(from, low, &part->low) || __builtin_add_overflow(from, high, &high)
        || __builtin_add_overflow(high, part->run, &part->high))
        return damaged();
    return 0;
}

/* Write the runs along an axis and those after it, and return what is behind their items. */
static const char *write_axis(const Part *part, int axis, char *to, const char *items)
{
    int64_t length, stride;
    if (axis == part->axes) {
        memcpy(to, items, part->run);
        return items + part->run;
    }
    memcpy(&length, part->lengths + 8 * axis, 8);
    memcpy(&stride, part->strides + 8 * axis, 8);
    if (axis == part->axes - 1 && part->run == 8) { /* a column of numbers */
        for (int64_t k = 0; k < length; k++)
            memcpy(to + k * stride, items + 8 * k, 8);
        return items + 8 * length;
    }
    for (int64_t k = 0; k < length; k++)
        items = write_axis(part, axis + 1, to + k * stride, items);
    return items;
}

void write_part(const Part *part, char *start)
{
    write_axis(part, 0, start, part->items);
}

/* Read the runs along an axis and those after it, and return what is behind their items. */
static char *read_axis(const Part *part, int axis, const char *from, char *items)
{
    int64_t length, stride;
    if (axis == part->axes) {
        memcpy(items, from, part->run);
        return items + part->run;
    }
    memcpy(&length, part->lengths + 8 * axis, 8);
    memcpy(&stride, part->strides + 8 * axis, 8);
    for (int64_t k = 0; k < length; k++)
        items = read_axis(part, axis + 1, from + k * stride, items);
    return items;
}

PyObject *contents_of(const Part *part, const char *start)
{
    PyObject *contents = PyBytes_FromStringAndSize(NULL, part->size);
    if (contents)
        read_axis(part, 0, start, PyBytes_AS_STRING(contents));
    return contents;
}
