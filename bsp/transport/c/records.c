/* Records in C: bsp/values/records.py says what the functions do, and is what tests compare them with. */
#include "compiled.h"

enum { ADDRESS = 12 }; /* bytes */

int is_block(long kind)
{
    return kind == COPIED || kind == LENT;
}

int is_for_all(long kind)
{
    return kind == VALUE || kind == ARRAY;
}

int is_put(long kind)
{
    return kind == PUT || kind == PART || kind == COMBINE || is_block(kind);
}

/* Return the bytes that follow the head of a record in its packet. */
static Py_ssize_t inlined(long kind, Py_ssize_t size)
{
    return is_block(kind) ? 0 : size;
}

/* Read a tuple (kind, dest, address, start, data, coarray).  Return 0, or -1 with an exception. */
static int read_effect(PyObject *effect, Effect *item)
{
    PyObject *address = PyTuple_GET_ITEM(effect, 2), *data = PyTuple_GET_ITEM(effect, 4);
    Py_buffer bytes;
    item->kind = PyLong_AsLong(PyTuple_GET_ITEM(effect, 0));
    item->dest = PyLong_AsLong(PyTuple_GET_ITEM(effect, 1));
    item->start = PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(effect, 3));
    if (PyErr_Occurred())
        return -1;
    if (!PyBytes_Check(address) || PyBytes_GET_SIZE(address) != ADDRESS
        || !(is_block(item->kind) || PyBytes_Check(data))) {
        PyErr_SetString(PyExc_TypeError, "a record has 12 bytes of address, and bytes or a block of data");
        return -1;
    }
    item->address = PyBytes_AS_STRING(address);
    item->block = NULL;
    if (is_block(item->kind)) {
        if (PyObject_GetBuffer(data, &bytes, PyBUF_SIMPLE))
            return -1;
        item->block = data;
        item->data = NULL;
        item->size = bytes.len;
        PyBuffer_Release(&bytes);
        return 0;
    }
    item->data = PyBytes_AS_STRING(data);
    item->size = PyBytes_GET_SIZE(data);
    return 0;
}

/* Return the elements that an effect goes to, from *low to below *high; -1 with an exception if dest is none. */
static int range_of(const Effect *item, PyObject *owner, Py_ssize_t elements, Py_ssize_t *low, Py_ssize_t *high)
{
    if (item->dest < 0 || item->dest >= PyList_GET_SIZE(owner)) {
        PyErr_Format(PyExc_IndexError, "process %ld of %zd", item->dest, PyList_GET_SIZE(owner));
        return -1;
    }
    *low = PyLong_AsSsize_t(PyList_GET_ITEM(owner, item->dest));
    if (*low < 0 || *low >= elements) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_IndexError, "element %zd of %zd", *low, elements);
        return -1;
    }
    *high = is_for_all(item->kind) ? elements : *low + 1;
    return 0;
}

int walk(PyObject *outboxes, PyObject *owner, Py_ssize_t elements, Visit visit, void *state)
{
    for (Py_ssize_t b = 0; b < PyList_GET_SIZE(outboxes); b++) {
        PyObject *effects = PyList_GET_ITEM(outboxes, b);
        if (!PyList_Check(effects)) {
            PyErr_SetString(PyExc_TypeError, "an outbox is a list");
            return -1;
        }
        for (Py_ssize_t e = 0; e < PyList_GET_SIZE(effects); e++) {
            PyObject *effect = PyList_GET_ITEM(effects, e);
            Effect item;
            Py_ssize_t low, high;
            int found;
            if (!PyTuple_CheckExact(effect) || PyTuple_GET_SIZE(effect) != 6)
                return 1;
            if (read_effect(effect, &item) || range_of(&item, owner, elements, &low, &high))
                return -1;
            for (Py_ssize_t k = low; k < high; k++)
                if ((found = visit(state, k, &item)))
                    return found;
        }
    }
    return 0;
}

int add_size(void *sizes, Py_ssize_t element, const Effect *item)
{
    ((Py_ssize_t *)sizes)[element] += (Py_ssize_t)sizeof(Head) + inlined(item->kind, item->size);
    return 0;
}

int append_to(PyObject *lists, Py_ssize_t element, PyObject *item)
{
    PyObject *number = PyLong_FromSsize_t(element), *fresh = PyList_New(0);
    PyObject *list = number && fresh ? PyDict_SetDefault(lists, number, fresh) : NULL; /* borrowed */
    int failed = !list || (item && PyList_Append(list, item));
    Py_XDECREF(number);
    Py_XDECREF(fresh);
    return failed ? -1 : 0;
}

