#include "dist/launch.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "app/launch_over_ssh.h"
#include "app/train_options.h"
#include "app/verbs.h"
#include "base/input_error.h"
#include "base/say.h"
#include "config/command_line.h"

namespace burnish::app {

namespace {

/// What stands behind "--" is the command, which otherwise begins at its verb; what stands before are options of the launcher.
struct Split {
  Arguments own, command;
};

Split split(const Arguments& arguments) {
  auto end = std::ranges::find_if(arguments, [](const auto& word) { return word == "--" || word == "train" || word == "cache"; });
  bool is_dashes = end != arguments.end() && *end == "--";
  Split split{{arguments.begin(), end}, {is_dashes ? end + 1 : end, arguments.end()}};
  std::ranges::replace(split.own, std::string("-n"), std::string("--num_processes"));
  return split;
}

}  // namespace

void launch(const Arguments& arguments) {
  int64_t count = 0;
  std::string config_file;
  config::Fields fields;
  fields.group("Processes");
  fields("num_processes", count, "to start on this machine, one for each GPU; also -n");
  fields.path("config_file", config_file, "YAML of `accelerate config`: says how many unless -n does, and goes to the command");
  LaunchOverSsh remote;
  app::fields(fields, remote);
  auto [own, command] = split(arguments);
  auto parsed =
      config::read_command_line("launch", "start a training run in several processes of this machine, or on another one", own, fields);
  if (parsed.help) return print("{}", parsed.help_text);
  if (!remote.host.empty()) return launch_over_ssh(remote, command);
  constexpr const char* kExample = "for example: burnish launch -n 2 -- train --config run.toml";
  if (count == 0 && !config_file.empty()) count = processes_of(config_file);
  if (count < 1 || count > 1024) config_error("launch", "num_processes must lie between 1 and 1024, not {}; {}", count, kExample);
  if (command.empty() || (command.front() != "train" && command.front() != "cache"))
    config_error("launch", "behind its own options stands the verb train or cache with its options; {}", kExample);
  if (!config_file.empty()) command.insert(command.end(), {"--config_file", config_file});
  command.insert(command.begin(), std::filesystem::read_symlink("/proc/self/exe").string());
  std::string said;
  auto code = dist::launch(count, command, said);
  if (code == 0) return;
  if (!said.empty()) tell(stderr, "[launch] {}\n", said);
  std::fflush(nullptr);
  std::_Exit(code);  // as main does
}

}  // namespace burnish::app
