from interpreter import DTYPES, KernelTest, golden_cases, memory, operator, unset

kernels = operator("modulated_norm")
BLOCK = 256
EPS = 1e-6


class ModulatedNorm(KernelTest):
    def test_rows_and_gradients(self):
        for name, case in golden_cases("modulated_norm").items():
            batch, rows, width = case["x"].shape
            for dtype in DTYPES:
                with self.subTest(name=name, dtype=dtype):
                    x, dy = memory(case["x"], dtype), memory(case["dy"], dtype)
                    modulation = memory(case["modulation"], dtype)  # [B, 2, width]: scale, then shift
                    scale, shift = modulation, memory(case["modulation"][:, 1:], dtype)
                    y, dx, statistics = unset(x.size(), dtype), unset(x.size(), dtype), unset((batch * rows, 2))
                    kernels.forward[(rows, batch)](x, scale, shift, y, statistics, rows, width, 2 * width, width, EPS, BLOCK)
                    self.expect_close(y, case["y"], dtype)
                    for rows_each in (1, 4, rows + 3):
                        programs = -(-rows // rows_each)
                        sums = unset((2, batch, programs, width))
                        kernels.backward[(programs, batch)](x, scale, statistics, dy, dx, sums, rows, width, 2 * width, rows_each, BLOCK, 1)
                        self.expect_close(dx, case["dx"], dtype)
                        gradients = memory(sums.array.sum(2).swapaxes(0, 1))
                        self.expect_close(gradients, case["dmodulation"])
                    without = unset(x.size(), dtype)
                    kernels.backward[(rows, batch)](x, scale, statistics, dy, without, sums, rows, width, 2 * width, 1, BLOCK, 0)
                    self.assertTrue((without.array == dx.array).all())
