/* Products of sparse rows (CSR) with vectors and with sparse rows.  The reference is scipy, whose sums these repeat bit by bit.
 *
 * Rows of A @ B are made one after the other (F. Gustavson, Two fast algorithms for sparse matrices, ACM Transactions on
 * Mathematical Software 4 (1978)).  Two things differ from scipy's loops: the entries of a row come out in the order of their
 * columns, where scipy has to sort them afterwards; and a row's products are made once, where scipy counts them first.
 * Few products are inserted into the row as it is made.  Many are added up in a full row, and a tree of bits tells in order
 * which of its columns were reached: a bit for each column, a bit for each word of these, and once more.
 */
#include "quick.h"
#include <stdint.h>
#include <string.h>

enum { FEW = 32 }; /* products up to which inserting is faster */

/* A, and B whose rows it combines. */
typedef struct {
    const int64_t *begins, *other_begins;
    const void *places, *values, *other_places, *other_values;
} Factors;

/* Which columns of a row were reached. */
typedef struct {
    uint64_t *columns, *middle, *top;
    Py_ssize_t tops; /* words of the top */
} Marks;

static inline void mark(const Marks *marks, uint64_t column)
{
    uint64_t word = column >> 6, middle = word >> 6;
    if (!marks->columns[word]) {
        if (!marks->middle[middle])
            marks->top[middle >> 6] |= UINT64_C(1) << (middle & 63);
        marks->middle[middle] |= UINT64_C(1) << (word & 63);
    }
    marks->columns[word] |= UINT64_C(1) << (column & 63);
}

static inline uint64_t taken(uint64_t *word)
{
    uint64_t found = *word;
    *word = 0;
    return found;
}

static inline uint64_t lowest(uint64_t bits) { return (uint64_t)__builtin_ctzll(bits); }

#define INDEX int32_t
#define VALUE double
#define NAME(what) what##_of_doubles
#include "row_products.h"
#undef VALUE
#undef NAME
#define VALUE float
#define NAME(what) what##_of_floats
#include "row_products.h"
#undef INDEX
#undef NAME
#define INDEX int64_t
#define NAME(what) what##_of_floats_far
#include "row_products.h"
#undef VALUE
#undef NAME
#define VALUE double
#define NAME(what) what##_of_doubles_far
#include "row_products.h"

#define LOOPS(name) {vector##name, products##name, few##name, many##name}

/* The loops by types: places of 4 or 8 bytes, values of 4 or 8 bytes. */
static const struct {
    void (*vector)(Py_ssize_t, const void *, const void *, const void *, const void *, void *);
    int64_t (*products)(const Factors *, Py_ssize_t);
    Py_ssize_t (*few)(const Factors *, Py_ssize_t, void *, void *);
    Py_ssize_t (*many)(const Factors *, Py_ssize_t, const Marks *, void *, void *, void *);
} LOOPS_OF[2][2] = {{LOOPS(_of_floats), LOOPS(_of_doubles)}, {LOOPS(_of_floats_far), LOOPS(_of_doubles_far)}};

/* The size of the numbers of a kind ('i' or 'f') that a buffer holds: 4 or 8; 0 if they are others. */
static Py_ssize_t size_of(const Py_buffer *buffer, char kind)
{
    const char *format = buffer->format ? buffer->format : "B";
    int fits = !format[1] && format[0] && strchr(kind == 'i' ? "ilq" : "fd", format[0]);
    return fits && (buffer->itemsize == 4 || buffer->itemsize == 8) ? buffer->itemsize : 0;
}

/* Get arrays as buffers, the last ones of them to write to; return how many before the first that is none. */
static int get(PyObject *const *arrays, int count, int writable, Py_buffer *buffers)
{
    for (int k = 0; k < count; k++) {
        int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (k >= count - writable ? PyBUF_WRITABLE : 0);
        if (PyObject_GetBuffer(arrays[k], buffers + k, flags))
            return k;
    }
    return count;
}

static void release(Py_buffer *buffers, int count)
{
    while (count)
        PyBuffer_Release(buffers + --count);
}

