#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "app/first_run_files.h"
#include "app/machine.h"
#include "app/questions.h"
#include "app/verbs.h"
#include "base/error.h"
#include "base/input_error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/number.h"
#include "base/say.h"
#include "base/text.h"
#include "config/command_line.h"
#include "config/everyday_words.h"
#include "io/files.h"
#include "io/output_file.h"
#include "train/subject/model_choice.h"

namespace burnish::app {

namespace {

/// Answers as options give them, and what else they say.
struct NewOptions {
  std::string dataset, subject, memory, output = "run.toml";
  train::ModelChoice model;
  bool overwrite = false, start = false, yes = false;
  std::vector<std::string> given;

  bool is_given(const char* name) const { return contains(given, name); }
};

void fields(config::Fields& f, NewOptions& o) {
  f.group("Answers");
  f.path("dataset", o.dataset, "folder of pictures, with or without captions, or a metadata file").called(config::kData);
  f.path("model", o.model.model,
         "folder, file, id on a hub (author/model), or the name of a published model; may be given several times for parts of a model", {},
         config::seen_from_if_there)
      .called(config::kModel);
  f.path("tokenizer_path", o.model.tokenizer_path, "tokenizer folder (CLIP, Qwen), when it is not beside the model", {},
         config::seen_from_if_there);
  f.path("tokenizer_2_path", o.model.tokenizer_2_path, "folder of the second tokenizer (T5), when it is not beside the model");
  f("subject", o.subject,
    "words for what is learned, 'sks dog' say: the caption of pictures that have none, and before captions that do not say them");
  f("memory", o.memory,
    "memory of the card: 16 (GB), 16GiB or 800MiB; cpu trains on the processor. Without it, what is free on this machine's GPU");
  f.path("output", o.output, "TOML file to write; prompts of previews go beside it").called(config::kOutput);
  f("overwrite", o.overwrite, "replace these files where they are there");
  f("start", o.start, "train once they are written");
  f("yes", o.yes, "ask nothing: what is not given has its value by itself");
}

/// What is free on this machine's first GPU, in bytes; nothing without one.
std::optional<double> free_on_gpu() {
  const auto gpu = describe_machine().at("gpu");
  return gpu.contains("free_bytes") ? std::optional(gpu.at("free_bytes").at(0).get<double>()) : std::nullopt;
}

models::ModelOptions model_options(const FirstRunAnswers& answers) {
  models::ModelOptions options{.tokenizer_path = answers.tokenizer_path, .tokenizer_2_path = answers.tokenizer_2_path};
  options.own = models::default_options();
  return options;
}

void take_model(const std::vector<std::string>& names, FirstRunAnswers& answers) {
  answers.model = choose_model(names, model_options(answers));
  if (answers.model.missing_tokenizer.empty()) return;
  config_error("new", "the tokenizer is not beside {}; name its folder with --{}", join(names), answers.model.missing_tokenizer);
}

void take_subject(const std::string& subject, FirstRunAnswers& answers) {
  check_subject(subject, answers.pictures);
  answers.subject = subject;
}

void take_memory(const std::string& memory, bool may_start, FirstRunAnswers& answers) {
  answers.memory = parse_memory("new", memory);
  const bool has_gpu = free_on_gpu().has_value();
  if (answers.memory.empty() && !has_gpu)
    config_error("new",
                 "this machine has no GPU whose memory could be asked; say how much there is, 16 for 16 GB, or cpu for the processor");
  if (may_start && !has_gpu && answers.memory != "cpu")
    config_error("new", "start trains on this machine, which has no GPU of {}; take it out, or say memory cpu", answers.memory);
}

/// The files that would be replaced.
std::vector<std::string> files_there(const std::string& output) {
  std::vector<std::string> there;
  for (const auto& file : {output, prompts_path_of(output)}) {
    if (io::is_there(file)) there.push_back(file);
  }
  return there;
}

/// The names of published models, those of a family on a line.
std::string published_names() {
  std::vector<std::pair<std::string, std::vector<std::string>>> families;
  for (const auto& name : models::published_models()) {
    const auto family = name.substr(0, name.find_first_of("-.0123456789"));
    if (families.empty() || families.back().first != family) families.push_back({family, {}});
    families.back().second.push_back(name);
  }
  std::string lines;
  for (const auto& [family, names] : families) lines += fmt::format("  {}\n", join(names));
  return lines;
}

void take_output(const std::string& output, FirstRunAnswers& answers) {
  io::check_output("new", output, ".toml", io::is_text);
  io::check_replaces("new", prompts_path_of(output), io::is_text);
  answers.output = output;
}

void refuse_missing(const NewOptions& o) {
  std::vector<std::string> missing;
  const auto miss = [&](const char* name, bool is_missing) {
    if (is_missing) missing.push_back(std::string("--") + name);
  };
  miss("dataset", o.dataset.empty());
  miss("model", o.model.model.empty());
  miss("subject", !o.yes && o.subject.empty() && !o.is_given("subject"));
  miss("memory", o.memory.empty() && (!o.yes || !free_on_gpu()));
  miss("output", !o.yes && !o.is_given("output"));
  if (missing.empty()) return;
  config_error("new", "{} nobody is asked, and answers are missing: {}{}", o.yes ? "with --yes" : "without a terminal", join(missing),
               o.yes ? "" : "; --yes leaves out what has a value by itself");
}

FirstRunAnswers answers_of(const NewOptions& o) {
  refuse_missing(o);
  FirstRunAnswers answers{.tokenizer_path = o.model.tokenizer_path, .tokenizer_2_path = o.model.tokenizer_2_path};
  take_output(o.output, answers);
  if (const auto there = files_there(o.output); !o.overwrite && !there.empty())
    config_error("new", "{} is there already; name another, or add --overwrite", there.front());
  take_memory(o.memory, o.start, answers);
  take_model(o.model.model, answers);
  answers.pictures = look_at_pictures(o.dataset);
  take_subject(o.subject, answers);
  return answers;
}

/// A dialogue: asks for what no option says.
class Dialogue {
 public:
  explicit Dialogue(const NewOptions& options) : o_(options) {
    answers_.tokenizer_path = o_.model.tokenizer_path;
    answers_.tokenizer_2_path = o_.model.tokenizer_2_path;
  }

