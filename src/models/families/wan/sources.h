#pragma once
#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

// Sources of Bernini-R's transformer: what is changed. Their latents, without noise, are tokens before those that are denoised, and every
// pair of a head turns by the number of its source as well, which is 0 for what is denoised. Shape letters: L tokens, P pairs of a head.
namespace burnish::models::wan {

/// Returns the numbers of so many sources, from 1 on: whole ones as far as the model was trained, 5; more are spread evenly up to that.
std::vector<double> source_numbers(size_t num_sources);
/// Turns rotary tables [L, P], cosines and sines, by the number of a source: pair k by number · 10000^(-k / P).
std::pair<at::Tensor, at::Tensor> turned_by_source(const std::pair<at::Tensor, at::Tensor>& tables, double number);

}  // namespace burnish::models::wan
