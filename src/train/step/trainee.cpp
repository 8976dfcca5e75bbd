#include "train/step/trainee.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "base/input_error.h"
#include "base/log.h"
#include "base/text.h"
#include "io/hash.h"
#include "memory/heap.h"
#include "memory/paging.h"
#include "nn/by_tokens.h"
#include "optim/paged_store.h"
#include "train/step/paged_loading.h"

namespace burnish::train {

namespace {

std::vector<std::string> parts_of(const std::string& component, const std::vector<std::string>& run) {
  std::vector<std::string> parts;
  std::copy_if(run.begin(), run.end(), std::back_inserter(parts), [&](const auto& m) { return pipeline::component_of(m) == component; });
  return parts;
}

/// Tells whether a component predicts: a denoiser, or a copy of one.
bool is_denoiser(const models::Model& model, std::string component) {
  const auto& components = model.components();
  for (auto of = components.find(component)->copy_of; !of.empty(); of = components.find(component)->copy_of) component = of;
  return model.names().is_denoiser(component);
}

/// Also of modules beside the denoiser whose blocks are as its own.
void cut_feed_forward(models::Components& components, const std::string& component, bool predicts, int64_t tokens) {
  if (tokens == 0) return;
  if (nn::set_tokens_at_once(components.module(component), tokens) == 0 && predicts)
    config_error(
        "train",
        "feed_forward_chunk_size cuts the tokens of a transformer's feed-forward layers, and this model's {} has none; take it out",
        component);
}

void say_loaded(models::Model& model, const std::string& component, const std::vector<std::string>& parts) {
  if (models::shares_weights(*model.components().find(component))) return;
  info("in memory while training: {}, {}", join(parts), human_bytes(static_cast<double>(model.components().module(component).num_bytes())));
}

/// Of a component, the parts that units run; everything else of it stays on disk.
void load_component(models::Model& model, const std::string& component, const std::vector<std::string>& run,
                    const models::Components::Placed& placed) {
  const auto parts = parts_of(component, run);
  model.components().load(pipeline::common_part(parts), placed);
  say_loaded(model, component, parts);
}

std::shared_ptr<memory::Pager> load_paged_component(const Subject& subject, const std::string& component,
                                                    const std::vector<std::string>& run, const MemorySettings& settings,
                                                    const Trainee& trainee) {
  const auto parts = parts_of(component, run);
  // What trains is never written to the model's files.
  const auto on_disk = subject.chosen.whole_components().contains(component) ? 0 : settings.blocks_on_disk;
  auto pager = load_paged(*subject.model, pipeline::common_part(parts), {settings.paged_blocks, on_disk}, trainee.execution.host,
                          trainee.execution.device);
  say_loaded(*subject.model, component, parts);
  return pager;
}

/// The processes of a row.
class TheProcesses final : public memory::WeightGroup {
 public:
  explicit TheProcesses(std::shared_ptr<const dist::Mesh> mesh) : mesh_(std::move(mesh)) {}
  int64_t number() const override { return mesh_->row().rank(); }
  int64_t count() const override { return mesh_->row().size(); }
  c10::Device device() const override { return mesh_->row().device(); }
  std::shared_ptr<memory::CopyQueue::Arrival> gather(const at::Tensor& mine, const at::Tensor& all) override {
    return std::make_shared<Coming>(mesh_->row().gather(mine, all));
  }
  std::shared_ptr<memory::CopyQueue::Arrival> broadcast(const at::Tensor& bytes, int64_t from) override {
    return std::make_shared<Coming>(mesh_->row().broadcast(bytes, from));
  }

 private:
  class Coming final : public memory::CopyQueue::Arrival {
   public:
    explicit Coming(dist::PendingPtr pending) : pending_(std::move(pending)) {}
    void wait() const override { pending_->wait(); }

   private:
    dist::PendingPtr pending_;
  };

