"""Whole sums of products of codes to numbers on GPUs: both factors' scales, a bias, and what is there already."""
import triton
import triton.language as tl
from rotate.triton import rotated


@triton.jit
def scaled(y_ptr, sums_ptr, rows_ptr, columns_ptr, bias_ptr, width, y_stride, COLUMNS: tl.constexpr, BIAS: tl.constexpr, ADDS: tl.constexpr,
           ROTATION: tl.constexpr, BLOCK: tl.constexpr):
    """sums int32 [rows, width], scales of rows and of columns, bias [width] fp32 -> y, of which ROTATION neighbours are rotated. Grid: rows, width / BLOCK, rounded up."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < width
    value = tl.load(sums_ptr + row * width + column, mask=inside, other=0).to(tl.float32) * tl.load(rows_ptr + row)
    if COLUMNS:
        value *= tl.load(columns_ptr + column, mask=inside, other=0.0)
    if BIAS:
        value += tl.load(bias_ptr + column, mask=inside, other=0.0)
    if ROTATION:
        value = rotated(value, BLOCK, ROTATION)
    place = y_ptr + row * y_stride + column
    if ADDS:
        value += tl.load(place, mask=inside, other=0.0).to(tl.float32)
    tl.store(place, value.to(y_ptr.dtype.element_ty), mask=inside)


def builds():
    """What is compiled: dtype, function, types of its arguments (a number: the constant), warps."""
    for t in ("bf16", "fp32"):
        forward, backward = ((1, 0, 0), (1, 1, 0), (1, 0, 1)), ((0, 0, 0), (0, 0, 1))
        for ways, rotations in ((forward, (0,)), (backward, (0, 16, 64, 256))):
            for columns, bias, adds in ways:
                for rotation in rotations:
                    yield t, scaled, f"*{t}:16, *i32:16, *fp32, *fp32:16, *fp32:16, i32:16, i32:16, {columns}, {bias}, {adds}, {rotation}, 1024", 4
