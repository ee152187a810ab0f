#!/bin/sh
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Before Slurm is installed: where its files go, the inside of an image, people, a Docker that others have set up, and
# stand-ins for the AWS CLI and, when $1 is docker, for Docker.
set -eu
mkdir -p /opt/slurm/etc /srv/images/smoke.sqsh.root/bin /srv/images/smoke.sqsh.root/usr /etc/docker
ln -s /opt/slurm/etc /etc/slurm
ln -s /usr/bin /opt/slurm/bin
ln -s /usr/include /opt/slurm/include
ln -s ../bin /srv/images/smoke.sqsh.root/usr/bin
echo hsqs > /srv/images/smoke.sqsh
useradd --create-home alice
useradd --create-home bob
for unit in slurmd slurmctld; do
    mkdir -p "/etc/systemd/system/$unit.service.d"
    printf '[Service]\nLimitNOFILE=4096\nLimitMEMLOCK=65536\nLimitSTACK=8388608\n' \
        > "/etc/systemd/system/$unit.service.d/limits.conf"
done
echo '{"log-driver": "local"}' > /etc/docker/daemon.json
install -m 0755 /srv/aws.sh /usr/local/bin/aws
if [ "$1" = docker ]; then
    install -m 0755 /srv/docker.sh /usr/bin/docker
    ln -s docker /usr/bin/dockerd
fi
printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d
chmod 0755 /usr/sbin/policy-rc.d
