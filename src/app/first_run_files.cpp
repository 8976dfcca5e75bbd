#include "app/first_run_files.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "base/count.h"
#include "base/error.h"
#include "base/shell_word.h"
#include "base/text.h"
#include "io/files.h"
#include "train/options/fields.h"

namespace burnish::app {

namespace fs = std::filesystem;

namespace {

/// A line of the file: an option of train, and what is said of it.
struct Line {
  std::string option, comment;
};
struct Section {
  std::string title;
  std::vector<Line> lines;
};

fs::path folder_of(const std::string& toml_path) { return fs::absolute(toml_path).lexically_normal().parent_path(); }

bool lies_in(const fs::path& path, const fs::path& folder) {
  const auto below = fs::weakly_canonical(path).lexically_relative(fs::weakly_canonical(folder));
  return !below.empty() && *below.begin() != "..";
}

/// The folder that runs and cache go into: that of the settings, or where this is among the pictures, the one that holds these.
fs::path folder_for_runs(const std::string& toml_path, const std::string& pictures) {
  const auto folder = folder_of(toml_path);
  if (!io::is_folder(pictures) || !lies_in(folder, pictures)) return folder;
  return fs::weakly_canonical(pictures).parent_path();
}

fs::path free_run_folder(const fs::path& folder, const std::string& toml_path) {
  const auto name = folder / "runs" / fs::path(toml_path).stem();
  auto free = name;
  for (int i = 2; io::is_there(free); ++i) free = name.string() + "-" + std::to_string(i);
  return free;
}

/// A name as the settings have it: from their folder on where it is below, else whole.
std::string from_settings(const fs::path& path, const std::string& toml_path) {
  const auto relative = fs::absolute(path).lexically_normal().lexically_relative(folder_of(toml_path));
  const bool is_below = !relative.empty() && *relative.begin() != "..";
  return is_below ? relative.string() : fs::absolute(path).lexically_normal().string();
}

std::string from_here(const fs::path& path) { return from_settings(path, (fs::current_path() / "here").string()); }

/// A quarter of the run, in fifties.
int64_t steps_between_saves(int64_t num_steps) { return std::max<int64_t>(50, num_steps / 4 / 50 * 50); }

/// The options as the file has them, file names seen from its folder.
train::TrainOptions written(const FirstRunAnswers& answers, const FirstRun& run, const FirstRunFiles& files) {
  auto o = run.options;
  const auto place = [&](const std::string& name) {
    return !name.empty() && io::is_there(name) ? from_settings(name, files.toml_path) : name;
  };
  o.model.model.clear();
  for (const auto& name : answers.model.names) o.model.model.push_back(place(name));
  o.model.tokenizer_path = place(o.model.tokenizer_path);
  o.model.tokenizer_2_path = place(o.model.tokenizer_2_path);
  o.data.metadata_path = place(o.data.metadata_path);
  o.output.save.steps = o.output.previews.every = steps_between_saves(o.course.max_steps);
  o.output.previews.prompts = from_settings(files.prompts_path, files.toml_path);
  o.output_path = from_settings(files.run_folder, files.toml_path);
  o.cache.path = from_settings(fs::path(files.run_folder).parent_path().parent_path() / "cache", files.toml_path);
  return o;
}

std::string what_trigger_does(const FirstRunAnswers& answers) {
  const auto& seen = answers.pictures;
  const auto num_without = seen.num_without(answers.subject);
  std::vector<std::string> all;
  if (seen.num_without_caption > 0) all.push_back("the caption of " + count_of(seen.num_without_caption, "picture") + " without one");
  if (num_without > 0) all.push_back(fmt::format("put before {} of {} captions, which do not say it", num_without, seen.captions.size()));
  return join(all, "; ");
}

Section data_lines(const FirstRunAnswers& answers, const train::TrainOptions& o) {
  const auto& seen = answers.pictures;
  const auto& size = seen.smallest;
  Section section{"What it learns from",
                  {{"model", answers.model.title + ": files, folders, or an id on Hugging Face, which is fetched once"}}};
  auto& lines = section.lines;
  if (!o.model.tokenizer_path.empty()) lines.push_back({"tokenizer_path", "the tokenizer, which is not beside the model"});
  if (!o.model.tokenizer_2_path.empty()) lines.push_back({"tokenizer_2_path", "the second tokenizer"});
  lines.push_back(
      {"dataset_metadata_path", fmt::format("{}, the smallest of {}x{} pixels; captions are in text files beside them, or in a table",
                                            count_of(seen.num_pictures, "picture"), size.width, size.height)});
  if (!o.dataset.subset.visits.trigger_word.empty()) lines.push_back({"trigger_word", what_trigger_does(answers)});
  if (seen.num_bad > 0) lines.push_back({"on_bad_sample", count_of(seen.num_bad, "sample") + " cannot be used and are left out"});
  if (o.dataset.enable_bucket) {
    lines.push_back(
        {"resolution", "pixels: pictures have the area of a square of this side; smaller ones are faster and take less memory"});
    lines.push_back({"enable_bucket", "each picture keeps about its shape"});
  } else {
    lines.push_back({"max_pixels", "pixels: larger pictures are scaled down to this area; each keeps its shape"});
  }
  return section;
}

Section first_changes(const FirstRunAnswers& answers, const train::TrainOptions& o) {
  const auto visits = o.course.max_steps / std::max<int64_t>(1, answers.pictures.num_pictures);
  return {"What to change first",
          {{"max_steps", fmt::format("updates, a picture each: {} of each picture. More while previews do not show the subject yet",
                                     count_of(visits, "visit"))},
           {"learning_rate", "usual for a LoRA; half of it, and more steps, when previews lose their shapes"},
           {"lora_rank", "what the LoRA has room for: 16 for a thing or a person, 32 or more for a style of many pictures"},
           {"seed", "names all that is drawn at random: runs of one seed can be compared"}}};
}

/// Lists the options that a plan asked for, as their own rows describe them.
Section fitting(const FirstRunAnswers& answers, const FirstRun& run, train::TrainOptions& o) {
  Section section{"To fit into memory", {}};
  if (answers.memory == "cpu") section.lines.push_back({"device", "the processor; take it out on a machine with a GPU"});
  config::Fields fields;
  train::fields(fields, o);
  for (const auto& field : fields.list()) {
    if (contains(run.planned, field.name) && field.name != "cache_path") section.lines.push_back({field.name, field.doc});
  }
  return section;
}

Section outcome() {
  return {"What it leaves",
          {{"output_path", "the run's folder: LoRA files, log, previews, report.html"},
           {"save_steps", "steps from one LoRA file to the next; an earlier one is the better one when the last has learned too much"},
           {"preview_prompts", "a prompt a line; drawn before the first step, too, for comparison"},
           {"preview_steps", "steps from one set of previews to the next"},
           {"cache_path", "what encoders make of the pictures: computed once, for this run and the next"}}};
}

std::string text_of(const Section& section, const config::Fields& fields) {
  auto text = "\n# " + section.title + "\n";
  for (const auto& [option, comment] : section.lines) {
    const auto field = std::ranges::find(fields.list(), option, &config::Field::name);
    text += fmt::format("\n# {}\n{} = {}\n", one_line(comment), option, config::value_text(*field));
  }
  return section.lines.empty() ? "" : text;
}

std::string heading(const FirstRunAnswers& answers, const FirstRun& run, const FirstRunFiles& files) {
  const auto& memory = answers.memory;
  const auto place = memory == "cpu" ? "the processor" : memory.empty() ? "the GPU of the machine it was made on" : "a GPU of " + memory;
  const auto asked = memory == "cpu" ? "" : flags_for(memory);
  const auto toml = in_shell(files.toml_path), folder = in_shell(files.run_folder);
  const auto prompt = in_shell(answers.subject.empty() ? "a caption" : answers.subject);
  return fmt::format(
      "# A first run, by `burnish new`: a LoRA{} on {}, from {}.\n"
      "# Planned for {}: it takes {}.\n"
      "#\n"
      "#   burnish train {}   trains; Ctrl-C saves and ends, --resume behind it goes on\n"
      "#   burnish watch {}   shows curves and previews in the browser meanwhile\n"
      "#   burnish plan {}{}   says what it takes, also after a change\n"
      "#   burnish sample --run {} --prompt {}   draws with it afterwards\n"
      "#\n"
      "# Every option of `burnish train --help all` can stand here; names of files begin in this file's folder.\n",
      answers.subject.empty() ? "" : " of " + answers.subject, answers.model.title, count_of(answers.pictures.num_pictures, "picture"),
      place, run.takes, toml, folder, toml, asked, folder, prompt);
}

/// Captions that a line of prompts can hold, each once; at most so many.
std::vector<std::string> captions_for_prompts(const SeenPictures& pictures, size_t count) {
  std::vector<std::string> captions;
  for (const auto& caption : pictures.captions) {
    const bool is_line = !caption.empty() && caption[0] != '#' && caption.find("--") == caption.npos && caption.find('\n') == caption.npos;
    if (is_line && captions.size() < count && !contains(captions, caption)) captions.push_back(caption);
  }
  return captions;
}

std::string prompts_of(const FirstRunAnswers& answers, const train::TrainOptions& o) {
  const auto& drawn = answers.model.drawn;
  const auto side = o.dataset.enable_bucket ? std::stoll(o.dataset.resolution.at(0)) : drawn.side;
  auto flags = fmt::format(" --s {}", drawn.num_inference_steps);
  if (o.dataset.enable_bucket) flags = fmt::format(" --w {} --h {}", side, side) + flags;
  if (drawn.cfg_scale != 1) flags += fmt::format(" --l {}", drawn.cfg_scale);
  std::vector<std::string> prompts;
  if (!answers.subject.empty()) prompts = {answers.subject, answers.subject + " on a beach at sunset"};
  for (const auto& caption : captions_for_prompts(answers.pictures, answers.subject.empty() ? 3 : 1))
    prompts.push_back(caption.find(answers.subject) == caption.npos ? answers.subject + " " + caption : caption);
  std::string text =
      "# A picture a line: the prompt, and behind it --w and --h in pixels, --s steps, --l guidance, --n what is not wanted, --d the "
      "seed.\n"
      "# With one seed all along, what differs from one save to the next is what was learned.\n";
  for (size_t i = 0; i < prompts.size(); ++i) text += fmt::format("{}{} --d {}\n", prompts[i], flags, i + 1);
  return text;
}

}  // namespace

std::string in_shell(const std::string& word) {
  constexpr const char* kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+=:,@";
  if (!word.empty() && word.find_first_not_of(kPlain) == word.npos) return word;
  return shell_word(one_line(word));
}

std::string prompts_path_of(const std::string& toml_path) {
  const fs::path path = toml_path;
  return (path.parent_path() / (path.stem().string() + ".prompts.txt")).string();
}

FirstRunFiles write_first_run(const FirstRunAnswers& answers, const FirstRun& run, const std::string& toml_path) {
  FirstRunFiles files{.toml_path = toml_path, .prompts_path = prompts_path_of(toml_path)};
  files.run_folder = from_here(free_run_folder(folder_for_runs(toml_path, answers.pictures.path), toml_path));
  auto o = written(answers, run, files);
  files.prompts = prompts_of(answers, o);
  config::Fields fields;
  train::fields(fields, o);
  files.toml = heading(answers, run, files);
  for (const auto& section : {data_lines(answers, o), first_changes(answers, o), fitting(answers, run, o), outcome()})
    files.toml += text_of(section, fields);
  files.toml += "\n# Validation is off: of few pictures, previews tell more. validation_metadata_path and validation_steps turn it on.\n";
  return files;
}

}  // namespace burnish::app
