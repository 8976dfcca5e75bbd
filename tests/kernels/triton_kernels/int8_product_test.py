import numpy as np
from interpreter import KernelTest, memory, operator, unset

kernels = operator("int8_product")
TILE = 32


class Int8Product(KernelTest):
    def drawn(self, rows, columns, width):
        random = np.random.default_rng(rows)
        return random.integers(-127, 128, (rows, width)), random.integers(-127, 128, (columns, width)), random.random(rows), random.random(columns)

    def programs(self, rows, columns):
        return (-(-rows // TILE) * -(-columns // TILE),)

    def test_sums_are_whole_and_of_every_place(self):
        for rows, columns, width in ((5, 48, 16), (70, 80, 96), (300, 32, 160)):  # the last has more tiles below each other than go together
            with self.subTest(rows=rows, columns=columns, width=width):
                a, b, _, _ = self.drawn(rows, columns, width)
                sums = unset((rows, columns), "int32")
                kernels.sums[self.programs(rows, columns)](memory(a, "int8"), memory(b, "int8"), sums, rows, columns, width, TILE, TILE, TILE)
                self.assertTrue((sums.array == a @ b.T).all())

    def test_sums_are_scaled_and_added(self):
        rows, columns, width = 40, 48, 80
        a, b, of_rows, of_columns = self.drawn(rows, columns, width)
        bias, before = np.arange(columns) / 8 - 3, np.arange(rows * columns).reshape(rows, columns) / 1024
        of_rows, of_columns, bias = (numbers.astype(np.float32).astype(float) for numbers in (of_rows, of_columns, bias))
        for with_columns, with_bias, adds in ((1, 0, 0), (1, 1, 0), (1, 0, 1), (0, 0, 0), (0, 0, 1)):
            with self.subTest(columns=with_columns, bias=with_bias, adds=adds):
                y = memory(before)
                kernels.scaled[self.programs(rows, columns)](
                    memory(a, "int8"), memory(b, "int8"), y, memory(of_rows), memory(of_columns), memory(bias), rows, columns, width, columns,
                    with_columns, with_bias, adds, TILE, TILE, TILE)
                expected = (a @ b.T) * of_rows[:, None] * (of_columns if with_columns else 1) + (bias if with_bias else 0) + (before if adds else 0)
                self.expect_close(y, expected)