  FirstRunAnswers answers() {
    pictures();
    model();
    subject();
    memory();
    return answers_;
  }
  /// Asks for another card where a model does not fit.
  FirstRunAnswers another_model() {
    ask_model();
    ask_memory();
    return answers_;
  }
  /// Where to write, and whether to replace what is there.
  std::string output() {
    const auto take = [&](const std::string& name) {
      take_output(typed_name(name), answers_);
      const auto there = files_there(answers_.output);
      if (!there.empty() && !o_.overwrite && !ask_whether("replace " + join(there, " and ") + ", already there"))
        config_error("new", "{} stays as it is; name another file", there.front());
    };
    if (o_.is_given("output")) settle(o_.output, take, [&] { ask("file of settings to write", "", take); });
    else ask("file of settings to write", o_.output, take);
    return answers_.output;
  }
  bool start() const {
    const bool can = answers_.memory.empty() || answers_.memory == "cpu" || free_on_gpu();
    return o_.start || (can && ask_whether("start training once " + answers_.output + " is written"));
  }

 private:
  /// Takes what an option says, and asks where that will not do.
  template <class Take, class Ask>
  static void settle(const std::string& given, const Take& take, const Ask& ask_instead) {
    try {
      take(given);
    } catch (const Error& error) {
      if (error.code() == Exit::interrupted) throw;
      tell(stderr, "{}\n", without_source(error));
      ask_instead();
    }
  }

