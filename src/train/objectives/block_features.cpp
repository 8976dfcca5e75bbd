#include "train/objectives/block_features.h"

#include <algorithm>

#include "base/input_error.h"

namespace burnish::train {

namespace {

/// Ends a forward pass of which nothing more is read.
struct Reached {};

/// Runs a block as it would be run, and notes what it gives.
class Listening final : public nn::BlockRunner {
 public:
  Listening(std::shared_ptr<nn::BlockRunner> inner, nn::Tensors& results, bool is_last)
      : inner_(std::move(inner)), results_(results), is_last_(is_last) {}
  nn::Tensors run(nn::Block& block, const nn::Tensors& inputs) override {
    results_ = inner_ ? inner_->run(block, inputs) : nn::run_body(block, inputs);
    if (is_last_) throw Reached();
    return results_;
  }

 private:
  std::shared_ptr<nn::BlockRunner> inner_;
  nn::Tensors& results_;
  bool is_last_;
};

/// While it lives, notes what these blocks give, and ends the forward pass behind the last one.
class Listeners {
 public:
  Listeners(const std::vector<nn::Block*>& blocks, const std::vector<int64_t>& numbers, std::vector<nn::Tensors>& results) {
    for (size_t i = 0; i < numbers.size(); ++i) {
      auto* block = blocks.at(static_cast<size_t>(numbers[i]));
      kept_.emplace_back(block, block->runner);
      block->runner = std::make_shared<Listening>(block->runner, results[i], i + 1 == numbers.size());
    }
  }
  ~Listeners() {
    for (auto& [block, runner] : kept_) block->runner = std::move(runner);
  }
  Listeners(const Listeners&) = delete;
  Listeners& operator=(const Listeners&) = delete;

 private:
  std::vector<std::pair<nn::Block*, std::shared_ptr<nn::BlockRunner>>> kept_;
};

/// Returns the picture's tokens among what a block gives.
at::Tensor tokens_of(const nn::Tensors& results, const models::TokenNames& names, int64_t count, int64_t block) {
  if (results.empty())
    data_error("train", "block {} of this denoiser does not run without reference pictures; name others in dmd2_feature_indices", block);
  const auto& all = results.at(std::min(names.output, results.size() - 1));
  if (all.size(1) < count)
    data_error("train",
               "block {} gives {} tokens, and the picture has {}: it sees the text alone; name another block in "
               "dmd2_feature_indices",
               block, all.size(1), count);
  return all.narrow(1, names.picture_is_first ? 0 : all.size(1) - count, count);
}

}  // namespace

std::vector<at::Tensor> features_behind(const std::vector<nn::Block*>& blocks, const std::vector<int64_t>& numbers,
                                        const models::Model& model, const at::Tensor& latents, const std::function<void()>& forward) {
  std::vector<nn::Tensors> results(numbers.size());
  {
    Listeners listeners(blocks, numbers, results);
    try {
      forward();
    } catch (const Reached&) {  // what is behind that block makes nothing that is read
    }
  }
  const auto patch = model.latent_space().streams.at(0).patch;
  const auto columns = latents.size(-1) / patch, count = latents[0][0].numel() / (patch * patch);
  std::vector<at::Tensor> features;
  for (size_t i = 0; i < results.size(); ++i)
    features.push_back(tokens_of(results[i], *model.names().tokens, count, numbers[i]).transpose(1, 2).unflatten(2, {-1, columns}));
  return features;
}

}  // namespace burnish::train
