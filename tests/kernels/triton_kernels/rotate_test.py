import numpy as np
from interpreter import KernelTest, memory, operator, rotated

kernels = operator("rotate")


class Rotate(KernelTest):
    def test_neighbours_are_multiplied_by_the_matrix_and_the_rest_is_left(self):
        x = np.random.default_rng(0).standard_normal(768, dtype=np.float32)
        for group in (4, 16, 64, 256):
            numbers = memory(x)
            kernels.rows[(2,)](numbers, 512, group, 256)
            self.expect_close(numbers, np.concatenate([rotated(x[:512], group), x[512:]]), "fp32")
