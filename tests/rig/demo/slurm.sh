#!/bin/sh
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Runs on the demo node: makes it a Slurm cluster of one, of the packages that lie unpacked in the image, and waits until
# it takes jobs. Existing parts are kept.
set -eu
tree=/usr/local/lib/ec2-rig/slurm
conf=/etc/slurm/slurm.conf

if ! [ -e "$conf" ]; then
    cp --archive --keep-directory-symlink "$tree/." /
    for program in slurmctld slurmd slurmstepd; do
        ln -sf "$program-wlm" "/usr/sbin/$program"
    done
    ldconfig
    for user in munge slurm; do
        useradd --system --shell /usr/sbin/nologin --home-dir /nonexistent "$user"
    done
    install -d -o munge -g munge -m 0700 /etc/munge /var/lib/munge /var/log/munge
    install -d -o slurm -g slurm -m 0755 /var/lib/slurm /var/lib/slurm/slurmctld /var/log/slurm
    install -d -m 0755 /var/lib/slurm/slurmd /etc/slurm
    runuser -u munge -- mungekey --create --keyfile /etc/munge/munge.key
    printf 'CgroupPlugin=disabled\n' > /etc/slurm/cgroup.conf
    host=$(hostname)
    cat > "$conf.new" <<END
ClusterName=demo
SlurmctldHost=$host
SlurmUser=slurm
SlurmdUser=root
AuthType=auth/munge
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
MailProg=/bin/true
SlurmdParameters=config_overrides
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) RealMemory=500 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=60 State=UP
END
    mv "$conf.new" "$conf"
    systemctl daemon-reload
fi
systemctl start munge.service slurmctld.service slurmd.service
for _try in $(seq 1500); do
    [ "$(sinfo --noheader --states=idle --format=%D 2>/dev/null)" != 1 ] || exit 0
    sleep 0.2
done
sinfo >&2 || true
tail -n 5 /var/log/slurm/*.log >&2
exit 1