int write_record(void *state, Py_ssize_t element, const Effect *item)
{
    Written *written = state;
    Place *place = written->places + element;
    Py_ssize_t size = inlined(item->kind, item->size);
    if (place->end - place->at < (Py_ssize_t)sizeof(Head) + size) {
        PyErr_SetString(PyExc_RuntimeError, "an outbox has changed while it was packed");
        return -1;
    }
    Head head = {.kind = (uint8_t)item->kind, .dest = (int32_t)item->dest, .size = (uint32_t)item->size,
                 .start = item->start};
    memcpy(&head.context, item->address, ADDRESS);
    memcpy(place->at, &head, sizeof head);
    if (size)
        memcpy(place->at + sizeof head, item->data, size);
    place->at += sizeof head + size;
    return item->block ? append_to(written->blocks, element, item->block) : 0;
}

/* Add packets whose contents are not yet written; return 0, or -1 with an exception. */
static int add_packets(PyObject *packets, const Py_ssize_t *sizes, Py_ssize_t elements, Place *places)
{
    for (Py_ssize_t k = 0; k < elements; k++) {
        if (!sizes[k])
            continue;
        PyObject *number = PyLong_FromSsize_t(k), *packet = PyBytes_FromStringAndSize(NULL, sizes[k]);
        int failed = !number || !packet || PyDict_SetItem(packets, number, packet) < 0;
        if (!failed) {
            places[k].at = PyBytes_AS_STRING(packet); /* the dictionary keeps it alive */
            places[k].end = places[k].at + sizes[k];
        }
        Py_XDECREF(number);
        Py_XDECREF(packet);
        if (failed)
            return -1;
    }
    return 0;
}

PyObject *pack(PyObject *Py_UNUSED(self), PyObject *args)
{
    PyObject *outboxes, *owner, *blocks;
    Py_ssize_t elements, index, room;
    if (!PyArg_ParseTuple(args, "O!O!nnnO!", &PyList_Type, &outboxes, &PyList_Type, &owner, &elements, &index, &room,
                          &PyDict_Type, &blocks))
        return NULL;
    PyObject *packets = PyDict_New();
    Py_ssize_t *sizes = PyMem_Calloc(elements, sizeof *sizes);
    Place *places = PyMem_Calloc(elements, sizeof *places);
    int other = -1;
    if (!packets || !sizes || !places)
        PyErr_NoMemory();
    else
        other = walk(outboxes, owner, elements, add_size, sizes);
    for (Py_ssize_t k = 0; !other && k < elements; k++)
        other = k != index && sizes[k] > room;
    if (!other) {
        Written written = {places, blocks};
        if (add_packets(packets, sizes, elements, places))
            other = -1;
        else
            other = walk(outboxes, owner, elements, write_record, &written);
        for (Py_ssize_t k = 0; other >= 0 && k < elements; k++)
            if (other || places[k].at != places[k].end) {
                PyErr_SetString(PyExc_RuntimeError, "an outbox has changed while it was packed");
                other = -1;
            }
    }
    PyMem_Free(sizes);
    PyMem_Free(places);
    if (!other)
        return packets;
    Py_XDECREF(packets);
    return other < 0 ? NULL : Py_NewRef(Py_None);
}

/* Return the context of a record on a process here, as a new reference; NULL with an exception. */
static PyObject *context_of(PyObject *tasks, Py_ssize_t place, const Head *head)
{
    if (place < 0 || place >= PyList_GET_SIZE(tasks))
        return PyErr_Format(PyExc_IndexError, "process %d is not here", (int)head->dest);
    PyObject *number = PyLong_FromUnsignedLong(head->context);
    PyObject *contexts = PyObject_GetAttr(PyList_GET_ITEM(tasks, place), name_contexts);
    PyObject *context = contexts && number ? PyObject_GetItem(contexts, number) : NULL;
    Py_XDECREF(contexts);
    Py_XDECREF(number);
    return context;
}

/* Return a coarray of a process here, as a new reference; NULL with an exception. */
static PyObject *coarray_of(PyObject *tasks, Py_ssize_t place, const Head *head)
{
    PyObject *context = context_of(tasks, place, head);
    PyObject *coarrays = context ? PyObject_GetAttr(context, name_coarrays) : NULL;
    PyObject *coarray = coarrays ? PySequence_GetItem(coarrays, head->coarray) : NULL;
    Py_XDECREF(coarrays);
    Py_XDECREF(context);
    return coarray;
}

