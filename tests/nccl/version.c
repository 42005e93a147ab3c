/* Prints the result and the version of the NCCL that the program runs with. */
#include <stdio.h>

#include NCCL_HEADER

int main(void) {
  int version = 0;
  const int result = (int)ncclGetVersion(&version);
  printf("%d %d\n", result, version);
  return 0;
}
