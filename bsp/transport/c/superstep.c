/* The end of a superstep in one call: what `Element._end_superstep` does where no process has more than records, nothing is
 * to be registered or reported, and nobody looks at every effect.  That function is the reference.
 */
#include "compiled.h"

typedef struct {
    PyObject *element, *transport;                     /* borrowed */
    PyObject *tasks, *owner, *slots, *out, *into;      /* a list, a list, an object, and two bytearrays */
    PyObject *digest;                                  /* of the call at which all processes wait */
    PyObject *outboxes, *effects;                      /* lists: those that are not empty, and what they hold */
    PyObject *blocks;                                  /* a dictionary: lists of blocks, by the element of their receivers */
    Py_ssize_t slot, elements, index, first;           /* the size of a slot; the first process here */
    unsigned long superstep;
    unsigned long long hint;
    Py_ssize_t *sizes;                                 /* of packets, by element */
    char *own;                                         /* the packet of this element */
    uint64_t leaving;                                  /* bytes of blocks for other elements */
    int asks;                                          /* a process here reads memory */
    int flags;                                         /* of all elements together: what follows the packets */
    uint64_t longest;                                  /* the longest packet from any element to another */
    int ends;                                          /* the program ends here */
    int recorded;                                      /* traffic is counted */
} Superstep;

/* Read an attribute that is a number and not negative; return it, or -1 with an exception. */
static Py_ssize_t number_of(PyObject *object, PyObject *name)
{
    PyObject *value = PyObject_GetAttr(object, name);
    if (!value)
        return -1;
    Py_ssize_t number = PyNumber_AsSsize_t(value, PyExc_OverflowError);
    Py_DECREF(value);
    if (number < 0 && !PyErr_Occurred())
        PyErr_Format(PyExc_ValueError, "%U is negative: %zd", name, number);
    return number < 0 ? -1 : number;
}

/* Read an attribute of one type; return a new reference, or NULL with an exception. */
static PyObject *part_of(PyObject *object, PyObject *name, PyTypeObject *type)
{
    PyObject *value = PyObject_GetAttr(object, name);
    if (value && !PyObject_TypeCheck(value, type)) {
        PyErr_Format(PyExc_TypeError, "%U is a %s, not a %s", name, Py_TYPE(value)->tp_name, type->tp_name);
        Py_CLEAR(value);
    }
    return value;
}

/* ---- what the processes wait for ---- */

/* Look at a context whose effects are to be delivered. */
static int look_at_context(Superstep *s, PyObject *context)
{
    int found = FAILED;
    PyObject *outbox = PyObject_GetAttr(context, name_outbox);
    PyObject *effects = outbox ? part_of(outbox, name_effects, &PyList_Type) : NULL;
    PyObject *releases = effects ? part_of(context, name_releases, &PyList_Type) : NULL;
    PyObject *coarrays = releases ? part_of(context, name_coarrays, &PyList_Type) : NULL;
    Py_ssize_t registered = coarrays ? number_of(context, name_registered) : -1;
    if (registered >= 0) {
        found = PyList_GET_SIZE(releases) || registered != PyList_GET_SIZE(coarrays) ? OTHER : DONE;
        if (!found && PyList_GET_SIZE(effects)
            && (PyList_Append(s->outboxes, outbox) || PyList_Append(s->effects, effects)))
            found = FAILED;
    }
    Py_XDECREF(coarrays);
    Py_XDECREF(releases);
    Py_XDECREF(effects);
    Py_XDECREF(outbox);
    return found;
}

/* Look at the call in which a process waits. */
static int look_at_call(Superstep *s, PyObject *call)
{
    PyObject *digest = part_of(call, name_digest, &PyBytes_Type);
    PyObject *contexts = digest ? part_of(call, name_contexts, &PyTuple_Type) : NULL;
    Py_ssize_t hint = contexts ? number_of(call, name_hint) : -1;
    int found = hint < 0 ? FAILED : DONE;
    if (!found) {
        if ((unsigned long long)hint > s->hint)
            s->hint = hint;
        if (!s->digest) {
            s->digest = Py_NewRef(digest);
            s->ends = !PyTuple_GET_SIZE(contexts);
        }
        if (PyBytes_GET_SIZE(digest) != (Py_ssize_t)sizeof((Header *)0)->digest
            || PyBytes_GET_SIZE(s->digest) != PyBytes_GET_SIZE(digest)
            || memcmp(PyBytes_AS_STRING(digest), PyBytes_AS_STRING(s->digest), PyBytes_GET_SIZE(digest)))
            found = OTHER;
    }
    for (Py_ssize_t k = 0; !found && k < PyTuple_GET_SIZE(contexts); k++)
        found = look_at_context(s, PyTuple_GET_ITEM(contexts, k));
    Py_XDECREF(contexts);
    Py_XDECREF(digest);
    return found;
}

