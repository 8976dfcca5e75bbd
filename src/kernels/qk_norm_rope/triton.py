"""RMS norm of every head's vector and rotary embedding of adjacent pairs on GPUs. x [B, L, heads, WIDTH] -> y [B, heads, L, WIDTH]."""
import triton
import triton.language as tl


@triton.jit
def turned(vectors, cos, sin, HEADS: tl.constexpr, WIDTH: tl.constexpr):
    """Adjacent pairs of [HEADS, WIDTH] turned by the angles of cos and sin [1, WIDTH / 2]."""
    first, second = tl.split(tl.reshape(vectors, (HEADS, WIDTH // 2, 2)))
    return tl.reshape(tl.join(first * cos - second * sin, second * cos + first * sin), (HEADS, WIDTH))


@triton.jit
def forward(x_ptr, weight_ptr, cos_ptr, sin_ptr, y_ptr, rows, heads, table_batch, eps, HEADS: tl.constexpr, WIDTH: tl.constexpr):
    """cos and sin [rows, WIDTH / 2], table_batch numbers from one sample to the next (0: the same). Grid: rows, heads / HEADS, B."""
    row = tl.program_id(0)
    batch = tl.program_id(2).to(tl.int64)
    head = tl.program_id(1) * HEADS + tl.arange(0, HEADS)[:, None]
    column = tl.arange(0, WIDTH)[None, :]
    angle = batch * table_batch + row * (WIDTH // 2) + tl.arange(0, WIDTH // 2)[None, :]
    inside = head < heads
    x = tl.load(x_ptr + ((batch * rows + row) * heads + head) * WIDTH + column, mask=inside, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + column).to(tl.float32)
    rms = 1.0 / tl.sqrt(tl.sum(x * x, axis=1) / WIDTH + eps)
    y = turned(x * rms[:, None] * weight, tl.load(cos_ptr + angle), tl.load(sin_ptr + angle), HEADS, WIDTH)
    tl.store(y_ptr + ((batch * heads + head) * rows + row) * WIDTH + column, y.to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit
def backward(x_ptr, weight_ptr, cos_ptr, sin_ptr, dy_ptr, dx_ptr, sums_ptr, rows, heads, table_batch, rows_each, eps, HEADS: tl.constexpr,
             WIDTH: tl.constexpr, WEIGHT: tl.constexpr):
    """With n the gradient dy turned back: dx = rms (n w - x rms² mean(n w x)); with WEIGHT also the sums over this program's vectors of
    n x rms, into sums [programs, WIDTH]. Grid: programs of rows_each rows, heads / HEADS, B."""
    batch = tl.program_id(2).to(tl.int64)
    head = tl.program_id(1) * HEADS + tl.arange(0, HEADS)[:, None]
    column = tl.arange(0, WIDTH)[None, :]
    inside = head < heads
    weight = tl.load(weight_ptr + column).to(tl.float32)
    dweight = tl.zeros((WIDTH,), tl.float32)
    first = tl.program_id(0) * rows_each
    for row in range(first, tl.minimum(first + rows_each, rows)):
        angle = batch * table_batch + row * (WIDTH // 2) + tl.arange(0, WIDTH // 2)[None, :]
        place = ((batch * rows + row) * heads + head) * WIDTH + column
        x = tl.load(x_ptr + place, mask=inside, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + ((batch * heads + head) * rows + row) * WIDTH + column, mask=inside, other=0.0).to(tl.float32)
        back = turned(dy, tl.load(cos_ptr + angle), -tl.load(sin_ptr + angle), HEADS, WIDTH)
        rms = (1.0 / tl.sqrt(tl.sum(x * x, axis=1) / WIDTH + eps))[:, None]
        share = tl.sum(back * weight * x, axis=1)[:, None] * rms * rms / WIDTH
        dx = rms * (back * weight - x * share)
        tl.store(dx_ptr + place, dx.to(dx_ptr.dtype.element_ty), mask=inside)
        if WEIGHT:
            dweight += tl.sum(back * x * rms, axis=0)
    if WEIGHT:
        program = (batch * tl.num_programs(1) + tl.program_id(1)) * tl.num_programs(0) + tl.program_id(0)
        tl.store(sums_ptr + program * WIDTH + tl.arange(0, WIDTH), dweight)


def builds():
    """What is compiled: dtype, function, types of its arguments (a number: the constant), warps."""
    for t in ("bf16", "fp32"):
        for width, heads in ((64, 16), (128, 8)):
            yield t, forward, f"*{t}:16, *{t}:16, *fp32:16, *fp32:16, *{t}:16, i32, i32, i32:16, fp32, {heads}, {width}", 4
            for weight in (0, 1):
                yield (t, backward, f"*{t}:16, *{t}:16, *fp32:16, *fp32:16, *{t}:16, *{t}:16, *fp32:16, i32, i32, i32:16, i32, fp32, "
                       f"{heads}, {width}, {weight}", 4)
