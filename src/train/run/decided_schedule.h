#pragma once
#include "dist/world.h"
#include "train/course/course.h"
#include "train/plan/budget.h"
#include "train/run/opened.h"

namespace burnish::train {

/// Measures units on samples of the run, and finds the cheapest cut that keeps its budgets.
SplitPlan measure(const Opened& run, const Course& course);

/// The cheapest schedule under a budget, in place of the one that computes everything fixed once; without a budget the run's own. The first
/// process decides it for all.
pipeline::Schedule within_budget(const Opened& run, const Course& course, const dist::World& world);

}  // namespace burnish::train
