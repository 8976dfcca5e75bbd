#include "config/problems.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "config/refusal.h"

namespace burnish::config {

namespace {

/// The end of a number whose row says none: a product of three such numbers is still finite in fp32, in which runs compute.
constexpr double kMostOfANumber = 1e12;

bool belongs_to_a_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// The words of a sentence that could be names of options.
std::vector<std::string> names_in(const std::string& sentence) {
  std::vector<std::string> words(1);
  for (char c : sentence) {
    if (belongs_to_a_name(c)) words.back() += c;
    else if (!words.back().empty()) words.emplace_back();
  }
  return words;
}

}  // namespace

void Problems::add_sentence(std::string sentence) {
  const auto known = fields_.names();
  std::string option;
  for (const auto& word : names_in(sentence)) {
    if (!contains(known, word)) continue;
    if (wrong_values_.contains(word)) return;  // of which this is what follows
    if (option.empty()) option = word;
  }
  add_about(std::move(option), std::move(sentence));
}

void Problems::add_about(std::string option, std::string sentence) {
  bool is_said = std::ranges::any_of(
      list_, [&](const auto& problem) { return option.empty() ? problem.sentence == sentence : problem.option == option; });
  if (!is_said) list_.push_back({std::move(option), std::move(sentence)});
}

void Problems::gather(const std::function<void()>& check) {
  try {
    check();
  } catch (const Refusal& refusal) {
    for (const auto& [option, sentence] : refusal.problems()) {
      if (option.empty()) add_sentence(sentence);
      else if (!wrong_values_.contains(option)) add_about(option, sentence);
    }
  } catch (const Error& error) {
    if (error.code() != Exit::config) throw;
    add_sentence(without_source(error));
  }
}

void Problems::check_values() {
  for (const auto& field : fields_.list()) check_value(field);
  for (const auto& problem : list_) wrong_values_.insert(problem.option);
}

void Problems::check_value(const Field& field) {
  const auto* text = std::get_if<std::string*>(&field.slot);
  if (text != nullptr && field.checks_choices && !contains(field.choices, **text))
    add("{} '{}' is not known; choose {}", field.name, **text, either(field.choices));
  if (const auto* number = std::get_if<double*>(&field.slot)) {
    const double least = field.least.value_or(-kMostOfANumber), most = field.most.value_or(kMostOfANumber);
    if (!std::isfinite(**number)) add("{} must be a finite number, not {}", field.name, **number);
    else if (**number < least) add("{} must be at least {}, not {}", field.name, least, **number);
    else if (**number > most) add("{} must be at most {}, not {}", field.name, most, **number);
  }
  if (const auto* number = std::get_if<int64_t*>(&field.slot)) {
    if (field.least && **number < static_cast<int64_t>(*field.least))
      add("{} must be at least {}, not {}", field.name, *field.least, **number);
    if (field.most && **number > static_cast<int64_t>(*field.most))
      add("{} must be at most {}, not {}", field.name, static_cast<int64_t>(*field.most), **number);
  }
}

void Problems::refuse(const char* room) const {
  if (!list_.empty()) throw Refusal(room, list_);
}

}  // namespace burnish::config
