#pragma once
#include <functional>

#include "app/verbs.h"
#include "config/command_line.h"
#include "train/options/train_options.h"

namespace burnish::app {

/// Reads the command line of a verb that takes the options of train: `fields` are those of `options` and what the verb has besides. Adds
/// config_file, a file of accelerate: what it says lies below what --config and the command line say, and becomes options with a line for
/// each of its keys, which the first of several processes prints. `prepare` has the options say what the verb makes of them, before what is
/// wrong with them is said together with what is wrong on the command line.
config::Parsed read_train_options(const char* verb, const char* summary, const Arguments& arguments, config::Fields& fields,
                                  train::TrainOptions& options, const std::function<void()>& prepare = {});

/// Returns what accelerate's file says of the number of processes; 1 where it says nothing. A config Error for several machines, whose
/// processes nobody here can start.
int64_t processes_of(const std::string& config_file);

}  // namespace burnish::app