/* Return the memory of a coarray on a process here, as a new reference; NULL with an exception. */
static PyObject *memory_of(PyObject *tasks, Py_ssize_t place, const Head *head)
{
    PyObject *coarray = coarray_of(tasks, place, head);
    PyObject *memory = coarray ? PyObject_GetAttr(coarray, name_raw) : NULL;
    Py_XDECREF(coarray);
    return memory;
}

int find_place(PyObject *tasks, Py_ssize_t first, const Head *head, const char *data, PlaceOfRecord *place)
{
    if (head->kind == PART || head->kind == ASK || head->kind == COMBINE) {
        int op = head->kind == COMBINE; /* the byte of its operation */
        if (read_part(data + op, (Py_ssize_t)head->size - op, head->start, head->kind != ASK, &place->part))
            return -1;
        place->low = place->part.low;
        place->high = place->part.high;
    } else {
        place->low = (int64_t)head->start;
        place->high = head->start > (uint64_t)INT64_MAX - head->size ? -1 : (int64_t)(head->start + head->size);
    }
    place->memory = memory_of(tasks, head->dest - first, head);
    if (!place->memory)
        return -1;
    if (PyObject_GetBuffer(place->memory, &place->buffer, PyBUF_WRITABLE)) {
        Py_DECREF(place->memory);
        return -1;
    }
    if (place->low < 0 || place->high < place->low || place->high > place->buffer.len) {
        leave_place(place);
        PyErr_SetString(PyExc_IndexError, "a put or a get runs past its coarray");
        return -1;
    }
    return 0;
}

void leave_place(PlaceOfRecord *place)
{
    PyBuffer_Release(&place->buffer);
    Py_DECREF(place->memory);
}

/* Write the data of a put; return 0, or -1 with an exception. */
static int write_put(PyObject *tasks, Py_ssize_t first, const Head *head, const char *data)
{
    PlaceOfRecord place;
    if (find_place(tasks, first, head, data, &place))
        return -1;
    if (head->kind == PART)
        write_part(&place.part, (char *)place.buffer.buf + head->start);
    else
        memcpy((char *)place.buffer.buf + head->start, data, head->size);
    leave_place(&place);
    return 0;
}

/* Write a block that is not yet in its place; return 0, or -1 with an exception. */
static int write_block(PyObject *tasks, Py_ssize_t first, const Head *head, PyObject *block)
{
    Py_buffer bytes;
    if (block == Py_None)
        return 0;
    if (PyObject_GetBuffer(block, &bytes, PyBUF_SIMPLE))
        return -1;
    int failed = bytes.len != (Py_ssize_t)head->size;
    if (failed)
        PyErr_SetString(PyExc_ValueError, "a block has another size than its record");
    else
        failed = write_put(tasks, first, head, bytes.buf);
    PyBuffer_Release(&bytes);
    return failed ? -1 : 0;
}

int next_record(const char *packet, Py_ssize_t size, Py_ssize_t *at, Head *head, const char **data)
{
    if (*at == size)
        return 0;
    Py_ssize_t left = size - *at - (Py_ssize_t)sizeof *head;
    if (left >= 0) {
        memcpy(head, packet + *at, sizeof *head);
        if (head->kind < PUT || head->kind > COMBINE) {
            PyErr_Format(PyExc_ValueError, "a record of the unknown kind %d", (int)head->kind);
            return -1;
        }
        *data = packet + *at + sizeof *head;
        Py_ssize_t follow = inlined(head->kind, head->size);
        *at += (Py_ssize_t)sizeof *head + follow;
        left -= follow;
    }
    if (left < 0)
        PyErr_SetString(PyExc_ValueError, "a packet ends inside a record");
    return left < 0 ? -1 : 1;
}

/* Call a method with a number and the data of a record; takes the references to object and number.  Return 0, or -1 with an
 * exception.
 */
static int hand_over(PyObject *object, PyObject *method, PyObject *number, const Head *head, const char *data)
{
    PyObject *bytes = PyBytes_FromStringAndSize(data, head->size), *done = NULL;
    if (number && bytes)
        done = PyObject_CallMethodObjArgs(object, method, number, bytes, NULL);
    Py_XDECREF(done);
    Py_XDECREF(bytes);
    Py_XDECREF(number);
    Py_DECREF(object);
    return done ? 0 : -1;
}

