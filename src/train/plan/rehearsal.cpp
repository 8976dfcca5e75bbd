#include "train/plan/rehearsal.h"

#include <c10/util/accumulate.h>
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "memory/dry_run.h"
#include "train/course/ahead.h"
#include "train/plan/rehearsed_stages.h"
#include "train/plan/stages.h"
#include "train/step/blocks_on_disk.h"
#include "train/subject/choosing.h"

namespace burnish::train {

namespace {

/// Two batches of a step are enough: what the second finds of the first is all that further ones find.
constexpr int64_t kMostBatches = 2;

/// How many latents the denoiser sees of a sample, in all its streams, and of the pictures beside it, in all its passes.
int64_t num_latents(const Sample& sample, const Objective& objective) {
  auto area = sample.extent.num_pixels(), seen = area;
  for (const auto& [column, extents] : sample.picture_extents) {
    for (const auto& extent : extents) seen += extent.num_pixels();
  }
  auto further = int64_t{0};
  for (const auto& [stream, shape] : sample.further_latents) further += c10::multiply_integers(shape);
  return (c10::multiply_integers(sample.latent_shape) * seen / area + further) * objective.num_passes(sample);
}

size_t caption_length(const Sample& sample, const Pick& pick) {
  if (pick.empty_caption) return 0;
  return pick.caption ? pick.caption->size() : sample.row.prompt.size();
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

/// Loads what a sample gives to an input; of a picture or clip its shape alone, so that no more than one of them is in memory.
pipeline::Value load(const Input& input, const Samples& samples, const Pick& pick) {
  auto value = input.load(samples, pick);
  if (!input.in_list) pipeline::change_tensors(value, of_its_shape);
  return value;
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
      if (reads.contains(input.name) && (input.in_list || from_pictures)) samples.back()[input.name] = load(input, listed.samples, pick);
    }
  }
  if (from_pictures) rehearsal.encode(schedule.once.units, samples, std::ssize(listed.samples.list) * listed.samples.num_variants);
  return samples;
}

/// Returns what a stage reads of a batch.
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

/// Adds the components that could be held as codes.
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
  Savings savings;       ///< where it was traced
  bool is_exact = true;  ///< false where what was repeated turned out not to be the same
};

/// Tells whether bodies of blocks depend on nothing but what they show: not on norms that are kept from step to step, and not on other
/// processes. Where all weights train and checkpoints wait in main memory, what of them is still on the device when backward comes is found
/// a little otherwise (of SDXL's chart, not of its peak), so that every block is gone through.
bool are_by_themselves(const Settings& settings) {
  const bool is_otherwise = settings.step.memory.checkpoints_in_host && !settings.trained.whole.empty();
  return !is_otherwise && settings.trained.adapter.type != "dora" && settings.course.portion.num_places == 1;
}

/// Goes through what is computed ahead of training, where that pays: `live` is then the batch of a step with what is kept of it. Where it
/// does not, the schedule computes nothing ahead. Gives the bytes of all batches.
int64_t rehearse_ahead(pipeline::Schedule& schedule, Batch& live, const std::vector<pipeline::Values>& samples, const Course& course,
                       const BatchId& id, const Settings& settings, const Subject& subject, Rehearsal& rehearsal) {
  if (schedule.ahead.units.empty()) return 0;
  auto ahead = batch_of(schedule.ahead, samples, course, id);
  auto num_bytes = static_cast<double>(rehearsal.compute_ahead(schedule.ahead, ahead)) *
                   static_cast<double>(course.num_batches() + course.num_held_out());
  bool pays =
      course.num_batches() <= kMostAhead && num_bytes < ahead_limit(settings.schedule, settings.data.cache_bytes, *subject, schedule, 0);
  if (!pays) {
    schedule = nothing_ahead(schedule);
    live = batch_of(schedule.live, samples, course, id);
  }
  for (const auto& name : schedule.ahead.kept) live.draws[name] = ahead.draws.at(name);
  return pays ? static_cast<int64_t>(num_bytes) : 0;
}

/// Adds what could move of a run: blocks of the expert that a batch runs, and what is in the way of parts that a step does not need.
void add_movable(MemoryPlan& plan, const Settings& settings, const Subject& subject, const pipeline::Schedule& schedule) {
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
  add_storable(plan, subject, schedule);
  auto part = part_in_the_way(schedule, subject);
  if (part.empty()) return;
  if (auto targets = targets_outside(part, settings.trained, *subject.model); !targets.empty()) {
    plan.movable.in_the_way = part;
    plan.movable.other_targets = targets;
  }
}

Rehearsed rehearse_run(const Settings& settings, const KeptForBackward& kept, c10::Device device, std::optional<int64_t> limit,
                       const OpenFiles& files, bool traces, const std::shared_ptr<memory::KnownBodies>& known) {
  const auto& [opened, listed, held_out] = files;
  if (interrupted()) throw Error(Exit::interrupted, "train", "interrupted while memory was planned");
  memory::DryRun dry(device);
  if (traces) dry.trace();
  if (known) dry.repeat(known);
  auto subject = open_subject(settings.model, settings.trained, &opened);
  auto objective = make_objective(settings.objective, subject);
  auto schedule = plan_schedule(settings, subject, *objective);
  // A step takes most memory where all that may be given is.
  auto given_shares = subject.model->names().references.given_shares;
  for (auto& [name, share] : given_shares) share = 1;
  Course course(settings.course, subject.model->process(), *objective, listed.samples, held_out, given_shares);
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
  beside.ahead = rehearse_ahead(schedule, live, samples, course, id, settings, subject, rehearsal);
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
  add_movable(plan, settings, subject, schedule);
  add_host_and_disk(plan, settings, device, beside, snapshot, course, !subject.chosen.whole_components().empty());
  return {std::move(plan), traces ? rehearsal.savings() : Savings{}, dry.is_exact()};
}

/// Nothing where blocks that seem alike are not.
std::optional<MemoryPlan> rehearse_alike(const Settings& settings, const KeptForBackward& kept, c10::Device device,
                                         std::optional<int64_t> limit, const OpenFiles& files,
                                         const std::shared_ptr<memory::KnownBodies>& known) {
  if (!known || !are_by_themselves(settings)) return std::nullopt;
  try {
    auto found = rehearse_run(settings, kept, device, limit, files, /*traces=*/false, known);
    return found.is_exact ? std::optional(std::move(found.plan)) : std::nullopt;
  } catch (const memory::NotRepeatable&) {
    return std::nullopt;
  }
}

}  // namespace

MemoryPlan rehearse(const Settings& settings, const KeptForBackward& kept, c10::Device device, std::optional<int64_t> limit,
                    const OpenFiles& files, const std::shared_ptr<memory::KnownBodies>& known) {
  auto plan = rehearse_alike(settings, kept, device, limit, files, known);
  if (!plan) plan = rehearse_run(settings, kept, device, limit, files, /*traces=*/false, nullptr).plan;
  plan->kept = kept;
  return std::move(*plan);
}

Savings rehearse_savings(Settings settings, c10::Device device, const OpenFiles& files) {
  settings.step.memory.recompute_every = 0;
  return rehearse_run(settings, {}, device, std::nullopt, files, /*traces=*/true, nullptr).savings;
}

}  // namespace burnish::train
