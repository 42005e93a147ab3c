"""python -m tutti check: what is installed here. python -m tutti ARGS...: the program."""

import os
import platform
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def program():
    """The command line's program: the wheel's own, or that of the build which the package is in."""
    places = [os.path.join(HERE, "bin", "tutti"),
              os.path.join(HERE, "..", "..", "..", "bin", "tutti")]
    return next((place for place in places if os.access(place, os.X_OK)), None)


def kernels():
    """Which fold kernels the library has for CUDA; the wheel's list is written when it is built."""
    path = os.path.join(HERE, "kernels.txt")
    if not os.path.exists(path):
        return "unknown (not from a wheel)"
    with open(path, encoding="utf-8") as file:
        return file.read().strip() or "none"


def torch_line():
    try:
        import torch
    except ImportError:
        return "not installed"
    from importlib import metadata
    backends = metadata.entry_points(group="torch.distributed.backends")
    if any(entry.name == "tutti" for entry in backends):
        return f"{torch.__version__}; dist.init_process_group(\"tutti\") finds the backend"
    return f"{torch.__version__}; dist.init_process_group(\"tutti\") after import tutti.torch"


def check():
    import numpy

    import tutti
    version = tutti.library_version()
    lines = [("tutti", f"{tutti.__version__}, library {version // 10000}.{version // 100 % 100}."
                       f"{version % 100}, in {HERE}"),
             ("python", f"{platform.python_version()}, numpy {numpy.__version__}"),
             ("torch", torch_line()),
             ("program", program() or "not found"),
             ("libnccl.so.2", tutti_nccl_path() or "not found"),
             ("kernels", kernels())]
    for name, text in lines:
        print(f"{name:13} {text}")
    sums = tutti.run(lambda comm: comm.all_reduce(numpy.full(1000, comm.rank + 1.0))[0], ranks=2)
    print(f"{'all_reduce':13} {'good' if sums == [3.0, 3.0] else f'WRONG: {sums}'}, 2 ranks as threads")
    return 0 if sums == [3.0, 3.0] else 1


def tutti_nccl_path():
    from tutti import _places
    return _places.nccl()


def main():
    if sys.argv[1:] == ["check"]:
        return check()
    if not sys.argv[1:]:
        print("python -m tutti check      versions, what was found, and one all_reduce\n"
              "python -m tutti ARGS...    the program: perf, verify, explain, timeline, run ...")
        return 2
    path = program()
    if path is None:
        print("tutti: the program is not part of this installation; build it with "
              "cmake --build build --target tutti_program", file=sys.stderr)
        return 3
    os.execv(path, [path, *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
