#include "app/launch_over_ssh.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "app/train_options.h"
#include "app/version.h"
#include "base/home.h"
#include "base/host_name.h"
#include "base/input_error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/say.h"
#include "base/shell_word.h"
#include "base/text.h"
#include "config/named_file.h"
#include "io/files.h"
#include "io/hash.h"
#include "remote/job.h"
#include "train/options/fields.h"

namespace burnish::app {

namespace {

namespace fs = std::filesystem;

constexpr const char* kFiles = "files";  // of a job: what its settings name, each at its own whole path below

/// Adds a file or folder that goes there. Nobody means to send a home folder, with all keys in it.
void add_file(const fs::path& file, const std::string& option, std::set<fs::path>& files) {
  const auto home = fs::path(with_home("~"));
  const auto whole = file.lexically_normal();
  if (whole == whole.root_path() || whole == home || whole / "" == home || home.lexically_relative(whole).native().find("..") != 0)
    config_error("launch", "{} would send all of {} to the other machine; put what is trained on into a folder of its own", option,
                 whole.string());
  files.insert(whole);
}

/// Has a text that names a path name the one on the other machine; what is here is collected. A path that was typed whole and is not here
/// is one of that machine. A table alone says where its rows' files are where it is not below a base folder: in its own.
void move_path(const config::Field& field, bool has_base, std::string& text, std::set<fs::path>& files) {
  if (text.starts_with("[") || text.find(",/") != text.npos)
    config_error("launch", "{} holds several files in one text, which are not taken apart for another machine; give each by itself",
                 field.name);
  const bool is_typed_whole = fs::path(text).is_absolute();
  text = field.relocate(text, fs::current_path());
  if (!fs::path(text).is_absolute()) return;  // the id of a model on a hub
  const auto there = fs::path(config::named_file(text).value_or(text)).lexically_normal();
  if (!io::is_there(there) && is_typed_whole) return;
  const bool is_lone_table = field.name.ends_with("metadata_path") && !has_base && !io::is_folder(there);
  if (io::is_there(there)) add_file(is_lone_table ? there.parent_path() : there, field.name, files);
  text = kFiles + fs::path(text).lexically_normal().string();
}

/// Tells whether a table's option has the option of its base folder given beside it.
bool has_base(const config::Fields& fields, const std::string& table) {
  if (!table.ends_with("metadata_path")) return false;
  const auto name = table.substr(0, table.size() - std::string("metadata_path").size()) + "base_path";
  const auto found = std::ranges::find(fields.list(), name, &config::Field::name);
  const auto* text = found == fields.list().end() ? nullptr : std::get_if<std::string*>(&found->slot);
  return text != nullptr && !(**text).empty();
}

/// Has all options that name files name those on the other machine, and returns the files that they name here.
std::set<fs::path> move_paths(config::Fields& fields) {
  std::set<fs::path> files;
  fields.each([&](config::Field& field) {
    if (!field.relocate || field.name == "output_path") return;
    const bool is_based = has_base(fields, field.name);
    if (auto* text = std::get_if<std::string*>(&field.slot)) move_path(field, is_based, **text, files);
    if (auto* list = std::get_if<std::vector<std::string>*>(&field.slot))
      for (auto& text : **list) move_path(field, is_based, text, files);
  });
  return files;
}

/// Adds what the datasets of a dataset_config name, which has to be seen from that file, since it goes there as it is.
void add_datasets(const train::TrainOptions& options, const std::string& config, std::set<fs::path>& files) {
  if (config.empty()) return;
  const auto text = io::read_text(config);
  for (const char* whole : {"\"/", "'/", "\"~", "'~"})
    if (text.find(whole) != text.npos)
      config_error("launch", "{} names files by whole paths, and goes to the other machine as it is; name them from its folder", config);
  for (auto dataset : train::read_dataset_config(config, options.dataset)) {
    config::Fields fields;
    train::fields(fields, dataset);
    fields.path("dataset_base_path", dataset.subset.base_path, "");
    fields.path("dataset_metadata_path", dataset.subset.metadata_path, "");
    files.merge(move_paths(fields));
  }
}

/// The run's name, of letters that a shell and a path take as they are, and a number for this machine and folder: two runs of one name are
/// two jobs.
std::string job_name(const fs::path& output) {
  auto name = (output.has_filename() ? output : output.parent_path()).filename().string();
  std::ranges::replace_if(
      name, [](unsigned char c) { return !std::isalnum(c) && c != '-' && c != '_' && c != '.'; }, '-');
  const auto origin = io::xxh64(host_name() + ":" + output.string());
  return fmt::format("{}-{:08x}", name, static_cast<uint32_t>(origin));
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// Seen from the home folder there, in which ssh begins.
std::string from_home(const std::string& path) { return path.starts_with("~/") ? path.substr(2) : path; }

/// Puts burnish there from a wheel, and returns its name there. A wheel of the version that is installed takes its place too.
std::string install(const remote::Host& host, const std::string& folder, const std::string& file) {
  const auto wheel = fs::path(file).filename().string();
  info("installing {} on {}: torch comes along, some gigabytes the first time", wheel, host.address());
  host.run("mkdir -p " + shell_word(folder));
  host.send_as(fs::absolute(file), folder + "/" + wheel);
  const auto said = host.run(
      fmt::format("cd {} && {{ [ -x environment/bin/pip ] || python3 -m venv environment; }} 2>&1 && pip='environment/bin/pip --quiet "
                  "--disable-pip-version-check install' && $pip {} 2>&1 && $pip --force-reinstall --no-deps {} 2>&1",
                  shell_word(folder), shell_word(wheel), shell_word(wheel)));
  if (said.exit_code != 0) data_error("app", "{} cannot install {}: {}", host.address(), wheel, said.output);
  return folder + "/environment/bin/burnish";
}

/// Finds burnish there, or puts it there; returns the program's whole path there.
std::string find_program(const remote::Host& host, const LaunchOverSsh& options, const std::string& folder) {
  const auto name = options.wheel.empty() ? from_home(options.program) : install(host, folder, options.wheel);
  const auto found =
      host.run(fmt::format("p={0}; case $p in */*) cd \"$(dirname \"$p\")\" && p=$(pwd)/$(basename \"$p\");; *) p=$(command -v \"$p\");; "
                           "esac; echo \"$p\"; \"$p\" --version",
                           shell_word(name)));
  const auto program = first_line(found.output);
  if (found.exit_code != 0)
    config_error("app",
                 "{} has no '{}' that starts ({}); install it there and name it with --remote_program, or give --wheel burnish-*.whl",
                 host.address(), name, first_line(found.errors));
  const auto version = found.output.substr(std::min(program.size() + 1, found.output.size()));
  if (version != fmt::format("burnish {}\n", version_text()))
    warn("{} has {}, and here is burnish {}: options may mean other things there", host.address(), first_line(version), version_text());
  return program;
}

/// Sends what the settings name, and the settings, and starts the run.
void start_there(const remote::Host& host, const remote::Job& job, const train::TrainOptions& train, config::Fields& fields,
                 const fs::path& settings) {
  std::set<fs::path> files;
  add_datasets(train, train.data.config, files);
  files.merge(move_paths(fields));
  const std::vector<std::string> names(files.begin(), files.end());
  info("{} {} to {}, but for what is there already", join(names), names.size() == 1 ? "goes" : "go", host.address());
  host.run("mkdir -p " + shell_word(job.folder() + "/" + kFiles));
  if (!files.empty()) host.send({files.begin(), files.end()}, job.folder() + "/" + kFiles);
  io::write_text_atomic(settings, config::to_toml(fields));
  host.send_as(settings, job.folder() + "/settings.new.toml");
  job.start();
}

}  // namespace

void fields(config::Fields& fields, LaunchOverSsh& options) {
  fields.group("Another machine");
  fields("ssh", options.host, "train on this machine, which ssh reaches by a key: user@machine, or a name of ssh's settings");
  fields("remote_folder", options.folder, "folder there that runs lie in, seen from the home folder");
  fields("remote_program", options.program, "burnish there");
  fields.path("wheel", options.wheel, "wheel of burnish that is installed there first, in an environment below remote_folder");
  fields("poll_seconds", options.poll_seconds, "how often its log and previews are asked for").at_least(0.1).at_most(3600).in("s");
  fields("leave", options.leave, "start it and leave; the same command without it follows");
  fields("stop", options.stop, "have the run there end after its step, everything saved, and bring what it saved");
}

void launch_over_ssh(const LaunchOverSsh& options, const Arguments& command) {
  if (command.empty() || command.front() != "train")
    config_error(
        "launch",
        "behind its own options stands the verb train with its options; for example: burnish launch --ssh {} -- train --config run.toml",
        options.host);
  if (options.host.starts_with("-")) config_error("launch", "'{}' is no machine", options.host);
  train::TrainOptions train;
  config::Fields read, fields;
  train::fields(read, train);
  const auto parsed = read_train_options("train", "", {command.begin() + 1, command.end()}, read, train);
  if (parsed.help) return print("{}", parsed.help_text);
  train::fields(fields, train);
  for (const auto& field : fields.list())
    if (field.acts_outside && contains(train.given, field.name)) warn("{} acts on this machine, and is not taken along", field.name);

  if (train.output.overwrite)
    config_error("launch", "overwrite does not go with --ssh, where a run goes on from its state; name another output_path");
  const auto output = fs::absolute(train.output_path).lexically_normal();
  if (io::is_there(output / "log.jsonl") && !io::is_there(output / "remote.toml"))
    config_error("launch", "{} holds a run of this machine, whose files those of the other would replace; name another output_path",
                 output.string());
  const remote::Host host(options.host);
  const auto runs = from_home(options.folder), folder = runs + "/" + job_name(output);
  const remote::Job job(host, folder, options.stop ? options.program : find_program(host, options, runs));
  fs::create_directories(output);
  const auto standing = job.standing(0);
  if (!standing) data_error("launch", "the line to {} is lost; the same command goes on where it was", host.address());
  if (options.stop && !job.stop()) data_error("launch", "no run goes on in {} on {}", folder, host.address());
  const bool is_running = standing->state == remote::Job::State::running;
  if (is_running && !options.stop) info("a run goes on there, and is followed; other settings count once it has ended");
  if (!is_running && !options.stop) start_there(host, job, train, fields, output / "remote.toml");
  static const std::string kAgain = fmt::format(
      "the run goes on; the same command follows it, with --stop it ends after its step; it lies in {} on {}", folder, host.address());
  if (options.leave && options.stop) return print("the run ends after its step; the same command without --leave brings what it saved\n");
  if (options.leave) return print("{}\n", kAgain);
  watch_for_interrupt(kAgain.c_str());
  const auto every = std::chrono::milliseconds(std::llround(options.poll_seconds * 1000));
  auto say = [](const std::string& log) {
    print("{}", log);
    std::fflush(stdout);
  };
  const auto code = job.follow(output, every, say, interrupted);
  if (!code || *code == 0) return;
  std::fflush(nullptr);
  std::_Exit(*code);
}

}  // namespace burnish::app
