#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/judged_run.h"
#include "base/count.h"
#include "base/text.h"

namespace burnish::app {

namespace {

using nlohmann::json;

const records::Save& save_of(const JudgedRun& judged, int64_t step) { return *std::ranges::find(judged.saves, step, &records::Save::step); }

/// A number of a column, or a dash where nothing was measured.
std::string cell(const std::optional<double>& value, int digits) { return value ? fmt::format("{:.{}f}", *value, digits) : "-"; }

std::string line_of(const judging::Judged& save, size_t place) {
  std::optional<double> likeness, nearest;
  std::optional<judging::Scores> s = save.scores;
  if (s) likeness = s->likeness, nearest = s->nearest;
  auto of = [&](std::optional<double> judging::Scores::*value) { return cell(s ? (*s).*value : std::nullopt, 3); };
  std::string note;
  if (save.is_overfit) note += "  overfitted";
  if (s && s->num_copies > 0) note += "  " + count_of(s->num_copies, "copy", "copies");
  if (s && s->memorises) note += "  by heart";
  using S = judging::Scores;
  return fmt::format("{:>5}  {:>8}  {:>5.2f}  {:>10}  {:>8}  {:>8}  {:>6}  {:>6}  {:>7}  {:>7}  {:>6}{}\n", place, save.step, save.mark,
                     cell(save.validation_loss, 5), cell(likeness, 3), of(&S::held_out), of(&S::memory), of(&S::answer), of(&S::variety),
                     cell(nearest, 3), of(&S::drift), note);
}

std::string overfitting_of(const JudgedRun& judged) {
  if (!judged.overfitting) return "overfitting was not seen\n";
  const auto& overfitting = *judged.overfitting;
  std::vector<std::string> reasons;
  if (overfitting.by_validation) reasons.emplace_back("the validation loss did not fall any more");
  if (overfitting.by_copies) reasons.emplace_back("previews since are copies of training pictures");
  if (overfitting.by_held_out) reasons.emplace_back("previews since are nearer to training pictures than to held-out ones");
  return fmt::format("overfitting began after step {}: {}\n", overfitting.after, join(reasons, ", and "));
}

/// Names the two pictures that are most alike of saves with a copy.
std::string copies_of(const JudgedRun& judged) {
  std::string text;
  for (const auto& save : judged.ranked) {
    if (!save.scores || save.scores->num_copies == 0) continue;
    text += fmt::format("  preview {:02} of step {} and {}: {:.3f}\n", save.scores->nearest_preview, *save.drawn_at,
                        judged.training[static_cast<size_t>(save.scores->nearest_row)].string(), save.scores->nearest);
  }
  return text.empty() ? "" : fmt::format("\nnearer to a training picture than {:.3f}\n{}", judged.copies_from, text);
}

json json_of(const std::optional<double>& value) { return value ? json(*value) : json(); }

json json_of(const JudgedRun& judged, const judging::Judged& save) {
  auto files = json::array();
  for (const auto& file : save_of(judged, save.step).files) files.push_back(file.string());
  json one{{"step", save.step},
           {"files", files},
           {"mark", save.mark},
           {"is_overfit", save.is_overfit},
           {"validation_loss", json_of(save.validation_loss)},
           {"drawn_at", save.drawn_at ? json(*save.drawn_at) : json()}};
  if (!save.scores) return one;
  const auto& s = *save.scores;
  one.update({{"likeness", s.likeness},
              {"answer", json_of(s.answer)},
              {"variety", json_of(s.variety)},
              {"drift", json_of(s.drift)},
              {"held_out", json_of(s.held_out)},
              {"memory", json_of(s.memory)},
              {"memorises", s.memorises},
              {"nearest",
               {{"likeness", s.nearest},
                {"preview", s.nearest_preview},
                {"picture", judged.training[static_cast<size_t>(s.nearest_row)].string()}}},
              {"copies", s.num_copies}});
  return one;
}

}  // namespace

std::string text_of(const JudgedRun& judged, const std::filesystem::path& run) {
  const auto& first = judged.ranked.front();
  const auto held_out = judged.num_held_out > 0 ? " and " + count_of(judged.num_held_out, "held-out one") : "";
  auto text = fmt::format("{}: {}{}\n\n", run.string(), count_of(std::ssize(judged.ranked), "save"),
                          judged.seen_by.empty() ? ""
                                                 : fmt::format(", previews seen by {} beside {}", judged.seen_by,
                                                               count_of(std::ssize(judged.training), "training picture") + held_out));
  text += fmt::format("{:>5}  {:>8}  {:>5}  {:>10}  {:>8}  {:>8}  {:>6}  {:>6}  {:>7}  {:>7}  {:>6}\n", "place", "step", "mark",
                      "validation", "likeness", "held-out", "memory", "answer", "variety", "nearest", "drift");
  for (size_t i = 0; i < judged.ranked.size(); ++i) text += line_of(judged.ranked[i], i + 1);
  text += "\n" + overfitting_of(judged) + copies_of(judged);
  for (const auto& sentence : judged.missing) text += sentence + "\n";
  text += fmt::format("\ntake step {}: {}\n", first.step, judging::why_first(judged.ranked));
  for (const auto& file : save_of(judged, first.step).files) text += "  " + file.string() + "\n";
  return text;
}

nlohmann::json json_of(const JudgedRun& judged) {
  auto saves = json::array();
  for (const auto& save : judged.ranked) saves.push_back(json_of(judged, save));
  json overfitting;
  if (judged.overfitting)
    overfitting = {{"after", judged.overfitting->after},
                   {"by_validation", judged.overfitting->by_validation},
                   {"by_copies", judged.overfitting->by_copies},
                   {"by_held_out", judged.overfitting->by_held_out}};
  return {{"take", judged.ranked.front().step},
          {"why", judging::why_first(judged.ranked)},
          {"overfitting", overfitting},
          {"seen_by", judged.seen_by},
          {"copies_from", judged.seen_by.empty() ? json() : json(judged.copies_from)},
          {"num_held_out", judged.num_held_out},
          {"missing", judged.missing},
          {"saves", saves}};
}

}  // namespace burnish::app
