#include "train/trainee.h"

#include <algorithm>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "io/hash.h"
#include "memory/heap.h"
#include "memory/paging.h"
#include "optim/paged_store.h"
#include "train/blocks_on_disk.h"

namespace burnish::train {

namespace {

std::vector<std::string> parts_of(const std::string& component, const std::vector<std::string>& run) {
  std::vector<std::string> parts;
  std::copy_if(run.begin(), run.end(), std::back_inserter(parts), [&](const auto& m) { return pipeline::component_of(m) == component; });
  return parts;
}

/// Of a component, the parts that units run; everything else of it stays on disk.
void load_component(models::Model& model, const std::string& component, const std::vector<std::string>& run,
                    const models::Components::Placed& placed) {
  const auto parts = parts_of(component, run);
  model.components().load(pipeline::common_part(parts), placed);
  info("in memory while training: {}, {}", join(parts), human_bytes(static_cast<double>(model.components().module(component).num_bytes())));
}

/// The processes of a run, which meet in host memory.
class TheProcesses final : public memory::Sharers {
 public:
  explicit TheProcesses(dist::Group& group) : group_(group) {}
  int64_t number() const override { return group_.rank(); }
  int64_t count() const override { return group_.size(); }
  std::shared_ptr<memory::Lane::Arrival> gather(const at::Tensor& mine, const at::Tensor& all) override {
    return std::make_shared<Coming>(group_.gather(mine, all));
  }

 private:
  class Coming final : public memory::Lane::Arrival {
   public:
    explicit Coming(dist::PendingPtr pending) : pending_(std::move(pending)) {}
    void wait() const override { pending_->wait(); }

   private:
    dist::PendingPtr pending_;
  };

