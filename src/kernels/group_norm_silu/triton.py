"""SiLU of a group norm on GPUs: y = z sigmoid(z), z = (x - mean) rstd weight + bias, with mean and deviation of a group of channels.

x is [B, channels, pixels]. One program takes the pixels of one channel of one picture to add up what its group needs; a group's numbers are
put together from its channels' by whoever reads them."""
import triton
import triton.language as tl


@triton.jit
def channel_statistics(x_ptr, statistics_ptr, pixels, BLOCK: tl.constexpr):
    """Mean of each channel and the sum of squares around it, into statistics [B, channels, 2]. Grid: B channels."""
    channel = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, pixels, BLOCK):
        total += tl.load(x_ptr + channel * pixels + first + column, mask=first + column < pixels, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / pixels
    squares = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, pixels, BLOCK):
        inside = first + column < pixels
        x = tl.load(x_ptr + channel * pixels + first + column, mask=inside, other=0.0).to(tl.float32)
        squares += tl.where(inside, (x - mean) * (x - mean), 0.0)
    tl.store(statistics_ptr + 2 * channel, mean)
    tl.store(statistics_ptr + 2 * channel + 1, tl.sum(squares, axis=0))


@triton.jit
def group_statistics(statistics_ptr, group, pixels, per_group, eps, GROUP: tl.constexpr):
    """Mean and inverse deviation of a group from those of its channels, which have as many pixels each."""
    channel = tl.arange(0, GROUP)
    inside = channel < per_group
    means = tl.load(statistics_ptr + 2 * (group * per_group + channel), mask=inside, other=0.0)
    squares = tl.load(statistics_ptr + 2 * (group * per_group + channel) + 1, mask=inside, other=0.0)
    mean = tl.sum(means, axis=0) / per_group
    apart = tl.where(inside, means - mean, 0.0)
    return mean, 1.0 / tl.sqrt(tl.sum(squares, axis=0) / per_group / pixels + tl.sum(apart * apart, axis=0) / per_group + eps)


@triton.jit
def forward(x_ptr, weight_ptr, bias_ptr, statistics_ptr, y_ptr, channels, pixels, per_group, eps, BLOCK: tl.constexpr, GROUP: tl.constexpr):
    """Grid: B channels, pixels / BLOCK rounded up."""
    channel = tl.program_id(0)
    mean, rstd = group_statistics(statistics_ptr, channel // per_group, pixels, per_group, eps, GROUP)
    scale = tl.load(weight_ptr + channel % channels).to(tl.float32) * rstd
    bias = tl.load(bias_ptr + channel % channels).to(tl.float32)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < pixels
    place = channel.to(tl.int64) * pixels + column
    z = (tl.load(x_ptr + place, mask=inside, other=0.0).to(tl.float32) - mean) * scale + bias
    y = z * tl.sigmoid(z)
    tl.store(y_ptr + place, y.to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit
def slope(x_ptr, dy_ptr, place, inside, mean, scale, bias):
    """x - mean, and dz = dy s (1 + z (1 - s)), s = sigmoid(z)."""
    centred = tl.load(x_ptr + place, mask=inside, other=0.0).to(tl.float32) - mean
    dy = tl.load(dy_ptr + place, mask=inside, other=0.0).to(tl.float32)
    z = centred * scale + bias
    s = tl.sigmoid(z)
    return centred, dy * s * (1.0 + z * (1.0 - s))


@triton.jit
def channel_sums(x_ptr, dy_ptr, weight_ptr, bias_ptr, statistics_ptr, sums_ptr, channels, pixels, per_group, eps, BLOCK: tl.constexpr,
                 GROUP: tl.constexpr):
    """The sums of dz and of dz x̂ over each channel, the gradients of bias and weight but for the sum over B, into sums [B, channels, 2].
    Grid: B channels."""
    channel = tl.program_id(0)
    mean, rstd = group_statistics(statistics_ptr, channel // per_group, pixels, per_group, eps, GROUP)
    scale = tl.load(weight_ptr + channel % channels).to(tl.float32) * rstd
    bias = tl.load(bias_ptr + channel % channels).to(tl.float32)
    plain = tl.zeros((BLOCK,), tl.float32)
    times_x = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, pixels, BLOCK):
        column = first + tl.arange(0, BLOCK)
        inside = column < pixels
        centred, dz = slope(x_ptr, dy_ptr, channel.to(tl.int64) * pixels + column, inside, mean, scale, bias)
        plain += dz
        times_x += dz * centred
    tl.store(sums_ptr + 2 * channel, tl.sum(plain, axis=0))
    tl.store(sums_ptr + 2 * channel + 1, tl.sum(times_x, axis=0) * rstd)


@triton.jit
def backward(x_ptr, dy_ptr, weight_ptr, bias_ptr, statistics_ptr, sums_ptr, dx_ptr, channels, pixels, per_group, eps, BLOCK: tl.constexpr,
             GROUP: tl.constexpr):
    """dx = rstd (g - mean(g) - x̂ mean(g x̂)), g = dz weight, means over the group. Grid as forward."""
    channel = tl.program_id(0)
    group = channel // per_group
    mean, rstd = group_statistics(statistics_ptr, group, pixels, per_group, eps, GROUP)
    weight = tl.load(weight_ptr + channel % channels).to(tl.float32)
    bias = tl.load(bias_ptr + channel % channels).to(tl.float32)
    member = group * per_group + tl.arange(0, GROUP)
    is_member = tl.arange(0, GROUP) < per_group
    weights = tl.load(weight_ptr + member % channels, mask=is_member, other=0.0).to(tl.float32)
    count = per_group * pixels
    mean_g = tl.sum(weights * tl.load(sums_ptr + 2 * member, mask=is_member, other=0.0), axis=0) / count
    mean_gx = tl.sum(weights * tl.load(sums_ptr + 2 * member + 1, mask=is_member, other=0.0), axis=0) / count
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < pixels
    place = channel.to(tl.int64) * pixels + column
    centred, dz = slope(x_ptr, dy_ptr, place, inside, mean, weight * rstd, bias)
    dx = rstd * (dz * weight - mean_g - centred * rstd * mean_gx)
    tl.store(dx_ptr + place, dx.to(dx_ptr.dtype.element_ty), mask=inside)


def builds():
    """What is compiled: dtype, function, types of its arguments (a number: the constant), warps."""
    sizes = "i32, i32:16, i32, fp32, 1024, 128"
    for t in ("bf16", "fp32"):
        yield t, channel_statistics, f"*{t}:16, *fp32:16, i32:16, 1024", 4
        yield t, forward, f"*{t}:16, *{t}, *{t}, *fp32:16, *{t}:16, {sizes}", 4
        yield t, channel_sums, f"*{t}:16, *{t}:16, *{t}, *{t}, *fp32:16, *fp32:16, {sizes}", 4
        yield t, backward, f"*{t}:16, *{t}:16, *{t}, *{t}, *fp32:16, *fp32:16, *{t}:16, {sizes}", 4
