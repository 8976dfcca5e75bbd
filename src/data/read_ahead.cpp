#include "data/read_ahead.h"

#include <ATen/Parallel.h>
#include <omp.h>

namespace burnish::data {

void compute_on_one_thread() {
  at::internal::lazy_init_num_threads();  // else the first operator would set all cores again
  omp_set_num_threads(1);                 // of this thread alone, while at::set_num_threads is for those that come later too
}

}  // namespace burnish::data
