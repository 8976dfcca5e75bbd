from interpreter import DTYPES, KernelTest, golden_cases, memory, operator, unset

kernels = operator("gated_residual")
BLOCK = 256


class GatedResidual(KernelTest):
    def test_rows_and_gradients(self):
        for name, case in golden_cases("gated_residual").items():
            batch, rows, width = case["y"].shape
            for dtype in DTYPES:
                with self.subTest(name=name, dtype=dtype):
                    residual, gate, y, dout = (memory(case[key], dtype) for key in ("residual", "gate", "y", "dout"))
                    out, dy = unset(y.size(), dtype), unset(y.size(), dtype)
                    kernels.forward[(rows, batch)](residual, gate, y, out, rows, width, width, BLOCK)
                    self.expect_close(out, case["out"], dtype)
                    for rows_each in (1, 4, rows + 3):
                        programs = -(-rows // rows_each)
                        sums = unset((batch, programs, width))
                        kernels.backward[(programs, batch)](gate, y, dout, dy, sums, rows, width, width, rows_each, BLOCK, 1)
                        self.expect_close(dy, case["dy"], dtype)
                        self.expect_close(memory(sums.array.sum(1)), case["dgate"])
                    without = unset(y.size(), dtype)
                    kernels.backward[(rows, batch)](gate, None, dout, without, None, rows, width, width, 1, BLOCK, 0)
                    self.assertTrue((without.array == dy.array).all())
