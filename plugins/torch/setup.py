"""Builds the extension with the installed torch and against libtutti.so.

libtutti.so is looked for in LIBTUTTI_ROOT (a build folder or an installed prefix), in build/ of this
checkout, and by pkg-config. A wheel carries a copy. An editable install refers to the library where it
is, and so does any with LIBTUTTI_BUNDLE=0, so that the library can be rebuilt alone.
"""

import os
import shutil
import subprocess
import sys

from setuptools import setup

try:
    import torch
    from torch.utils.cpp_extension import BuildExtension, CppExtension
except ImportError as missing:
    raise SystemExit(
        "tutti-torch is built with the torch that it will run with: install torch first, then\n"
        "  pip install --no-build-isolation ./plugins/torch") from missing

HERE = os.path.dirname(os.path.abspath(__file__))
CHECKOUT = os.path.dirname(os.path.dirname(HERE))
BUNDLE = os.environ.get("LIBTUTTI_BUNDLE", "1") != "0" and not any(
    word in sys.argv for word in ("develop", "editable_wheel"))
# What was compiled for another torch must not be taken for this one's.
BUILD = os.path.join("build", f"torch-{torch.__version__}")


def pkg_config(variable):
    command = ["pkg-config", f"--variable={variable}", "tutti"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def find_tutti():
    """The folder with tutti/tutti.h and the one with libtutti.so."""
    root = os.environ.get("LIBTUTTI_ROOT", "")
    places = [(os.path.join(base, "include"), os.path.join(base, "lib")) for base in (root,) if base]
    places += [(os.path.join(CHECKOUT, "include"), os.path.join(base, "lib"))
               for base in (root, os.path.join(CHECKOUT, "build")) if base]
    places.append((pkg_config("includedir"), pkg_config("libdir")))
    for include, library in places:
        if os.path.exists(os.path.join(include, "tutti", "tutti.h")) and \
                os.path.exists(os.path.join(library, "libtutti.so")):
            return include, library
    raise SystemExit(
        "libtutti.so was not found: build it (cmake -G Ninja -B build -S . && cmake --build build "
        "--target tutti), or set LIBTUTTI_ROOT to a build folder or to where it is installed")


def sources():
    """All files as one: what takes long is reading torch's headers."""
    folder = os.path.join(HERE, "csrc")
    names = sorted(name for name in os.listdir(folder) if name.endswith(".cc"))
    united = os.path.join(HERE, BUILD, "united.cc")
    os.makedirs(os.path.dirname(united), exist_ok=True)
    text = "".join(f'#include "{os.path.join(folder, name)}"\n' for name in names)
    if not os.path.exists(united) or open(united, encoding="utf-8").read() != text:
        with open(united, "w", encoding="utf-8") as file:
            file.write(text)
    return [os.path.relpath(united, HERE)], [f"csrc/{name}" for name in os.listdir(folder)]


include, library = find_tutti()
bundled = os.path.join(HERE, "tutti_torch", "lib")
shutil.rmtree(bundled, ignore_errors=True)
if not BUNDLE:
    rpath = library
else:
    rpath = "$ORIGIN/lib"
    os.makedirs(bundled)
    shutil.copy2(os.path.realpath(os.path.join(library, "libtutti.so")),
                 os.path.join(bundled, "libtutti.so.0"))

files, depends = sources()
setup(
    options={"build": {"build_base": BUILD}},
    ext_modules=[
        CppExtension(
            "tutti_torch._C", files, depends=depends,
            include_dirs=[include, os.path.join(HERE, "csrc")],
            library_dirs=[library], libraries=["tutti"],
            extra_compile_args=[
                "-std=c++20", "-O2", "-g0",
                "-fvisibility=hidden", "-Wall", "-Wextra", "-Wno-unused-parameter",
                f'-DTUTTI_TORCH_BUILT_FOR="{torch.__version__}"'],
            extra_link_args=[f"-Wl,-rpath,{rpath}", "-Wl,-z,nodelete"])
    ],
    cmdclass={"build_ext": BuildExtension.with_options(use_ninja=False)},
)
