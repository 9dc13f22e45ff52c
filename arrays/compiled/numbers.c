/* Numbers of lines of text, correctly rounded.  The reference is arrays/files/lines/fields.py, whose rules decide what a number is;
 * what these are not sure about is left to it.
 *
 * A number of up to 19 digits is w·10^q.  Where w and 10^|q| are doubles, one product or quotient rounds it.  Else w·5^q comes
 * from the first 128 bits of 5^q, with an error of less than two units of the last of 128 bits, and is rounded unless it lies
 * so close to the middle between two doubles that the error could decide.  (D. Lemire, Number parsing at a gigabyte per second,
 * Software: Practice and Experience 51 (2021).)
 */
#include "quick.h"
#include <float.h>
#include <stdint.h>
#include <string.h>

enum { LEAST = -342, MOST = 308 }; /* exponents q of 5^q in the table */
enum { DIGITS = 19, LONGEST = 63 };

static const double TENS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                              1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* How the lines of a file are written. */
typedef struct {
    char delimiter, decimal; /* delimiter 0: any run of blanks, which may also begin and end a line */
    Py_ssize_t width;
    const int64_t *places;  /* by field its column; -1: it is not read */
    const uint64_t *powers; /* 5^q, 128 bits that begin with a one: high half, low half */
    PyObject *missing;      /* a tuple of bytes */
    int looks_missing;      /* whether some of these may look like numbers, so that every field is compared with them */
} Dialect;

/* Set the double nearest to w·10^q, w > 0; return 0 if it takes more than this to find. */
static int nearest(uint64_t w, int64_t q, const uint64_t *powers, double *found)
{
    if (FLT_EVAL_METHOD == 0 && w <= (uint64_t)1 << 53 && -22 <= q && q <= 22) {
        *found = q < 0 ? (double)w / TENS[-q] : (double)w * TENS[q];
        return 1;
    }
    if (q < LEAST || q > MOST)
        return 0;
    int zeros = __builtin_clzll(w);
    const uint64_t *power = powers + 2 * (q - LEAST);
    unsigned __int128 high = (unsigned __int128)(w << zeros) * power[0];
    unsigned __int128 top = high + (((unsigned __int128)(w << zeros) * power[1]) >> 64); /* of 192 bits those above 64 */
    int drop = 74 + (int)(top >> 127);                                                    /* bits behind the 53 of a double */
    unsigned __int128 half = (unsigned __int128)1 << (drop - 1), rest = top & ((half << 1) - 1);
    if (rest == half || rest == half - 1)
        return 0;
    uint64_t bits = (uint64_t)(top >> drop) + (rest > half);
    /* top stands for top·2^64, and the table's 5^q for itself times 2^(floor(q·log2 5) - 127) */
    int64_t exponent = drop + 64 + ((q * 152170) >> 16) - 127 + q - zeros + 52 + 1023;
    if (bits >> 53) {
        bits >>= 1;
        exponent++;
    }
    if (exponent < 1 || exponent > 2046)
        return 0;
    bits = (bits & (((uint64_t)1 << 52) - 1)) | (uint64_t)exponent << 52;
    memcpy(found, &bits, sizeof bits);
    return 1;
}

/* Read a number as Python does; return whether it is one. */
static int as_python_reads(const char *at, Py_ssize_t size, char decimal, double *found)
{
    char copy[LONGEST + 1], *end;
    if (size < 1 || size > LONGEST)
        return 0;
    for (Py_ssize_t i = 0; i < size; i++) {
        if (decimal != '.' && at[i] == '.')
            return 0;
        copy[i] = at[i] == decimal ? '.' : at[i];
    }
    copy[size] = 0;
    *found = PyOS_string_to_double(copy, &end, NULL);
    if (end == copy + size && !PyErr_Occurred())
        return 1;
    PyErr_Clear();
    return 0;
}

