#!/bin/sh
# rpms.sh FOLDER NAME-VERSION-RELEASE...: small RPMs that hold nothing, in a folder that is a repository of dnf.
set -eu
folder=$1
shift
mkdir -p "$folder"
for package in "$@"; do
    release=${package##*-}
    rest=${package%-*}
    printf '%s\n' "Name: ${rest%-*}" "Version: ${rest##*-}" "Release: $release" "Summary: stand-in made by the tests" \
        "License: GPL-3.0-or-later" "BuildArch: noarch" "%description" "Holds nothing." "%files" > /run/package.spec
    rpmbuild -bb --quiet --define "_rpmdir $folder" --define "_rpmfilename %{NAME}-%{VERSION}-%{RELEASE}.noarch.rpm" \
        /run/package.spec
done
createrepo_c --quiet "$folder"
