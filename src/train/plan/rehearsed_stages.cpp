#include "train/plan/rehearsed_stages.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/text.h"
#include "memory/caching_allocator.h"
#include "memory/multiplications.h"
#include "models/model/block_by_block.h"
#include "nn/linear.h"
#include "train/samples/pixels.h"
#include "train/step/step.h"

namespace burnish::train {

namespace {

constexpr size_t kNumParts = 64;  // of a stage's time, for its chart

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

bool in_backward(const memory::Allocation& block) { return block.place.starts_with(kBackward); }

/// Marks as activations what forward takes and backward still finds.
void mark_activations(memory::Allocations& blocks, int64_t begin) {
  int64_t next_backward = std::numeric_limits<int64_t>::max();
  for (auto block = blocks.rbegin(); block != blocks.rend() && block->taken >= begin; ++block) {
    if (in_backward(*block)) next_backward = block->taken;
    else if (block->kind == memory::Kind::workspace && block->freed > next_backward) block->kind = memory::Kind::activations;
  }
}

}  // namespace

at::Tensor of_its_shape(const at::Tensor& tensor) {
  return at::zeros({}, tensor.options().device(at::kCPU).requires_grad(false)).expand(tensor.sizes());
}

Batch on_host(Batch batch) {
  auto shape_only = [](const at::Tensor& tensor) { return tensor.is_meta() ? of_its_shape(tensor) : tensor; };
  for (auto& values : batch.samples) {
    for (auto& [name, value] : values) pipeline::change_tensors(value, shape_only);
  }
  for (auto& [name, value] : batch.draws) pipeline::change_tensors(value, shape_only);
  return batch;
}

void Rehearsal::load(const std::vector<std::string>& models, int64_t begin) {
  for (const auto& model : models) subject_.model->components().load(model);
  for (size_t number = 0; number < dry_.allocations().size(); ++number) {
    const auto& block = dry_.allocations()[number];
    if (block.taken >= begin && block.freed > dry_.now()) kinds_[number] = memory::Kind::weights;
  }
}

void Rehearsal::encode(const pipeline::Units& units, std::vector<pipeline::Values>& samples, int64_t num_samples) {
  at::NoGradGuard no_grad;
  auto& components = subject_.model->components();
  const auto large = models::too_large_encoders(components, limit_);
  for (const auto& unit : units) {
    auto begin = dry_.now();
    dry_.enter(unit.name);
    auto whole = unit.models;
    const auto by_block = std::ranges::find_if(unit.models, [&](const auto& name) { return large.contains(name); });
    if (by_block != unit.models.end()) std::erase(whole, *by_block);
    load(whole, begin);
    auto run = [&](pipeline::Values& sample) {
      pipeline::Values values;
      for (const auto& name : unit.reads) values[name] = sample.at(name);
      values = in_model_range(std::move(values), subject_.model->device());
      pipeline::run({unit}, values);
      for (const auto& name : unit.writes) sample[name] = values.at(name);
    };
    if (by_block != unit.models.end()) encode_by_block(*by_block, samples, num_samples, run);
    else std::ranges::for_each(samples, run);
    for (const auto& model : whole) components.unload(model);
    if (!unit.models.empty()) add(unit.name + (by_block != unit.models.end() ? ", by block" : ""), begin);
  }
}

/// Goes through it twice: what the works of these samples hold while they wait for blocks tells what those of others hold beside them.
void Rehearsal::encode_by_block(const std::string& encoder, std::vector<pipeline::Values>& samples, int64_t num_samples,
                                const Encode& run) {
  const auto first = dry_.allocations().size();
  models::BlockByBlock blocks(subject_.model->components(), encoder);
  auto& module = subject_.model->components().module(encoder);
  int64_t most_held = 0;
  auto look = [&] {
    mark_weights(module);
    int64_t held = 0;
    for (auto number = first; number < dry_.allocations().size(); ++number) {
      const auto& block = dry_.allocations()[number];
      if (block.freed > dry_.now() && !kinds_.contains(number)) held += block.num_bytes;
    }
    most_held = std::max(most_held, held);
    return true;
  };
  const auto count = std::ssize(samples);
  auto alone = [&](int64_t i) {
    auto sample = samples[static_cast<size_t>(i)];
    run(sample);
  };
  blocks.run(count, alone, look);
  const auto num_others = std::max<int64_t>(0, std::min(num_samples, blocks.most_at_once()) - count);
  const auto others = at::empty({num_others * (most_held / count)}, at::TensorOptions(at::kByte).device(at::kMeta));
  blocks.run(
      count, [&](int64_t i) { run(samples[static_cast<size_t>(i)]); }, look);
}

int64_t Rehearsal::compute_ahead(const pipeline::Stage& ahead, Batch& batch) {
  at::NoGradGuard no_grad;
  auto begin = dry_.now();
  dry_.enter(join(ahead.kept));
  auto models = pipeline::models_of(ahead.units);
  load(models, begin);
  auto here = c10::Device(c10::kMeta);
  std::vector<pipeline::Values> samples;
  for (const auto& sample : batch.samples) samples.push_back(in_model_range(pipeline::moved(sample, here)));
  auto values = pipeline::run(ahead, std::move(samples), pipeline::moved(batch.draws, here));
  int64_t num_bytes = 0;
  for (const auto& name : ahead.kept) {
    num_bytes += pipeline::num_bytes(values.at(name));
    batch.draws[name] = values.at(name);
  }
  for (const auto& model : models) subject_.model->components().unload(model);
  batch = on_host(std::move(batch));
  add(join(ahead.kept), begin);
  return num_bytes;
}

void Rehearsal::watch_blocks(const Trainee& trainee) {
  auto& components = subject_.model->components();
  std::map<std::string, const optim::NamedParameter*> trained;  // in the order of names, so that a block's stand together
  for (const auto& parameter : trainee.optimizer->parameters()) trained.emplace(parameter.name, &parameter);
  for (const auto& component : pipeline::components_of(trainee.live.units)) {
    for (const auto& [name, block] : named_blocks(components, component)) {
      const auto path = name + ".";
      memory::TrainedTensors of_block;
      for (auto each = trained.lower_bound(path); each != trained.end() && each->first.starts_with(path); ++each)
        of_block.emplace_back(each->first.substr(path.size()), each->second->value);
      dry_.watch(*block, name, of_block);
    }
  }
}

void Rehearsal::mark(const optim::StateList& state, memory::Kind kind) {
  for (const auto& [name, tensor] : state) {
    if (auto number = dry_.number_of(tensor)) kinds_[*number] = kind;
  }
}

void Rehearsal::mark_weights(nn::Module& module) {
  optim::StateList weights;
  module.visit_parameters([&](const std::string& path, at::Tensor& parameter) { weights.emplace_back(path, parameter); });
  module.visit([&](const std::string& path, nn::Module& child) {
    const auto* layer = dynamic_cast<nn::LinearMap*>(&child);
    if (layer == nullptr) return;
    for (const auto& tensor : layer->source().tensors()) weights.emplace_back(path, tensor);
  });
  mark(weights, memory::Kind::weights);
}

Snapshot Rehearsal::train(const pipeline::Schedule& schedule, const Settings& settings, const KeptForBackward& kept,
                          const Objective& objective, const Batch& batch, int64_t batches_per_step, bool counts_work) {
  num_asked_ = 0;
  // Tensors that travel lie on the device.
  const dist::World world(settings.together.process_index, settings.together.num_processes);
  auto trainee = load(schedule, settings, kept, batches_per_step, world);
  const auto num_phases = objective.num_phases();
  bool all_last = true;  // whether no step since the first of this kind has left anything behind
  for (int64_t step = 0; step < 2 * num_phases; ++step) {
    const auto phase = step % num_phases;
    std::optional<memory::Multiplications> counted;  // a traced run counts by itself
    if (counts_work) counted.emplace();
    if (phase == 0) step_begin_ = dry_.now();
    const auto before = lasting_bytes();
    take_step(trainee, settings, objective, batch, batches_per_step, phase);
    step_end_ = dry_.now();
    if (counted) work_.multiplications = std::max(work_.multiplications, counted->so_far() / static_cast<double>(batches_per_step));
    all_last = (phase == 0 || all_last) && lasting_bytes() == before;
    if (!trainee.execution.replays && phase + 1 == num_phases && all_last) break;  // the next would be the same
  }
  add(kStepStage, step_begin_);
  if (trainee.execution.host) stages_.back().num_host_bytes = trainee.execution.host->peak();
  count_bytes(trainee);
  return save(trainee, settings);
}

Trainee Rehearsal::load(const pipeline::Schedule& schedule, const Settings& settings, const KeptForBackward& kept, int64_t batches_per_step,
                        const dist::World& world) {
  dry_.enter("loading");
  auto first = dry_.allocations().size();
  auto trainee = load_trainee(subject_, schedule, settings.step, kept, settings.model.options.device, world);
  // The second step records.
  if (trainee.execution.gradients) trainee.execution.replays = std::make_unique<Replays>(dry_.recorder(), batches_per_step);
  for (auto number = first; number < dry_.allocations().size(); ++number) kinds_[number] = memory::Kind::weights;
  mark(trainee.optimizer->state(), memory::Kind::optimizer);
  if (trainee.ema) mark(trainee.ema->state(), memory::Kind::optimizer);
  if (trainee.own) mark(trainee.own->old_policy.state(), memory::Kind::optimizer);
  watch_blocks(trainee);
  return trainee;
}

Batch Rehearsal::next_batch(Batch batch, int64_t phase) {
  dry_.enter(std::string(kForward));
  const auto number = static_cast<size_t>(num_asked_++) % subject_.chosen.experts.size();
  const auto& experts = subject_.model->names().experts;
  auto expert = std::ranges::find(experts, subject_.chosen.experts[number].component, &models::Expert::component);
  if (batch.draws.contains(models::kExpert)) batch.draws[models::kExpert] = at::scalar_tensor(expert - experts.begin(), at::kLong);
  if (batch.draws.contains(kPhase)) batch.draws[kPhase] = at::scalar_tensor(phase, at::kLong);
  return batch;
}

void Rehearsal::take_step(Trainee& trainee, const Settings& settings, const Objective& objective, const Batch& batch,
                          int64_t batches_per_step, int64_t phase) {
  auto next = [&] { return next_batch(batch, phase); };
  if (trainee.own) {
    std::set<std::string> predictions;  // by the policy that draws (train/run/rollouts.cpp)
    for (const auto& stream : subject_.model->latent_space().streams) predictions.insert(stream.value("prediction"));
    values_of(trainee, next(), predictions);
  }
  const auto* tokens = trainee.execution.token_shares.get();
  const auto before = tokens ? tokens->traffic() : nn::TokenShares::Traffic{};
  if (settings.step.memory.updates_in_backward) {
    update_in_backward(trainee, objective, next(), settings.step, settings.step.learning_rate);
    return;
  }
  auto gradients = compute_gradients(trainee, objective, batches_per_step, next);
  if (tokens) {
    work_.token_bytes = (tokens->traffic().num_bytes - before.num_bytes) / batches_per_step;
    work_.num_exchanges = (tokens->traffic().num_exchanges - before.num_exchanges) / batches_per_step;
  }
  for (const auto& parameter : trainee.optimizer->parameters()) mark({{"", parameter.value.grad()}}, memory::Kind::gradients);
  dry_.enter(std::string(kOptimizerStep));
  update(trainee, gradients, settings.step, settings.step.learning_rate, batches_per_step);
}

Snapshot Rehearsal::save(const Trainee& trainee, const Settings& settings) {
  auto begin = dry_.now();
  dry_.enter("save");
  auto snapshot = take_snapshot(trainee, {.dtype = settings.output.files.dtype, .rounding = settings.step.optimizer.rounding});
  for (const auto& file : snapshot.files) {
    for (const auto& value : file.values) value.get();
  }
  take_state(snapshot, trainee);
  add("save", begin);
  if (trainee.execution.host) stages_.back().num_host_bytes = trainee.execution.host->num_bytes();
  return snapshot;
}

void Rehearsal::count_bytes(const Trainee& trainee) {
  const auto& parameters = trainee.optimizer->parameters();
  const auto uses = uses_of(trainee);
  const auto last = uses.empty() ? 0 : std::ranges::max(uses);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto num_bytes = 4 * parameters[i].value.numel();
    work_.gradient_bytes += num_bytes;
    work_.late_gradient_bytes += uses[i] < last ? num_bytes : 0;
    if (trainee.ownership && trainee.ownership->is_divided(i)) continue;  // it comes with its block
    for (const auto& [name, weight] : parameters[i].store->weights()) work_.weight_bytes += static_cast<int64_t>(weight.nbytes());
  }
}