/* Add digits to a number; return where they end.  (Eight at once, in one word, take longer where numbers have seven.) */
static const char *add_digits(const char *at, uint64_t *w)
{
    uint64_t found = *w;
    for (; (unsigned char)(*at - '0') < 10; at++)
        found = 10 * found + (uint64_t)(*at - '0');
    *w = found;
    return at;
}

/* Return whether the digits of a number are few enough: zeros in front do not count, nor does the decimal mark. */
static int are_few(const char *at, const char *end, const char *mark)
{
    if (end - at <= DIGITS)
        return 1;
    while (at < end && (*at == '0' || at == mark))
        at++;
    return end - at - (at <= mark && mark < end) <= DIGITS;
}

/* Read a decimal number of the usual form, in text that a line break ends; return its end, or NULL if there is none, or one of
 * too many digits.
 */
static const char *read_decimal(const char *at, const Dialect *dialect, double *found)
{
    int negative = *at == '-';
    uint64_t w = 0;
    int64_t q = 0;
    at += negative | (*at == '+');
    const char *first = at, *mark = at = add_digits(at, &w), *last = at;
    int digits = at > first;
    if (*at == dialect->decimal) {
        last = add_digits(at + 1, &w);
        q = at + 1 - last;
        digits += q < 0;
        at = last;
    }
    if (*at == 'e' || *at == 'E') {
        int down = *++at == '-';
        at += down | (*at == '+');
        const char *begin = at;
        int64_t exponent = 0;
        for (; (unsigned char)(*at - '0') < 10 && exponent < 10000; at++)
            exponent = 10 * exponent + (*at - '0');
        digits = at > begin ? digits : 0;
        q += down ? -exponent : exponent;
    }
    if (!digits || !are_few(first, last, mark))
        return NULL;
    *found = 0;
    if (w && !nearest(w, q, dialect->powers, found))
        return NULL;
    *found = negative ? -*found : *found;
    return at;
}

static int is_missing(const char *at, Py_ssize_t size, const Dialect *dialect)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(dialect->missing); i++) {
        PyObject *each = PyTuple_GET_ITEM(dialect->missing, i);
        if (PyBytes_GET_SIZE(each) == size && !memcmp(PyBytes_AS_STRING(each), at, size))
            return 1;
    }
    return 0;
}

