/* In C: Belongings.enter and Belongings.leave, for a process that has changed nothing since its turn began.
 *
 * That is nearly every turn: nothing but comparisons and stores.  Where there is more to do, which C recognises before it
 * has done anything, the methods in Python do it all.  tests/bsp/interpreter/test_turns.py compares the two.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <string.h>
#include <structmember.h>

/* ---- what the interpreter has ---- */

typedef enum {
    STDOUT, STDIN, ARGV, MODULES, /* in sys */
    MAIN, ASYNCIO, RUNNING_LOOP, /* in sys.modules, and in asyncio */
    FILTERS, SHOW, SHOW_IMPL, /* in warnings, in the order of Belongings.warnings */
    GAUSS_NEXT, STATE_WAS_SET, ENTER, LEAVE,
    NAMES
} Name;

static const char *const texts[NAMES] = {
    "stdout", "stdin", "argv", "modules",
    "__main__", "asyncio", "_get_running_loop",
    "filters", "showwarning", "_showwarnmsg_impl",
    "gauss_next", "state_was_set", "enter", "leave",
};
static PyObject *names[NAMES];

static PyObject *in_sys, *in_warnings; /* the dictionaries of the modules */

/* Of bsp.interpreter.generators: NumPy's generator in place with its state, and the same of the module random. */
static PyObject *set_bits, *get_bits, *numpy_stream, *bits, *instance;
static Py_buffer bits_words, words;
enum { MARKS = 16 }; /* the first bytes of a state, which are compared, as its last four are */

/* Return what a dictionary has, as a borrowed reference, or NULL without an exception. */
static PyObject *has(PyObject *dictionary, Name name)
{
    PyObject *found = PyDict_GetItemWithError(dictionary, names[name]);
    if (!found)
        PyErr_Clear();
    return found;
}

/* ---- what a process has: the slots of Belongings and of its streams ---- */

typedef struct {
    PyObject *main, *in_sys[3], *warnings, *asyncio; /* in_sys: stdout, stdin and argv */
    PyObject *bits, *numpy_gauss, *gauss;
    Py_buffer *numpy_kept, *kept;
} Own;

typedef enum {
    OWN_MAIN, OWN_STDOUT, OWN_STDIN, OWN_ARGV, OWN_WARNINGS, OWN_STREAMS, OWN_ASYNCIO,
    OF_NUMPY, OF_PYTHON,
    NUMPY_KEPT, NUMPY_GAUSS, NUMPY_CURRENT,
    PYTHON_KEPT, PYTHON_GAUSS,
    SLOTS
} Slot;

static struct {
    const char *type, *name;
    PyTypeObject *class;
    Py_ssize_t offset;
} slots[SLOTS] = {
    {"Belongings", "main"}, {"Belongings", "stdout"}, {"Belongings", "stdin"}, {"Belongings", "argv"},
    {"Belongings", "warnings"}, {"Belongings", "streams"}, {"Belongings", "_asyncio"},
    {"GlobalStreams", "numpy"}, {"GlobalStreams", "python"},
    {"NumPyStream", "_kept"}, {"NumPyStream", "_gauss"}, {"NumPyStream", "current"},
    {"PythonStream", "_kept"}, {"PythonStream", "_gauss"},
};

/* Return what a slot of an object has, as a borrowed reference; NULL with an exception. */
static PyObject *in(PyObject *object, Slot slot)
{
    PyObject *found = NULL;
    if (object && Py_IS_TYPE(object, slots[slot].class))
        found = *(PyObject **)((char *)object + slots[slot].offset);
    if (!found && !PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "no %s with a %s", slots[slot].type, slots[slot].name);
    return found;
}

/* Return the memory of a state as large as the one in place; NULL with an exception. */
static Py_buffer *kept_in(PyObject *object, Slot slot, const Py_buffer *place)
{
    PyObject *kept = in(object, slot);
    if (!kept)
        return NULL;
    if (!PyMemoryView_Check(kept) || PyMemoryView_GET_BUFFER(kept)->len != place->len) {
        PyErr_Format(PyExc_TypeError, "a state that is no memory of %zd bytes", place->len);
        return NULL;
    }
    return PyMemoryView_GET_BUFFER(kept);
}

