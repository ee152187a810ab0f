#!/bin/sh
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Runs on the guest before its first boot as an instance: installs cloud-init, which is unpacked in the image. Its data
# come from a seed folder and not from EC2's metadata service, as the guest has no network.
set -eu
tree=/usr/local/lib/ec2-rig/cloud-init
# Manual pages and locales are left out: they are most of the files.
for part in etc usr/bin usr/lib; do cp --archive --keep-directory-symlink "$tree/$part/." "/$part"; done
ln -sf nc.openbsd /usr/bin/nc
# The package's configuration step makes this file; without it Python cannot import its HTTP library.
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
