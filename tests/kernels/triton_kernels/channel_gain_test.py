import numpy as np

from interpreter import DTYPES, KernelTest, golden_cases, memory, operator, unset

kernels = operator("channel_gain")
BLOCK = 64


class ChannelGain(KernelTest):
    def test_rows_and_gradients(self):
        for name, case in golden_cases("channel_gain").items():
            rows, width = case["x"].shape
            parts = -(-width // BLOCK)
            for dtype in DTYPES:
                with self.subTest(name=name, dtype=dtype):
                    x, dy = memory(case["x"], dtype), memory(case["dy"], dtype)
                    gain, offset = memory(case["gain"]), memory(case["offset"])
                    y, dx = unset(x.size(), dtype), unset(x.size(), dtype)
                    kernels.forward[(rows, parts)](x, gain, offset, y, width, BLOCK, 1)
                    self.expect_close(y, case["y"], dtype)
                    kernels.forward[(rows, parts)](x, gain, None, y, width, BLOCK, 0)
                    self.expect_close(y, case["x"] * case["gain"].astype(np.float64), dtype)
                    for rows_each in (1, 4, rows + 3):
                        programs = -(-rows // rows_each)
                        sums = unset((programs, 2, width))
                        kernels.backward[(programs, parts)](dy, x, gain, dx, sums, rows, width, rows_each, BLOCK)
                        self.expect_close(dx, case["dx"], dtype)
                        self.expect_close(memory(sums.array[:, 0].sum(0)), case["dgain"])
                        self.expect_close(memory(sums.array[:, 1].sum(0)), case["doffset"])
                    kernels.forward[(rows, parts)](x, gain, offset, x, width, BLOCK, 1)
                    self.expect_close(x, case["y"], dtype)  # in place
