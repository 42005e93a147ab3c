"""Where the parts of this installation are."""

import os

HERE = os.path.dirname(os.path.abspath(__file__))


def nccl():
    """libnccl.so.2 of Tutti: beside the package in a wheel, or of the build that it is in."""
    places = [os.path.join(HERE, "lib", "nccl", "libnccl.so.2"),
              os.path.join(HERE, "..", "..", "nccl", "libnccl.so.2")]
    return next((os.path.abspath(place) for place in places if os.path.exists(place)), None)
