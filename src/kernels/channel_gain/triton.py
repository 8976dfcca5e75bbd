"""Gains of channels on GPUs, the last dimension of x [rows, width]: y = x gain + offset in fp32, rounded once."""
import triton
import triton.language as tl


@triton.jit
def forward(x_ptr, gain_ptr, offset_ptr, y_ptr, width, BLOCK: tl.constexpr, OFFSET: tl.constexpr):
    """y may be x. Grid: rows, width / BLOCK rounded up."""
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < width
    place = tl.program_id(0).to(tl.int64) * width + column
    y = tl.load(x_ptr + place, mask=inside, other=0.0).to(tl.float32) * tl.load(gain_ptr + column, mask=inside, other=0.0)
    if OFFSET:
        y += tl.load(offset_ptr + column, mask=inside, other=0.0)
    tl.store(y_ptr + place, y.to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit
def backward(dy_ptr, y_ptr, gain_ptr, dx_ptr, sums_ptr, rows, width, rows_each, BLOCK: tl.constexpr):
    """dx = dy gain, and the sums over this program's rows of dy y and of dy, into sums [programs, 2, width]. Grid: programs of rows_each
    rows, width / BLOCK rounded up."""
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < width
    gain = tl.load(gain_ptr + column, mask=inside, other=0.0)
    dot = tl.zeros((BLOCK,), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    first = tl.program_id(0) * rows_each
    for row in range(first, tl.minimum(first + rows_each, rows)):
        place = row * width.to(tl.int64) + column
        dy = tl.load(dy_ptr + place, mask=inside, other=0.0).to(tl.float32)
        y = tl.load(y_ptr + place, mask=inside, other=0.0).to(tl.float32)
        tl.store(dx_ptr + place, (dy * gain).to(dx_ptr.dtype.element_ty), mask=inside)
        dot += dy * y
        total += dy
    sums = sums_ptr + tl.program_id(0).to(tl.int64) * 2 * width + column
    tl.store(sums, dot, mask=inside)
    tl.store(sums + width, total, mask=inside)


def builds():
    """What is compiled: dtype, function, types of its arguments (a number: the constant), warps."""
    for t in ("bf16", "fp32"):
        for offset in (0, 1):
            yield t, forward, f"*{t}:16, *fp32:16, *fp32:16, *{t}:16, i32:16, 1024, {offset}", 4
        yield t, backward, f"*{t}:16, *{t}:16, *fp32:16, *{t}:16, *fp32:16, i32, i32:16, i32, 1024", 4
