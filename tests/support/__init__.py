"""What tests share. What its modules assert fails with both sides printed, as an assertion of a test does."""

import sys
from pathlib import Path

if "pytest" in sys.modules:
    modules = (f"{__name__}.{file.stem}" for file in Path(__file__).parent.glob("[!_]*.py"))
    sys.modules["pytest"].register_assert_rewrite(*modules)