/* Return whether a process has printed text that waits. */
static int has_text(PyObject *text)
{
    if (text == Py_None)
        return DONE;
    PyObject *end = PyObject_CallMethodNoArgs(text, name_tell);
    Py_ssize_t size = end ? PyLong_AsSsize_t(end) : -1;
    Py_XDECREF(end);
    return size < 0 ? FAILED : size ? OTHER : DONE;
}

/* Look at a process. */
static int look_at_task(Superstep *s, PyObject *task)
{
    int found = FAILED;
    PyObject *state = part_of(task, name_state, &PyUnicode_Type);
    PyObject *fault = state ? PyObject_GetAttr(task, name_fault) : NULL;
    PyObject *text = fault ? PyObject_GetAttr(task, name_text) : NULL;
    PyObject *call = text ? PyObject_GetAttr(task, name_call) : NULL;
    if (call) {
        int raised = state == name_raised || !PyUnicode_Compare(state, name_raised);
        found = raised || fault != Py_None ? OTHER : has_text(text);
        if (!found)
            found = look_at_call(s, call);
    }
    Py_XDECREF(call);
    Py_XDECREF(text);
    Py_XDECREF(fault);
    Py_XDECREF(state);
    return found;
}

/* ---- what is sent ---- */

/* Add the sizes of a record and of its block. */
static int add_sizes(void *state, Py_ssize_t element, const Effect *item)
{
    Superstep *s = state;
    if (is_block(item->kind) && element != s->index)
        s->leaving += item->size;
    s->asks = s->asks || item->kind == ASK;
    return add_size(s->sizes, element, item);
}

/* Find how long packets are. */
static int measure(Superstep *s)
{
    s->sizes = PyMem_Calloc(s->elements, sizeof *s->sizes);
    if (!s->sizes) {
        PyErr_NoMemory();
        return FAILED;
    }
    int found = walk(s->effects, s->owner, s->elements, add_sizes, s);
    for (Py_ssize_t k = 0; !found && k < s->elements; k++)
        if (k != s->index && s->sizes[k] > s->slot - (Py_ssize_t)sizeof(Header))
            found = OTHER;
    if (found)
        return found;
    s->own = PyMem_Malloc(s->sizes[s->index] + 1);
    s->blocks = PyDict_New();
    if (!s->own)
        PyErr_NoMemory();
    return s->own && s->blocks ? DONE : FAILED;
}

/* Write the packets, those of others behind their headers. */
static int write_packets(Superstep *s)
{
    char *out = PyByteArray_AS_STRING(s->out);
    Written written = {PyMem_Calloc(s->elements, sizeof(Place)), s->blocks};
    if (!written.places) {
        PyErr_NoMemory();
        return FAILED;
    }
    for (Py_ssize_t k = 0; k < s->elements; k++) {
        Place *place = written.places + k;
        place->at = k == s->index ? s->own : out + k * s->slot + sizeof(Header);
        place->end = place->at + s->sizes[k];
    }
    int failed = walk(s->effects, s->owner, s->elements, write_record, &written);
    PyMem_Free(written.places);
    return failed ? FAILED : DONE;
}

/* Take what has been issued out of the outboxes: what a thread or a finalizer issues from now on waits for the next
 * superstep.  A finalizer may run wherever an object is made.
 */
static int take(Superstep *s)
{
    for (Py_ssize_t b = 0; b < PyList_GET_SIZE(s->outboxes); b++) {
        PyObject *empty = PyList_New(0);
        int failed = !empty || PyObject_SetAttr(PyList_GET_ITEM(s->outboxes, b), name_effects, empty);
        Py_XDECREF(empty);
        if (failed)
            return FAILED;
    }
    return DONE;
}

/* Let the element count what is delivered. */
static int count(const Superstep *s)
{
    if (!s->recorded)
        return DONE;
    PyObject *counted = PyObject_CallMethodOneArg(s->element, name_count, s->effects);
    Py_XDECREF(counted);
    return counted ? DONE : FAILED;
}

