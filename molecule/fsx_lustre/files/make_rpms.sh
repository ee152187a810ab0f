#!/bin/sh
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# make_rpms.sh FOLDER KERNEL VERSION: adds to a repository of dnf the two packages of a Lustre client, whose module fits
# the running kernel and KERNEL, and a kernel. /run/lustre_program stands in for Lustre.
set -eu
folder=$1
next=$2
version=$3
tree=$(mktemp -d)

package() { # NAME VERSION DIRECTORY
    cat >/run/package.spec <<END
%global __os_install_post %{nil}
Name: $1
Version: $2
Release: 1
Summary: stand-in made by the tests
License: GPL-3.0-or-later
BuildArch: noarch
AutoReqProv: no
%description
Stands in for $1.
%install
mkdir -p %{buildroot}
cp -a $3/. %{buildroot}/
%files
$(cd "$3" && find . ! -type d | cut -c2-)
END
    rpmbuild -bb --quiet --define "_rpmdir $folder" --define "_rpmfilename %{NAME}-%{VERSION}.rpm" /run/package.spec
}

mkdir -p "$folder" "$tree/none" "$tree/client/usr/sbin"
install -m 0755 /run/lustre_program "$tree/client/usr/sbin/lctl"
for name in lfs lnetctl; do ln -s lctl "$tree/client/usr/sbin/$name"; done
for kernel in "$(uname -r)" "$next"; do
    mkdir -p "$tree/modules/usr/lib/modules/$kernel/extra"
    echo "stands for a module" >"$tree/modules/usr/lib/modules/$kernel/extra/lustre.ko"
done
package kmod-lustre-client "$version" "$tree/modules"
package lustre-client "$version" "$tree/client"
package kernel-core "5.14.$version" "$tree/none"
# The host has the real plugin under another name.
package python3-dnf-plugin-versionlock 4.3.0 "$tree/none"
createrepo_c --quiet "$folder"
rm -r "$tree"
