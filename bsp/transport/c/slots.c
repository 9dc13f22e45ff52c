/* Slots in C: a header, and a packet behind it.  bsp/transport/slots.py says what the functions do. */
#include "compiled.h"

Header small_header(double clock, unsigned long superstep, const char *digest, uint64_t hint, uint64_t block_bytes, int asks)
{
    Header header = {.clock = clock, .superstep = (uint32_t)superstep, .bad_pid = -1, .hint = hint, .row_total = block_bytes,
                     .flags = (block_bytes ? BLOCKS : 0) | (asks ? GET : 0)};
    memcpy(header.digest, digest, sizeof header.digest);
    return header;
}

int read_header(const char *in, Py_ssize_t slot, unsigned long superstep, const char *digest, Header *header)
{
    memcpy(header, in, sizeof *header);
    if (header->flags & ~(BLOCKS | GET) || header->superstep != (uint32_t)superstep
        || memcmp(header->digest, digest, sizeof header->digest))
        return OTHER;
    if (header->inlined > slot - (Py_ssize_t)sizeof *header) {
        PyErr_SetString(PyExc_ValueError, "a packet runs past its slot");
        return FAILED;
    }
    return DONE;
}

PyObject *fill(PyObject *Py_UNUSED(self), PyObject *args)
{
    PyObject *slots, *packets, *key, *packet;
    Py_ssize_t slot, count, at = 0;
    unsigned long superstep;
    const char *digest;
    double clock;
    unsigned long long hint, block_bytes;
    int asks;
    if (!PyArg_ParseTuple(args, "O!ndky#KO!Kp", &PyByteArray_Type, &slots, &slot, &clock, &superstep, &digest, &count, &hint,
                          &PyDict_Type, &packets, &block_bytes, &asks))
        return NULL;
    if (slot < (Py_ssize_t)sizeof(Header) || count != sizeof((Header *)0)->digest)
        return PyErr_Format(PyExc_ValueError, "slots of %zd bytes, a digest of %zd", slot, count);
    Py_ssize_t elements = PyByteArray_GET_SIZE(slots) / slot;
    Header header = small_header(clock, superstep, digest, hint, block_bytes, asks);
    header.row_count = (uint32_t)PyDict_GET_SIZE(packets);
    while (PyDict_Next(packets, &at, &key, &packet)) {
        if (!PyBytes_Check(packet) || PyBytes_GET_SIZE(packet) > slot - (Py_ssize_t)sizeof header)
            return PyErr_Format(PyExc_ValueError, "a packet does not fit into a slot of %zd bytes", slot);
        uint64_t size = (uint64_t)PyBytes_GET_SIZE(packet);
        header.row_total += size;
        if (size > header.row_max)
            header.row_max = size;
    }
    char *out = PyByteArray_AS_STRING(slots);
    for (Py_ssize_t k = 0; k < elements; k++)
        memcpy(out + k * slot, &header, sizeof header);
    for (at = 0; PyDict_Next(packets, &at, &key, &packet);) {
        Py_ssize_t k = PyLong_AsSsize_t(key);
        if (k < 0 || k >= elements)
            return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_IndexError, "element %zd of %zd", k, elements);
        Header mine = header;
        mine.inlined = (uint16_t)PyBytes_GET_SIZE(packet);
        memcpy(out + k * slot, &mine, sizeof mine);
        memcpy(out + k * slot + sizeof mine, PyBytes_AS_STRING(packet), mine.inlined);
    }
    return PyLong_FromUnsignedLongLong(header.row_max);
}

PyObject *read_slots(PyObject *Py_UNUSED(self), PyObject *args)
{
    PyObject *slots;
    Py_ssize_t slot, index, count;
    unsigned long superstep;
    const char *digest;
    uint64_t longest = 0, hint = 0;
    int flags = 0;
    if (!PyArg_ParseTuple(args, "O!nnky#", &PyByteArray_Type, &slots, &slot, &index, &superstep, &digest, &count))
        return NULL;
    Header header;
    if (slot < (Py_ssize_t)sizeof header || count != sizeof header.digest)
        return PyErr_Format(PyExc_ValueError, "slots of %zd bytes, a digest of %zd", slot, count);
    PyObject *found = PyDict_New();
    for (Py_ssize_t k = 0; found && k < PyByteArray_GET_SIZE(slots) / slot; k++) {
        const char *in = PyByteArray_AS_STRING(slots) + k * slot;
        if (k == index)
            continue;
        int other = read_header(in, slot, superstep, digest, &header);
        if (other) {
            Py_DECREF(found);
            return other == OTHER ? Py_NewRef(Py_None) : NULL;
        }
        flags |= header.flags;
        if (header.row_max > longest)
            longest = header.row_max;
        if (header.hint > hint)
            hint = header.hint;
        if (!header.inlined)
            continue;
        PyObject *number = PyLong_FromSsize_t(k);
        PyObject *packet = PyBytes_FromStringAndSize(in + sizeof header, header.inlined);
        if (!number || !packet || PyDict_SetItem(found, number, packet) < 0)
            Py_CLEAR(found);
        Py_XDECREF(number);
        Py_XDECREF(packet);
    }
    return found ? Py_BuildValue("NKKi", found, (unsigned long long)longest, (unsigned long long)hint, flags) : NULL;
}