/* Put it back, before what has been issued since. */
static int put_back(Superstep *s)
{
    for (Py_ssize_t b = 0; b < PyList_GET_SIZE(s->outboxes); b++) {
        PyObject *effects = part_of(PyList_GET_ITEM(s->outboxes, b), name_effects, &PyList_Type);
        int failed = !effects || PyList_SetSlice(effects, 0, 0, PyList_GET_ITEM(s->effects, b));
        Py_XDECREF(effects);
        if (failed)
            return FAILED;
    }
    return DONE;
}

/* Write headers and packets into the slots. */
static int fill_slots(Superstep *s, double clock)
{
    char *out = PyByteArray_AS_STRING(s->out);
    Header header = small_header(clock, s->superstep, PyBytes_AS_STRING(s->digest), s->hint, s->leaving, s->asks);
    s->flags = header.flags;
    for (Py_ssize_t k = 0; s->sizes && k < s->elements; k++) {
        uint64_t size = k == s->index ? 0 : s->sizes[k];
        header.row_count += size > 0;
        header.row_total += size;
        if (size > header.row_max)
            header.row_max = size;
    }
    for (Py_ssize_t k = 0; k < s->elements; k++) {
        header.inlined = s->sizes && k != s->index ? (uint16_t)s->sizes[k] : 0;
        memcpy(out + k * s->slot, &header, sizeof header);
    }
    s->longest = header.row_max;
    return s->sizes ? write_packets(s) : DONE;
}

/* ---- what has come ---- */

/* Return the packet from an element: its own, or the one in its slot. */
static const char *packet_from(const Superstep *s, Py_ssize_t k, Py_ssize_t *size)
{
    if (k == s->index) {
        *size = s->sizes ? s->sizes[k] : 0;
        return s->own;
    }
    const char *slot = PyByteArray_AS_STRING(s->into) + k * s->slot;
    Header header;
    memcpy(&header, slot, sizeof header);
    *size = header.inlined;
    return slot + sizeof header;
}

/* Read the headers of the other elements. */
static int read_headers(Superstep *s)
{
    for (Py_ssize_t k = 0; k < s->elements; k++) {
        const char *slot = PyByteArray_AS_STRING(s->into) + k * s->slot;
        Header header;
        if (k == s->index)
            continue;
        int found = read_header(slot, s->slot, s->superstep, PyBytes_AS_STRING(s->digest), &header);
        if (found)
            return found;
        s->flags |= header.flags;
        if (header.row_max > s->longest)
            s->longest = header.row_max;
        if (header.hint > s->hint)
            s->hint = header.hint;
        if (!header.inlined)
            continue;
        uint8_t kind = (uint8_t)slot[sizeof header];
        if (kind < PUT || kind > COMBINE)
            return OTHER;
    }
    return DONE;
}

/* Apply all packets, in the order of their elements; the values go to the element's pool. */
static int apply_packets(Superstep *s)
{
    PyObject *values = PyDict_New(), *no_blocks = PyList_New(0);
    int failed = !values || !no_blocks;
    for (Py_ssize_t k = 0; !failed && k < s->elements; k++) {
        Py_ssize_t size;
        const char *packet = packet_from(s, k, &size);
        failed = size && apply_packet(packet, size, s->tasks, s->first, values, no_blocks);
    }
    if (!failed && PyDict_GET_SIZE(values)) {
        PyObject *taken = PyObject_CallMethodOneArg(s->element, name_take, values);
        failed = !taken;
        Py_XDECREF(taken);
    }
    Py_XDECREF(no_blocks);
    Py_XDECREF(values);
    return failed ? FAILED : DONE;
}

/* Return all packets, a dictionary by element; NULL with an exception. */
static PyObject *packets_of(Superstep *s)
{
    PyObject *packets = PyDict_New();
    for (Py_ssize_t k = 0; packets && k < s->elements; k++) {
        Py_ssize_t size;
        const char *bytes = packet_from(s, k, &size);
        if (!size)
            continue;
        PyObject *number = PyLong_FromSsize_t(k), *packet = PyBytes_FromStringAndSize(bytes, size);
        if (!number || !packet || PyDict_SetItem(packets, number, packet))
            Py_CLEAR(packets);
        Py_XDECREF(number);
        Py_XDECREF(packet);
    }
    return packets;
}

