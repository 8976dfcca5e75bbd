#include "studio/program.h"

#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/input_error.h"
#include "base/text.h"
#include "io/files.h"

namespace burnish::studio {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {
constexpr auto kMostTime = std::chrono::minutes(5);
constexpr size_t kMostBytes = 8 << 20;
constexpr int kMostAtOnce = 2;
}  // namespace

std::vector<std::string> variables_with(const std::vector<std::string>& others) {
  auto variables = own_variables();
  for (const auto& other : others) {
    const auto name = other.substr(0, other.find('=') + 1);
    std::erase_if(variables, [&](const std::string& one) { return one.starts_with(name); });
  }
  variables.insert(variables.end(), others.begin(), others.end());
  return variables;
}

std::string spoken(std::string line) {
  for (auto end = line.find("] "); line.starts_with('[') && end != line.npos; end = line.find("] ")) line.erase(0, end + 2);
  return line;
}

std::string sentence_of(const Said& said) {
  if (!said.is_whole) return "it took too long, or said too much, and was ended";
  auto lines = split_list(said.errors, '\n');
  if (lines.empty()) return fmt::format("it ended with exit code {}", said.exit_code);
  return spoken(lines.back());
}

std::string Program::options_of(const std::string& verb) {
  {
    std::lock_guard lock(mutex_);
    if (auto known = options_.find(verb); known != options_.end()) return known->second;
  }
  auto said = run({"help", verb, "--json"});
  if (said.exit_code != 0) config_error("studio", "the options of {} are not known: {}", verb, sentence_of(said));
  std::lock_guard lock(mutex_);
  return options_[verb] = said.output;
}

Command Program::command_of(const std::vector<std::string>& words, const std::vector<std::string>& variables) const {
  Command command{.words = {path_}, .variables = variables_with(variables), .folder = workspace_.root()};
  command.words.insert(command.words.end(), words.begin(), words.end());
  return command;
}

Said Program::run_at_once(const std::vector<std::string>& words, const std::vector<std::string>& variables) {
  std::unique_lock lock(mutex_);
  auto standby = standby_variables_ == variables ? std::move(standby_) : nullptr;
  lock.unlock();
  auto said = standby ? standby->go_on(json(words).dump(), kMostTime, kMostBytes) : std::nullopt;
  if (!said) said = run_process(command_of(words, variables), kMostTime, kMostBytes);
  auto next = std::make_unique<Standby>(command_of({kStandby}, variables));
  lock.lock();
  if (!standby_ || standby_variables_ != variables) standby_ = std::move(next), standby_variables_ = variables;
  return *said;
}

Said Program::run(const std::vector<std::string>& words, const std::vector<std::string>& variables) {
  std::unique_lock lock(mutex_);
  freed_.wait(lock, [this] { return num_running_ < kMostAtOnce; });
  ++num_running_;
  lock.unlock();
  // Only plans are asked again and again, as somebody types.
  auto said = words.front() == "plan" ? run_at_once(words, variables) : run_process(command_of(words, variables), kMostTime, kMostBytes);
  lock.lock();
  --num_running_;
  freed_.notify_one();
  return said;
}

json Program::json_of(const std::vector<std::string>& words) {
  const auto said = run(words);
  auto value = json::parse(said.output, nullptr, /*allow_exceptions=*/false);
  if (said.exit_code != 0 || value.is_discarded()) config_error("studio", "{}", sentence_of(said));
  return value;
}

Said Program::run_on(const std::string& settings, std::vector<std::string> words, const std::vector<std::string>& variables) {
  fs::path draft;
  {
    std::lock_guard lock(mutex_);
    draft = workspace_.queue() / fmt::format(".draft-{}-{}.toml", getpid(), ++num_drafts_);
  }
  io::write_text_atomic(draft, settings);
  words.push_back(draft.string());
  std::vector<std::string> all{"HF_HUB_OFFLINE=1", "DIFFSYNTH_SKIP_DOWNLOAD=True"};  // what is only looked at fetches nothing
  all.insert(all.end(), variables.begin(), variables.end());
  auto said = run(words, all);
  std::error_code ignored;
  fs::remove(draft, ignored);
  return said;
}

json Program::plan(const std::string& settings, const std::string& option, const std::vector<std::string>& variables) {
  std::vector<std::string> words{"plan", "--json"};
  if (!option.empty()) words.push_back("--" + option);
  if (trusts_settings_) words.emplace_back("--trust_settings");
  words.emplace_back("--config");
  return answer_of(run_on(settings, words, variables), "plan");
}

json answer_of(const Said& said, const std::string& name) {
  auto value = json::parse(said.output, nullptr, /*allow_exceptions=*/false);
  if (value.is_object() && value.contains("problems")) return value;
  json answer{{"exit_code", said.exit_code}};
  if (value.is_object()) answer[name] = std::move(value);
  if (said.exit_code != 0) answer["sentence"] = sentence_of(said);
  return answer;
}

}  // namespace burnish::studio
