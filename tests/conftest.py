"""Own how properties are tested: the same examples each time, so that a change and nothing else breaks the gate.

With `OPENMEM_EXAMPLES` set, a search for new ones, which are random.
"""

import os

from hypothesis import settings

settings.register_profile("gate", derandomize=True, deadline=None)
settings.register_profile("search", deadline=None)
settings.load_profile("search" if "OPENMEM_EXAMPLES" in os.environ else "gate")
