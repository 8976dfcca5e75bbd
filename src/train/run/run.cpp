#include "train/run/run.h"

#include <c10/util/Exception.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <set>

#include "base/count.h"
#include "base/error.h"
#include "base/input_error.h"
#include "base/log.h"
#include "base/say.h"
#include "base/text.h"
#include "base/threads.h"
#include "io/hash.h"
#include "models/parts/shared_units.h"
#include "train/course/ahead.h"
#include "train/course/data_summary.h"
#include "train/options/hints.h"
#include "train/options/idle_options.h"
#include "train/options/run_folder.h"
#include "train/plan/memory_planner.h"
#include "train/plan/rehearsal.h"
#include "train/plan/stages.h"
#include "train/run/decided_schedule.h"
#include "train/run/encode_all.h"
#include "train/run/hooks/hooks.h"
#include "train/run/identity.h"
#include "train/run/loop.h"
#include "train/samples/sample_list.h"
#include "train/subject/auto_format.h"

namespace burnish::train {

namespace {

Opened open_run(const TrainOptions& options, Portion portion = {}) {
  auto settings = settle(options, portion);
  set_threads(options.model.num_threads, options.model.local_size);
  return open_run(std::move(settings));
}

/// A run of which nothing but its plan is made.
Opened open_planned(const Settings& settings) {
  set_threads(settings.model.storage.num_threads, settings.model.storage.local_size);
  return open_run(on_meta(settings));
}

Portion portion_of(const dist::World& world) { return {world.size(), world.rank()}; }

Course make_course(const Opened& run) {
  Course course(run.settings.course, run.subject.model->process(), *run.objective, run.samples(), run.held_out ? &*run.held_out : nullptr,
                run.subject.model->names().references.given_shares);
  optim::check(schedule_of(run.settings.step, course.num_steps()));
  return course;
}

/// Refuses what could only fail later. Where the run stands: at its start, or where its saved state does; then `identity` is the run's.
checkpoint::Progress check_start(const Opened& run, const Course& course, std::optional<Identity>& identity) {
  course.check();
  checkpoint::Progress progress;
  if (run.settings.output.resume) {
    identity = identity_of(run);
    progress = checkpoint::read_progress(run.settings.output.state(), identity->text, identity->samples);
    if (progress.step >= course.num_steps())
      warn("the saved state is at step {} and max_steps is {}: there is nothing left to train", progress.step, course.num_steps());
  }
  return progress;
}

/// Pictures that were looked at are not looked at again by this run when it goes on, nor by others. A cache that comes to nothing leaves
/// nothing.
void save_checks(const Opened& run) {
  const auto& cache = run.settings.data.cache_folder;
  if (!cache.empty() && !std::filesystem::is_directory(cache)) return;
  if (run.samples().pictures) run.samples().pictures->save_checks();
  if (run.held_out && run.held_out->pictures) run.held_out->pictures->save_checks();
}

/// Tells whether a caption of the sample holds the word, whichever of them is drawn.
bool holds(const Sample& sample, const std::string& word) {
  return sample.row.prompt.find(word) != std::string::npos ||
         std::ranges::any_of(sample.row.captions, [&](const auto& caption) { return caption.text.find(word) != std::string::npos; });
}

/// Warns of captions without the word: their pictures teach it nothing. A data Error where none has it.
void check_captions_have(const std::string& word, const Samples& samples, bool is_only_word) {
  int64_t num = 0, num_with = 0;
  for (const auto& sample : samples.list) {
    if (!samples.set_of(sample).of_class_set) ++(holds(sample, word) ? num_with : num);
  }
  if (num_with == 0 && samples.has_captions)
    data_error("train", "no caption holds '{}', so that nothing would be learned of it; write it there, or put it before all with {} '{}'",
               word, "--caption_prefix", word);
  if (num == 0 || !is_only_word) return;  // each of several words has samples of its own
  warn("{} no '{}' in the caption, and teaches it nothing; write it there, or put it before all with --caption_prefix '{}'",
       count_of(num, "sample has", "samples have"), word, word);
}

/// What is trained on, before anything is computed of it.
void say_data(const Opened& run, const pipeline::Schedule& schedule, const Course* course) {
  say_samples(run.samples(), course);
  for (const auto& hint : shared_data_hints(run.settings.given)) info("{}", hint);
  for (const auto& sentence : run.objective->warnings(run.samples())) warn("{}", sentence);
  const auto& words = run.settings.trained.words.list;
  for (const auto& word : words) check_captions_have(word.text, run.samples(), words.size() == 1);
  auto units = schedule.after_once();
  if (run.settings.data.from_pictures) units.insert(units.end(), schedule.once.units.begin(), schedule.once.units.end());
  std::set<std::string> captions;
  for (const auto& sample : run.samples().list) captions.insert(sample.row.prompt);
  models::warn_of_cut_texts(run.subject.model->components(), units, {captions.begin(), captions.end()}, "captions");
}

/// What trains, when everything that can be is computed ahead.
struct WithAhead {
  pipeline::Schedule schedule;
  std::unique_ptr<data::Cache> in_memory;  ///< null when the results are kept in the run's cache
  std::optional<AheadResults> results;     ///< none when nothing was computed ahead
};

/// Makes the stages of a run of too many batches to compute anything ahead.
WithAhead without_ahead(const Opened& run, const pipeline::Schedule& schedule, int64_t num_batches) {
  if (run.settings.schedule.always_ahead())
    config_error("train", "precompute_timesteps is for runs of up to {} batches, and this one has {}; train fewer steps, or set it to off",
                 kMostAhead, num_batches);
  info("{} computed at every visit: for {} batches it takes too long ahead of training", join(schedule.ahead.kept), num_batches);
  return {nothing_ahead(schedule), nullptr, std::nullopt};
}

WithAhead compute_all_ahead(const Opened& run, const pipeline::Schedule& schedule, const Course& course, const Feed& feed,
                            const Encoded& encoded, int64_t first_batch, const dist::World& world) {
  if (schedule.ahead.units.empty()) return {schedule, nullptr, std::nullopt};
  if (course.num_batches() - first_batch > kMostAhead) return without_ahead(run, schedule, course.num_batches() - first_batch);
  bool on_disk = run.settings.schedule.always_ahead() && run.cache->on_disk();
  WithAhead with{schedule, on_disk ? nullptr : std::make_unique<data::Cache>(""), std::nullopt};
  std::vector<BatchId> batches;
  for (BatchId id{.number = first_batch}; id.number < course.num_batches(); id = next(id, course.batch(id).part)) batches.push_back(id);
  for (int64_t i = 0; i < course.num_held_out(); ++i) batches.push_back({true, i});

  auto ahead =
      compute_ahead(*run.subject, schedule, feed, batches, on_disk ? *run.cache : *with.in_memory, run.settings.model.options.device,
                    ahead_limit(run.settings.schedule, run.settings.data.cache_bytes, *run.subject, schedule,
                                encoded.training.num_bytes() + encoded.held_out.num_bytes()));
  auto what = fmt::format("{} of {} visits", join(schedule.ahead.kept),
                          (course.num_batches() - first_batch) * run.settings.course.visits_a_batch() + course.num_held_out());
  auto num_freed = ahead_weight_bytes(*run.subject, schedule);
  auto weights = human_bytes(static_cast<double>(num_freed)), bytes = human_bytes(ahead.num_bytes);
  bool done_everywhere = dist::sum_of(world.group(), {ahead.done ? 0. : 1.}).front() == 0;
  if (done_everywhere) {
    info("{} computed ahead: {} in {}{}", what, bytes, on_disk ? run.cache->folder().string() : "memory",
         num_freed > 0 ? fmt::format(" instead of {} of weights", weights) : "");
    with.results = std::move(ahead.results);
    return with;
  }
  if (run.settings.schedule.always_ahead()) {
    throw Error(Exit::no_fit, "train",
                fmt::format("{} take {}, more than cache_budget leaves; raise it, train fewer steps, or set precompute_timesteps to off",
                            what, bytes));
  }
  info("{} computed at every visit: ahead of training it takes {}, its weights take {}", what, bytes, weights);
  return {nothing_ahead(schedule), nullptr, std::nullopt};
}

/// Returns the extent of pictures that are drawn while training: that of the first sample.
Extent preview_extent(const Opened& run) { return run.samples().list.front().extent; }

/// Returns why a run could not be rehearsed: an operator without a meta kernel, or a unit that reads numbers.
std::string why_not(const std::exception& error) {
  auto lines = split_list(error.what(), '\n');
  return lines.empty() ? "of no reason that is given" : lines.front();
}

Planner planner_of(const Opened& run, Bodies bodies = Bodies::alike_once) {
  return planner_of(OpenFiles{*run.subject, run.listed, run.held_out ? &*run.held_out : nullptr}, bodies);
}

/// Holds what is known of a run's memory before it starts.
struct Planned {
  std::optional<MemoryPlan> plan = {};  ///< nothing where it is not planned
  KeptForBackward kept = {};            ///< what its blocks are to keep
};

/// Says what memory the run takes and refuses one that does not fit.
Planned check_memory(const Opened& run, const Planner& planner) {
  const auto& settings = run.settings;
  const auto& memory = settings.step.memory;
  if (!settings.plan.refuses && memory.activation_bytes == 0) return {};
  try {
    auto plan = planner(settings);
    if (!settings.plan.refuses) return {std::nullopt, plan.kept};
    info("memory: {} of {} at the peak ({})", human_bytes(static_cast<double>(plan.num_bytes())), plan.device,
         plan.largest().profile.place);
    check_fits(settings, plan, limits_of(settings), planner);
    return {plan, plan.kept};
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {  // the run itself may well work
    if (memory.activation_bytes > 0)
      config_error("train", "activation_budget takes a plan, and this run cannot be planned: {}; say use_gradient_checkpointing instead",
                   why_not(error));
    info("memory was not planned: {}", why_not(error));
    return {};
  }
}

/// Goes from what is kept of the samples on to the last step.
std::optional<NoMemory> train(Opened& run, const Course& course, const checkpoint::Progress& start, const Planned& planned,
                              const Identity& identity, const dist::World& world, const records::StatusFile& status) {
  std::optional<Rollouts> rollouts;
  if (course.rounds() != nullptr) rollouts.emplace(run);  // before anything is computed
  auto within = within_budget(run, course, world);
  say_data(run, within, &course);
  status.enter(records::State::encoding);
  const auto by_block = encoders_by_block(run);
  auto encoded = encode_all(run, within, by_block, world);
  save_checks(run);
  Feed feed(course, {run.samples(), encoded.training},
            run.held_out ? std::optional<Source>({*run.held_out, encoded.held_out}) : std::nullopt);
  auto ahead = compute_all_ahead(run, within, course, feed, encoded, start.batch, world);
  status.enter(records::State::loading);
  std::optional<Previews> previews;
  if (world.is_first() || run.settings.step.division.divides_blocks())  // then all draw together
    previews =
        prepare_previews(run.settings.output.previews, *run.subject, preview_extent(run), run.settings.model.options.device, by_block);
  auto trainee = load_trainee(run.subject, ahead.schedule, run.settings.step, planned.kept, run.settings.model.options.device, world);
  trainee.progress.fingerprint = identity.text;
  if (run.settings.output.resume) resume(trainee, run.settings.output.state());
  trainee.progress.samples = identity.samples;
  const Batches batches{feed, ahead.results ? &*ahead.results : nullptr, rollouts ? &*rollouts : nullptr};
  Training training{run.settings,
                    run.subject,
                    *run.objective,
                    ahead.schedule,
                    course,
                    batches,
                    previews ? &*previews : nullptr,
                    planned.plan ? &*planned.plan : nullptr,
                    trainee,
                    world,
                    status};
  status.enter(records::State::training);
  return loop(training, make_hooks(training));
}

/// Tells whether a run fits whose models are numbers; one that cannot be planned does not.
bool fits_in_numbers(TrainOptions options, const Portion& portion) {
  const ModelChoice otherwise;
  options.model.fp8_models = otherwise.fp8_models;
  options.model.weight_format = otherwise.weight_format;
  const auto settings = settle(options, portion);
  try {
    return fits(plan_memory(settings), limits_of(settings));
  } catch (const c10::Error&) {
    return false;
  }
}

}  // namespace

TrainOptions with_format(const TrainOptions& options, const dist::World& world) {
  auto chosen = options;
  auto& model = chosen.model;
  if (model.weight_format != kAutoFormat) return chosen;
  std::string line;
  if (world.is_first())
    line = settle_format(model, model_options(model).device, [&] { return fits_in_numbers(options, portion_of(world)); });
  const auto text = fmt::format("{}\n{}\n{}\n", model.weight_format, model.int8_compute ? "int8_compute" : "none", model.fp8_models);
  const auto said = split_list(world.decided("weight_format", text), '\n');
  model.weight_format = said.at(0);
  model.int8_compute = said.at(1) == "int8_compute";
  model.fp8_models = said.size() > 2 ? said[2] : "";
  if (!line.empty()) info("{}", line);
  return chosen;
}

void train(const TrainOptions& given, const dist::World& world, records::StatusFile* told) {
  const auto options = with_format(given, world);
  records::StatusFile untold;
  auto& status = told != nullptr ? *told : untold;
  auto settings = settle(options, portion_of(world));
  check_nothing_lost(settings.output);                                           // before pictures are read
  if (settings.output.resume) checkpoint::check_there(settings.output.state());  // a folder that is misspelt is not made
  check_previews_apart(settings);
  for (const auto& hint : {learning_rate_hint(options), length_hint(options)}) {
    if (!hint.empty()) warn("{}", hint);
  }
  for (const auto& [option, belongs_to] : repeated_options(options)) info("{} has no effect here: it belongs to {}", option, belongs_to);
  set_threads(options.model.num_threads, options.model.local_size);
  std::optional<io::FolderClaim> claim;
  if (world.is_first()) {
    claim.emplace(claim_run_folder(settings.output));
    status.begin(settings.output.folder);
    records::take_back(settings.output.folder, {.preview = true, .save = true, .stop_after_epoch = true});  // asked of a run before
  } else {
    world.decided("prepared", "");
  }
  auto run = open_run(std::move(settings));
  auto course = make_course(run);
  std::optional<Identity> identity;
  auto start = check_start(run, course, identity);
  status.enter(records::State::planning);
  const auto planner = planner_of(run);  // whose plans all hold the program to be as large as it is now
  Planned planned;
  if (world.is_first()) {
    read_previews(run.settings.output.previews, *run.subject, preview_extent(run),
                  run.settings.model.options.device);   // what is wrong, now
    planned = check_memory(run, planner);               // what one process has room for all have
    world.decided("prepared", "by the first process");  // the others find what it fetched
  }
  if (!identity) identity = identity_of(run);
  world.agree("settings, samples or weights", io::sha256(identity->text).substr(0, 8));
  world.agree("saved steps", std::to_string(start.step));
  save_checks(run);
  std::optional<NoMemory> missing;
  try {
    missing = train(run, course, start, planned, *identity, world, status);
  } catch (const Error&) {  // Ctrl-C
    save_checks(run);
    throw;
  }
  save_checks(run);
  if (missing) throw Error(Exit::no_fit, "train", explain(*missing, run.settings, planned.plan, planner));
}

void make_cache(const TrainOptions& options, const dist::World& world) {
  auto run = open_run(with_format(options, world), portion_of(world));
  save_checks(run);
  say_data(run, run.schedule, nullptr);
  auto encoded = encode_all(run, run.schedule, encoders_by_block(run), world);
  save_checks(run);
  if (!world.is_first()) return;
  save_list(*run.cache, run.samples(), encoded.training);
  tell(stdout, "{}: {} of {}, {}\n", run.cache->folder().string(), encoded.training.num_complete(),
       count_of(std::ssize(run.samples().list), "sample"), human_bytes(static_cast<double>(encoded.training.num_bytes())));
}

Advice advise(const Settings& settings, const WantedAdvice& wanted) {
  auto run = open_planned(settings);
  auto planner = planner_of(run);
  try {
    Advice advice{.plan = planner(settings), .limits = limits_of(settings), .is_fit_sought = wanted.fit};
    if (wanted.changes) advice.changes = changes(settings, advice.plan, planner);
    if (wanted.fit) advice.fitting = fit(settings, advice.plan, advice.limits, planner);
    if (wanted.fit && !advice.fitting) advice.training_less = fit_training_less(settings, advice.plan, advice.limits, planner);
    return advice;
  } catch (const c10::Error& error) {
    config_error("train", "the memory of this run cannot be planned: {}; `burnish plan --graph` says what it computes when",
                 why_not(error));
  }
}

HowItFits how_it_fits(Settings settings) {
  // Values that are kept where there is room decide nothing here: a run that fits with them fits without.
  settings.plan.refuses = false;
  auto run = open_planned(settings);
  const auto planner = planner_of(run);
  return how_it_fits(settings, planner(settings), limits_of(settings), planner);
}

MemoryPlan plan_memory(const Settings& settings) {
  auto run = open_planned(settings);
  return planner_of(run)(settings);
}

MemoryPlan plan_memory(const TrainOptions& options, const Portion& portion, Bodies bodies) {
  const auto settings = settle(with_format(options), portion);
  const auto run = open_planned(settings);
  return planner_of(run, bodies)(settings);
}

SplitPlan plan(const TrainOptions& options, const Portion& portion) {
  auto run = open_run(with_format(options), portion);
  auto course = make_course(run);
  say_samples(run.samples(), &course);
  return measure(run, course);
}

}  // namespace burnish::train
