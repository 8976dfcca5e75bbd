import unittest

import numpy as np
from interpreter import KernelTest, memory, operator, unset

kernels = operator("transpose_codes")
SIDE = 16


class TransposeCodes(KernelTest):
    def test_bytes_are_where_they_belong(self):
        for rows, width in ((16, 48), (37, 21), (1, 5)):
            with self.subTest(rows=rows, width=width):
                codes, turned = np.random.default_rng(0).integers(0, 256, (rows, width)), unset((width, rows), "uint8")
                kernels.turn[(-(-width // SIDE), -(-rows // SIDE))](memory(codes, "uint8"), turned, rows, width, SIDE)
                self.assertTrue((turned.array == codes.T).all())


if __name__ == "__main__":
    unittest.main()