/* Let the element exchange blocks and replies, and apply everything. */
static int exchange_more(Superstep *s)
{
    PyObject *packets = packets_of(s), *flags = PyLong_FromLong(s->flags), *done = NULL;
    if (!s->blocks)
        s->blocks = PyDict_New();
    if (packets && flags && s->blocks) {
        PyObject *arguments[] = {s->element, packets, s->blocks, flags, s->effects};
        done = PyObject_VectorcallMethod(name_deliver, arguments, 5, NULL);
    }
    Py_XDECREF(flags);
    Py_XDECREF(packets);
    Py_XDECREF(done);
    return done ? DONE : FAILED;
}

/* Deliver what has come. */
static int deliver(Superstep *s)
{
    if (s->flags || (s->blocks && PyDict_GET_SIZE(s->blocks)))
        return exchange_more(s);
    return s->longest || s->sizes ? apply_packets(s) : DONE;
}

/* ---- the next superstep ---- */

/* Make what has arrived in a context visible. */
static int show_arrived(PyObject *context)
{
    PyObject *arriving = part_of(context, name_arriving, &PyList_Type);
    PyObject *arrived = arriving ? part_of(context, name_arrived, &PyList_Type) : NULL;
    PyObject *inbox = arrived ? PyObject_GetAttr(context, name_inbox) : NULL;
    int failed = !inbox;
    if (!failed && (PyList_GET_SIZE(arriving) || PyList_GET_SIZE(arrived) || inbox != Py_None)) {
        PyObject *empty = PyList_New(0);
        failed = !empty || PyObject_SetAttr(context, name_arrived, arriving)
                 || PyObject_SetAttr(context, name_arriving, empty) || PyObject_SetAttr(context, name_inbox, Py_None);
        Py_XDECREF(empty);
    }
    Py_XDECREF(inbox);
    Py_XDECREF(arrived);
    Py_XDECREF(arriving);
    return failed ? FAILED : DONE;
}

/* Make what has arrived for a process visible. */
static int show_to(PyObject *task)
{
    PyObject *call = PyObject_GetAttr(task, name_call);
    PyObject *contexts = call ? part_of(call, name_contexts, &PyTuple_Type) : NULL;
    int failed = !contexts;
    for (Py_ssize_t k = 0; !failed && k < PyTuple_GET_SIZE(contexts); k++)
        failed = show_arrived(PyTuple_GET_ITEM(contexts, k));
    Py_XDECREF(contexts);
    Py_XDECREF(call);
    return failed ? FAILED : DONE;
}

/* Tell the launcher which process has its turn, if this one is alone. */
static int note_turn(Superstep *s, PyObject *superstep)
{
    PyObject *lifeline = PyObject_GetAttr(s->element, name_lifeline), *noted = NULL;
    PyObject *hub = lifeline ? PyObject_GetAttr(s->element, name_hub) : NULL;
    int failed = !hub;
    if (!failed && lifeline != Py_None && hub == Py_None) {
        PyObject *pid = PyLong_FromSsize_t(s->first);
        PyObject *arguments[] = {lifeline, pid, superstep};
        noted = pid ? PyObject_VectorcallMethod(name_turn, arguments, 3, NULL) : NULL;
        failed = !noted;
        Py_XDECREF(pid);
    }
    Py_XDECREF(noted);
    Py_XDECREF(hub);
    Py_XDECREF(lifeline);
    return failed ? FAILED : DONE;
}

/* Begin the next superstep. */
static int advance(Superstep *s)
{
    if (s->ends || s->recorded) {
        PyObject *ended = PyObject_CallMethodNoArgs(s->element, name__advance);
        Py_XDECREF(ended);
        return ended ? DONE : FAILED;
    }
    PyObject *superstep = PyLong_FromUnsignedLong(s->superstep + 1);
    int failed = !superstep || PyObject_SetAttr(s->element, name_superstep, superstep) || note_turn(s, superstep);
    Py_XDECREF(superstep);
    for (Py_ssize_t k = 0; !failed && k < PyList_GET_SIZE(s->tasks); k++)
        failed = show_to(PyList_GET_ITEM(s->tasks, k));
    return failed ? FAILED : DONE;
}

