/* Opens libnccl.so.2 by name, as Python's clients do, and prints the version it finds. */
#include <dlfcn.h>
#include <stdio.h>

int main(void) {
  void* library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  int (*get_version)(int*) = (int (*)(int*))dlsym(library, "ncclGetVersion");
  int version = 0;
  const int result = get_version(&version);
  printf("%d %d\n", result, version);
  return 0;
}
