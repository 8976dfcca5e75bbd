#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <initializer_list>

// What optim/rounding.h promises, for flat tensors on a GPU, with the draws that a CPU makes.
namespace burnish::kernels {

/// Tells whether the functions below take tensors of these sizes: on a GPU that there are kernels for, contiguous and aligned, of one count
/// of numbers, a multiple of 16.
bool rounding_fits_gpu(std::initializer_list<at::Tensor> tensors);

void round_stochastically_gpu(const at::Tensor& from, const at::Tensor& to, uint32_t key);
void round_to_e4m3_gpu(const at::Tensor& from, const at::Tensor& codes, uint32_t key);
void split_remainder_gpu(const at::Tensor& exact, const at::Tensor& rounded, const at::Tensor& remainder);
void join_remainder_gpu(const at::Tensor& rounded, const at::Tensor& remainder, const at::Tensor& exact);

}  // namespace burnish::kernels
