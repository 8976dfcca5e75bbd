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
#include "base/input_error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/say.h"
#include "base/text.h"
#include "io/files.h"
#include "remote/job.h"

namespace burnish::app {

namespace {

namespace fs = std::filesystem;

constexpr const char* kFiles = "files";  // of a job: what its settings name, each at its own whole path below

/// The part of a path's text that is there: all of it, or what stands before ":STRENGTH".
std::string there_of(const std::string& text) {
  const auto colon = text.rfind(':');
  if (io::is_there(text) || colon == text.npos || colon == 0) return text;
  return io::is_there(text.substr(0, colon)) ? text.substr(0, colon) : text;
}

/// Has a text that names a path name the one on the other machine; files that are here are collected. A table goes with its folder, from
/// which its rows name theirs.
void move_path(std::string& text, bool is_table, std::set<fs::path>& files) {
  if (!fs::path(text).is_absolute()) return;  // the id of a model on a hub
  const auto there = fs::path(there_of(text)).lexically_normal();
  if (io::is_there(there)) files.insert(is_table && !io::is_folder(there) ? there.parent_path() : there);
  text = kFiles + fs::path(text).lexically_normal().string();
}

/// Has all options that name files name those on the other machine, and returns the files that they name here.
std::set<fs::path> move_paths(config::Fields& fields) {
  std::set<fs::path> files;
  fields.each([&](config::Field& field) {
    config::relocate(field, fs::current_path());
    if (!field.relocate || field.name == "output_path") return;
    const bool is_table = field.name.ends_with("metadata_path");
    if (auto* text = std::get_if<std::string*>(&field.slot)) move_path(**text, is_table, files);
    if (auto* list = std::get_if<std::vector<std::string>*>(&field.slot))
      for (auto& text : **list) move_path(text, is_table, files);
  });
  return files;
}

/// Adds what the datasets of a dataset_config name, which has to be seen from that file, since it goes there as it is.
void add_datasets(const train::TrainOptions& options, const std::string& config, std::set<fs::path>& files) {
  if (config.empty()) return;
  for (auto dataset : train::read_dataset_config(config, options.dataset)) {
    config::Fields fields;
    train::fields(fields, dataset);
    fields.path("dataset_base_path", dataset.base_path, "");
    fields.path("dataset_metadata_path", dataset.metadata_path, "");
    files.merge(move_paths(fields));
  }
}

/// The run's name, of letters that a shell and a path take as they are.
std::string job_name(const fs::path& output) {
  auto name = (output.has_filename() ? output : output.parent_path()).filename().string();
  std::ranges::replace_if(
      name, [](unsigned char c) { return !std::isalnum(c) && c != '-' && c != '_' && c != '.'; }, '-');
  return name.empty() || name == "." || name == ".." ? "run" : name;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// Finds burnish there, or puts it there from a wheel; returns the program's name there.
std::string find_program(const remote::Host& host, const LaunchOverSsh& options) {
  auto program = options.program;
  if (!options.wheel.empty()) {
    const auto wheel = fs::path(options.wheel).filename().string(), env = options.folder + "/environment";
    program = "$HOME/" + env + "/bin/burnish";
    info("installing {} on {}: torch comes along, some gigabytes the first time", wheel, host.address());
    host.run("mkdir -p " + remote::shell_word(options.folder));
    host.send_as(fs::absolute(options.wheel), options.folder + "/" + wheel);
    const auto said = host.run(
        fmt::format("cd {} && {{ [ -x environment/bin/pip ] || python3 -m venv environment; }} && environment/bin/pip install --quiet "
                    "--disable-pip-version-check {} 2>&1",
                    remote::shell_word(options.folder), remote::shell_word(wheel)));
    if (said.exit_code != 0) data_error("app", "{} cannot install {}: {}", host.address(), wheel, said.output);
  }
  const auto said = host.run(program + " --version");
  if (said.exit_code != 0)
    config_error("app",
                 "{} has no '{}' that starts ({}); install it there and name it with --remote_program, or give --wheel burnish-*.whl",
                 host.address(), program, first_line(said.errors));
  if (said.output != fmt::format("burnish {}\n", version_text()))
    warn("{} has {}, and here is burnish {}: options may mean other things there", host.address(), first_line(said.output), version_text());
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
  host.run("mkdir -p " + remote::shell_word(job.folder() + "/" + kFiles));
  if (!files.empty()) host.send({files.begin(), files.end()}, job.folder() + "/" + kFiles);
  io::AtomicFile file(settings);
  const auto text = config::to_toml(fields);
  file.write(text.data(), text.size());
  file.commit();
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

  const auto output = fs::absolute(train.output_path).lexically_normal();
  const remote::Host host(options.host);
  const auto folder = options.folder + "/" + job_name(output);
  const remote::Job job(host, folder, options.stop ? options.program : find_program(host, options));
  fs::create_directories(output);
  const auto standing = job.standing(0);
  if (options.stop && !job.stop()) data_error("launch", "no run goes on in {} on {}", folder, host.address());
  if (!options.stop && (!standing || standing->state != remote::Job::State::running))
    start_there(host, job, train, fields, output / "remote.toml");
  static const std::string kAgain = fmt::format(
      "the run goes on; the same command follows it, with --stop it ends after its step; it lies in {} on {}", folder, host.address());
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
