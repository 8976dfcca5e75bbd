"""value · GELU(gate) on GPUs, of rows [value | gate] with `width` numbers each; GELU(g) = g Φ(g), Φ(g) = (1 + erf(g / √2)) / 2."""
import triton
import triton.language as tl


@triton.jit
def forward(x_ptr, y_ptr, width, BLOCK: tl.constexpr):
    """x [rows, 2 width] -> y [rows, width]. Grid: rows, width / BLOCK rounded up."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < width
    value = tl.load(x_ptr + row * 2 * width + column, mask=inside, other=0.0).to(tl.float32)
    gate = tl.load(x_ptr + row * 2 * width + width + column, mask=inside, other=0.0).to(tl.float32)
    y = value * gate * (0.5 + 0.5 * tl.erf(gate * 0.7071067811865476))
    tl.store(y_ptr + row * width + column, y.to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit
def backward(x_ptr, dy_ptr, dx_ptr, width, BLOCK: tl.constexpr):
    """dvalue = dy g Φ(g), dgate = dy value (Φ(g) + g φ(g)), φ the normal density. Grid as forward."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < width
    value = tl.load(x_ptr + row * 2 * width + column, mask=inside, other=0.0).to(tl.float32)
    gate = tl.load(x_ptr + row * 2 * width + width + column, mask=inside, other=0.0).to(tl.float32)
    dy = tl.load(dy_ptr + row * width + column, mask=inside, other=0.0).to(tl.float32)
    phi = 0.5 + 0.5 * tl.erf(gate * 0.7071067811865476)
    density = 0.3989422804014327 * tl.exp(-0.5 * gate * gate)
    dvalue = dy * gate * phi
    dgate = dy * value * (phi + gate * density)
    tl.store(dx_ptr + row * 2 * width + column, dvalue.to(dx_ptr.dtype.element_ty), mask=inside)
    tl.store(dx_ptr + row * 2 * width + width + column, dgate.to(dx_ptr.dtype.element_ty), mask=inside)


def builds():
    """What is compiled: dtype, function, types of its arguments (a number: the constant), warps."""
    for t in ("bf16", "fp32"):
        yield t, forward, f"*{t}:16, *{t}:16, i32:16, 1024", 4
        yield t, backward, f"*{t}:16, *{t}:16, *{t}:16, i32:16, 1024", 4
