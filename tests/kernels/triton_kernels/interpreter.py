"""Runs the kernels of src/kernels/*/triton.py on the CPU, in Triton's interpreter, on numpy arrays."""
import importlib.util
import os
import pathlib
import sys
import unittest

os.environ["TRITON_INTERPRET"] = "1"  # read when a kernel is defined

import numpy as np
from safetensors.numpy import load_file

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.append(str(ROOT / "src/kernels"))  # kernels share functions
DTYPES = ("fp32", "bf16")
TYPES = {"fp32": np.float32, "bf16": np.uint16, "int8": np.int8, "uint8": np.uint8, "uint16": np.uint16, "uint32": np.uint32, "int32": np.int32}
NAMES = {"fp32": "float32", "bf16": "bfloat16"}


def operator(name):
    """The module src/kernels/NAME/triton.py."""
    spec = importlib.util.spec_from_file_location(name, ROOT / f"src/kernels/{name}/triton.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rotated(rows, group):
    """Rows whose neighbours, so many of them, are multiplied by ConvRot's matrix."""
    matrix, four = np.eye(1), np.array([[1, 1, 1, -1], [1, 1, -1, 1], [1, -1, 1, 1], [-1, 1, 1, 1]]) / 2
    while len(matrix) < group:
        matrix = np.kron(matrix, four)
    return (rows.reshape(-1, group) @ matrix).reshape(rows.shape)


class Memory:
    """Numbers in memory that a kernel may be given: a numpy array that answers what the interpreter asks of a torch tensor. It wants an
    address and a dtype, and copies what it takes to be on a GPU to the CPU and back, which for this one is the same memory."""

    def __init__(self, array, dtype):
        self.array, self.dtype = array, NAMES.get(dtype, dtype)

    def data_ptr(self):
        return self.array.ctypes.data

    def untyped_storage(self):
        return self

    def cpu(self):
        return self

    def new_empty(self, *_, **__):
        return Memory(None, self.dtype)

    def set_(self, storage, *_):
        self.array = storage.array

    def copy_(self, _):
        pass

    def storage_offset(self):
        return 0

    def size(self):
        return self.array.shape

    def stride(self):
        return self.array.strides

    def numbers(self):
        """As fp64."""
        if self.dtype == "bfloat16":
            return (self.array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        return self.array.astype(np.float64)


def memory(values, dtype="fp32"):
    """A copy of the values, which the dtype has to hold exactly."""
    values = np.asarray(values)
    if dtype != "bf16":
        return Memory(np.ascontiguousarray(values.astype(TYPES[dtype])), dtype)
    bits = np.ascontiguousarray(values.astype(np.float32)).view(np.uint32)
    assert not (bits & 0xFFFF).any(), "these numbers are not bf16's"
    return Memory((bits >> 16).astype(np.uint16), dtype)


def unset(shape, dtype="fp32"):
    """Memory for results, of numbers that no kernel computes."""
    return memory(np.full(shape, 77), dtype)


def golden_cases(name):
    """{case: {name: array}} of tests/golden/kernels/NAME.safetensors."""
    cases = {}
    for key, array in load_file(ROOT / f"tests/golden/kernels/{name}.safetensors").items():
        case, _, what = key.partition(".")
        cases.setdefault(case, {})[what] = array
    return cases


class KernelTest(unittest.TestCase):
    def expect_close(self, found, expected, dtype="fp32"):
        """fp32: 1e-6 of the largest; bf16: beside that a unit in the last place of each number, since the interpreter cuts where GPUs round."""
        found, expected = found.numbers(), np.asarray(expected, np.float64)
        self.assertEqual(found.shape, expected.shape)
        bound = 1e-6 * np.abs(expected).max() + (np.abs(expected) * 2.0**-7 if dtype == "bf16" else 0)
        worst = np.abs(found - expected).max() / np.abs(expected).max()
        self.assertTrue((np.abs(found - expected) <= bound).all(), f"{worst:.2e} of the largest")
