#!/bin/sh
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Runs on the guest before its first boot as an instance: installs cloud-init, which lies unpacked in the image. What it
# would ask EC2's metadata service is in its seed, for the guest reaches no network.
set -eu
tree=/usr/local/lib/ec2-rig/cloud-init
# Without pages and locales, most of what there is to copy.
for part in etc usr/bin usr/lib; do cp --archive --keep-directory-symlink "$tree/$part/." "/$part"; done
ln -sf nc.openbsd /usr/bin/nc
# What the package makes as it is configured; Python does not import its library for HTTP without it.
install -d /etc/ssl/certs
cat "$tree"/usr/share/ca-certificates/mozilla/*.crt > /etc/ssl/certs/ca-certificates.crt
ldconfig
printf '%s\n' 'datasource_list: [NoCloud]' 'network: {config: disabled}' 'locale: false' \
    > /etc/cloud/cloud.cfg.d/99-rig.cfg
systemctl daemon-reload
systemctl --quiet enable cloud-init-main.service cloud-init-local.service cloud-init-network.service \
    cloud-config.service cloud-final.service
install -d -m 0700 /var/lib/cloud/seed/nocloud
printf %s "$1" > /var/lib/cloud/seed/nocloud/meta-data
printf %s "$2" > /var/lib/cloud/seed/nocloud/user-data
sync
