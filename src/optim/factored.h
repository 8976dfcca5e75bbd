#pragma once
#include "optim/update_rule.h"

namespace burnish::optim {

/// A moving average of a tensor of positive numbers, kept as its means over the last and over the last but one dimension (Shazeer and Stern
/// 2018, arXiv 1804.04235, section 3); of a vector all numbers are kept. Slots are "<name>_row" and "<name>_col", or "<name>".
std::vector<Slot> factored_slots(const std::string& name, const NamedParameter& parameter);

/// average = beta * average + (1 - beta) * positive, in the slots' tensors from `first` on, and 1 / sqrt of what they now stand for, of the
/// shape of `positive`. Returns how many slots that took in `first`.
at::Tensor update_factored(const std::vector<at::Tensor>& slots, size_t& first, const at::Tensor& positive, double beta);

/// The root of the mean of squares, summed in fp64: a 0-dim fp64 tensor.
at::Tensor root_mean_square(const at::Tensor& tensor);

/// Divides the update by max(1, its root mean square / threshold), in place.
void clip_update(at::Tensor& update, double threshold);

}  // namespace burnish::optim
