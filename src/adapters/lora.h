#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "nn/linear.h"

namespace burnish::adapters {

struct LoraOptions {
  int64_t rank = 32;
  double alpha = 0;            ///< the update is scaled by alpha / rank; 0 means alpha = rank
  std::string target_modules;  ///< names, one regular expression, or "" for the automatic rule: see match_targets
};

/// Low-rank update of a frozen linear map: y + (alpha / rank) · (x Aᵀ) Bᵀ (Hu et al. 2021, arXiv 2106.09685).
/// A [rank, in] and B [out, rank] are fp32 whatever the base computes in.
class Lora : public nn::Delta {
 public:
  Lora(at::Tensor a, at::Tensor b, double alpha);
  at::Tensor forward(const nn::Linear& base, const at::Tensor& x) override;
  int64_t rank() const { return a_.size(0); }
  double alpha() const { return alpha_; }
  double scale() const { return alpha_ / static_cast<double>(rank()); }
  const at::Tensor& a() const { return a_; }
  const at::Tensor& b() const { return b_; }

 private:
  at::Tensor a_, b_;
  double alpha_;
};

/// A linear layer that carries a LoRA, by its path below the model.
struct Adapted {
  std::string path;
  nn::Linear* linear;
  std::shared_ptr<Lora> lora;
};
using AdaptedList = std::vector<Adapted>;

/// All names that a layer goes by ("blocks.0.attn.a_to_qkv" and "transformer_blocks.0.attn.to_q"), its path among them unless it must
/// not be found by it; none means the path alone.
using AliasesOf = std::function<std::vector<std::string>(const std::string& path)>;

/// The linear layers that `targets` names, by DiffSynth-Studio's rules: several comma-separated names match a layer's name exactly
/// or as its end after a dot; a single name is a regular expression for the whole name, and if that matches nothing also an end; "" picks
/// every linear layer inside the blocks whose sides are both at least 512. No match is a config Error that names the layers there are.
std::vector<std::pair<std::string, nn::Linear*>> match_targets(nn::Module& root, const std::string& targets, const AliasesOf& aliases);

/// Hangs a fresh LoRA on every target: A Kaiming-uniform (a = √5) from `seed` and the path, B zero.
AdaptedList attach(nn::Module& root, const LoraOptions& options, const AliasesOf& aliases, uint64_t seed);

/// One LoRA read from a file, in our paths.
struct LoraWeights {
  std::string path;
  at::Tensor a, b;
  double alpha;
};

/// Every entry must fit a linear layer of `root` (its shapes suffice): otherwise a data Error names the first that does not.
void check_fit(nn::Module& root, const std::vector<LoraWeights>& weights, const std::string& file_name);

/// Hangs the LoRAs of a file, after check_fit.
AdaptedList attach_weights(nn::Module& root, const std::vector<LoraWeights>& weights, const std::string& file_name);

/// W ← W + strength · (alpha / rank) · B A for every entry, in fp32: fuses a LoRA into its base.
void merge(nn::Module& root, const std::vector<LoraWeights>& weights, double strength, const std::string& file_name);

}  // namespace burnish::adapters
