/* SPDX-License-Identifier: Apache-2.0
 * SPDX-FileCopyrightText: The gpumemshim authors
 *
 * A program that says what it is at: steps, stages and a mark, through gpumemshim.h. Nothing of the recorder is linked.
 *
 *   cc -I include -I .deps/cuda/include examples/cuda_c/marks.c -L build/release/lib/simcuda -l:libcudart.so.13 -o
 * marks LD_LIBRARY_PATH=build/release/lib/simcuda gpumemshim run -- ./marks
 */

#include <cuda_runtime_api.h>
#include <gpumemshim.h>
#include <stdio.h>

enum { kSteps = 3, kLayers = 4 };

int main(void) {
  void* weights = NULL;
  void* activations[kLayers];
  gpumemshim_stage_push("load");
  if (cudaMalloc(&weights, 64 << 20) != cudaSuccess) return 1;
  gpumemshim_stage_pop();
  for (int step = 1; step <= kSteps; ++step) {
    gpumemshim_step((uint64_t)step);
    gpumemshim_stage_push("forward");
    for (int i = 0; i < kLayers; ++i) {
      if (cudaMalloc(&activations[i], (size_t)step << 20) != cudaSuccess) return 1;
    }
    gpumemshim_stage_pop();
    gpumemshim_stage_push("backward");
    for (int i = kLayers - 1; i >= 0; --i) cudaFree(activations[i]);
    gpumemshim_stage_pop();
  }
  gpumemshim_mark("trained");
  cudaFree(weights);
  printf("%d steps%s\n", kSteps, gpumemshim_recording() ? ", recorded" : "");
  return 0;
}
