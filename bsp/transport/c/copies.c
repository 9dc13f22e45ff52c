/* Copies in C; bsp/transport/copies.py is the reference. */
#include "compiled.h"
#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum { PAST = 8 << 20 }; /* bytes of the smallest copy past the caches, which could not hold it until it is read */

/* Copy past the caches.  An ordinary store first fetches its line. */
static void copy_past(char *to, const char *from, size_t size)
{
#ifdef __SSE2__
    size_t head = -(uintptr_t)to % 64;
    if (size >= head + 64) {
        memcpy(to, from, head);
        to += head, from += head, size -= head;
        for (; size >= 64; to += 64, from += 64, size -= 64)
            for (int k = 0; k < 4; k++)
                _mm_stream_si128((__m128i *)to + k, _mm_loadu_si128((const __m128i *)from + k));
        _mm_sfence();
    }
#endif
    memcpy(to, from, size);
}

PyObject *copy(PyObject *Py_UNUSED(self), PyObject *args)
{
    Py_buffer to, from;
    if (!PyArg_ParseTuple(args, "w*y*", &to, &from))
        return NULL;
    if (to.len == from.len) {
        Py_BEGIN_ALLOW_THREADS
        if (to.len < PAST)
            memcpy(to.buf, from.buf, to.len);
        else
            copy_past(to.buf, from.buf, to.len);
        Py_END_ALLOW_THREADS
    } else {
        PyErr_Format(PyExc_ValueError, "%zd bytes into the place of %zd", from.len, to.len);
    }
    PyBuffer_Release(&to);
    PyBuffer_Release(&from);
    if (PyErr_Occurred())
        return NULL;
    Py_RETURN_NONE;
}
