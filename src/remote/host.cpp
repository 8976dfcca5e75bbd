#include "remote/host.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/input_error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/shell_word.h"
#include "base/text.h"

namespace burnish::remote {

namespace {

using namespace std::chrono_literals;

constexpr int kLostLine = 255;  // the exit code of ssh itself (ssh(1))
constexpr size_t kMostBytes = 16 << 20;

/// Options of ssh with which it never asks, and knows within half a minute that a line is dead.
const std::vector<std::string> kSsh{
    "ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=10", "-o", "ServerAliveCountMax=3"};

/// Codes with which rsync ends when the connection did (rsync(1)): streams, protocol, timeouts, and ssh's own.
bool is_lost_line(int code) { return code == kLostLine || code == 10 || code == 12 || code == 30 || code == 35; }

/// The last line that says something.
std::string last_line(const std::string& text) {
  auto lines = split_list(text, '\n');
  std::erase_if(lines, [](const auto& line) { return line.find_first_not_of(" \r\t") == line.npos; });
  return lines.empty() ? "nothing was said" : lines.back();
}

}  // namespace

std::optional<Said> Host::try_run(const std::string& script) const {
  auto words = kSsh;
  words.insert(words.end(), {"--", address_, "sh -c " + shell_word(script)});
  auto said = run_process({.words = words}, 60s, kMostBytes);
  if (said.exit_code == kLostLine || !said.is_whole) return std::nullopt;
  return said;
}

Said Host::run(const std::string& script) const {
  auto words = kSsh;
  words.insert(words.end(), {"--", address_, "sh -c " + shell_word(script)});
  auto said = run_process({.words = words}, 2h, kMostBytes);
  if (said.exit_code == kLostLine)
    config_error("remote", "{} cannot be reached: {}; `ssh {}` has to work by a key, without a question", address_, last_line(said.errors),
                 address_);
  if (!said.is_whole) data_error("remote", "{} did not answer in two hours", address_);
  return said;
}

bool Host::transfer(const std::vector<std::string>& words, int num_tries) const {
  std::vector<std::string> all{"rsync", "-e", join(kSsh, " "), "-rLt", "--partial-dir=.rsync-partial", "--mkpath"};
  all.insert(all.end(), words.begin(), words.end());
  for (int tried = 1;; ++tried) {
    const auto said = run_process({.words = all}, 24h * 7, kMostBytes);
    if (said.exit_code == 0 || said.exit_code == 24) return true;  // 24: a file was gone when its turn came
    if (!is_lost_line(said.exit_code))
      data_error("remote", "files do not come through between here and {}: {}{}", address_, last_line(said.errors),
                 said.errors.find("No space left") != said.errors.npos ? "; the disk is full" : "");
    if (tried >= num_tries || interrupted()) return false;
    warn("the line to {} is lost; trying again", address_);
    std::this_thread::sleep_for(std::chrono::seconds(std::min(1 << tried, 30)));
  }
}

void Host::send(const std::vector<std::filesystem::path>& files, const std::string& folder) const {
  std::vector<std::string> words{"--relative", "--delete"};
  for (const auto& file : files) words.push_back(file.string());
  words.push_back(address_ + ":" + folder + "/");
  if (!transfer(words, 6)) data_error("remote", "the line to {} is lost; the same command goes on where it was", address_);
}

void Host::send_as(const std::filesystem::path& file, const std::string& name) const {
  if (!transfer({file.string(), address_ + ":" + name}, 6))
    data_error("remote", "the line to {} is lost; the same command goes on where it was", address_);
}

bool Host::fetch(const std::string& folder, const std::filesystem::path& to, const std::vector<std::string>& without) const {
  std::vector<std::string> words;
  for (const auto& pattern : without) words.push_back("--exclude=" + pattern);
  words.insert(words.end(), {address_ + ":" + folder + "/", to.string() + "/"});
  return transfer(words, 1);
}

}  // namespace burnish::remote
