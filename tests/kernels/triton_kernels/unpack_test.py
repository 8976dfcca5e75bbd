import numpy as np

from interpreter import DTYPES, ROOT, KernelTest, golden_cases, memory, operator, unset

kernels = operator("unpack")
BLOCK = 64
KINDS = {"e4m3": kernels.E4M3, "e5m2": kernels.E5M2, "int8": kernels.INT8}


class Unpack(KernelTest):
    def unpacked(self, codes, scales, width, kind, group, dtype):
        rows, out = len(codes), unset((len(codes), width), dtype)
        kernels.values[(rows, -(-width // BLOCK))](memory(codes, "uint8"), memory(scales), out, width, codes.shape[1], scales.shape[1], kind, group,
                                                   BLOCK)
        return out

    def test_codes_of_8_bits(self):
        for name, case in golden_cases("unpack").items():
            kind, part = name.split("_")
            for dtype in DTYPES:
                with self.subTest(name=name, dtype=dtype):
                    out = self.unpacked(case["codes"], case["scales"], 251, KINDS[kind], 0 if part == "row" else 128, dtype)
                    is_nan = np.isnan(case["out"])
                    self.assertTrue((np.isnan(out.numbers()) == is_nan).all())
                    found = memory(np.where(is_nan, 0, out.numbers()), dtype)
                    self.expect_close(found, np.where(is_nan, 0, case["out"]), dtype)

    def test_codes_of_4_bits(self):
        # Two codes a byte, the first in the high half, a scale for 64; the values are those of the kernel for the CPU, which has its own test.
        text = (ROOT / "src/kernels/unpack/unpack.cpp").read_text()
        listed = text[text.index("values{") + 7:text.index("}", text.index("values{"))]
        values = np.array([float(word.strip().rstrip("f")) for word in listed.split(",")])
        rng = np.random.default_rng(0)
        codes, scales = rng.integers(0, 16, (3, 130)), rng.random((3, 3)).astype(np.float32) + 0.5
        expected = values[codes] * np.repeat(scales.astype(np.float64), 64, 1)[:, :130]
        for dtype in DTYPES:
            with self.subTest(dtype=dtype):
                self.expect_close(self.unpacked(codes[:, ::2] * 16 + codes[:, 1::2], scales, 130, kernels.NF4, 64, dtype), expected, dtype)
