"""GELU by its tanh formula on GPUs, on a flat tensor: y = x s, s = sigmoid(2 u), u = √(2/π) (x + 0.044715 x³)."""
import triton
import triton.language as tl


@triton.jit
def forward(x_ptr, y_ptr, count, BLOCK: tl.constexpr):
    """Grid: count / BLOCK, rounded up."""
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    x = tl.load(x_ptr + place, mask=inside, other=0.0).to(tl.float32)
    y = x * tl.sigmoid(2.0 * 0.7978845608028654 * (x + 0.044715 * x * x * x))
    tl.store(y_ptr + place, y.to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit
def backward(x_ptr, dy_ptr, dx_ptr, count, BLOCK: tl.constexpr):
    """dx = dy (s + 2 x s (1 - s) u'). Grid as forward."""
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    x = tl.load(x_ptr + place, mask=inside, other=0.0).to(tl.float32)
    dy = tl.load(dy_ptr + place, mask=inside, other=0.0).to(tl.float32)
    s = tl.sigmoid(2.0 * 0.7978845608028654 * (x + 0.044715 * x * x * x))
    slope = 0.7978845608028654 * (1.0 + 3.0 * 0.044715 * x * x)
    dx = dy * (s + 2.0 * x * s * (1.0 - s) * slope)
    tl.store(dx_ptr + place, dx.to(dx_ptr.dtype.element_ty), mask=inside)


def builds():
    """What is compiled: dtype, function, types of its arguments (a number: the constant), warps."""
    for t in ("bf16", "fp32"):
        yield t, forward, f"*{t}:16, *{t}:16, i32:16, 1024", 4
        yield t, backward, f"*{t}:16, *{t}:16, *{t}:16, i32:16, 1024", 4