  std::shared_ptr<const dist::Mesh> mesh_;
};

/// Loads a component of whose blocks each process keeps a part: of a weight no more than that is there longer than it takes to read it.
PagedBlocksOf load_divided(const Subject& subject, const std::string& component, const std::vector<std::string>& run,
                           const Trainee& trainee, const std::shared_ptr<const dist::Mesh>& mesh) {
  constexpr size_t kPlaces = 2;
  PagedBlocksOf paged;
  paged.pager =
      std::make_shared<memory::Pager>(trainee.execution.host, trainee.execution.device, kPlaces, std::make_shared<TheProcesses>(mesh));
  paged.owners = BlockOwners(subject, component, pipeline::common_part(parts_of(component, run)), mesh->row().size());
  auto runner = paged.pager->runner();
  load_component(*subject.model, component, run, [&](const std::vector<nn::Block*>& blocks) {
    for (size_t i = 0; i < blocks.size(); ++i) {
      paged.pager->take(*blocks[i], {}, paged.owners.of(i));
      blocks[i]->runner = runner;
    }
  });
  paged.pager->make_places();
  info("its blocks are divided among {} processes: {} here; {} of the device are for whole ones", mesh->row().size(),
       human_bytes(static_cast<double>(paged.pager->num_waiting_bytes())),
       human_bytes(static_cast<double>(paged.pager->num_device_bytes())));
  return paged;
}

/// Loads a component with the very weights of another one, whose blocks come for it as well.
void load_sharing(models::Model& model, const std::string& component, const std::vector<std::string>& run, memory::Pager& pager) {
  auto& components = model.components();
  const auto taken = components.blocks(components.find(component)->copy_of);
  const auto runner = pager.runner();
  load_component(model, component, run, {});
  const auto blocks = components.blocks(component);
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (pager.share(*blocks[i], *taken.at(i))) blocks[i]->runner = runner;
  }
}

/// Has the blocks of a component keep for backward what the settings say, each run by the runner that it has.
void keep_of_blocks(models::Components& components, const std::string& component, const MemorySettings& settings,
                    const KeptForBackward& kept, const std::shared_ptr<memory::Checkpoints>& checkpoints) {
  int64_t number = 0;
  for (const auto& [name, block] : named_blocks(components, component)) {
    memory::RecomputedPart again{.whole = settings.recompute_every > 0 && number++ % settings.recompute_every == 0};
    if (kept.values) again.values.emplace();
    if (auto chosen = kept.again.find(name); chosen != kept.again.end()) again = chosen->second;
    block->runner = memory::recomputing(again, block->runner, checkpoints);
  }
}

bool is_divided(const StepSettings& settings, const dist::Mesh& mesh) {
  return settings.division.divides_blocks() && mesh.row().size() > 1;
}

/// What becomes of the blocks of each denoiser, and of its copies.
std::vector<PagedBlocksOf> load_models(const Subject& subject, const StepSettings& step, const KeptForBackward& kept,
                                       const Trainee& trainee, const std::shared_ptr<const dist::Mesh>& mesh) {
  const auto& settings = step.memory;
  auto& model = *subject.model;
  std::vector<PagedBlocksOf> paged;
  std::map<std::string, std::shared_ptr<memory::Pager>> pagers;
  auto run = pipeline::models_of(trainee.live.units);
  auto checkpoints = settings.checkpoints_in_host ? std::make_shared<memory::Checkpoints>(trainee.execution.host) : nullptr;
  for (const auto& component : pipeline::components_of(trainee.live.units)) {
    const auto& recipe = *model.components().find(component);
    const bool predicts = is_denoiser(model, component), pages = predicts && (is_divided(step, *mesh) || settings.paged_blocks > 0);
    if (!pages) load_component(model, component, run, {});
    else if (models::shares_weights(recipe)) load_sharing(model, component, run, *(pagers[component] = pagers.at(recipe.copy_of)));
    else if (is_divided(step, *mesh)) paged.push_back(load_divided(subject, component, run, trainee, mesh));
    else paged.push_back({.pager = load_paged_component(subject, component, run, settings, trainee)});
    if (pages && !models::shares_weights(recipe)) pagers[component] = paged.back().pager;
    cut_feed_forward(model.components(), component, predicts, settings.feed_forward_tokens);
    keep_of_blocks(model.components(), component, settings, kept, checkpoints);
  }
  return paged;
}

/// Tells whether a component's tokens are shared out: a denoiser's, and those of a module beside it that splits them as it does.
bool shares_tokens(const models::Model& model, const std::string& component, nn::Module& module) {
  return is_denoiser(model, component) || dynamic_cast<nn::SharesTokens*>(&module) != nullptr;
}

/// Has places share out tokens.
std::shared_ptr<nn::TokenShares> share_tokens(const Subject& subject, const Trainee& trainee, const dist::Mesh& mesh) {
  if (mesh.places()->size() == 1) return nullptr;
  auto shares = std::make_shared<nn::TokenShares>(mesh.places());
  for (const auto& component : pipeline::components_of(trainee.live.units)) {
    auto& module = subject.model->components().module(component);
    if (shares_tokens(*subject.model, component, module)) nn::share_tokens(module, shares);
  }
  return shares;
}

/// Null where each process keeps all.
std::unique_ptr<Ownership> ownership_of(const optim::ParameterList& parameters, const StepSettings& step,
                                        const std::vector<PagedBlocksOf>& paged, const std::shared_ptr<const dist::Mesh>& mesh) {
  if (step.division.zero_stage == 0 || mesh->row().size() == 1) return nullptr;
  return std::make_unique<Ownership>(mesh, parameters, step.division.zero_stage,
                                     is_divided(step, *mesh) ? paged : std::vector<PagedBlocksOf>());
}

std::unique_ptr<optim::Optimizer> optimizer_of(const StepSettings& settings, optim::ParameterList parameters, const Ownership* ownership,
                                               const std::shared_ptr<memory::HostStore>& host, const std::vector<PagedBlocksOf>& paged) {
  int64_t count = 0;
  for (const auto& p : parameters) count += p.value.numel();
  info("{:.2f} million trained parameters", static_cast<double>(count) / 1e6);
  optim::apply_groups(parameters, settings.groups, settings.learning_rate);
  if (ownership) ownership->mark(parameters);
  optim::complete(parameters, settings.optimizer.rounding);
  for (const auto& blocks : paged) optim::page(parameters, blocks.pager);
  return optim::make_optimizer(settings.optimizer, std::move(parameters), settings.memory.optimizer_in_host ? host : nullptr);
}

/// The numbers of parameters against the order in which backward gives their gradients. In the list they stand by their places in the
/// model, where a part that runs before the others may have layers in every block.
std::vector<size_t> in_order_of_use(const Trainee& trainee) {
  const auto uses = uses_of(trainee);
  std::vector<size_t> numbers(uses.size());
  std::iota(numbers.begin(), numbers.end(), size_t{0});
  std::ranges::stable_sort(numbers, {}, [&](size_t number) { return uses[number]; });
  return numbers;
}

/// Also sees that all processes begin with the same values.
std::unique_ptr<dist::Reduction> reduction_of(const Trainee& trainee, dist::ReductionOptions options, const dist::Mesh& mesh,
                                              const dist::World& world) {
  const auto& parameters = trainee.optimizer->parameters();
  if (parameters.empty() || (world.size() == 1 && (!options.ordered || parameters.front().value.is_meta()))) return nullptr;
  std::string names;
  for (const optim::NamedParameter& parameter : parameters)
    names += fmt::format("{} {} {}\n", parameter.name, parameter.value.numel(), static_cast<int>(parameter.value.scalar_type()));
  world.agree("trained parameters", io::sha256(names).substr(0, 8));
  const bool have_owners = trainee.ownership && trainee.ownership->divides_gradients();
  if (mesh.places()->size() > 1) options.places = mesh.places();
  std::vector<at::Tensor> values;
  for (auto number : in_order_of_use(trainee)) {
    values.push_back(parameters[number].value);
    if (have_owners) options.owners.push_back(trainee.ownership->owners()[number]);
  }
  if (!have_owners) return dist::make_reduction(world.group(), std::move(values), options);
  if (mesh.column().size() > 1) options.column = &mesh.column();
  return dist::make_reduction(mesh.row(), std::move(values), options);
}

/// Returns where the host does nothing in forward and backward but to tell the device what to compute.
bool can_record(const Trainee& trainee, const StepSettings& settings) {
  const auto& memory = settings.memory;
  bool draws = (trainee.attached->dropout() && trainee.attached->dropout()->probability > 0) ||
               std::ranges::any_of(trainee.live.units, &pipeline::Unit::draws);
  bool moves = memory.checkpoints_in_host || memory.paged_blocks > 0 || memory.updates_in_backward;
  return settings.replays && !draws && !moves && !trainee.reduction && !trainee.ownership && memory::records_on(trainee.execution.device);
}

/// Has parts of batches be recorded where that can be. In a dry run whoever makes it says by what.
void record(Trainee& trainee, const StepSettings& settings) {
  if (!can_record(trainee, settings)) return;
  trainee.execution.gradients = std::make_unique<optim::GradientsInPlace>(trainee.optimizer->parameters());
  if (auto recorder = memory::recorder_of(trainee.execution.device))
    trainee.execution.replays = std::make_unique<Replays>(std::move(recorder));
}

}  // namespace

