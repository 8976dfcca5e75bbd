from interpreter import DTYPES, KernelTest, golden_cases, memory, operator, unset

kernels = operator("gelu_tanh")
BLOCK = 128


class GeluTanh(KernelTest):
    def test_numbers_and_gradients(self):
        for name, case in golden_cases("gelu_tanh").items():
            count = len(case["x"])
            for dtype in DTYPES:
                with self.subTest(name=name, dtype=dtype):
                    x, dy = memory(case["x"], dtype), memory(case["dy"], dtype)
                    y, dx = unset(count, dtype), unset(count, dtype)
                    grid = (-(-count // BLOCK),)
                    kernels.forward[grid](x, y, count, BLOCK)
                    self.expect_close(y, case["y"], dtype)
                    kernels.backward[grid](x, dy, dx, count, BLOCK)
                    self.expect_close(dx, case["dx"], dtype)
