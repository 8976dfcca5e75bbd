#pragma once
#include "models/parts/first_blocks.h"
#include "models/parts/shared_components.h"

namespace burnish::models {

/// The transformer "dit" of a family whose first blocks can be split off, for those that are loaded apart (Model::split_first_blocks): its
/// recipe, and the units from a step's times to "prediction". A family says where its blocks lie, how their modulation is computed, and
/// what they read beside the noisy latents and the modulation: Transformer::Inputs has noisy_BCHW, modulation_BM and hidden_BLD.
template <class Transformer>
class SplitDenoiser {
 public:
  using Inputs = typename Transformer::Inputs;

  /// Both must outlive this.
  SplitDenoiser(Components& components, const ModelOptions& options, FirstBlocks blocks = {})
      : components_(components), options_(options), blocks_(blocks) {}

  /// Makes the recipe; this must outlive it.
  template <class Config>
  Recipe recipe(const Source& source, const Config& config, BlockLayout layout) {
    layout_ = std::move(layout);
    auto recipe =
        transformer_recipe<Transformer>(source, config, options_.seed, [this](const auto& part) { return blocks_.layers_of(part); });
    recipe.parts = blocks_.parts();
    recipe.settings = [this](const std::string& part) { return blocks_.settings(part); };
    return recipe;
  }

  /// Splits off the blocks before the first that trains, and returns the part with them; "" for none (Model::split_first_blocks).
  std::string split(const Trains& trains) {
    return blocks_.split(components_, blocks_before_training(*components_.skeleton("dit"), trains, layout_));
  }

  const FirstBlocks& blocks() const { return blocks_; }
  /// Returns a loaded part.
  Transformer& loaded(const std::string& part) const { return static_cast<Transformer&>(components_.module(part)); }
  /// Returns a time of a step [B], fp32, where the model computes.
  at::Tensor time(const pipeline::Scope& scope, const std::string& name = "sigma") const {
    return scope.tensor(name).to(options_.device, at::kFloat);
  }

  /// Holds what a family's blocks do at a step.
  struct Step {
    std::vector<std::string> reads;  ///< what the whole body reads, "noisy" and "modulation" among it (FirstBlocks::units)
    FirstBlocks::Modulate modulate;
    /// Puts what they read into their inputs, but for noisy latents, modulation and hidden states; where they `go_on`, they follow blocks
    /// that were given the text.
    std::function<void(pipeline::Scope& scope, bool goes_on, Inputs& in)> give;
    std::vector<std::string> times = {"sigma"};  ///< what the modulation is made of
  };
  pipeline::Units units(const Step& step) const {
    auto run = [this, give = step.give](pipeline::Scope& scope, const std::string& part, bool goes_on) {
      Inputs in;
      in.noisy_BCHW = scope.tensor("noisy");
      in.modulation_BM = scope.tensor(blocks_.modulation_value(goes_on));
      if (goes_on) in.hidden_BLD = scope.tensor("hidden_states");
      give(scope, goes_on, in);
      return loaded(part).forward(in);
    };
    return blocks_.units(step.reads, step.modulate, run, step.times);
  }

  /// Makes the function that computes the modulation where each block has its own: `condition` computes what all of it is made of.
  using Condition = std::function<at::Tensor(const Transformer& part, const pipeline::Scope& scope)>;
  FirstBlocks::Modulate modulating_each(const Condition& condition) const {
    return [this, condition](pipeline::Scope& scope, const std::string& part) {
      const auto& transformer = loaded(part);
      if (part.starts_with(FirstBlocks::kLast)) return transformer.modulate(scope.tensor("conditioning"));
      auto conditioning = condition(transformer, scope);
      if (blocks_.count > 0) scope.write("conditioning", conditioning);
      return transformer.modulate(conditioning);
    };
  }

  /// Makes the unit that stands before them where layers that make "text_tokens" of a text are a part of their own.
  using MakeText = std::function<at::Tensor(const Transformer& layers, pipeline::Scope& scope)>;
  pipeline::Unit text_unit(const std::string& name, const std::vector<std::string>& reads, const MakeText& make) const {
    return {name, reads, {"text_tokens"}, {blocks_.text()}, [this, make](pipeline::Scope& scope) {
              const auto part = blocks_.text();
              scope.uses(part);
              scope.write("text_tokens", make(loaded(part), scope));
            }};
  }

 private:
  Components& components_;
  const ModelOptions& options_;
  FirstBlocks blocks_;
  BlockLayout layout_;
};

}  // namespace burnish::models
