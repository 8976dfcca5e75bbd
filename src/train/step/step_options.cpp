#include "train/step/step_options.h"

#include "base/limits.h"
#include "base/sizes.h"

namespace burnish::train {

using config::Level;

namespace {

void optimizer_fields(config::Fields& f, StepSettings& o) {
  f.group("Optimizer");
  f("optimizer", o.optimizer.name, "{words}").known(optim::optimizers()).level(Level::first_run);
  f("optimizer_args", o.optimizer.args, "comma list of key=value, the optimizer's own numbers: betas=0.9,0.99,eps=1e-8").learned_as([&o] {
    return o.optimizer.args.empty() ? "" : "optimizer_args " + o.optimizer.args;
  });
  f("cautious", o.optimizer.cautious,
    "leave out of every update what goes against the gradient of its step, of any optimizer without averages of its own")
      .learned_as([&o] { return std::string(o.optimizer.cautious ? "cautious" : ""); });
  f("weight_decay", o.optimizer.weight_decay, "decoupled weight decay");
  f("lr_groups", o.groups.lr_groups,
    "comma list of name=rate for components, layers or regular expressions: text_encoder=5e-5,.*to_q.*=2e-4");
  f("weight_decay_groups", o.groups.weight_decay_groups, "comma list of name=decay for components, layers or regular expressions: .*bias=0")
      .level(Level::all);
  f("loraplus_lr_ratio", o.groups.loraplus_lr_ratio, "LoRA+: the learning rate of LoRA's B over that of its A, 16 say; 0 is off");
}

void schedule_fields(config::Fields& f, StepSettings& o) {
  f("lr_scheduler", o.schedule.name, "{words}, each after the warm-up").label("Learning rate schedule").known(optim::lr_schedules());
  f("lr_warmup_steps", o.schedule.warmup_steps, "steps over which the learning rate rises")
      .label("Warm-up steps")
      .at_most(kMostSteps)
      .in("steps");
  f("lr_warmup_ratio", o.warmup_ratio, "share of the run's steps over which the learning rate rises, in place of lr_warmup_steps")
      .at_least(0)
      .at_most(1);
  f("lr_scheduler_min_lr_ratio", o.schedule.min_lr_ratio, "share of the learning rate at which the schedule ends");
  f("lr_scheduler_num_cycles", o.schedule.num_cycles, "cycles of lr_scheduler cosine_with_restarts");
  f("lr_scheduler_power", o.schedule.power, "exponent of lr_scheduler polynomial").level(Level::all);
  f("lr_decay_steps", o.schedule.decay_steps,
    "the last so many steps of lr_scheduler warmup_stable_decay, in which the rate falls; 0 takes a tenth of the run")
      .at_most(kMostSteps)
      .in("steps")
      .level(Level::all);
}

void recomputing_fields(config::Fields& f, StepSettings& o, StepWords& words) {
  f.group("Memory and speed");
  f("use_gradient_checkpointing", words.recomputes, "recompute blocks in backward to save memory")
      .label("Compute blocks twice")
      .level(Level::first_run);
  f("gradient_checkpointing_interval", o.memory.interval,
    "recompute one block of so many, the first of them; the others keep what backward needs")
      .at_least(1);
  f("activation_budget", words.activation_budget,
    "what forward may leave for backward, as 6GiB: what is computed again instead is chosen so that it is the least work");
  f("use_gradient_checkpointing_offload", o.memory.checkpoints_in_host,
    "recompute blocks, and keep their inputs in main memory until backward",
    {"cpu_offload_checkpointing", "gradient_checkpointing_cpu_offload"});
  f("fused_backward_pass", o.memory.updates_in_backward,
    "update every parameter inside backward and free its gradient at once; max_grad_norm then clips every tensor by its own norm");
  f("cuda_graphs", words.graphs,
    "off, or auto: forward and backward of each shape of batches are recorded as a CUDA graph and launched as a whole, and what cannot be "
    "recorded runs as usual")
      .one_of({"off", "auto"});
}

void paging_fields(config::Fields& f, StepSettings& o, StepWords& words) {
  f("enable_optimizer_cpu_offload", o.memory.optimizer_in_host, "keep the optimizer's states in main memory")
      .label("Optimizer in system memory");
  f("blocks_to_swap", o.memory.paged_blocks,
    "number of the denoiser's blocks that wait in main memory, each brought to the device one ahead of its use: less device memory, slower")
      .label("Blocks kept in system memory")
      .at_least(0)
      .at_most(kMostBlocksNamed)
      .level(Level::first_run);
  f("enable_model_cpu_offload", words.pages_all, "blocks_to_swap of all the denoiser's blocks");
  f("blocks_on_disk", o.memory.blocks_on_disk,
    "of blocks_to_swap, so many wait in the model's file instead, which frozen blocks are read from")
      .at_least(0)
      .at_most(kMostBlocksNamed);
  f("feed_forward_chunk_size", o.memory.feed_forward_tokens,
    "the denoiser's feed-forward layers take so many tokens of a sample at a time, and backward computes them again; 0: all")
      .at_least(0)
      .in("tokens");
}

void division_fields(config::Fields& f, StepSettings& o, StepWords& words) {
  f.group("Several processes");
  f("reduction", words.reduction,
    "how gradients of several processes are summed: fast, or ordered, which gives the same bits for 1, 2, 4, 8 ... processes")
      .one_of({"fast", "ordered"});
  f("zero_stage", o.division.zero_stage,
    "what is divided among several processes: 0 nothing, 1 the optimizer's states, averages and exact values, 2 gradients as well, 3 the "
    "weights of the denoiser's blocks as well, frozen or trained");
  f("shard_size", o.division.row_size,
    "zero_stage divides among so many neighbours, as the processes of a machine, and each such row of processes has all; 0: among all")
      .at_least(0)
      .level(Level::all);
  f("sequence_size", o.division.num_places,
    "so many neighbours train on the same samples, each on a part of their tokens, with all heads of attention shared out between them")
      .at_least(1);
}

}  // namespace

void fields(config::Fields& f, StepSettings& o, StepWords& words) {
  optimizer_fields(f, o);
  schedule_fields(f, o);
  recomputing_fields(f, o, words);
  paging_fields(f, o, words);
  division_fields(f, o, words);
}

bool recomputes(const StepSettings& o, const StepWords& words) { return words.recomputes || o.memory.checkpoints_in_host; }

int64_t waiting_blocks(const StepSettings& o, const StepWords& words) { return words.pages_all ? kAllBlocks : o.memory.paged_blocks; }

optim::ScheduleOptions schedule_of(const StepSettings& o, int64_t num_steps) {
  auto schedule = o.schedule;
  schedule.max_steps = num_steps;
  // int(share * steps), as sd-scripts and OneTrainer have it; while steps are not known, a warm-up of some.
  if (o.warmup_ratio > 0) schedule.warmup_steps = num_steps > 0 ? static_cast<int64_t>(o.warmup_ratio * static_cast<double>(num_steps)) : 1;
  return schedule;
}

StepSettings with_words(StepSettings settings, const StepWords& words) {
  bool has_budget = !words.activation_budget.empty();
  auto& memory = settings.memory;
  memory.recompute_every = recomputes(settings, words) && !has_budget ? memory.interval : 0;
  memory.activation_bytes = has_budget ? parse_size("train", "activation_budget", words.activation_budget) : 0;
  memory.paged_blocks = waiting_blocks(settings, words);
  settings.replays = words.graphs == "auto";
  settings.division.reduction.ordered = words.reduction == "ordered";
  return settings;
}

}  // namespace burnish::train
