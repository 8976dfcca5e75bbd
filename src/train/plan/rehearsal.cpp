#include "train/plan/rehearsal.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/util/accumulate.h>
#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "memory/caching_allocator.h"
#include "memory/dry_run.h"
#include "memory/multiplications.h"
#include "train/course/ahead.h"
#include "train/plan/stages.h"
#include "train/samples/pixels.h"
#include "train/step/blocks_on_disk.h"
#include "train/step/snapshot.h"
#include "train/step/step.h"

namespace burnish::train {

namespace {

constexpr size_t kNumParts = 64;  // of a stage's time, for its chart

/// Of a step's batches: what the second finds of the first is all that further ones find.
constexpr int64_t kMostBatches = 2;

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

bool in_backward(const memory::Allocation& block) { return block.place.starts_with(kBackward); }

/// What forward takes and backward still finds.
void mark_activations(memory::Allocations& blocks, int64_t begin) {
  int64_t next_backward = std::numeric_limits<int64_t>::max();
  for (auto block = blocks.rbegin(); block != blocks.rend() && block->taken >= begin; ++block) {
    if (in_backward(*block)) next_backward = block->taken;
    else if (block->kind == memory::Kind::workspace && block->freed > next_backward) block->kind = memory::Kind::activations;
  }
}

/// A batch whose tensors on the meta device are on the CPU in name only: they take no memory until they are moved to a device.
Batch on_host(Batch batch) {
  auto shape_only = [](const at::Tensor& tensor) {
    if (!tensor.is_meta()) return tensor;
    return at::zeros({}, tensor.options().device(at::kCPU).requires_grad(false)).expand(tensor.sizes());
  };
  for (auto& values : batch.samples) {
    for (auto& [name, value] : values) pipeline::change_tensors(value, shape_only);
  }
  for (auto& [name, value] : batch.draws) pipeline::change_tensors(value, shape_only);
  return batch;
}

/// Goes through the stages of a run whose model is on the meta device, by the functions that the run itself uses.
class Rehearsal {
 public:
  /// Both must outlive it.
  Rehearsal(memory::DryRun& dry, Subject& subject, c10::Device device, std::optional<int64_t> limit)
      : dry_(dry), subject_(subject), device_(device), limit_(limit) {}

  /// Runs units on the values of single samples, one unit with its models after the other, and adds what they write to the values.
  void encode(const pipeline::Units& units, std::vector<pipeline::Values>& samples);
  /// Runs the schedule's ahead stage for a batch and adds what is kept of it to the batch's draws. The bytes of that.
  int64_t compute_ahead(const pipeline::Stage& ahead, Batch& batch);
  /// Loads the trainee and goes through a step, and through a second where the first has left something behind. Then computes what is
  /// saved, which is given.
  Snapshot train(const pipeline::Schedule& schedule, const Settings& settings, const KeptForBackward& kept, const Objective& objective,
                 const Batch& batch, int64_t batches_per_step, bool counts_work);

  const std::vector<StageMemory>& stages() const { return stages_; }
  /// After `train`, of a run that was not traced.
  const StepWork& work() const { return work_; }
  /// What forward leaves for backward in the step, after `train`.
  int64_t activation_bytes() const;
  /// Of a dry run that was traced, after `train`.
  Savings savings() const;

 private:
  /// What is there of them afterwards are weights.
  void load(const std::vector<std::string>& models, int64_t begin);
  void watch_blocks(const pipeline::Stage& live);
  void mark(const optim::StateList& state, memory::Kind kind);
  /// Of the step's work, outside of what is counted of memory.
  void count_bytes(const Trainee& trainee);
  void add(const std::string& name, int64_t begin);
  /// Bytes that are live, without gradients, which the next step begins by freeing.
  int64_t lasting_bytes() const;
  /// The step's blocks of memory with their kinds, and those before it.
  memory::Allocations marked() const;
  /// What computing a part again saves of what is kept, and the work that it is.
  memory::Saving saving_of(const memory::Part& part, const memory::Allocations& blocks) const;