/* Deliver, and use other slots if the packets ask for it. */
static int finish(Superstep *s)
{
    Py_ssize_t least = number_of(s->slots, name_least);
    if (least < 0)
        return FAILED;
    if (s->longest && s->longest < (uint64_t)least) {
        PyObject *longest = PyLong_FromUnsignedLongLong(s->longest);
        PyObject *fitted = longest ? PyObject_CallMethodOneArg(s->slots, name_fit, longest) : NULL;
        Py_XDECREF(longest);
        Py_XDECREF(fitted);
        if (!fitted)
            return FAILED;
    }
    if (deliver(s))
        return FAILED;
    PyObject *hint = PyLong_FromUnsignedLongLong(s->hint);
    int failed = !hint || PyObject_SetAttr(s->element, name_hint, hint);
    Py_XDECREF(hint);
    return failed ? FAILED : advance(s);
}

/* ---- all together ---- */

/* Read what the element and its slots have. */
static int begin(Superstep *s)
{
    s->tasks = part_of(s->element, name_tasks, &PyList_Type);
    s->owner = s->tasks ? part_of(s->element, name_owner, &PyList_Type) : NULL;
    s->slots = s->owner ? PyObject_GetAttr(s->transport, name_slots) : NULL;
    s->out = s->slots ? part_of(s->slots, name_out, &PyByteArray_Type) : NULL;
    s->into = s->out ? part_of(s->slots, name_into, &PyByteArray_Type) : NULL;
    s->slot = s->into ? number_of(s->slots, name_size) : -1;
    s->index = s->slot < 0 ? -1 : number_of(s->element, name_index);
    s->superstep = s->index < 0 ? 0 : (unsigned long)number_of(s->element, name_superstep);
    s->outboxes = PyList_New(0);
    s->effects = PyList_New(0);
    if (PyErr_Occurred())
        return FAILED;
    if (!PyList_GET_SIZE(s->tasks) || s->slot < (Py_ssize_t)sizeof(Header)
        || PyByteArray_GET_SIZE(s->into) != PyByteArray_GET_SIZE(s->out)) {
        PyErr_SetString(PyExc_ValueError, "slots hold a header each, and there is a process");
        return FAILED;
    }
    PyObject *recorder = PyObject_GetAttr(s->element, name_recorder);
    if (!recorder)
        return FAILED;
    s->recorded = recorder != Py_None;
    Py_DECREF(recorder);
    s->elements = PyByteArray_GET_SIZE(s->out) / s->slot;
    s->first = number_of(PyList_GET_ITEM(s->tasks, 0), name_pid);
    return s->first < 0 ? FAILED : DONE;
}

/* Do everything before the exchange of slots. */
static int prepare(Superstep *s, double clock)
{
    int found = begin(s);
    for (Py_ssize_t k = 0; !found && k < PyList_GET_SIZE(s->tasks); k++)
        found = look_at_task(s, PyList_GET_ITEM(s->tasks, k));
    if (!found && PyList_GET_SIZE(s->effects)) {
        found = take(s) ? FAILED : measure(s);
        if (found == OTHER && put_back(s))
            found = FAILED;
        if (!found)
            found = count(s);
    }
    return found ? found : fill_slots(s, clock);
}

/* Exchange the slots, and note that they have what has come. */
static int exchange(Superstep *s)
{
    PyObject *done = PyObject_CallMethodNoArgs(s->slots, name_exchange);
    Py_XDECREF(done);
    if (!done || PyObject_SetAttr(s->slots, name_headers, Py_None)
        || PyObject_SetAttr(s->transport, name_came, s->slots))
        return FAILED;
    return DONE;
}

PyObject *end_superstep(PyObject *Py_UNUSED(self), PyObject *const *args, Py_ssize_t count)
{
    if (count != 3)
        return PyErr_Format(PyExc_TypeError, "an element, its transport and the clock, not %zd arguments", count);
    double clock = PyFloat_AsDouble(args[2]);
    if (clock == -1.0 && PyErr_Occurred())
        return NULL;
    Superstep s = {.element = args[0], .transport = args[1]};
    PyObject *answer = NULL;
    int found = prepare(&s, clock);
    if (found == OTHER) {
        answer = Py_NewRef(Py_False);
    } else if (!found && !exchange(&s)) {
        found = read_headers(&s);
        if (found == OTHER)
            answer = Py_NewRef(s.effects);
        else if (!found && !finish(&s))
            answer = Py_NewRef(Py_True);
    }
    PyMem_Free(s.sizes);
    PyMem_Free(s.own);
    PyObject *held[] = {s.tasks, s.owner, s.slots, s.out, s.into, s.digest, s.outboxes, s.effects, s.blocks};
    for (size_t k = 0; k < sizeof held / sizeof *held; k++)
        Py_XDECREF(held[k]);
    return answer;
}