/* Find what a process has, as borrowed references; return 0, or -1 with an exception. */
static int look_into(PyObject *object, Own *own)
{
    PyObject *streams = in(object, OWN_STREAMS), *numpy = in(streams, OF_NUMPY), *python = in(streams, OF_PYTHON);
    own->main = in(object, OWN_MAIN);
    for (int k = 0; k < 3; k++)
        own->in_sys[k] = in(object, OWN_STDOUT + k);
    own->warnings = in(object, OWN_WARNINGS);
    own->asyncio = in(object, OWN_ASYNCIO);
    own->bits = in(numpy, NUMPY_CURRENT);
    own->numpy_gauss = in(numpy, NUMPY_GAUSS);
    own->gauss = in(python, PYTHON_GAUSS);
    own->numpy_kept = kept_in(numpy, NUMPY_KEPT, &bits_words);
    own->kept = kept_in(python, PYTHON_KEPT, &words);
    if (!PyErr_Occurred() && (!PyTuple_Check(own->warnings) || PyTuple_GET_SIZE(own->warnings) != 3))
        PyErr_SetString(PyExc_TypeError, "the state of warnings is a tuple of three");
    return PyErr_Occurred() ? -1 : 0;
}

/* ---- the end of a turn ---- */

/* Return whether the words of a state that draws change are as kept: see generators._differ. */
static int same_words(const Py_buffer *place, const Py_buffer *kept)
{
    Py_ssize_t last = place->len - 4;
    const char *now = place->buf, *then = kept->buf;
    return !memcmp(now, then, MARKS) && !memcmp(now + last, then + last, 4);
}

/* Return whether an attribute of an object, or the result of a method, is a certain object; -1 with an exception. */
static int is(PyObject *found, PyObject *wanted)
{
    Py_XDECREF(found); /* only its address matters from here */
    return found ? found == wanted : -1;
}

/* Return 1 if nothing that belongs to the process has changed in its turn, 0 if it may have, -1 with an exception. */
static int unchanged(const Own *own)
{
    PyObject *modules = has(in_sys, MODULES);
    if (!modules || !PyDict_Check(modules) || own->numpy_gauss != Py_None)
        return 0;
    for (int k = 0; k < 3; k++)
        if (has(in_sys, STDOUT + k) != own->in_sys[k]
            || has(in_warnings, FILTERS + k) != PyTuple_GET_ITEM(own->warnings, k))
            return 0;
    if (!same_words(&words, own->kept) || !same_words(&bits_words, own->numpy_kept))
        return 0;
    PyObject *asyncio = has(modules, ASYNCIO);
    int same = is(PyObject_GetAttr(instance, names[GAUSS_NEXT]), own->gauss);
    if (same == 1)
        same = is(PyObject_GetAttr(numpy_stream, names[STATE_WAS_SET]), Py_False);
    if (same == 1)
        same = is(PyObject_CallNoArgs(get_bits), bits);
    if (same == 1 && asyncio && asyncio != Py_None) /* None: a program has forbidden to import it */
        same = is(PyObject_CallMethodNoArgs(asyncio, names[RUNNING_LOOP]), Py_None);
    return same;
}

static PyObject *leave(PyObject *Py_UNUSED(self), PyObject *object)
{
    Own own;
    int same = look_into(object, &own) ? -1 : unchanged(&own);
    if (same < 0)
        return NULL;
    return same ? Py_NewRef(Py_None) : PyObject_CallMethodNoArgs(object, names[LEAVE]);
}

/* ---- the beginning of a turn ---- */

static PyObject *enter(PyObject *Py_UNUSED(self), PyObject *object)
{
    Own own;
    PyObject *modules = has(in_sys, MODULES);
    if (look_into(object, &own))
        return NULL;
    if (!modules || !PyDict_Check(modules) || own.asyncio != Py_None || own.numpy_gauss != Py_None)
        return PyObject_CallMethodNoArgs(object, names[ENTER]);
    if (own.main != Py_None && PyDict_SetItem(modules, names[MAIN], own.main))
        return NULL;
    for (int k = 0; k < 3; k++) {
        PyObject *warning = PyTuple_GET_ITEM(own.warnings, k);
        if (PyDict_SetItem(in_sys, names[STDOUT + k], own.in_sys[k]))
            return NULL;
        if ((k < 2 || warning != Py_None) && PyDict_SetItem(in_warnings, names[FILTERS + k], warning))
            return NULL; /* there may be no _showwarnmsg_impl */
    }
    memcpy(words.buf, own.kept->buf, words.len);
    memcpy(bits_words.buf, own.numpy_kept->buf, bits_words.len);
    if (PyObject_SetAttr(instance, names[GAUSS_NEXT], own.gauss))
        return NULL;
    int same = is(PyObject_CallNoArgs(get_bits), own.bits);
    if (same < 0)
        return NULL;
    return same ? Py_NewRef(Py_None) : PyObject_CallOneArg(set_bits, own.bits);
}