static Py_ssize_t length(const Py_buffer *buffer) { return buffer->len / buffer->itemsize; }

static int64_t number(const Py_buffer *buffer, Py_ssize_t at)
{
    return buffer->itemsize == 4 ? ((const int32_t *)buffer->buf)[at] : ((const int64_t *)buffer->buf)[at];
}

/* Whether the first and last begins of rows are those of entries that there are. */
static int within(const Py_buffer *begins, const Py_buffer *places, const Py_buffer *values)
{
    Py_ssize_t rows = length(begins) - 1;
    return rows >= 0 && number(begins, 0) >= 0 && number(begins, rows) <= length(places) && length(places) == length(values);
}

/* rows_times_vector(begins, places, values, x, out): write the products of CSR rows and a vector.
 *
 * begins : (rows + 1,) of the type of places; the first need not be 0.   values, x, out : all float32, or all float64.
 * Return False, and write nothing, if the types are others.  Places are not checked, as in scipy.
 */
PyObject *rows_times_vector(PyObject *Py_UNUSED(self), PyObject *const *args, Py_ssize_t given)
{
    enum { BEGINS, PLACES, VALUES, X, OUT, COUNT };
    Py_buffer of[COUNT];
    if (given != COUNT)
        return PyErr_Format(PyExc_TypeError, "rows_times_vector takes %d arguments", COUNT);
    int held = get(args, COUNT, 1, of);
    PyObject *found = NULL;
    if (held == COUNT) {
        Py_ssize_t place = size_of(of + PLACES, 'i'), value = size_of(of + VALUES, 'f');
        if (!place || !value || size_of(of + BEGINS, 'i') != place || size_of(of + X, 'f') != value ||
            size_of(of + OUT, 'f') != value)
            found = Py_NewRef(Py_False);
        else if (!within(of + BEGINS, of + PLACES, of + VALUES) || length(of + OUT) != length(of + BEGINS) - 1)
            PyErr_SetString(PyExc_ValueError, "rows_times_vector: the lengths do not fit");
        else {
            Py_BEGIN_ALLOW_THREADS;
            LOOPS_OF[place == 8][value == 8].vector(length(of + OUT), of[BEGINS].buf, of[PLACES].buf, of[VALUES].buf,
                                                    of[X].buf, of[OUT].buf);
            Py_END_ALLOW_THREADS;
            found = Py_NewRef(Py_True);
        }
    }
    release(of, held);
    return found;
}

/* The rows of a product as they are made. */
typedef struct {
    PyObject *places, *values; /* bytearrays */
    Py_ssize_t count, room;    /* entries */
} Rows;

/* Make room for more entries, by a quarter at least; return 0, or -1 with an exception.  Pages that are not written to do not
 * take memory, and growing moves pages, not bytes. */
static int grow(Rows *made, Py_ssize_t more, Py_ssize_t place, Py_ssize_t value)
{
    Py_ssize_t room = made->room + made->room / 4;
    if (made->count > PY_SSIZE_T_MAX / 16 - more) {
        PyErr_NoMemory();
        return -1;
    }
    made->room = room < made->count + more ? made->count + more : room;
    return PyByteArray_Resize(made->places, made->room * place) || PyByteArray_Resize(made->values, made->room * value) ? -1 : 0;
}

/* Fill the rows of a product and where they begin; return 0, or -1 with an exception.  Called without the GIL. */
static int multiply(const Factors *it, Py_ssize_t rows, int64_t columns, Py_ssize_t place, Py_ssize_t value, const Marks *marks,
                    void *sums, int64_t *begins, Rows *made)
{
    begins[0] = 0;
    for (Py_ssize_t i = 0; i < rows; i++) {
        int64_t products = LOOPS_OF[place == 8][value == 8].products(it, i), most = products < columns ? products : columns;
        if (most > made->room - made->count) {
            PyGILState_STATE state = PyGILState_Ensure();
            int failed = PyErr_CheckSignals() || grow(made, most, place, value);
            PyGILState_Release(state);
            if (failed)
                return -1;
        }
        char *places = PyByteArray_AS_STRING(made->places) + made->count * place;
        char *values = PyByteArray_AS_STRING(made->values) + made->count * value;
        made->count += products <= FEW ? LOOPS_OF[place == 8][value == 8].few(it, i, places, values)
                                       : LOOPS_OF[place == 8][value == 8].many(it, i, marks, sums, places, values);
        begins[i + 1] = made->count;
    }
    return 0;
}

