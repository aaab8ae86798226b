"""Doc."""
from __future__ import annotations
def f(x: Undefined): return 1
print(f(0))
