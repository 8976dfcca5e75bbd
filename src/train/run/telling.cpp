#include "train/run/telling.h"

#include <algorithm>
#include <utility>

namespace burnish::train {

void Telling::add(Taken taken) {
  bool is_looked_at = false;
  for (const auto& hook : hooks_) is_looked_at = hook->looks_at(taken.report) || is_looked_at;
  untold_.push_back(std::move(taken));
  if (is_looked_at) return finish();
  while (!untold_.empty() && (untold_.size() > 1 || untold_.front().last.are_there())) tell_first();
}

void Telling::finish() {
  while (!untold_.empty()) tell_first();
}

void Telling::tell_first() {
  auto taken = std::move(untold_.front());
  untold_.pop_front();
  taken.read(taken.report);
  const auto now = std::chrono::steady_clock::now();
  taken.report.seconds = std::chrono::duration<double>(now - std::max(taken.start, told_)).count();
  told_ = now;
  for (const auto& hook : hooks_) hook->stepped(taken.report);
}

}  // namespace burnish::train