  void pictures() {
    const auto take = [&](const std::string& path) {
      answers_.pictures = look_at_pictures(typed_name(path));
      tell(stderr, "{}\n", answers_.pictures.text);
    };
    const auto ask_for = [&] { ask("folder of pictures", "", take); };
    if (o_.dataset.empty()) ask_for();
    else settle(o_.dataset, take, ask_for);
  }
  void model() {
    if (o_.model.model.empty()) ask_model();
    else
      settle(
          "", [&](const auto&) { take_model(o_.model.model, answers_); }, [&] { ask_model(); });
    if (!answers_.model.is_here)
      tell(stderr, "{} is not on this machine, and is fetched when training begins\n", answers_.model.names.front());
  }
  void ask_model() {
    const auto found = find_models();
    for (size_t i = 0; i < found.size(); ++i) tell(stderr, "{:>3}  {} ({})\n", i + 1, found[i].names.front(), found[i].title);
    tell(stderr, "published, by name (`burnish doctor` says which of them train in how much memory):\n{}", published_names());
    const auto* question = found.empty() ? "model (its folder or file, author/model, or a published name)"
                                         : "model (a number of the list, its folder or file, author/model, or a published name)";
    ask(question, found.empty() ? "" : "1", [&](const std::string& answer) {
      const auto number = parse_number<int16_t>(answer);
      if (number && (*number < 1 || *number > std::ssize(found))) config_error("new", "the list has no number {}", answer);
      ask_tokenizers(number ? found[static_cast<size_t>(*number) - 1].names.front() : typed_name(answer));
    });
  }
  void ask_tokenizers(const std::string& name) {
    answers_.tokenizer_path = o_.model.tokenizer_path;
    answers_.tokenizer_2_path = o_.model.tokenizer_2_path;
    answers_.model = choose_model({name}, model_options(answers_));
    while (!answers_.model.missing_tokenizer.empty()) {
      const bool is_second = answers_.model.missing_tokenizer == "tokenizer_2_path";
      auto& path = is_second ? answers_.tokenizer_2_path : answers_.tokenizer_path;
      ask(is_second ? "folder of the second tokenizer (T5), which is not beside the model"
                    : "folder of the tokenizer, or author/model:tokenizer/, which is not beside the model",
          "", [&](const std::string& answer) {
            const auto named = typed_name(answer);
            if (named.empty() || (!io::is_there(named) && named.find(':') == named.npos))
              data_error("new", "there is no folder called '{}'; a tokenizer's holds tokenizer.json, vocab.json or spiece.model", named);
            path = named;
          });
      answers_.model = choose_model({name}, model_options(answers_));
    }
  }
  void subject() {
    const auto take = [&](const std::string& words) { take_subject(words, answers_); };
    const auto* question =
        answers_.pictures.num_without_caption > 0
            ? "words for what is to be learned, 'sks dog' say, the caption of pictures without one"
            : "words for what is to be learned, 'sks dog' say, to be put before captions without them (empty: captions say all)";
    if (o_.is_given("subject") || !o_.subject.empty()) settle(o_.subject, take, [&] { ask(question, "", take); });
    else ask(question, "", take);
  }
  void memory() {
    if (o_.memory.empty()) ask_memory();
    else
      settle(
          o_.memory, [&](const std::string& text) { take_memory(text, o_.start, answers_); }, [&] { ask_memory(); });
  }
  void ask_memory() {
    const auto free = free_on_gpu();
    const auto otherwise = free ? human_bytes(*free) + " of this machine's GPU" : "";
    ask(free ? "memory to plan for (16 for a card of 16 GB, or cpu)"
             : "memory of the card (16 for 16 GB), or cpu: this machine has no GPU that is used, and its processor trains",
        otherwise, [&](const std::string& answer) { take_memory(answer == otherwise ? "" : answer, o_.start, answers_); });
  }

  const NewOptions& o_;
  FirstRunAnswers answers_;
};

/// Answers, a run that fits, and whether to start it.
struct Settled {
  FirstRunAnswers answers;
  FirstRun run;
  bool starts = false;
};

Settled settle_by_options(const NewOptions& o) {
  auto answers = answers_of(o);
  auto run = plan_first_run(answers);
  tell(stderr, "{}it takes {}\n", answers.pictures.text, run.takes);
  return {std::move(answers), std::move(run), o.start};
}

Settled settle_by_asking(const NewOptions& o) {
  Dialogue dialogue(o);
  Settled settled{.answers = dialogue.answers(), .run = {}};
  while (true) {
    try {
      tell(stderr, "planning, which takes up to a minute for a large model\n");
      settled.run = plan_first_run(settled.answers);
      break;
    } catch (const Error& error) {
      if (error.code() == Exit::interrupted) throw;
      tell(stderr, "  {}\n", without_source(error));
      settled.answers = dialogue.another_model();
    }
  }
  tell(stderr, "it takes {}\n", settled.run.takes);
  settled.answers.output = dialogue.output();
  settled.starts = dialogue.start();
  return settled;
}

}  // namespace

void new_run(const Arguments& arguments) {
  NewOptions o;
  config::Fields listed;
  fields(listed, o);
  auto parsed = config::read_command_line("new", "ask for what a first run needs, and write its settings", arguments, listed);
  if (parsed.help) return print("{}", parsed.help_text);
  o.given = parsed.given;
  watch_for_interrupt("interrupted: ends here, and nothing is written");
  const auto [answers, run, starts] = can_ask() && !o.yes ? settle_by_asking(o) : settle_by_options(o);
  const auto files = write_first_run(answers, run, answers.output);
  if (interrupted()) throw Error(Exit::interrupted, "new", "interrupted; nothing was written");
  io::write_text_atomic(files.prompts_path, files.prompts);
  io::write_text_atomic(files.toml_path, files.toml);
  info("{} and {} are written", files.toml_path, files.prompts_path);
  print("burnish train {}\n", in_shell(files.toml_path));
  if (starts) train({files.toml_path});
}

}  // namespace burnish::app
