#!/bin/sh
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# Builds an apt repository in /run/lustre-client with one package, CLIENT: a Lustre client for KERNEL.
set -eu
kernel=${KERNEL:-$(uname -r)}
client=${CLIENT:-lustre-client-modules-test}
tree=$(mktemp -d)
mkdir -p "$tree/DEBIAN" "$tree/usr/lib/modules/$kernel/extra" /run/lustre-client
# Only the first package contains the programs.
if [ ! -e /run/lustre_program ]; then
  {
    echo '#!/usr/bin/python3'
    cat /run/lustre_standin.py
  } >/run/lustre_program
  mkdir -p "$tree/usr/sbin"
  install -m 0755 /run/lustre_program "$tree/usr/sbin/lctl"
  for name in lfs lnetctl; do ln -s lctl "$tree/usr/sbin/$name"; done
fi
[ -e "/lib/modules/$kernel/modules.dep" ] || : >"$tree/usr/lib/modules/$kernel/modules.dep"
echo "stands for a module" >"$tree/usr/lib/modules/$kernel/extra/lustre.ko"
cat >"$tree/DEBIAN/control" <<END
Package: $client
Version: 2.15.6-1
Architecture: all
Maintainer: mlcluster.aws contributors <maintainers@example.com>
Description: stands in for the client of FSx for Lustre
END
cd /run/lustre-client
dpkg-deb --root-owner-group --build "$tree" client.deb >/dev/null
{
  dpkg-deb --field client.deb
  echo "Filename: ./client.deb"
  echo "Size: $(wc -c <client.deb)"
  echo "SHA256: $(sha256sum client.deb | cut -d' ' -f1)"
} >Packages
rm -r "$tree"