/* Read a field of any form: a number, or NaN if it is missing; return whether it is one of these. */
static int read_field(const char *at, const char *end, const Dialect *dialect, double *found)
{
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    while (at < end && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    if (is_missing(at, end - at, dialect)) {
        *found = Py_NAN;
        return 1;
    }
    return read_decimal(at, dialect, found) == end || as_python_reads(at, end - at, dialect->decimal, found);
}

/* Return whether a line has nothing but blanks that are no delimiters. */
static int is_blank(const char *at, const char *end, char delimiter)
{
    while (at < end && *at != delimiter && (*at == ' ' || *at == '\t' || *at == '\r'))
        at++;
    return at == end;
}

static const char *behind_blanks(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    return at;
}

/* Return whether a character separates two fields. */
static int separates(char c, char delimiter)
{
    return c == delimiter || (!delimiter && (c == ' ' || c == '\t'));
}

/* Read a line, which has no line break at its end, into a row; return whether it could be read. */
static int read_line(const char *at, const char *end, const Dialect *dialect, double *row)
{
    char delimiter = dialect->delimiter;
    for (Py_ssize_t field = 0; field < dialect->width; field++) {
        int64_t place = dialect->places[field];
        at = delimiter ? at : behind_blanks(at, end);
        double *found = place < 0 ? NULL : row + place;
        const char *stop = found && !dialect->looks_missing ? read_decimal(at, dialect, found) : NULL;
        if (!stop || (stop != end && !separates(*stop, delimiter))) {
            for (stop = at; stop < end && !separates(*stop, delimiter); stop++)
                if (*stop == '"' || *stop == '\r')
                    return 0;
            if (found && !read_field(at, stop, dialect, found))
                return 0;
        }
        stop = delimiter ? stop : behind_blanks(stop, end);
        if ((stop == end) != (field == dialect->width - 1))
            return 0;
        at = delimiter ? stop + 1 : stop;
    }
    return 1;
}

/* Check what a dialect refers to; return 0, or -1 with an exception. */
static int check(Dialect *dialect, const Py_buffer *places, const Py_buffer *powers, Py_ssize_t columns)
{
    if ((dialect->decimal != '.' && dialect->decimal != ',') || dialect->delimiter == '\n' || dialect->delimiter == '\r') {
        PyErr_SetString(PyExc_ValueError, "no decimal mark, or no delimiter");
        return -1;
    }
    dialect->width = places->len / (Py_ssize_t)sizeof *dialect->places;
    dialect->places = places->buf;
    dialect->powers = powers->buf;
    for (Py_ssize_t i = 0; i < dialect->width; i++)
        if (dialect->places[i] >= columns) {
            PyErr_SetString(PyExc_ValueError, "a field goes to a column that there is not");
            return -1;
        }
    if (powers->len != 16 * (MOST - LEAST + 1)) {
        PyErr_SetString(PyExc_ValueError, "the table of powers has another size");
        return -1;
    }
    dialect->looks_missing = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(dialect->missing); i++) {
        PyObject *each = PyTuple_GET_ITEM(dialect->missing, i);
        if (!PyBytes_CheckExact(each)) {
            PyErr_SetString(PyExc_TypeError, "marks of missing values are bytes");
            return -1;
        }
        if (PyBytes_GET_SIZE(each) && strchr("+-.,0123456789", PyBytes_AS_STRING(each)[0]))
            dialect->looks_missing = 1;
    }
    return 0;
}

/* numbers_of_lines(text, delimiter, decimal, places, missing, powers, out, columns): read the complete lines of a text.
 *
 * delimiter, decimal : the numbers of characters; delimiter 0: any run of blanks.
 * places : by field of a line its column in out, as int64; -1 for none.
 * missing : a tuple of bytes.   out : float64, (rows, columns), by rows; lines that do not fit are not read.
 * Return (rows read, bytes read); None if there is something that only the reference can read, or can say what is wrong.
 */
PyObject *numbers_of_lines(PyObject *Py_UNUSED(self), PyObject *args)
{
    Py_buffer text, places, powers, out;
    Dialect dialect;
    int delimiter, decimal;
    Py_ssize_t columns, row = 0;
    if (!PyArg_ParseTuple(args, "y*iiy*O!y*w*n", &text, &delimiter, &decimal, &places, &PyTuple_Type, &dialect.missing, &powers,
                          &out, &columns))
        return NULL;
    Py_ssize_t room = columns > 0 ? out.len / (Py_ssize_t)sizeof(double) / columns : 0;
    dialect.delimiter = (char)delimiter;
    dialect.decimal = (char)decimal;
    int fits = check(&dialect, &places, &powers, columns) == 0;
    const char *at = text.buf, *stop = at + text.len, *end;
    while (fits > 0 && at < stop && (end = memchr(at, '\n', stop - at))) {
        const char *last = end > at && end[-1] == '\r' ? end - 1 : end;
        if (!is_blank(at, last, dialect.delimiter)) {
            if (row == room)
                break;
            fits = read_line(at, last, &dialect, (double *)out.buf + row * columns) ? 1 : -1;
            row++;
        }
        at = end + 1;
    }
    PyObject *found = NULL;
    if (fits)
        found = fits < 0 ? Py_NewRef(Py_None) : Py_BuildValue("(nn)", row, (Py_ssize_t)(at - (const char *)text.buf));
    PyBuffer_Release(&text);
    PyBuffer_Release(&places);
    PyBuffer_Release(&powers);
    PyBuffer_Release(&out);
    return found;
}