int64_t Rehearsal::lasting_bytes() const {
  const auto& blocks = dry_.allocations();
  int64_t num_bytes = 0;
  for (size_t number = 0; number < blocks.size(); ++number) {
    auto kind = kinds_.find(number);
    bool is_gradient = kind != kinds_.end() && kind->second == memory::Kind::gradients;
    if (blocks[number].freed > dry_.now() && !is_gradient) num_bytes += blocks[number].num_bytes;
  }
  return num_bytes;
}

memory::Allocations Rehearsal::marked() const {
  auto blocks = dry_.allocations();
  for (const auto& [number, kind] : kinds_) blocks[number].kind = kind;
  mark_activations(blocks, 0);
  return blocks;
}

int64_t Rehearsal::activation_bytes() const {
  auto blocks = marked();
  std::erase_if(blocks, [](const auto& block) { return block.kind != memory::Kind::activations; });
  return memory::profile(blocks, step_begin_, step_end_, 1).peak.total();
}

memory::Saving Rehearsal::saving_of(const memory::RecomputablePart& part, const memory::Allocations& blocks) const {
  // About what processors do while they move a byte: a core of a CPU, and a GPU (H200: 350 tera-multiplications and 4.2 TB a second).
  const double multiplications_a_byte = device_.is_cpu() ? 8 : 80;
  memory::Saving saving{.num_bytes = 0, .work = part.multiplications / multiplications_a_byte};
  auto is_kept = [&](size_t number) { return blocks[number].kind == memory::Kind::activations; };
  for (auto number = part.first; number < part.end; ++number) {
    saving.work += 2 * static_cast<double>(blocks[number].num_bytes);  // written, and read by the next
    bool stays = !part.call && part.outputs.contains(number);          // the next block's input
    if (is_kept(number) && !stays) saving.num_bytes += blocks[number].num_bytes;
  }
  for (auto number : part.inputs) {
    saving.work += static_cast<double>(blocks[number].num_bytes);
    if (blocks[number].kind == memory::Kind::workspace) saving.num_bytes -= blocks[number].num_bytes;  // kept for nothing else
  }
  return saving;
}

Savings Rehearsal::savings() const {
  auto blocks = marked();
  std::map<std::string, memory::Choices> by_name;
  auto add = [](memory::Saving& sum, const memory::Saving& saving) {
    sum.num_bytes += saving.num_bytes;
    sum.work += saving.work;
  };
  for (const auto& part : dry_.parts()) {
    if (part.first == part.end || blocks[part.first].taken < step_begin_) continue;
    auto& of = by_name[part.block];
    if (part.call) of.values.resize(std::max(of.values.size(), *part.call + 1));
    add(part.call ? of.values[*part.call] : of.whole, saving_of(part, blocks));
  }
  Savings savings{.num_bytes = activation_bytes()};
  for (auto& [name, choices] : by_name) {
    savings.names.push_back(name);
    savings.blocks.push_back(std::move(choices));
  }
  return savings;
}

void Rehearsal::add(const std::string& name, int64_t begin) {
  auto blocks = marked();
  stages_.push_back({name, memory::profile(blocks, begin, dry_.now(), kNumParts)});
  if (!device_.is_cpu()) stages_.back().reserved = memory::most_reserved(blocks, begin, dry_.now(), limit_.value_or(kNoLimit));
}

}  // namespace burnish::train
