# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The data path of a training: collect text, make shards of tokens, feed them to the ranks.

``python -m mlcluster_data --help`` lists the commands. Python 3.10 or newer; ``validate`` and ``collect`` need the
standard library only.
"""
