import subprocess
import sys

from streamer.garbage import YOUNG_OBJECTS

# A process of its own: what is frozen there is not frozen for the other tests.
_SCRIPT = """
import gc, weakref
from streamer.garbage import freeze_gc
class Node: pass
freeze_gc()
assert gc.get_freeze_count() > 1_000
node = Node()
node.itself = node
seen = weakref.ref(node)
del node
later = [[] for _ in range({young} + 1)]
assert seen() is None
"""


def test_what_is_there_is_left_out_and_later_cycles_are_found() -> None:
    subprocess.run([sys.executable, "-c", _SCRIPT.format(young=YOUNG_OBJECTS)], check=True)