/* rows_times_rows(begins, places, values, other_begins, other_places, other_values, columns, out_begins): multiply CSR arrays.
 *
 * begins, other_begins, out_begins : int64; out_begins (rows + 1,) is written.   columns : those of the other array.
 * Return the places and the values of the product's entries, in order, as bytearrays; None if the types are not such that
 * places agree, int32 or int64, and values agree, float32 or float64.  Places are not checked, as in scipy.
 */
PyObject *rows_times_rows(PyObject *Py_UNUSED(self), PyObject *const *args, Py_ssize_t given)
{
    enum { BEGINS, PLACES, VALUES, OTHER_BEGINS, OTHER_PLACES, OTHER_VALUES, OUT, COUNT };
    if (given != COUNT + 1)
        return PyErr_Format(PyExc_TypeError, "rows_times_rows takes %d arguments", COUNT + 1);
    PyObject *arrays[COUNT] = {args[0], args[1], args[2], args[3], args[4], args[5], args[7]};
    Py_ssize_t columns = PyNumber_AsSsize_t(args[6], PyExc_OverflowError);
    if (columns < 0)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "rows_times_rows: %zd columns", columns);
    Py_buffer of[COUNT];
    int held = get(arrays, COUNT, 1, of);
    PyObject *found = NULL;
    if (held == COUNT) {
        Py_ssize_t place = size_of(of + PLACES, 'i'), value = size_of(of + VALUES, 'f');
        if (!place || !value || size_of(of + BEGINS, 'i') != 8 || size_of(of + OTHER_BEGINS, 'i') != 8 ||
            size_of(of + OUT, 'i') != 8 || size_of(of + OTHER_PLACES, 'i') != place || size_of(of + OTHER_VALUES, 'f') != value)
            found = Py_NewRef(Py_None);
        else if (!within(of + BEGINS, of + PLACES, of + VALUES) || length(of + OUT) != length(of + BEGINS) ||
                 !within(of + OTHER_BEGINS, of + OTHER_PLACES, of + OTHER_VALUES))
            PyErr_SetString(PyExc_ValueError, "rows_times_rows: the lengths do not fit");
        else {
            Factors it = {of[BEGINS].buf, of[OTHER_BEGINS].buf,       of[PLACES].buf,
                          of[VALUES].buf, of[OTHER_PLACES].buf, of[OTHER_VALUES].buf};
            Py_ssize_t words = columns / 64 + 1, middles = words / 64 + 1, tops = middles / 64 + 1;
            uint64_t *bits = PyMem_RawCalloc((size_t)(words + middles + tops), sizeof *bits);
            Marks marks = {bits, bits + words, bits + words + middles, tops};
            void *sums = PyMem_RawCalloc((size_t)columns + 1, (size_t)value);
            Rows made = {PyByteArray_FromStringAndSize(NULL, 0), PyByteArray_FromStringAndSize(NULL, 0), 0, 0};
            int failed = !made.places || !made.values;
            if (!bits || !sums) {
                PyErr_NoMemory();
                failed = 1;
            }
            if (!failed) {
                Py_BEGIN_ALLOW_THREADS;
                failed = multiply(&it, length(of + OUT) - 1, columns, place, value, &marks, sums, of[OUT].buf, &made);
                Py_END_ALLOW_THREADS;
            }
            if (!failed && !PyByteArray_Resize(made.places, made.count * place) &&
                !PyByteArray_Resize(made.values, made.count * value))
                found = PyTuple_Pack(2, made.places, made.values);
            PyMem_RawFree(bits);
            PyMem_RawFree(sums);
            Py_XDECREF(made.places);
            Py_XDECREF(made.values);
        }
    }
    release(of, held);
    return found;
}
