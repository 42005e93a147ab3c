#include "tests/software_nccl/library/board.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <cstdio>

namespace softnccl {

void name_board(char* id) {
  unsigned long long chance = 0;
  if (getrandom(&chance, sizeof(chance), 0) < 0) chance = static_cast<unsigned>(getpid());
  std::snprintf(id, 40, "/softnccl-%016llx", chance);
}

std::shared_ptr<BoardLayout> open_board(const char* id, int ranks) {
  const int file = shm_open(id, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return nullptr;
  void* memory = MAP_FAILED;
  if (ftruncate(file, sizeof(BoardLayout)) == 0) {
    memory = mmap(nullptr, sizeof(BoardLayout), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  close(file);
  if (memory == MAP_FAILED) return nullptr;
  auto* const board = static_cast<BoardLayout*>(memory);
  if (board->arrived.fetch_add(1) + 1 == static_cast<uint32_t>(ranks)) shm_unlink(id);
  return {board, [](BoardLayout* mapped) { munmap(mapped, sizeof(BoardLayout)); }};
}

}  // namespace softnccl