  dist::Group& group_;
};

/// Loads a component of whose blocks each process keeps a part: of a weight no more than that is there longer than it takes to read it.
std::shared_ptr<memory::Pager> load_divided(models::Model& model, const std::string& component, const std::vector<std::string>& run,
                                            const Trainee& trainee, const dist::World& world) {
  constexpr size_t kPlaces = 2;
  auto pager = std::make_shared<memory::Pager>(trainee.host, trainee.device, kPlaces, std::make_shared<TheProcesses>(world.group()));
  auto runner = pager->runner();
  load_component(model, component, run, [&](const std::vector<nn::Block*>& blocks) {
    for (auto* block : blocks) {
      pager->take(*block);
      block->runner = runner;
    }
  });
  pager->make_places();
  info("its blocks are divided among {} processes: {} here, of which {} at a time are whole on the device", world.size(),
       human_bytes(static_cast<double>(pager->num_waiting_bytes())), human_bytes(static_cast<double>(pager->num_device_bytes())));
  return pager;
}

void check_number(const char* option, int64_t number, const std::vector<nn::Block*>& blocks, const std::string& component) {
  if (number > std::ssize(blocks))
    config_error("train", "{} {} is more than the {} blocks that {} runs; lower it", option, number, blocks.size(), component);
}

/// Loads a component whose weights wait in host memory or in its files for some of its blocks, none of them longer on the device than it
/// takes to get there. Those blocks have the pager's runner then.
std::shared_ptr<memory::Pager> load_paged(models::Model& model, const std::string& component, const std::vector<std::string>& run,
                                          const MemorySettings& settings, const Trainee& trainee) {
  auto num_paged = settings.paged_blocks;
  std::optional<BlocksInFiles> files;
  if (settings.blocks_on_disk > 0) files.emplace(model.components(), pipeline::common_part(parts_of(component, run)));
  auto pager = std::make_shared<memory::Pager>(trainee.host, trainee.device);
  auto runner = pager->runner();
  load_component(model, component, run, [&](const std::vector<nn::Block*>& blocks) {
    if (num_paged == kAllBlocks) num_paged = std::ssize(blocks);
    check_number("blocks_to_swap", num_paged, blocks, component);
    check_number("blocks_on_disk", settings.blocks_on_disk, blocks, component);
    const auto numbers = memory::paged_blocks(std::ssize(blocks), num_paged),
               on_disk = memory::paged_blocks(num_paged, settings.blocks_on_disk);
    for (int64_t i = 0; i < num_paged; ++i) {
      const auto number = static_cast<size_t>(numbers[static_cast<size_t>(i)]);
      auto& block = *blocks[number];
      pager->take(block, std::ranges::binary_search(on_disk, i) ? files->of(number) : memory::InFile());
      block.runner = runner;
    }
  });
  pager->make_places();
  if (settings.paged_blocks == kAllBlocks) info("enable_model_cpu_offload is blocks_to_swap {} of this model", num_paged);
  info("{} of its blocks wait in main memory: {}, of which {} at a time are on the device", num_paged,
       human_bytes(static_cast<double>(pager->num_waiting_bytes() - pager->num_file_bytes())),
       human_bytes(static_cast<double>(pager->num_device_bytes())));
  if (files) info("and {} of them in their file: {}", settings.blocks_on_disk, human_bytes(static_cast<double>(pager->num_file_bytes())));
  return pager;
}

/// Has the blocks of a component keep for backward what the settings say, each run by the runner that it has.
void keep_of_blocks(models::Components& components, const std::string& component, const MemorySettings& settings,
                    const std::shared_ptr<memory::Checkpoints>& checkpoints) {
  int64_t number = 0;
  for (const auto& [name, block] : named_blocks(components, component)) {
    memory::Again again{.whole = settings.recompute_every > 0 && number++ % settings.recompute_every == 0};
    if (settings.keeps_values) again.values.emplace();
    if (auto chosen = settings.again.find(name); chosen != settings.again.end()) again = chosen->second;
    block->runner = memory::computing_again(again, block->runner, checkpoints);
  }
}

bool is_divided(const StepSettings& settings, const dist::World& world) { return settings.divides_frozen() && world.size() > 1; }

/// The pager of the denoiser's blocks; null where they all stay on the device.
std::shared_ptr<memory::Pager> load_models(models::Model& model, const StepSettings& step, const Trainee& trainee,
                                           const dist::World& world) {
  const auto& settings = step.memory;
  std::shared_ptr<memory::Pager> pager;
  auto run = pipeline::models_of(trainee.live.units);
  auto checkpoints = settings.checkpoints_in_host ? std::make_shared<memory::Checkpoints>(trainee.host) : nullptr;
  for (const auto& component : pipeline::components_of(trainee.live.units)) {
    bool is_denoiser = component == model.names().denoiser();
    if (is_denoiser && is_divided(step, world)) pager = load_divided(model, component, run, trainee, world);
    else if (is_denoiser && settings.paged_blocks > 0) pager = load_paged(model, component, run, settings, trainee);
    else load_component(model, component, run, {});
    keep_of_blocks(model.components(), component, settings, checkpoints);
  }
  return pager;
}

std::unique_ptr<optim::Optimizer> optimizer_of(const StepSettings& settings, optim::ParameterList parameters, const Ownership* ownership,
                                               const std::shared_ptr<memory::HostStore>& host,
                                               const std::shared_ptr<memory::Pager>& pager) {
  int64_t count = 0;
  for (const auto& p : parameters) count += p.value.numel();
  info("{:.2f} million trained parameters", static_cast<double>(count) / 1e6);
  optim::apply_groups(parameters, settings.groups, settings.learning_rate);
  if (ownership) ownership->mark(parameters);
  optim::complete(parameters, settings.optimizer.rounding);
  if (pager) optim::page(parameters, pager);
  return optim::make_optimizer(settings.optimizer, std::move(parameters), settings.memory.optimizer_in_host ? host : nullptr);
}

/// Also sees that all processes begin with the same values.
std::unique_ptr<dist::Reduction> reduction_of(const optim::ParameterList& parameters, dist::ReductionOptions options,
                                              const Ownership* ownership, const dist::World& world) {
  if (parameters.empty() || (parameters.front().value.is_meta() && world.size() == 1)) return nullptr;
  std::vector<at::Tensor> values;
  std::string names;
  for (const optim::NamedParameter& parameter : parameters) {
    values.push_back(parameter.value);
    names += fmt::format("{} {} {}\n", parameter.name, parameter.value.numel(), static_cast<int>(parameter.value.scalar_type()));
  }
  world.agree("trained parameters", io::sha256(names).substr(0, 8));
  if (ownership && ownership->divides_gradients()) options.owners = ownership->owners();
  return dist::make_reduction(world.group(), std::move(values), options);
}

}  // namespace

std::function<void()> Trainee::share() const {
  if (!ownership) return {};
  return [this] { ownership->share(optimizer->parameters()); };
}

NamedBlocks named_blocks(models::Components& components, const std::string& component) {
  std::map<const nn::Module*, std::string> names;
  components.module(component).visit([&](const std::string& path, nn::Module& module) { names[&module] = path; });
  NamedBlocks named;
  for (auto* block : components.blocks(component)) named.emplace_back(component + "." + names.at(block), block);
  return named;
}

Trainee load_trainee(Subject& subject, const pipeline::Schedule& schedule, const Settings& settings, const std::string& fingerprint,
                     const dist::World& world) {
  Trainee trainee{.model = *subject.model, .live = schedule.live, .device = settings.model.options.device, .place = {}};
  if (settings.step.memory.uses_host() || is_divided(settings.step, world))
    trainee.host = std::make_shared<memory::HostStore>(trainee.device);
  auto pager = load_models(*subject.model, settings.step, trainee, world);
  if (subject.trained.has_adapters()) {
    adapters::Dropout dropout{.probability = settings.trained.adapter.dropout, .seed = settings.trained.seed};
    trainee.dropout = std::make_shared<adapters::Dropout>(dropout);
  }
  subject.trained.start(trainee.dropout);
  memory::trim_heap();

  auto parameters = subject.trained.parameters();
  trainee.ownership = ownership_of(parameters, settings.step.zero_stage, world);
  trainee.optimizer = optimizer_of(settings.step, std::move(parameters), trainee.ownership.get(), trainee.host, pager);
  if (trainee.ownership)
    trainee.optimizer->set_sum([owners = trainee.ownership.get()](const at::Tensor& numbers) { owners->sum(numbers); });
  if (settings.step.ema_decay > 0) trainee.ema = std::make_unique<optim::Ema>(trainee.optimizer->parameters());
  trainee.reduction = reduction_of(trainee.optimizer->parameters(), settings.step.reduction, trainee.ownership.get(), world);
  trainee.progress.fingerprint = fingerprint;
  if (settings.step.scales_loss) trainee.progress.loss_scale = optim::LossScale::for_fp16();
  if (settings.output.resume) {
    trainee.progress = checkpoint::load_state(settings.output.state(), {*trainee.optimizer, trainee.ema.get()}, fingerprint);
    if (trainee.ownership) trainee.ownership->share(trainee.optimizer->parameters());
    trainee.saved_step = trainee.progress.step;
    info("resumed at step {}", trainee.progress.step);
  }
  return trainee;
}

}  // namespace burnish::train