/* Give a message to its receiver; return 0, or -1 with an exception. */
static int give_message(PyObject *tasks, Py_ssize_t first, const Head *head, const char *data)
{
    PyObject *context = context_of(tasks, head->dest - first, head);
    return context ? hand_over(context, name_receive, PyLong_FromLong(head->source), head, data) : -1;
}

/* Let a coarray combine its contents with the values of a record; return 0, or -1 with an exception. */
static int combine(PyObject *tasks, Py_ssize_t first, const Head *head, const char *data)
{
    PyObject *coarray = coarray_of(tasks, head->dest - first, head);
    return coarray ? hand_over(coarray, name__combine, PyLong_FromUnsignedLongLong(head->start), head, data) : -1;
}

/* Add a value to those of its source, an array as a bytearray; return 0, or -1 with an exception. */
static int take_value(PyObject *values, const Head *head, const char *data)
{
    PyObject *source = PyLong_FromLong(head->source);
    PyObject *value = head->kind == ARRAY ? PyByteArray_FromStringAndSize(data, head->size)
                                          : PyBytes_FromStringAndSize(data, head->size);
    int failed = !source || !value || PyDict_SetItem(values, source, value);
    Py_XDECREF(source);
    Py_XDECREF(value);
    return failed ? -1 : 0;
}

int apply_packet(const char *packet, Py_ssize_t size, PyObject *tasks, Py_ssize_t first, PyObject *values,
                 PyObject *blocks)
{
    Head head;
    const char *data;
    Py_ssize_t at = 0, taken = 0;
    int more;
    while ((more = next_record(packet, size, &at, &head, &data)) > 0) {
        int failed;
        if (head.kind == PUT || head.kind == PART) {
            failed = write_put(tasks, first, &head, data);
        } else if (head.kind == ASK) {
            failed = 0;
        } else if (head.kind == COMBINE) {
            failed = combine(tasks, first, &head, data);
        } else if (head.kind == MESSAGE) {
            failed = give_message(tasks, first, &head, data);
        } else if (!is_block(head.kind)) {
            failed = take_value(values, &head, data);
        } else if (taken < PyList_GET_SIZE(blocks)) {
            failed = write_block(tasks, first, &head, PyList_GET_ITEM(blocks, taken++));
        } else {
            PyErr_SetString(PyExc_ValueError, "a record has no block");
            failed = 1;
        }
        if (failed)
            return -1;
    }
    if (!more && taken < PyList_GET_SIZE(blocks)) {
        PyErr_SetString(PyExc_ValueError, "a block has no record");
        more = -1;
    }
    return more;
}

/* Add the answer to a get; return 0, or -1 with an exception. */
static int answer(PyObject *found, PyObject *tasks, Py_ssize_t first, const Head *head, const char *data)
{
    PlaceOfRecord place;
    if (find_place(tasks, first, head, data, &place))
        return -1;
    PyObject *contents = contents_of(&place.part, (const char *)place.buffer.buf + head->start);
    PyObject *reply = contents ? Py_BuildValue("iiN", (int)head->source, (int)head->dest, contents) : NULL;
    int failed = !reply || PyList_Append(found, reply);
    Py_XDECREF(reply);
    leave_place(&place);
    return failed ? -1 : 0;
}

PyObject *read_asked(PyObject *Py_UNUSED(self), PyObject *args)
{
    Py_buffer packet;
    PyObject *tasks;
    Py_ssize_t first, at = 0;
    Head head;
    const char *data;
    int more = -1;
    if (!PyArg_ParseTuple(args, "y*O!n", &packet, &PyList_Type, &tasks, &first))
        return NULL;
    PyObject *found = PyList_New(0);
    while (found && (more = next_record(packet.buf, packet.len, &at, &head, &data)) > 0)
        if (head.kind == ASK && answer(found, tasks, first, &head, data)) {
            more = -1;
            break;
        }
    PyBuffer_Release(&packet);
    if (more)
        Py_CLEAR(found);
    return found;
}

PyObject *apply(PyObject *Py_UNUSED(self), PyObject *args)
{
    Py_buffer packet;
    PyObject *tasks, *values, *blocks;
    Py_ssize_t first;
    if (!PyArg_ParseTuple(args, "y*O!nO!O!", &packet, &PyList_Type, &tasks, &first, &PyDict_Type, &values, &PyList_Type,
                          &blocks))
        return NULL;
    int failed = apply_packet(packet.buf, packet.len, tasks, first, values, blocks);
    PyBuffer_Release(&packet);
    return failed ? NULL : Py_NewRef(Py_None);
}