checkpoint::Trainee Trainee::saved() const {
  return {*optimizer, ema.get(), own ? &own->old_policy : nullptr, own ? &own->drawn : nullptr};
}

optim::Sharing Trainee::sharing() const {
  if (!ownership) return {};
  return {[this] { ownership->share(optimizer->parameters()); }, [this] { ownership->forget(); }};
}

std::vector<size_t> uses_of(const Trainee& trainee) {
  std::map<std::string, size_t> by_layer, of_blocks;
  const auto run = pipeline::models_of(trainee.live.units);
  for (size_t use = 0; use < run.size(); ++use) {
    const auto skeleton = trainee.model.components().skeleton(run[use]);
    const auto component = pipeline::component_of(run[use]) + ".";
    for (const auto& [path, slot] : skeleton->parameters()) by_layer.emplace(component + path.substr(0, path.rfind('.')), use);
    // What another part makes for a block alone is done with in backward when the block is (nn::Parts).
    skeleton->visit([&](const std::string& path, nn::Module& module) {
      if (dynamic_cast<nn::Block*>(&module) != nullptr) of_blocks[component + path] = use;
    });
  }
  auto use_of = [&](const std::string& name) {  // which may go on below its layer
    std::optional<size_t> use;
    for (auto end = name.rfind('.'); end != name.npos && end > 0; end = name.rfind('.', end - 1)) {
      auto above = name.substr(0, end);
      if (auto block = of_blocks.find(above); block != of_blocks.end()) return block->second;
      if (auto layer = by_layer.find(above); layer != by_layer.end() && !use) use = layer->second;
    }
    return use.value_or(0);
  };
  std::vector<size_t> uses;
  for (const optim::NamedParameter& parameter : trainee.optimizer->parameters()) uses.push_back(use_of(parameter.name));
  return uses;
}

