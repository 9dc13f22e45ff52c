/* What the parts of the short superstep in C share: layouts of records and headers, and how both are read and written.
 * Layouts are little-endian.
 */
#ifndef BSP_COMPILED_H
#define BSP_COMPILED_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "records and headers are copied as they lie in memory, which must be little-endian"
#endif

/* Kinds of records, from the first to the last. */
enum { PUT = 1, VALUE = 2, COPIED = 3, LENT = 4, PART = 5, ARRAY = 6, MESSAGE = 7, ASK = 8, COMBINE = 9 };
/* Flags of a header: replies follow, blocks follow. */
enum { GET = 8, BLOCKS = 64 };

/* The head of a record; its data follow, if they are no block. */
typedef struct {
    uint8_t kind, unused[3];
    uint32_t context, coarray; /* these and the source are the address */
    int32_t source, dest;
    uint32_t size;
    uint64_t start;
} Head;

typedef struct {
    double clock;
    uint32_t superstep;
    uint16_t flags, inlined;
    char digest[8];
    int32_t bad_pid;
    uint32_t row_count;
    uint64_t hint, body, row_total, row_max;
} Header;

/* An effect, as borrowed references and numbers. */
typedef struct {
    long kind, dest;
    const char *address, *data;
    PyObject *block; /* what follows the packets; NULL if the data are in the record */
    Py_ssize_t size;
    unsigned long long start; /* of a put in its coarray; of a value, the end of the range of pids */
} Effect;

/* A rectangular part that is written or read: the numbers of its axes, where they stand in a record, its items if it has them,
 * and their bytes.  `low` and `high` are the first byte that it covers in its coarray, and the one after its last.
 */
typedef struct {
    int axes;
    int64_t run, size, low, high;
    const char *lengths, *strides, *items;
} Part;

/* The rest of a packet that is written. */
typedef struct {
    char *at, *end;
} Place;

/* What is written: packets by element, and a dictionary of blocks. */
typedef struct {
    Place *places;
    PyObject *blocks;
} Written;

/* What a step returns.  OTHER: something needs the general way. */
enum { FAILED = -1, DONE = 0, OTHER = 1 };

int is_block(long kind);
int is_for_all(long kind);
int is_put(long kind);

/* Return the header of an element with nothing but packets, whose sizes are not yet in it, blocks and gets. */
Header small_header(double clock, unsigned long superstep, const char *digest, uint64_t hint, uint64_t block_bytes, int asks);

/* Read the header in a slot; OTHER if its element has more than packets, blocks and gets, or is at another boundary. */
int read_header(const char *in, Py_ssize_t slot, unsigned long superstep, const char *digest, Header *header);

/* Call `visit` for each effect and each element that it goes to.  Return 0; 1 if some effect is no tuple of six, or a visit
 * has returned 1; -1 with an exception.
 */
typedef int (*Visit)(void *state, Py_ssize_t element, const Effect *item);
int walk(PyObject *outboxes, PyObject *owner, Py_ssize_t elements, Visit visit, void *state);

/* Visits: add the size of a record to that of its packet; write it there, and add its block to those of the element. */
int add_size(void *sizes, Py_ssize_t element, const Effect *item);
int write_record(void *written, Py_ssize_t element, const Effect *item);

/* Append an item to the list of an element in a dictionary of lists, or with NULL only see that there is one; return 0, or -1
 * with an exception.
 */
int append_to(PyObject *lists, Py_ssize_t element, PyObject *item);

/* Read the next record of a packet, and move on.  Return 1, 0 at the end of the packet, or -1 with an exception. */
int next_record(const char *packet, Py_ssize_t size, Py_ssize_t *at, Head *head, const char **data);

/* Read the part in the data of a record, which begins at byte `start` of its coarray, with its items (`filled`) or without;
 * return 0, or -1 with an exception.
 */
int read_part(const char *data, Py_ssize_t size, uint64_t start, int filled, Part *part);

/* Write the items of a part whose first one goes to `start`. */
void write_part(const Part *part, char *start);

/* Return the contents of a part whose first run is at `start`, as bytes; NULL with an exception. */
PyObject *contents_of(const Part *part, const char *start);

/* What a put writes or a get reads: the memory of a coarray, a reference, its buffer, and the bytes there from `low` to below
 * `high`.
 */
typedef struct {
    PyObject *memory;
    Py_buffer buffer;
    int64_t low, high;
    Part part; /* of a record that has one */
} PlaceOfRecord;

/* Find what a put writes or a get reads; return 0, or -1 with an exception.  `leave_place` gives the memory back. */
int find_place(PyObject *tasks, Py_ssize_t first, const Head *head, const char *data, PlaceOfRecord *place);
void leave_place(PlaceOfRecord *place);

/* Do as records.apply; return 0, or -1 with an exception. */
int apply_packet(const char *packet, Py_ssize_t size, PyObject *tasks, Py_ssize_t first, PyObject *values,
                 PyObject *blocks);

/* The functions of the module. */
PyObject *pack(PyObject *self, PyObject *args);
PyObject *apply(PyObject *self, PyObject *args);
PyObject *read_asked(PyObject *self, PyObject *args);
PyObject *arranged(PyObject *self, PyObject *args);
PyObject *fill(PyObject *self, PyObject *args);
PyObject *read_slots(PyObject *self, PyObject *args);
PyObject *copy(PyObject *self, PyObject *args);
PyObject *message_in(PyObject *self, PyObject *message);
PyObject *prefixes_of_plain(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *tree_of_plain(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *tree_of_small(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *end_superstep(PyObject *self, PyObject *const *args, Py_ssize_t count);

/* Names of attributes; `intern_names` makes them before anything else is called.  It returns 0, or -1 with an exception. */
#define NAMES(_) \
    _(arrived) _(arriving) _(call) _(came) _(coarrays) _(contexts) _(copy) _(count) _(deliver) _(digest) _(effects) _(exchange) _(fault) _(fit) \
    _(headers) _(hint) _(hub) _(inbox) _(index) _(into) _(least) _(lifeline) _(out) _(outbox) _(owner) _(pid) _(raised) \
    _(raw) _(receive) _(recorder) _(registered) _(releases) _(size) _(slots) _(state) _(superstep) _(take) _(tasks) _(tell) \
    _(text) _(turn) _(_advance) _(_combine)
#define DECLARE(name) extern PyObject *name_##name;
NAMES(DECLARE)
#undef DECLARE
int intern_names(void);

/* Find a function or a type of a module, once; return 0, or -1 with an exception. */
int find_once(PyObject **place, const char *module, const char *name);

#endif
