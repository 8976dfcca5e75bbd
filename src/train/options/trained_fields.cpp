#include <fmt/core.h>

#include "adapters/lokr.h"
#include "base/limits.h"
#include "config/everyday_words.h"
#include "optim/rounding.h"
#include "train/options/asked.h"
#include "train/options/objective_options.h"
#include "train/options/rows.h"

namespace burnish::train {

using config::LearnedBy;
using config::Level;

namespace {

bool may_be(const TrainOptions& o, const char* type) { return o.adapter.type == type || !o.trained.lora_checkpoint.empty(); }
bool is_lokr(const TrainOptions& o) { return has_adapters(o) && may_be(o, "lokr"); }
bool is_dora(const TrainOptions& o) { return has_adapters(o) && may_be(o, "dora"); }

/// Rates of named components are judged by their names.
bool has_other_rates(const TrainOptions& o) { return o.trained.component_rates.find('=') != std::string::npos || may_train_others(o); }

void part_fields(config::Fields& f, TrainedChoice& o) {
  f.group("What is trained");
  f("trainable_models", o.whole, "comma list of components, or parts of them, that train whole (dit, text_encoder); empty trains a LoRA")
      .label("Train whole parts")
      .level(Level::first_run);
  f("experts", o.experts,
    "comma list of the experts that train, of models with several: high_noise, low_noise; empty takes those whose files are there, which "
    "dit stands for everywhere, or one that is named alone, dit_2 say");
  f("init", o.init, "pretrained, or random to train the denoiser from scratch").one_of({"pretrained", "random"});
}

void adapter_fields(config::Fields& f, TrainOptions& o) {
  f.group("Adapters");
  f("lora_base_model", o.trained.adapted,
    "comma list of components that carry adapters; empty takes the denoiser, or those in lora_checkpoint");
  f("lora_target_modules", o.trained.targets, "layer names, one regular expression, \"\" for every large layer, or default")
      .label("Layers that learn");
  f("lora_type", o.adapter.type, "{words}").label("Kind of adapter").known(adapters::adapter_types());
  f("lora_rank", o.adapter.rank, "rank of the adapters; 16 to 32 is usual, more learns more detail and takes more memory")
      .label("LoRA size")
      .at_least(1)
      .at_most(adapters::kMostLokrRank)
      .level(Level::first_run)
      .called(config::kRank);
  f("lora_alpha", o.adapter.alpha, "scale is alpha / rank; 0 takes the rank")
      .label("LoRA strength while training")
      .at_least(0)
      .learned_as([&o] { return o.adapter.alpha > 0 ? fmt::format("alpha {}", o.adapter.alpha) : ""; }, LearnedBy::adapters)
      .level(Level::first_run)
      .called(config::kAlpha);
  f("lora_rank_groups", o.trained.rank_groups,
    "comma list of name=rank for components, layers or regular expressions: text_encoder=4,.*to_q=64")
      .learned_as([&o] { return o.trained.rank_groups.empty() ? "" : "rank groups " + o.trained.rank_groups; }, LearnedBy::adapters);
  f("lora_alpha_groups", o.trained.alpha_groups, "comma list of name=alpha for components, layers or regular expressions")
      .learned_as([&o] { return o.trained.alpha_groups.empty() ? "" : "alpha groups " + o.trained.alpha_groups; }, LearnedBy::adapters)
      .level(Level::all);
  f("use_rslora", o.adapter.use_rslora, "scale is alpha / root of rank")
      .learned_as([&o] { return std::string(o.adapter.use_rslora ? "rank-stabilised" : ""); }, LearnedBy::adapters)
      .counts_when("an adapter, and trainable_models asks for none (lora_base_model does)", [&o] { return has_adapters(o); });
  f("lora_dropout", o.adapter.dropout, "share of the inputs that an adapter does not see in a step")
      .counts_when("an adapter, and trainable_models asks for none (lora_base_model does)", [&o] { return has_adapters(o); });
}

/// What is of some kinds of adapters, and what adapters begin from.
void adapter_kind_fields(config::Fields& f, TrainOptions& o) {
  f("tlora_min_rank", o.rank_rule.least,
    "T-LoRA's rank mask: how many ranks of a LoRA learn from a sample that is noise alone, and the less noise it has the more, up to all; "
    "0: all ranks learn from every sample")
      .at_least(0)
      .at_most(kMostRank)
      .decides_what_is_learned()
      .counts_when("lora_type lora, and tasks that draw a time for each sample (sft, dpo)",
                   [&o] { return has_adapters(o) && may_be(o, "lora") && draws_times(o); });
  f("tlora_alpha", o.rank_rule.alpha, "exponent of T-LoRA's mask: above 1 fewer ranks learn from samples of some noise, below 1 more")
      .at_least(0)
      .decides_what_is_learned()
      .counts_when("tlora_min_rank", [&o] { return o.rank_rule.is_on(); })
      .level(Level::all);
  f("dora_norm", o.trained.dora_norm, "output: a magnitude per output, as peft and diffusers have it; input: per input, as OneTrainer")
      .known(adapters::norm_axes())
      .counts_when("lora_type dora", [&o] { return is_dora(o); });
  f("lokr_factor", o.adapter.lokr_factor,
    "largest side of LoKr's first factor; -1 takes the most even split; under a lora_rank of 10000 and more its second factor is whole")
      .counts_when("lora_type lokr", [&o] { return is_lokr(o); })
      .level(Level::all);
  f.path("lora_checkpoint", o.trained.lora_checkpoint,
         "LoRA file to start from, for several experts a comma list of theirs; it decides type, targets and alpha, and options that "
         "contradict it are refused; a larger lora_rank pads its factors")
      .label("Begin from a LoRA")
      .called(config::kLora);
  f("lora_checkpoint_rank", o.trained.checkpoint_rank,
    "rank that the factors of lora_checkpoint are padded to, adding what they added; 0 takes lora_rank where that is asked for, else "
    "theirs")
      .at_least(0)
      .at_most(kMostRank)
      .counts_when("lora_checkpoint", [&o] { return !o.trained.lora_checkpoint.empty(); })
      .level(Level::all);
}

void preset_fields(config::Fields& f, TrainedChoice& o) {
  f.group("Presets");
  f.path(
      "preset_lora_path", o.presets,
      "LoRA file, file:strength or file:strength:layers, that is part of the frozen weights while training and of no file that is written; "
      "may be given several times",
      {"base_weights"});
  f("preset_lora_model", o.preset_components,
    "comma list of components that preset LoRAs are merged into; empty takes all that they adapt");
}

void rate_fields(config::Fields& f, TrainOptions& o) {
  f.group("Learning rate");
  f("learning_rate", o.step.learning_rate, "peak learning rate").level(Level::first_run).called(config::kRate);
  f("text_encoder_lr", o.trained.component_rates,
    "learning rate of what trains besides the denoiser, or a comma list of component=rate; empty takes learning_rate")
      .label("Learning rate of other parts")
      .counts_when("components besides the denoiser that train; name them in lora_base_model or trainable_models",
                   [&o] { return has_other_rates(o); });
  f("trained_weights", o.trained.weights,
    "how weights that train are kept and rounded: stochastic, remainder (bf16 and 16 more bits: exact), nearest, or fp8 (in codes)")
      .known(optim::roundings())
      .learned_as([&o] { return o.trained.weights == "stochastic" ? "" : "weights " + o.trained.weights; }, LearnedBy::whole);
  f("ema_decay", o.step.ema_decay,
    "files and validation take a moving average of what trains, which keeps this share of itself at each step, 0.999 say; 0: none")
      .label("Moving average")
      .learned_as([&o] { return o.step.ema_decay > 0 ? fmt::format("ema_decay {}", o.step.ema_decay) : ""; });
  f("max_grad_norm", o.step.max_grad_norm, "clips the gradient norm; 0 does not").label("Gradient clipping").at_least(0);
}

}  // namespace

void trained_fields(config::Fields& f, TrainOptions& o) {
  part_fields(f, o.trained);
  adapter_fields(f, o);
  adapter_kind_fields(f, o);
  f.group("Trained words");
  fields(f, o.embedding);
  preset_fields(f, o.trained);
  rate_fields(f, o);
}

}  // namespace burnish::train