NamedBlocks named_blocks(models::Components& components, const std::string& component) {
  std::map<const nn::Module*, std::string> names;
  components.module(component).visit([&](const std::string& path, nn::Module& module) { names[&module] = path; });
  NamedBlocks named;
  for (auto* block : components.blocks(component)) named.emplace_back(component + "." + names.at(block), block);
  return named;
}

Trainee load_trainee(const Subject& subject, const pipeline::Schedule& schedule, const StepSettings& settings, const KeptForBackward& kept,
                     c10::Device device, const dist::World& world) {
  Trainee trainee{
      .model = *subject.model, .live = schedule.live, .execution = {device, std::make_unique<memory::Upload>(device)}, .place = {}};
  auto mesh = std::make_shared<const dist::Mesh>(world, settings.division.row_size, settings.division.num_places);
  if (settings.memory.uses_host() || is_divided(settings, *mesh)) trainee.execution.host = std::make_shared<memory::HostStore>(device);
  auto paged = load_models(subject, settings, kept, trainee, mesh);
  trainee.execution.token_shares = share_tokens(subject, trainee, *mesh);
  trainee.attached = std::make_unique<Attached>(subject.chosen, *subject.model);
  memory::trim_heap();

  auto parameters = trainee.attached->parameters();
  trainee.ownership = ownership_of(parameters, settings, paged, mesh);
  trainee.optimizer = optimizer_of(settings, std::move(parameters), trainee.ownership.get(), trainee.execution.host, paged);
  if (trainee.ownership)
    trainee.optimizer->set_sum([owners = trainee.ownership.get()](const at::Tensor& numbers) { owners->sum(numbers); });
  if (settings.ema_decay > 0) trainee.ema = std::make_unique<optim::Ema>(trainee.optimizer->parameters());
  if (settings.draws_itself) trainee.own = std::make_unique<OwnDrawings>(trainee.optimizer->parameters());
  trainee.reduction = reduction_of(trainee, settings.division.reduction, *mesh, world);
  record(trainee, settings);
  if (settings.scales_loss) trainee.progress.loss_scale = optim::LossScale::for_fp16();
  return trainee;
}

void resume(Trainee& trainee, const std::filesystem::path& folder) {
  trainee.progress = checkpoint::load_state(folder, trainee.saved(), trainee.progress.fingerprint);
  if (trainee.ownership) trainee.ownership->share(trainee.optimizer->parameters());
  trainee.saved_step = trainee.progress.step;
  info("resumed at step {}", trainee.progress.step);
}

}  // namespace burnish::train
