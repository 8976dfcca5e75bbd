#include "optim/arguments.h"

#include <algorithm>
#include <cmath>

#include "base/input_error.h"
#include "base/number.h"
#include "base/text.h"

namespace burnish::optim {

Arguments::Arguments(std::string optimizer, const std::string& text) : optimizer_(std::move(optimizer)) {
  for (const std::string& part : split_list(text)) {
    const size_t equals = part.find('=');
    if (equals == std::string::npos && !entries_.empty()) {  // goes on with a list: "betas=0.9,0.99"
      entries_.back().value += "," + part;
      continue;
    }
    const std::string key(trim(part.substr(0, equals)));
    if (equals == std::string::npos || key.empty() || equals + 1 == part.size())
      config_error("optim", "optimizer_args must be a comma list of key=value, found '{}'", part);
    if (std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.key == key; }))
      config_error("optim", "optimizer_args gives '{}' twice; take one of them out", key);
    entries_.push_back({key, std::string(trim(part.substr(equals + 1)))});
  }
}

const std::string* Arguments::find(const std::string& key) {
  known_.push_back(key);
  auto it = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.key == key; });
  if (it == entries_.end()) return nullptr;
  it->taken = true;
  return &it->value;
}

double Arguments::number(const std::string& key, const std::string& text) const {
  const auto value = parse_number<double>(text);
  if (!value) config_error("optim", "{} of {} must be a number, found '{}'", key, optimizer_, text);
  return *value;
}

void Arguments::take(const std::string& key, double& value, double least, double below) {
  const std::string* text = find(key);
  if (text == nullptr) return;
  value = number(key, *text);
  if (!(value >= least && value < below))
    config_error("optim", "{} of {} must lie in [{}, {}), found {}", key, optimizer_, least, below, *text);
}

void Arguments::take(const std::string& key, int64_t& value, int64_t least) {
  const std::string* text = find(key);
  if (text == nullptr) return;
  const double found = number(key, *text);
  if (!(found >= static_cast<double>(least) && found == std::floor(found) && found < 0x1p53))
    config_error("optim", "{} of {} must be a whole number of at least {}, found {}", key, optimizer_, least, *text);
  value = static_cast<int64_t>(found);
}

void Arguments::take(const std::string& key, bool& value) {
  const std::string* text = find(key);
  if (text == nullptr) return;
  if (*text != "true" && *text != "True" && *text != "false" && *text != "False")
    config_error("optim", "{} of {} must be true or false, found '{}'", key, optimizer_, *text);
  value = *text == "true" || *text == "True";
}

void Arguments::take(const std::string& key, std::string& value, const std::vector<std::string>& choices) {
  const std::string* text = find(key);
  if (text == nullptr) return;
  if (!contains(choices, *text)) config_error("optim", "{} of {} must be one of {}, found '{}'", key, optimizer_, join(choices), *text);
  value = *text;
}

void Arguments::take_betas(double& beta1, double& beta2) {
  if (const std::string* text = find("betas")) {
    std::string list = *text;  // (0.9, 0.99) is welcome too
    std::replace_if(
        list.begin(), list.end(), [](char c) { return c == '(' || c == ')'; }, ' ');
    const std::vector<std::string> parts = split_list(list);
    if (parts.size() != 2) config_error("optim", "betas of {} must be two numbers, found '{}'", optimizer_, *text);
    beta1 = number("betas", parts[0]);
    beta2 = number("betas", parts[1]);
    if (!(std::min(beta1, beta2) >= 0 && std::max(beta1, beta2) < 1))
      config_error("optim", "betas of {} must lie in [0, 1), found {}", optimizer_, *text);
  }
  take("beta1", beta1, 0, 1);
  take("beta2", beta2, 0, 1);
}

void Arguments::finish() const {
  for (const Entry& entry : entries_) {
    if (entry.taken) continue;
    const std::string nearest = nearest_name(entry.key, known_);
    config_error("optim", "optimizer_args: {} has no '{}'{}; it takes {}", optimizer_, entry.key,
                 nearest.empty() ? "" : fmt::format(", did you mean '{}'?", nearest), join(known_));
  }
}

}  // namespace burnish::optim
