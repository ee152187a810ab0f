#!/bin/sh
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Configures and starts the Slurm of this host, and the mirror; ends when the node is idle.
set -eu
# A test host may run no containers of its own, so Docker is installed and not started.
# shellcheck disable=SC2016 # written as it is
printf '#!/bin/sh\ncase "$1" in docker* | containerd*) exit 101 ;; esac\n' > /usr/sbin/policy-rc.d
# The stand-in for a container has no hook that would show it the PMIx server, so this Slurm has none.
rm -f /usr/lib/*/slurm*/mpi_pmix*.so
sed "s/@HOST@/$(hostname)/" /srv/slurm.conf > /opt/slurm/etc/slurm.conf
case $(slurmd -V) in *22.*) echo CgroupPlugin=cgroup/v1 ;; *) echo CgroupPlugin=disabled ;; esac \
    > /opt/slurm/etc/cgroup.conf
cp "$(command -v busybox)" /srv/images/smoke.sqsh.root/bin/busybox
for name in sh stat ls cat id test; do ln -s busybox "/srv/images/smoke.sqsh.root/bin/$name"; done
mkdir -p /var/spool/slurmctld /var/spool/slurmd /var/log/slurm
chown slurm: /var/spool/slurmctld /var/log/slurm
systemctl daemon-reload
systemctl restart munge slurmctld slurmd
systemd-run --unit=mirror --working-directory=/srv/mirror python3 -m http.server --bind 127.0.0.1 8099
for _try in $(seq 3000); do
    [ "$(sinfo -h -t idle -o %D)" != 1 ] || exit 0
    ! systemctl --quiet is-failed munge slurmctld slurmd || break
    sleep 0.2
done
sinfo
tail -n 5 /var/log/slurm/*.log
exit 1