  memory::DryRun& dry_;
  Subject& subject_;
  c10::Device device_;
  std::optional<int64_t> limit_;
  std::map<size_t, memory::Kind> kinds_;  ///< of blocks of memory, by number
  std::vector<StageMemory> stages_;
  StepWork work_;
  int64_t step_begin_ = 0, step_end_ = 0;
};

void Rehearsal::load(const std::vector<std::string>& models, int64_t begin) {
  for (const auto& model : models) subject_.model->components().load(model);
  for (size_t number = 0; number < dry_.allocations().size(); ++number) {
    const auto& block = dry_.allocations()[number];
    if (block.taken >= begin && block.freed > dry_.now()) kinds_[number] = memory::Kind::weights;
  }
}

void Rehearsal::encode(const pipeline::Units& units, std::vector<pipeline::Values>& samples) {
  at::NoGradGuard no_grad;
  auto& components = subject_.model->components();
  for (const auto& unit : units) {
    auto begin = dry_.now();
    dry_.enter(unit.name);
    load(unit.models, begin);
    for (auto& sample : samples) {
      pipeline::Values values;
      for (const auto& name : unit.reads) values[name] = sample.at(name);
      values = in_model_range(std::move(values), subject_.model->device());
      pipeline::run({unit}, values);
      for (const auto& name : unit.writes) sample[name] = values.at(name);
    }
    for (const auto& model : unit.models) components.unload(model);
    if (!unit.models.empty()) add(unit.name, begin);
  }
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

void Rehearsal::watch_blocks(const pipeline::Stage& live) {
  auto& components = subject_.model->components();
  for (const auto& component : pipeline::components_of(live.units)) {
    for (const auto& [name, block] : named_blocks(components, component)) dry_.watch(*block, name);
  }
}

void Rehearsal::mark(const optim::StateList& state, memory::Kind kind) {
  for (const auto& [name, tensor] : state) {
    if (auto number = dry_.number_of(tensor)) kinds_[*number] = kind;
  }
}

Snapshot Rehearsal::train(const pipeline::Schedule& schedule, const Settings& settings, const KeptForBackward& kept,
                          const Objective& objective, const Batch& batch, int64_t batches_per_step, bool counts_work) {
  dry_.enter("loading");
  auto first = dry_.allocations().size();
  // What travels lies on the device.
  dist::World world(settings.together.process_index, settings.together.num_processes);
  auto trainee = load_trainee(subject_, schedule, settings.step, kept, settings.model.options.device, world);
  // The second step records.
  if (trainee.execution.gradients) trainee.execution.replays = std::make_unique<Replays>(dry_.recorder(), batches_per_step);
  for (auto number = first; number < dry_.allocations().size(); ++number) kinds_[number] = memory::Kind::weights;
  mark(trainee.optimizer->state(), memory::Kind::optimizer);
  if (trainee.ema) mark(trainee.ema->state(), memory::Kind::optimizer);
  watch_blocks(trainee.live);

  int64_t num_asked = 0, phase = 0;
  auto next = [&] {
    dry_.enter(std::string(kForward));
    auto one = batch;  // in turn for each expert: the gradients of all are there at once
    const auto number = static_cast<size_t>(num_asked++) % subject_.chosen.experts.size();
    const auto& experts = subject_.model->names().experts;
    auto expert = std::ranges::find(experts, subject_.chosen.experts[number].component, &models::Expert::component);
    if (one.draws.contains(models::kExpert)) one.draws[models::kExpert] = at::scalar_tensor(expert - experts.begin(), at::kLong);
    if (one.draws.contains(kPhase)) one.draws[kPhase] = at::scalar_tensor(phase, at::kLong);
    return one;
  };
  auto take_step = [&] {
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
  };
  const auto num_phases = objective.num_phases();
  bool all_last = true;  // whether no step since the first of this kind has left anything behind
  for (int64_t step = 0; step < 2 * num_phases; ++step) {
    phase = step % num_phases;
    std::optional<memory::Multiplications> counted;  // a traced run counts by itself
    if (counts_work) counted.emplace();
    if (phase == 0) step_begin_ = dry_.now();
    const auto before = lasting_bytes();
    take_step();
    step_end_ = dry_.now();
    if (counted) work_.multiplications = std::max(work_.multiplications, counted->so_far() / static_cast<double>(batches_per_step));
    all_last = (phase == 0 || all_last) && lasting_bytes() == before;
    if (!trainee.execution.replays && phase + 1 == num_phases && all_last) break;  // the next would be the same
  }
  add(kStepStage, step_begin_);
  if (trainee.host) stages_.back().num_host_bytes = trainee.host->peak();
  count_bytes(trainee);

  auto begin = dry_.now();
  dry_.enter("save");
  auto snapshot = take_snapshot(trainee, {.dtype = settings.output.files.dtype, .rounding = settings.step.optimizer.rounding});
  for (const auto& file : snapshot.files) {
    for (const auto& value : file.values) value.get();
  }
  take_state(snapshot, trainee);
  add("save", begin);
  if (trainee.host) stages_.back().num_host_bytes = trainee.host->num_bytes();
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

memory::Saving Rehearsal::saving_of(const memory::Part& part, const memory::Allocations& blocks) const {
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

/// How many latents the denoiser sees of a sample, in all its streams, and of the pictures beside it, in all its passes.
int64_t num_latents(const SampleInfo& sample, const Objective& objective) {
  auto area = sample.extent.num_pixels(), seen = area;
  for (const auto& [column, extents] : sample.picture_extents) {
    for (const auto& extent : extents) seen += extent.num_pixels();
  }
  auto further = int64_t{0};
  for (const auto& [stream, shape] : sample.further_latents) further += c10::multiply_integers(shape);
  return (c10::multiply_integers(sample.latent_shape) * seen / area + further) * objective.num_passes(sample);
}

size_t caption_length(const SampleInfo& sample, const Pick& pick) {
  if (pick.empty_caption) return 0;
  return pick.caption ? pick.caption->size() : sample.prompt.size();
}

/// Of the run's first epoch, the batch with the most latents; of equally large ones that with the longest caption, since not every encoder
/// pads what is short.
BatchId largest_batch(const Samples& samples, const Course& course, const Objective& objective) {
  BatchId largest;
  std::pair<int64_t, size_t> most{0, 0};
  for (BatchId id; id.number < std::min(course.batches_per_epoch(), course.num_batches()); ++id.number) {
    std::pair<int64_t, size_t> size{0, 0};
    for (const auto& pick : course.batch(id).picks) {
      const auto& sample = samples.at(pick.row);
      size.first += num_latents(sample, objective);
      size.second = std::max(size.second, caption_length(sample, pick));
    }
    if (size > most) largest = id;
    most = std::max(most, size);
  }
  return largest;
}

/// The samples of a batch with all that stages read of them: what is kept of them already, or what their encoders would make of them.
std::vector<pipeline::Values> rehearse_samples(const Listed& listed, const pipeline::Schedule& schedule, const std::vector<Pick>& picks,
                                               bool from_pictures, Rehearsal& rehearsal) {
  std::set<std::string> reads;
  for (const auto& unit : schedule.units) reads.insert(unit.reads.begin(), unit.reads.end());
  std::vector<pipeline::Values> samples;
  for (const auto& pick : picks) {
    samples.push_back(from_pictures ? pipeline::Values{} : listed.kept.values(pick, schedule.once.kept));
    for (const auto& input : listed.samples.inputs->rows()) {
      if (reads.contains(input.name) && (input.in_list || from_pictures))
        samples.back()[input.name] = input.load(listed.samples.view(pick));
    }
  }
  if (from_pictures) rehearsal.encode(schedule.once.units, samples);
  return samples;
}

/// What a stage reads of a batch.
Batch batch_of(const pipeline::Stage& stage, const std::vector<pipeline::Values>& samples, const Course& course, const BatchId& id) {
  Batch batch;
  for (const auto& sample : samples) {
    auto& values = batch.samples.emplace_back();
    for (const auto& name : stage.of_sample) values[name] = sample.at(name);
  }
  batch.draws = course.draws(course.batch(id), {stage.drawn.begin(), stage.drawn.end()});
  return on_host(std::move(batch));
}

/// Bytes of what is kept of a sample, taken as large as those of this batch are on average.
int64_t bytes_kept(const std::vector<pipeline::Values>& samples, const pipeline::Stage& once) {
  int64_t num_bytes = 0;
  for (const auto& sample : samples) {
    for (const auto& name : once.kept) num_bytes += pipeline::num_bytes(sample.at(name));
  }
  return num_bytes / std::max<int64_t>(1, std::ssize(samples));
}

/// Bytes of pictures that are decoded at once, taken as large as the largest of these samples: those that workers have ready
/// (data::ReadAhead), and those that are read of them: one while encoders run, a part of a batch where steps read pictures.
int64_t bytes_decoded(const std::vector<pipeline::Values>& samples, const pipeline::Schedule& schedule, const InputTable& inputs,
                      int64_t num_workers, int64_t num_samples) {
  auto is_of_files = [&](const std::string& name) {
    const auto* input = inputs.find(name);
    return input != nullptr && !input->in_list;
  };
  int64_t largest = 0;
  for (const auto& values : samples) {
    int64_t num_bytes = 0;
    for (const auto& [name, value] : values) num_bytes += is_of_files(name) ? pipeline::num_bytes(value) : 0;
    largest = std::max(largest, num_bytes);
  }
  auto at_once = [&](int64_t num_read, int64_t num_values) { return num_read + 2 * std::min(num_workers, num_values); };
  bool in_steps = std::ranges::any_of(schedule.live.of_sample, is_of_files) || std::ranges::any_of(schedule.ahead.of_sample, is_of_files);
  return largest * std::max(at_once(1, num_samples), in_steps ? at_once(std::ssize(samples), std::ssize(samples)) : 0);
}

/// Each weight file once.
int64_t bytes_mapped(const models::Components& components) {
  std::map<std::filesystem::path, int64_t> sizes;
  for (const auto& component : components.list()) {
    const auto& tensors = components.source(component.name).tensors;
    if (!tensors) continue;
    for (const auto& file : tensors->files()) {
      std::error_code failed;
      auto size = std::filesystem::file_size(file->path(), failed);
      if (!failed) sizes[file->path()] = static_cast<int64_t>(size);
    }
  }
  int64_t num_bytes = 0;
  for (const auto& [file, size] : sizes) num_bytes += size;
  return num_bytes;
}

/// What lies beside the device's memory, in bytes.
struct Beside {
  int64_t kept = 0;     ///< what is made of all samples once
  int64_t ahead = 0;    ///< what is computed ahead of all batches
  int64_t decoded = 0;  ///< pictures on their way to who reads them
};

void add_host_and_disk(MemoryPlan& plan, const Settings& settings, c10::Device device, const Beside& beside, const Snapshot& snapshot,
                       const Course& course, bool trains_whole) {
  bool on_disk = !settings.data.cache_folder.empty(), ahead_on_disk = on_disk && settings.schedule.always_ahead();
  auto weights = weight_bytes(snapshot), state = snapshot.num_state_bytes;
  auto beside_device = [](const StageMemory& stage) { return stage.num_host_bytes; };
  auto parts = settings.step.division.num_sharers(settings.together.num_processes);  // of the state, about as large as this one
  plan.host = {{kRunTensors, device.is_cpu() ? plan.num_bytes() : 0},
               {"what waits for the device", device.is_cpu() ? 0 : std::ranges::max(plan.stages, {}, beside_device).num_host_bytes},
               {"decoded pictures", beside.decoded},
               {"samples that are kept", on_disk ? 0 : beside.kept},
               {"computed ahead", ahead_on_disk ? 0 : beside.ahead},
               {"a copy to save", is_written_beside(snapshot) ? weights + state : 0}};
  auto save = settled(settings.output.save, course.num_steps(), trains_whole);
  auto count = most_saves(save, course) + (save.keep_best ? 1 : 0);
  plan.disk = {{"cache", (on_disk ? beside.kept : 0) + (ahead_on_disk ? beside.ahead : 0)},
               {count == 1 ? "weights once" : fmt::format("weights {} times", count), count * weights},
               {"state and the one before it", 2 * parts * state}};
}

/// Which components could be held as codes.
void add_storable(MemoryPlan& plan, const Subject& subject, const pipeline::Schedule& schedule) {
  constexpr int64_t kLittle = 10;  // a part of the whole model that is less than one of so many is left as it is
  auto live = pipeline::components_of(schedule.live.units), once = pipeline::components_of(schedule.once.units);
  auto of_pictures = pipeline::components_of(subject.model->units().encode_image);
  auto whole = subject.chosen.whole_components();
  const auto& components = subject.model->components().list();
  int64_t num_bytes = 0;
  for (const auto& component : components) num_bytes += component.num_bytes;
  for (const auto& component : components) {
    const auto& name = component.name;
    if (component.num_stored > 0 || whole.contains(name)) continue;
    if (contains(live, name)) plan.movable.storable.push_back(name);
    else if (contains(once, name) && !contains(of_pictures, name) && component.num_bytes > num_bytes / kLittle)
      plan.movable.encoders.push_back(name);
  }
}

}  // namespace

Settings on_meta(Settings settings) {
  settings.model.options.device = settings.objective.device = c10::Device(c10::kMeta);
  settings.output.resume = false;
  return settings;
}

namespace {

struct Rehearsed {
  MemoryPlan plan;
  Savings savings;  ///< where it was traced
};

Rehearsed rehearse_run(const Settings& settings, const KeptForBackward& kept, c10::Device device, std::optional<int64_t> limit,
                       const OpenFiles& files, bool traces) {
  const auto& [opened, listed, held_out] = files;
  if (interrupted()) throw Error(Exit::interrupted, "train", "interrupted while memory was planned");
  memory::DryRun dry(device);
  if (traces) dry.trace();
  auto subject = open_subject(settings.model, settings.trained, &opened);
  auto objective = make_objective(settings.objective, subject);
  auto schedule = plan_schedule(settings, subject, *objective);
  Course course(settings.course, subject.model->process(), *objective, listed.samples, held_out);
  auto id = largest_batch(listed.samples, course, *objective);
  Rehearsal rehearsal(dry, subject, device, limit);
  auto samples = rehearse_samples(listed, schedule, course.batch(id).picks, settings.data.from_pictures, rehearsal);
  auto live = batch_of(schedule.live, samples, course, id);
  Beside beside;
  if (settings.data.from_pictures) {
    auto num_held_out = held_out == nullptr ? 0 : std::ssize(held_out->list);
    auto num_samples = std::ssize(listed.samples.list) * listed.samples.num_variants + num_held_out;
    beside.kept = bytes_kept(samples, schedule.once) * num_samples;
    beside.decoded = bytes_decoded(samples, schedule, *listed.samples.inputs, settings.data.pictures.num_workers, num_samples);
  }
  if (!schedule.ahead.units.empty()) {
    auto ahead = batch_of(schedule.ahead, samples, course, id);
    auto num_bytes = static_cast<double>(rehearsal.compute_ahead(schedule.ahead, ahead)) *
                     static_cast<double>(course.num_batches() + course.num_held_out());
    bool pays =
        course.num_batches() <= kMostAhead && num_bytes < ahead_limit(settings.schedule, settings.data.cache_bytes, *subject, schedule, 0);
    if (pays) beside.ahead = static_cast<int64_t>(num_bytes);
    if (!pays) {
      schedule = nothing_ahead(schedule);
      live = batch_of(schedule.live, samples, course, id);
    }
    for (const auto& name : schedule.ahead.kept) live.draws[name] = ahead.draws.at(name);
  }
  samples.clear();
  auto num_batches = traces ? 1 : std::min(course.batches_per_step(), kMostBatches);
  auto snapshot = rehearsal.train(schedule, settings, kept, *objective, live, num_batches, !traces);
  MemoryPlan plan{.device = device.str(), .stages = rehearsal.stages()};
  plan.work = rehearsal.work();
  plan.work.length = {.num_steps = course.num_steps(),
                      .batches_a_step = course.batches_per_step(),
                      .num_samples = std::ssize(listed.samples.list),
                      .num_epochs = static_cast<double>(course.num_batches()) / static_cast<double>(course.batches_per_epoch())};
  plan.activation_bytes = rehearsal.activation_bytes();
  plan.mapped_bytes = bytes_mapped(subject.model->components());
  for (const auto& expert : subject.chosen.experts) {  // a batch runs one of them, and they are alike
    if (!contains(pipeline::components_of(schedule.live.units), expert.component)) continue;
    const auto blocks = subject.model->components().blocks(expert.component);
    plan.work.num_blocks = std::ssize(blocks);
    plan.movable.num_blocks = plan.work.num_blocks;
    bool is_divided = settings.step.division.divides_blocks() && settings.step.division.num_sharers(settings.together.num_processes) > 1;
    plan.work.divided_bytes = 0;
    for (auto* block : blocks) plan.work.divided_bytes += is_divided ? block->num_bytes() : 0;
  }
  plan.movable.from_disk = why_not_on_disk(subject, settings.model.options.dtype).empty();
  auto whole = subject.chosen.whole_components();
  add_host_and_disk(plan, settings, device, beside, snapshot, course, !whole.empty());
  add_storable(plan, subject, schedule);
  if (auto part = part_in_the_way(schedule, subject); !part.empty()) {
    if (auto targets = targets_outside(part, settings.trained, *subject.model); !targets.empty()) {
      plan.movable.in_the_way = part;
      plan.movable.other_targets = targets;
    }
  }
  return {std::move(plan), traces ? rehearsal.savings() : Savings{}};
}

}  // namespace

MemoryPlan rehearse(const Settings& settings, const KeptForBackward& kept, c10::Device device, std::optional<int64_t> limit,
                    const OpenFiles& files) {
  auto plan = rehearse_run(settings, kept, device, limit, files, /*traces=*/false).plan;
  plan.kept = kept;
  return plan;
}

Savings rehearse_savings(Settings settings, c10::Device device, const OpenFiles& files) {
  settings.step.memory.recompute_every = 0;
  return rehearse_run(settings, {}, device, std::nullopt, files, /*traces=*/true).savings;
}

}  // namespace burnish::train
