/* Prints the settings that its arguments name, as the drop-in has them. */
#include <stdio.h>

#include NCCL_HEADER

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const char* value = NULL;
    int length = 0;
    const ncclResult_t result = ncclParamGetParameter(argv[i], &value, &length);
    if (result != ncclSuccess) {
      printf("%s: %s\n", argv[i], ncclGetLastError(NULL));
      return 1;
    }
    printf("%s=%s\n", argv[i], value);
  }
  return 0;
}
