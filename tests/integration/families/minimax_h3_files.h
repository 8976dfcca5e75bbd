#pragma once
#include <ATen/ATen.h>

#include <cmath>

#include "models/families/minimax_h3/keys.h"
#include "tests/integration/families/minimax_h3.h"

// The transformer of the small MiniMax-H3 as other programs' files have it.
namespace burnish::test {

/// In original names, its fused rows by part or, as MiniMax's shards have them, by head.
inline io::NamedTensors minimax_h3_original(bool by_head) {
  auto source = io::TensorSource::open_folder(kMiniMaxH3 / "model/transformer", {"diffusion_pytorch_model"});
  io::NamedTensors all;
  for (const auto& name : source.names()) all.emplace_back(name, source.tensor(name));
  all = models::minimax_h3::original_keys().to_file(all);
  for (auto& [name, tensor] : all) {
    if (by_head && name.ends_with(models::minimax_h3::kFused))
      tensor = tensor.unflatten(0, {3, 2, 16}).transpose(0, 1).reshape(tensor.sizes()).contiguous();
  }
  return all;
}

/// Pruned, by part: a table of 1025 rows stands for the layers that embed the time.
inline io::NamedTensors minimax_h3_pruned() {
  at::NoGradGuard no_grad;
  auto pruned = minimax_h3_original(/*by_head=*/false);
  auto find = [&](const std::string& name) {
    return std::ranges::find(pruned, name, [](const auto& one) { return one.first; })->second.to(at::kFloat);
  };
  const auto angles = (at::arange(1025, at::kFloat) / 1024).unsqueeze(1) * (at::arange(16, at::kFloat) * (-std::log(1e4) / 16)).exp();
  auto embedded = at::cat({angles.cos(), angles.sin()}, -1);
  for (const std::string layer : {"proj_in", "proj_out"})
    embedded = at::silu(at::linear(embedded, find("time_embedder." + layer + ".weight"), find("time_embedder." + layer + ".bias")));
  std::erase_if(pruned, [](const auto& one) { return one.first.starts_with("time_embedder."); });
  pruned.emplace_back("adaln_t_table", embedded);
  return pruned;
}

}  // namespace burnish::test
