from interpreter import DTYPES, KernelTest, golden_cases, memory, operator, unset

kernels = operator("geglu")
BLOCK = 64


class Geglu(KernelTest):
    def test_rows_and_gradients(self):
        for name, case in golden_cases("geglu").items():
            rows, width = case["y"].shape
            for dtype in DTYPES:
                with self.subTest(name=name, dtype=dtype):
                    x, dy = memory(case["x"], dtype), memory(case["dy"], dtype)
                    y, dx = unset(dy.size(), dtype), unset(x.size(), dtype)
                    grid = (rows, -(-width // BLOCK))
                    kernels.forward[grid](x, y, width, BLOCK)
                    self.expect_close(y, case["y"], dtype)
                    kernels.backward[grid](x, dy, dx, width, BLOCK)
                    self.expect_close(dx, case["dx"], dtype)