/* ---- the module ---- */

static PyMethodDef functions[] = {
    {"enter", enter, METH_O, "Belongings.enter in C."},
    {"leave", leave, METH_O, "Belongings.leave in C."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, .m_name = "_turns", .m_doc = "Changes of turns in C.", .m_size = -1, .m_methods = functions,
};

/* Return the dictionary of a module, as a new reference; NULL with an exception. */
static PyObject *dictionary_of(const char *name)
{
    PyObject *imported = PyImport_ImportModule(name);
    PyObject *dictionary = imported ? Py_NewRef(PyModule_GetDict(imported)) : NULL;
    Py_XDECREF(imported);
    return dictionary;
}

/* Find a slot in the object that a class has; return 0, or -1 with an exception. */
static int find_slot(Slot slot, PyObject *belongings, PyObject *generators)
{
    PyObject *room = slot <= OWN_ASYNCIO ? belongings : generators;
    PyObject *class = PyObject_GetAttrString(room, slots[slot].type); /* kept for ever, as its offset is */
    PyObject *member = class ? PyObject_GetAttrString(class, slots[slot].name) : NULL;
    if (member && Py_IS_TYPE(member, &PyMemberDescr_Type)) {
        slots[slot].class = (PyTypeObject *)class;
        slots[slot].offset = ((PyMemberDescrObject *)member)->d_member->offset;
    } else if (!PyErr_Occurred())
        PyErr_Format(PyExc_ImportError, "%s.%s is no slot", slots[slot].type, slots[slot].name);
    Py_XDECREF(member);
    return PyErr_Occurred() ? -1 : 0;
}

/* Find the memory of a state in place; return 0, or -1 with an exception. */
static int find_words(PyObject *generators, const char *name, Py_buffer *found)
{
    PyObject *memory = PyObject_GetAttrString(generators, name);
    int failed = !memory || PyObject_GetBuffer(memory, found, PyBUF_WRITABLE); /* None where the layout is unknown */
    Py_XDECREF(memory);
    if (!failed && found->len < MARKS + 4) {
        PyErr_Format(PyExc_ImportError, "a state of %zd bytes", found->len);
        failed = 1;
    }
    return failed ? -1 : 0;
}

PyMODINIT_FUNC PyInit__turns(void)
{
    for (int k = 0; k < NAMES; k++)
        if (!(names[k] = PyUnicode_InternFromString(texts[k])))
            return NULL;
    PyObject *belongings = PyImport_ImportModule("bsp.interpreter.belongings");
    PyObject *generators = PyImport_ImportModule("bsp.interpreter.generators");
    if (!belongings || !generators)
        return NULL;
    for (Slot slot = 0; slot < SLOTS; slot++)
        if (find_slot(slot, belongings, generators))
            return NULL;
    if (find_words(generators, "_words", &words) || find_words(generators, "_bits_words", &bits_words))
        return NULL;
    set_bits = PyObject_GetAttrString(generators, "set_global_bits");
    get_bits = PyObject_GetAttrString(generators, "global_bits");
    numpy_stream = PyObject_GetAttrString(generators, "NumPyStream");
    bits = PyObject_GetAttrString(generators, "_bits");
    instance = PyObject_GetAttrString(generators, "_instance");
    in_sys = dictionary_of("sys");
    in_warnings = dictionary_of("warnings");
    Py_DECREF(belongings);
    Py_DECREF(generators);
    if (!set_bits || !get_bits || !numpy_stream || !bits || !instance || !in_sys || !in_warnings)
        return NULL;
    return PyModule_Create(&module);
}
