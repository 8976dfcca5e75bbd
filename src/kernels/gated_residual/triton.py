"""residual + gate · y on GPUs, with a gate for each sample: one program a row forward, one for some rows of a sample backward."""
import triton
import triton.language as tl


@triton.jit
def forward(residual_ptr, gate_ptr, y_ptr, out_ptr, rows, width, gate_stride, BLOCK: tl.constexpr):
    """residual and y [B, rows, width], gate [B, width] -> out. Grid: rows, B."""
    batch = tl.program_id(1)
    place = (batch.to(tl.int64) * rows + tl.program_id(0)) * width + tl.arange(0, BLOCK)
    column = tl.arange(0, BLOCK)
    inside = column < width
    gate = tl.load(gate_ptr + batch * gate_stride + column, mask=inside, other=0.0).to(tl.float32)
    y = tl.load(y_ptr + place, mask=inside, other=0.0).to(tl.float32)
    out = tl.load(residual_ptr + place, mask=inside, other=0.0).to(tl.float32) + gate * y
    tl.store(out_ptr + place, out.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def backward(gate_ptr, y_ptr, dout_ptr, dy_ptr, sums_ptr, rows, width, gate_stride, rows_each, BLOCK: tl.constexpr, GATE: tl.constexpr):
    """dy = gate · dout; with GATE also the sums over this program's rows of dout · y, into sums [B, programs, width]. Grid: programs of
    rows_each rows, B."""
    batch = tl.program_id(1)
    column = tl.arange(0, BLOCK)
    inside = column < width
    gate = tl.load(gate_ptr + batch * gate_stride + column, mask=inside, other=0.0).to(tl.float32)
    dgate = tl.zeros((BLOCK,), tl.float32)
    first = tl.program_id(0) * rows_each
    for row in range(first, tl.minimum(first + rows_each, rows)):
        place = (batch.to(tl.int64) * rows + row) * width + column
        dout = tl.load(dout_ptr + place, mask=inside, other=0.0).to(tl.float32)
        tl.store(dy_ptr + place, (gate * dout).to(dy_ptr.dtype.element_ty), mask=inside)
        if GATE:
            dgate += dout * tl.load(y_ptr + place, mask=inside, other=0.0).to(tl.float32)
    if GATE:
        program = (batch * tl.num_programs(0) + tl.program_id(0)).to(tl.int64)
        tl.store(sums_ptr + program * width + column, dgate, mask=inside)


def builds():
    """What is compiled: dtype, function, types of its arguments (a number: the constant), warps."""
    for t in ("bf16", "fp32"):
        for block, warps in ((2048, 4), (4096, 8), (8192, 16)):
            yield t, forward, f"*{t}:16, *{t}:16, *{t}:16, *{t}:16, i32, i32:16, i32:16, {block}", warps
            for gate in (0, 1):
                yield t, backward, f"*{t}:16, *{t}:16, *{t}:16, *{t}:16, *fp32:16, i32, i32:16, i32:16, i32, {block}, {gate}", warps
