#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace burnish::optim {

/// The way in which weights that train in bf16 take updates that are smaller than their spacing (2^-8 of their size).
/// nearest     loses every update below half of it: training with small learning rates stands still
/// stochastic  rounds up or down with the probability that makes the mean exact
/// remainder   keeps the other 16 bits of an fp32 number beside it: nothing is lost
enum class Rounding { nearest, stochastic, remainder };

/// Returns the words that parse_rounding reads.
std::vector<std::string> roundings();
/// "fp8", which says that weights are kept in codes (quant/trained_codes.h), is stochastic for those that are not. A config Error lists the
/// known names.
Rounding parse_rounding(std::string_view name);

/// Rounds fp32 `from` to bf16 into `to`: up or down with probabilities proportional to nearness, so the expected value is exact.
/// The draws are a function of the key, the shape and the kind of device. `from` may be overwritten; both tensors have one shape and
/// device.
void round_stochastically(at::Tensor& from, const at::Tensor& to, uint64_t key);

/// Rounds stochastically onto E4M3, subnormals included, as codes [like from] uint8: the expected value is exact to 2^-24 of the spacing
/// there. Magnitudes beyond 448 and NaN become the code of NaN.
void round_to_e4m3(const at::Tensor& from, const at::Tensor& codes, uint64_t key);

/// fp32 `exact` as the nearest bf16 number (halves away from zero) and what its bits lack, as signed 16-bit numbers; all of one shape.
void split_remainder(const at::Tensor& exact, const at::Tensor& rounded, const at::Tensor& remainder);
/// The fp32 number again, bit for bit, into `exact`.
void join_remainder(const at::Tensor& rounded, const at::Tensor& remainder, const at::Tensor& exact);

}  // namespace burnish::optim
