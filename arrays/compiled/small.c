/* Programs over blocks so small that all their results stay in the cache, where calls are what takes time.  The reference is
 * arrays/kernels/maps.py: Map.compute.
 */
#include "quick.h"

static PyObject *empty, *out_name, *name_flags, *name_shape, *name_f, *name_c, *name_step, *after;

int find_numpy(void)
{
    PyObject *module = PyImport_ImportModule("numpy");
    empty = module ? PyObject_GetAttrString(module, "empty") : NULL;
    Py_XDECREF(module);
    out_name = Py_BuildValue("(s)", "out");
    name_flags = PyUnicode_InternFromString("flags");
    name_shape = PyUnicode_InternFromString("shape");
    name_f = PyUnicode_InternFromString("f_contiguous");
    name_c = PyUnicode_InternFromString("c_contiguous");
    name_step = PyUnicode_InternFromString("step");
    after = PyLong_FromLong(1L << 20); /* shared_errors.AFTER */
    return empty && out_name && name_flags && name_shape && name_f && name_c && name_step && after ? 0 : -1;
}

/* The fields of a planning.small.SmallStage, borrowed. */
typedef struct {
    PyObject *code, *buffers, *dtype, *params, *tasks;
} Stage;

/* The fields of a planning.small.SmallTask, borrowed. */
typedef struct {
    PyObject *at, *shape, *reads;
} Task;

/* What a program works with.  The registers are those of arrays and of parameters, then one for each instruction. */
typedef struct {
    PyObject **registers, **scratch, *out;
    Py_ssize_t filled, room, buffers;
} Memory;

enum { FAILED = -1, DONE = 0, OTHER = 1 }; /* OTHER: the general way has to be taken */

/* Return whether an object is a plain tuple of so many items; if not, set an exception. */
static int has_fields(PyObject *object, Py_ssize_t count)
{
    if (PyTuple_CheckExact(object) && PyTuple_GET_SIZE(object) == count)
        return 1;
    PyErr_Format(PyExc_TypeError, "a tuple of %zd items, not %.100s", count, Py_TYPE(object)->tp_name);
    return 0;
}

/* Return an array in a block: where `index` is a tuple, the part that it shows; NULL with an exception.  Takes a reference. */
static PyObject *part_of(PyObject *block, PyObject *index)
{
    if (!block || index == Py_None)
        return block;
    PyObject *part = PyObject_GetItem(block, index);
    Py_DECREF(block);
    return part;
}

/* Return an attribute's truth; -1 with an exception. */
static int is(PyObject *object, PyObject *name)
{
    PyObject *value = PyObject_GetAttr(object, name);
    int found = value ? PyObject_IsTrue(value) : -1;
    Py_XDECREF(value);
    return found;
}

/* Return 1 if an array of the shape is stored by columns only, 0 if by rows or otherwise, 2 if it has another shape. */
static int in_columns(PyObject *array, PyObject *shape)
{
    PyObject *own = PyObject_GetAttr(array, name_shape);
    int same = own ? PyObject_RichCompareBool(own, shape, Py_EQ) : -1;
    Py_XDECREF(own);
    if (same != 1)
        return same < 0 ? -1 : 2;
    PyObject *flags = PyObject_GetAttr(array, name_flags);
    int found = flags ? is(flags, name_f) : -1;
    if (found == 1) {
        found = is(flags, name_c);
        found = found < 0 ? -1 : !found;
    }
    Py_XDECREF(flags);
    return found;
}

/* Fill the registers of arrays.  OTHER: the result is stored by columns, as all arrays of its shape are. */
static int read_arrays(const Task *task, PyObject *values, Memory *memory)
{
    int rows = 0, columns = 0, axes = PyTuple_GET_SIZE(task->shape) > 1;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(task->reads); i++) {
        PyObject *read = PyTuple_GET_ITEM(task->reads, i); /* value, block, index, index that makes it broadcast */
        if (!has_fields(read, 4))
            return FAILED;
        PyObject *blocks = PyList_GetItem(values, PyLong_AsSsize_t(PyTuple_GET_ITEM(read, 0)));
        if (!blocks || !PyDict_CheckExact(blocks))
            return blocks ? OTHER : FAILED;
        PyObject *found = PyDict_GetItemWithError(blocks, PyTuple_GET_ITEM(read, 1));
        if (!found)
            return PyErr_Occurred() ? FAILED : OTHER;
        found = part_of(part_of(Py_NewRef(found), PyTuple_GET_ITEM(read, 2)), PyTuple_GET_ITEM(read, 3));
        if (!found)
            return FAILED;
        memory->registers[memory->filled++] = found;
        if (axes && !rows) {
            int stored = in_columns(found, task->shape);
            if (stored < 0)
                return FAILED;
            rows |= stored == 0, columns |= stored == 1;
        }
    }
    return columns && !rows ? OTHER : DONE;
}

/* Return a new array of arbitrary values. */
static PyObject *new_array(PyObject *shape, PyObject *dtype)
{
    PyObject *arguments[] = {shape, dtype};
    return PyObject_Vectorcall(empty, arguments, 2, NULL);
}

