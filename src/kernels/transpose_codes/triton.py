"""Bytes [rows, width] to [width, rows] on GPUs."""
import triton
import triton.language as tl


@triton.jit
def turn(codes_ptr, out_ptr, rows, width, SIDE: tl.constexpr):
    """Squares of SIDE are read along rows and written along columns. Grid: width / SIDE, rows / SIDE, rounded up."""
    row = tl.program_id(1) * SIDE + tl.arange(0, SIDE)
    column = tl.program_id(0) * SIDE + tl.arange(0, SIDE)
    in_row, in_column = row < rows, column < width
    codes = tl.load(codes_ptr + row.to(tl.int64)[:, None] * width + column[None, :], mask=in_row[:, None] & in_column[None, :], other=0)
    tl.store(out_ptr + column.to(tl.int64)[:, None] * rows + row[None, :], tl.trans(codes), mask=in_column[:, None] & in_row[None, :])


def builds():
    """What is compiled: dtype, function, types of its arguments (a number: the constant), warps."""
    yield "u8", turn, "*u8:16, *u8:16, i32:16, i32:16, 64", 4
