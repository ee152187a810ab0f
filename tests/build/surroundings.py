# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The environment of tests: the same for every user and every place that starts them.

A job of Slurm, a service, nohup and a terminal hand on variables, a umask and ignored signals, all of which programs
heed. Tests get none of it but what names this machine's places, its package index and its processor.
"""

from __future__ import annotations

import os
import re
import signal
import tempfile
from collections.abc import Mapping

KEPT = frozenset(
    # Owner of caches and programs.
    "HOME LD_LIBRARY_PATH LOGNAME PATH PYENV_ROOT PYENV_VERSION TMPDIR USER XDG_CACHE_HOME XDG_RUNTIME_DIR "
    # Sources of packages, and their certificates.
    "CURL_CA_BUNDLE HTTPS_PROXY HTTP_PROXY REQUESTS_CA_BUNDLE SSL_CERT_DIR SSL_CERT_FILE http_proxy https_proxy "
    "PIP_CACHE_DIR PIP_CERT PIP_CLIENT_CERT PIP_CONFIG_FILE PIP_CONSTRAINT PIP_DEFAULT_TIMEOUT PIP_EXTRA_INDEX_URL "
    "PIP_FIND_LINKS PIP_INDEX_URL PIP_NO_INDEX PIP_PROXY PIP_RETRIES PIP_TRUSTED_HOST "
    # Without these, some processors compute wrong results.
    "NVPL_BLAS_DEBUG_CPU_TYPE OPENBLAS_CORETYPE OPENBLAS_L2_SIZE "
    # Settings of the run, not of the tests' environment.
    "PYTHONDONTWRITEBYTECODE PYTHONUNBUFFERED".split()
)
KEPT_PREFIXES = ("COVERAGE_", "COV_CORE_", "GIT_CONFIG_", "MLCLUSTER_TEST_", "PYTEST_")
# The servers of tests are here: no proxy may stand before them.
HERE = ("127.0.0.1", "localhost")
INHERITED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
UMASK = 0o022


def variables(given: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of tests, from that of the calling process."""
    result = {name: value for name, value in given.items() if name in KEPT or name.startswith(KEPT_PREFIXES)}
    # Slurm takes no path with a blank in it for its scripts, nor do the roles.
    if not re.fullmatch(r"[\w./-]+", result.get("TMPDIR", "")):
        result.pop("TMPDIR", None)
    direct = given.get("no_proxy") or given.get("NO_PROXY") or ""
    result["no_proxy"] = result["NO_PROXY"] = ",".join(dict.fromkeys([*HERE, *filter(None, direct.split(","))]))
    # Tests read every task, and not only what the callback of the checkout makes of them.
    return {**result, "LC_ALL": "C.UTF-8", "TZ": "UTC", "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default"}


def settle() -> None:
    """Give this process, and with it all that it starts, the surroundings of tests."""
    wanted = variables(os.environ)
    os.environ.clear()
    os.environ.update(wanted)
    # pytest has looked for it already.
    tempfile.tempdir = None
    os.umask(UMASK)
    for number in INHERITED:
        # Children inherit that a signal is ignored, and a shell cannot hear again what it was born deaf to. A handler
        # is not inherited: children hear, and this process, begun with nohup for one, stays deaf.
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, lambda *_signal: None)
    # Else the next file that is opened is the standard input of every child.
    while (descriptor := os.open(os.devnull, os.O_RDWR)) < 3:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
