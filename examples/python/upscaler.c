/* The Python module `upscaler`: twice(pixels) makes an image of 8 x 8 pixels of one of 4 x 4, both float32. */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030a0000
#include <Python.h>

#include "up.h"

enum { small = 4 * 4, large = 8 * 8 };

static _Alignas(KILN_ALIGNMENT) char packed[UP_TWICE_PACKED_BYTES];

static PyObject *twice(PyObject *module, PyObject *arguments) {
    _Alignas(KILN_ALIGNMENT) char workspace[UP_TWICE_WORKSPACE_BYTES + 1];
    const char *bytes;
    Py_ssize_t size;
    float x[small], y[large];
    up_twice_args args = {0};
    int code;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "y#:twice", &bytes, &size)) return NULL;
    if (size != (Py_ssize_t)sizeof x) {
        return PyErr_Format(PyExc_ValueError, "pixels are %zd bytes: they must be %zu", size, sizeof x);
    }
    for (size_t i = 0; i < sizeof x; i++) ((char *)x)[i] = bytes[i];
    args.x = x;
    args.packed_weights = packed;
    args.y = y;
    args.workspace = workspace;
    Py_BEGIN_ALLOW_THREADS;
    code = up_twice(&args);
    Py_END_ALLOW_THREADS;
    if (code != kiln_ok) return PyErr_Format(PyExc_RuntimeError, "%s: %s", kiln_status_text(code), kiln_last_message());
    return PyBytes_FromStringAndSize((const char *)y, sizeof y);
}

static PyMethodDef methods[] = {{"twice", twice, METH_VARARGS, "twice(pixels: bytes) -> bytes"}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "upscaler", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_upscaler(void);
PyMODINIT_FUNC PyInit_upscaler(void) {
    static const float weights[] = {1, 1, 1, 1};
    if (up_twice_pack(weights, packed) != kiln_ok)
        return PyErr_Format(PyExc_ImportError, "the weights cannot be packed");
    return PyModule_Create(&definition);
}
