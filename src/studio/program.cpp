#include "studio/program.h"

#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/text.h"
#include "io/files.h"

namespace burnish::studio {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {
constexpr auto kMostTime = std::chrono::minutes(5);
constexpr size_t kMostBytes = 8 << 20;
constexpr int kMostAtOnce = 2;

/// What the program said at last of why it ended.
std::string sentence_of(const Said& said) {
  if (!said.is_whole) return "it took too long, or said too much, and was ended";
  auto lines = split_list(said.errors, '\n');
  return lines.empty() ? fmt::format("it ended with exit code {}", said.exit_code) : lines.back();
}
}  // namespace

Said Program::run(const std::vector<std::string>& words) {
  std::unique_lock lock(mutex_);
  freed_.wait(lock, [this] { return num_running_ < kMostAtOnce; });
  ++num_running_;
  lock.unlock();
  Command command{.words = {path_}, .folder = workspace_.root()};
  command.words.insert(command.words.end(), words.begin(), words.end());
  auto said = run_process(command, kMostTime, kMostBytes);
  lock.lock();
  --num_running_;
  freed_.notify_one();
  return said;
}

json Program::plan(const std::string& settings, bool wants_fit) {
  fs::path draft;
  {
    std::lock_guard lock(mutex_);
    draft = workspace_.queue() / fmt::format(".draft-{}-{}.toml", getpid(), ++num_drafts_);
  }
  io::write_text_atomic(draft, settings);
  std::vector<std::string> words{"plan", draft.string(), "--json"};
  if (wants_fit) words.emplace_back("--fit");
  if (trusts_settings_) words.emplace_back("--trust_settings");
  auto said = run(words);
  std::error_code ignored;
  fs::remove(draft, ignored);
  auto value = json::parse(said.output, nullptr, /*allow_exceptions=*/false);
  if (value.is_object() && value.contains("problems")) return value;
  json answer{{"exit_code", said.exit_code}};
  if (value.is_object()) answer["plan"] = std::move(value);
  if (said.exit_code != 0) answer["sentence"] = sentence_of(said);
  return answer;
}

}  // namespace burnish::studio
