/* A libcuda.so.1 with two functions, for whom the first half of device_memory is a GPU's and the
 * second is managed. */
#include <stdint.h>

char device_memory[4096];

int cuPointerGetAttribute(void* value, int attribute, uint64_t pointer) {
  const uint64_t offset = pointer - (uint64_t)(uintptr_t)device_memory;
  if (offset >= sizeof device_memory) return 1;
  *(unsigned*)value = attribute == 2 ? 2 : offset >= sizeof device_memory / 2;
  return 0;
}

int cuCtxGetDevice(int* device) {
  *device = 3;
  return 0;
}
