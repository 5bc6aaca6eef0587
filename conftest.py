"""For all tests: a learner's progress is neither read nor changed."""

import os
import tempfile

os.environ["PAGEDKV_PROGRESS"] = os.path.join(tempfile.mkdtemp(prefix="pagedkv-"), "progress.json")
