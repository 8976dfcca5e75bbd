"""Layer norm with adaLN modulation on GPUs: y = x̂ (1 + scale) + shift, one program a row forward, one for some rows of a picture backward."""
import triton
import triton.language as tl


@triton.jit
def forward(x_ptr, scale_ptr, shift_ptr, y_ptr, statistics_ptr, rows, width, scale_stride, shift_stride, eps, BLOCK: tl.constexpr):
    """x [B, rows, width] -> y and, for each row, mean and inverse deviation. Grid: rows, B."""
    batch = tl.program_id(1)
    row = batch.to(tl.int64) * rows + tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < width
    x = tl.load(x_ptr + row * width + column, mask=inside, other=0.0).to(tl.float32)
    scale = tl.load(scale_ptr + batch * scale_stride + column, mask=inside, other=0.0).to(tl.float32)
    shift = tl.load(shift_ptr + batch * shift_stride + column, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / width
    centred = tl.where(inside, x - mean, 0.0)
    rstd = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=0) / width + eps)
    y = centred * rstd * (1.0 + scale) + shift
    tl.store(y_ptr + row * width + column, y.to(y_ptr.dtype.element_ty), mask=inside)
    tl.store(statistics_ptr + 2 * row, mean)
    tl.store(statistics_ptr + 2 * row + 1, rstd)


@triton.jit
def backward(x_ptr, scale_ptr, statistics_ptr, dy_ptr, dx_ptr, sums_ptr, rows, width, scale_stride, rows_each, BLOCK: tl.constexpr,
             MODULATION: tl.constexpr):
    """dx = rstd (g - mean(g) - x̂ mean(g x̂)), g = dy (1 + scale); with MODULATION also the sums over this program's rows of dy x̂ and of dy,
    into sums [2, B, programs, width], which are added up for the gradients of scale and shift. Grid: programs of rows_each rows, B."""
    batch = tl.program_id(1)
    column = tl.arange(0, BLOCK)
    inside = column < width
    scale = tl.load(scale_ptr + batch * scale_stride + column, mask=inside, other=0.0).to(tl.float32)
    dscale = tl.zeros((BLOCK,), tl.float32)
    dshift = tl.zeros((BLOCK,), tl.float32)
    first = tl.program_id(0) * rows_each
    for i in range(first, tl.minimum(first + rows_each, rows)):
        row = batch.to(tl.int64) * rows + i
        mean = tl.load(statistics_ptr + 2 * row)
        rstd = tl.load(statistics_ptr + 2 * row + 1)
        x = tl.load(x_ptr + row * width + column, mask=inside, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + row * width + column, mask=inside, other=0.0).to(tl.float32)
        normed = tl.where(inside, (x - mean) * rstd, 0.0)
        g = dy * (1.0 + scale)
        dx = rstd * (g - tl.sum(g, axis=0) / width - normed * (tl.sum(g * normed, axis=0) / width))
        tl.store(dx_ptr + row * width + column, dx.to(dx_ptr.dtype.element_ty), mask=inside)
        if MODULATION:
            dscale += dy * normed
            dshift += dy
    if MODULATION:
        programs = tl.num_programs(0)
        place = (batch * programs + tl.program_id(0)).to(tl.int64) * width + column
        tl.store(sums_ptr + place, dscale, mask=inside)
        tl.store(sums_ptr + tl.num_programs(1).to(tl.int64) * programs * width + place, dshift, mask=inside)


def builds():
    """What is compiled: dtype, function, types of its arguments (a number: the constant), warps."""
    for t in ("bf16", "fp32"):
        for block, warps in ((2048, 4), (4096, 8), (8192, 16)):
            yield t, forward, f"*{t}:16, *{t}:16, *{t}:16, *{t}:16, *fp32:16, i32, i32:16, i32:16, i32:16, fp32, {block}", warps
            for modulation in (0, 1):
                yield (t, backward, f"*{t}:16, *{t}:16, *fp32:16, *{t}:16, *{t}:16, *fp32:16, i32, i32:16, i32:16, i32, {block}, {modulation}",
                       warps)