/* Carry out an instruction, (function, registers of its arguments, buffer of its result; -1: the result of the program). */
static int carry_out(PyObject *instruction, Memory *memory, PyObject *current, Py_ssize_t step)
{
    PyObject *arguments[9], *number = PyLong_FromSsize_t(step);
    int bad = !number || PyObject_SetAttr(current, name_step, number);
    Py_XDECREF(number);
    if (bad || !has_fields(instruction, 3))
        return FAILED;
    PyObject *registers = PyTuple_GET_ITEM(instruction, 1);
    Py_ssize_t slot = PyLong_AsSsize_t(PyTuple_GET_ITEM(instruction, 2)), count = PyTuple_Size(registers);
    if (count < 0 || count > 8 || slot >= memory->buffers || memory->filled == memory->room)
        return count < 0 ? FAILED : OTHER;
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_ssize_t at = PyLong_AsSsize_t(PyTuple_GET_ITEM(registers, i));
        if (at < 0 || at >= memory->filled)
            return PyErr_Occurred() ? FAILED : OTHER;
        arguments[i] = memory->registers[at];
    }
    PyObject *target = arguments[count] = slot < 0 ? memory->out : memory->scratch[slot];
    PyObject *found = PyObject_Vectorcall(PyTuple_GET_ITEM(instruction, 0), arguments, count, out_name);
    Py_XDECREF(found);
    memory->registers[memory->filled++] = Py_NewRef(target);
    return found ? DONE : FAILED;
}

/* Compute a block; it is then memory->out. */
static int compute_block(const Stage *stage, const Task *task, PyObject *values, PyObject *params, PyObject *current, Memory *memory)
{
    int found = read_arrays(task, values, memory);
    if (found != DONE)
        return found;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(stage->params); i++) {
        PyObject *number = PySequence_GetItem(params, PyLong_AsSsize_t(PyTuple_GET_ITEM(stage->params, i)));
        if (!number)
            return FAILED;
        memory->registers[memory->filled++] = number;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(stage->buffers); i++) {
        memory->scratch[i] = new_array(task->shape, PyTuple_GET_ITEM(stage->buffers, i));
        if (!memory->scratch[i])
            return FAILED;
        memory->buffers++;
    }
    memory->out = new_array(task->shape, stage->dtype);
    if (!memory->out)
        return FAILED;
    for (Py_ssize_t i = 0; found == DONE && i < PyTuple_GET_SIZE(stage->code); i++)
        found = carry_out(PyTuple_GET_ITEM(stage->code, i), memory, current, i);
    return found;
}

/* Compute the block of a task and store it; memory for the registers of one task is made and given back here. */
static int add_block(const Stage *stage, const Task *task, PyObject *values, PyObject *params, PyObject *current, PyObject *blocks)
{
    Py_ssize_t buffers = PyTuple_GET_SIZE(stage->buffers);
    Py_ssize_t room = PyTuple_GET_SIZE(task->reads) + PyTuple_GET_SIZE(stage->params) + PyTuple_GET_SIZE(stage->code);
    Memory memory = {PyMem_Calloc(room + buffers + 1, sizeof(PyObject *)), NULL, NULL, 0, room, 0};
    if (!memory.registers) {
        PyErr_NoMemory();
        return FAILED;
    }
    memory.scratch = memory.registers + room;
    int found = compute_block(stage, task, values, params, current, &memory);
    if (found == DONE && PyDict_SetItem(blocks, task->at, memory.out))
        found = FAILED;
    for (Py_ssize_t i = 0; i < memory.filled; i++)
        Py_DECREF(memory.registers[i]);
    for (Py_ssize_t i = 0; i < memory.buffers; i++)
        Py_DECREF(memory.scratch[i]);
    Py_XDECREF(memory.out);
    PyMem_Free(memory.registers);
    return found;
}

/* small_blocks(stage, values, params, current): the blocks of a stage, by coordinates.  NotImplemented if they have to be
 * computed the general way, which also finds out what an operation has raised and where.
 */
PyObject *small_blocks(PyObject *Py_UNUSED(self), PyObject *const *args, Py_ssize_t count)
{
    Stage stage;
    if (count != 4 || !PyTuple_Check(args[0]) || !PyList_CheckExact(args[1])) {
        PyErr_SetString(PyExc_TypeError, "a SmallStage, a list of values, parameters, and the place of errors");
        return NULL;
    }
    if (!PyArg_ParseTuple(args[0], "O!O!OO!O!", &PyTuple_Type, &stage.code, &PyTuple_Type, &stage.buffers, &stage.dtype,
                          &PyTuple_Type, &stage.params, &PyTuple_Type, &stage.tasks))
        return NULL;
    PyObject *blocks = PyDict_New();
    int found = blocks ? DONE : FAILED;
    for (Py_ssize_t i = 0; found == DONE && i < PyTuple_GET_SIZE(stage.tasks); i++) {
        Task task;
        if (PyArg_ParseTuple(PyTuple_GET_ITEM(stage.tasks, i), "OO!O!", &task.at, &PyTuple_Type, &task.shape, &PyTuple_Type,
                             &task.reads))
            found = add_block(&stage, &task, args[1], args[2], args[3], blocks);
        else
            found = FAILED;
    }
    if (found == FAILED && PyErr_ExceptionMatches(PyExc_Exception)) {
        PyErr_Clear();
        found = OTHER;
    }
    if (found != FAILED && PyObject_SetAttr(args[3], name_step, after))
        found = FAILED;
    if (found == DONE)
        return blocks;
    Py_XDECREF(blocks);
    return found == OTHER ? Py_NewRef(Py_NotImplemented) : NULL;
}
