"""RMS norm of every head's vector and rotary embedding of adjacent pairs on GPUs. x [B, L, heads, WIDTH] -> y [B, heads, L, WIDTH]."""
import triton
import triton.language as tl


@triton.jit
def turned(vectors, cos, sin, HEADS: tl.constexpr, WIDTH: tl.constexpr):
    """Adjacent pairs of [HEADS, WIDTH] turned by the angles of cos and sin [1, WIDTH / 2]."""
    first, second = tl.split(tl.reshape(vectors, (HEADS, WIDTH // 2, 2)))
    return tl.reshape(tl.join(first * cos - second * sin, second * cos + first * sin), (HEADS, WIDTH))


@triton.jit
def inverse_rms(x, heads, eps, WIDTH: tl.constexpr, TOGETHER: tl.constexpr):
    """Of [HEADS, WIDTH] each row's 1 / rms, or with TOGETHER that of all: [HEADS, 1]. Rows behind the last head are zeros."""
    squares = tl.sum(x * x, axis=1)
    if TOGETHER:
        squares = tl.zeros_like(squares) + tl.sum(squares, axis=0) / heads
    return (1.0 / tl.sqrt(squares / WIDTH + eps))[:, None]


@triton.jit
def forward(x_ptr, weight_ptr, cos_ptr, sin_ptr, y_ptr, rows, heads, table_batch, eps, HEADS: tl.constexpr, WIDTH: tl.constexpr,
            TOGETHER: tl.constexpr):
    """cos and sin [rows, WIDTH / 2], table_batch numbers from one sample to the next (0: the same); weight [WIDTH], with TOGETHER, for which a
    program takes all heads, [heads, WIDTH]. Grid: rows, heads / HEADS, B."""
    row = tl.program_id(0)
    batch = tl.program_id(2).to(tl.int64)
    head = tl.program_id(1) * HEADS + tl.arange(0, HEADS)[:, None]
    column = tl.arange(0, WIDTH)[None, :]
    angle = batch * table_batch + row * (WIDTH // 2) + tl.arange(0, WIDTH // 2)[None, :]
    inside = head < heads
    x = tl.load(x_ptr + ((batch * rows + row) * heads + head) * WIDTH + column, mask=inside, other=0.0).to(tl.float32)
    if TOGETHER:
        weight = tl.load(weight_ptr + head * WIDTH + column, mask=inside, other=0.0).to(tl.float32)
    else:
        weight = tl.load(weight_ptr + column).to(tl.float32)
    normed = x * inverse_rms(x, heads, eps, WIDTH, TOGETHER) * weight
    y = turned(normed, tl.load(cos_ptr + angle), tl.load(sin_ptr + angle), HEADS, WIDTH)
    tl.store(y_ptr + ((batch * heads + head) * rows + row) * WIDTH + column, y.to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit
def backward(x_ptr, weight_ptr, cos_ptr, sin_ptr, dy_ptr, dx_ptr, sums_ptr, rows, heads, table_batch, rows_each, eps, HEADS: tl.constexpr,
             WIDTH: tl.constexpr, TOGETHER: tl.constexpr, WEIGHT: tl.constexpr):
    """With n the gradient dy turned back: dx = rms (n w - x rms² mean(n w x)); with WEIGHT also the sums over this program's vectors of
    n x rms, into sums [programs, WIDTH], with TOGETHER [programs, heads, WIDTH]. Grid: programs of rows_each rows, heads / HEADS, B."""
    batch = tl.program_id(2).to(tl.int64)
    head = tl.program_id(1) * HEADS + tl.arange(0, HEADS)[:, None]
    column = tl.arange(0, WIDTH)[None, :]
    inside = head < heads
    if TOGETHER:
        weight = tl.load(weight_ptr + head * WIDTH + column, mask=inside, other=0.0).to(tl.float32)
        dweight = tl.zeros((HEADS, WIDTH), tl.float32)
    else:
        weight = tl.load(weight_ptr + column).to(tl.float32)
        dweight = tl.zeros((1, WIDTH), tl.float32)
    first = tl.program_id(0) * rows_each
    for row in range(first, tl.minimum(first + rows_each, rows)):
        angle = batch * table_batch + row * (WIDTH // 2) + tl.arange(0, WIDTH // 2)[None, :]
        place = ((batch * rows + row) * heads + head) * WIDTH + column
        x = tl.load(x_ptr + place, mask=inside, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + ((batch * heads + head) * rows + row) * WIDTH + column, mask=inside, other=0.0).to(tl.float32)
        back = turned(dy, tl.load(cos_ptr + angle), -tl.load(sin_ptr + angle), HEADS, WIDTH)
        rms = inverse_rms(x, heads, eps, WIDTH, TOGETHER)
        share = tl.sum(back * weight * x, axis=1)
        if TOGETHER:
            share = tl.zeros_like(share) + tl.sum(share, axis=0) / heads
        dx = rms * (back * weight - x * (share[:, None] * rms * rms / WIDTH))
        tl.store(dx_ptr + place, dx.to(dx_ptr.dtype.element_ty), mask=inside)
        if WEIGHT:
            if TOGETHER:
                dweight += back * x * rms
            else:
                dweight += tl.sum(back * x * rms, axis=0)[None, :]
    if WEIGHT:
        program = (batch * tl.num_programs(1) + tl.program_id(1)) * tl.num_programs(0) + tl.program_id(0)
        if TOGETHER:
            tl.store(sums_ptr + (program * heads + head) * WIDTH + column, dweight, mask=inside)
        else:
            tl.store(sums_ptr + program * WIDTH + column, dweight)


def builds():
    """What is compiled: dtype, function, types of its arguments (a number: the constant), warps."""
    for t in ("bf16", "fp32"):
        for width, heads, together in ((64, 16, 0), (128, 8, 0), (128, 16, 1), (128, 32, 1), (128, 64, 1)):
            shape, warps = f"{heads}, {width}, {together}", 8 if heads == 64 else 4
            yield t, forward, f"*{t}:16, *{t}:16, *fp32:16, *fp32:16, *{t}:16, i32, i32, i32:16, fp32, {shape}", warps
            for weight in (0, 1):
                yield (t, backward, f"*{t}:16, *{t}:16, *fp32:16, *fp32:16, *{t}:16, *{t}:16, *fp32:16, i32, i32, i32:16, i32, fp32, "
                       f"{shape}, {weight}", warps)
