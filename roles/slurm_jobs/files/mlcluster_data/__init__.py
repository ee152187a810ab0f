# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The data path of a training: collect text, make shards of tokens, feed them to the ranks.

``python -m mlcluster_data --help`` lists the commands. Python 3.10 or newer; ``validate`` and ``collect`` need the
standard library only, and so does ``hold``, which a job starts with the Python of the nodes: 3.9 or newer.
"""

import sys

# Checked here, in syntax that Python 3.6 also reads: it cannot parse the other modules.
if sys.argv[0] == "-m":
    _oldest, _variable = ((3, 9), "") if sys.argv[1:2] == ["hold"] else ((3, 10), "data_")
    if sys.version_info < _oldest:
        sys.stderr.write(
            f"mlcluster_data needs Python {_oldest[0]}.{_oldest[1]} or newer and {sys.executable} is "
            f"{sys.version_info[0]}.{sys.version_info[1]}: start it with a newer one, a job by "
            f"slurm_jobs_{_variable}python\n"
        )
        sys.exit(3)
