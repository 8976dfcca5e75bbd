#pragma once

namespace burnish::kernels {

/// The kind of number that a byte of codes stands for.
enum class CodeKind { e4m3, e5m2, int8, nf4 };

}  // namespace burnish::kernels
