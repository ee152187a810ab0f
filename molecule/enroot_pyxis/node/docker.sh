#!/bin/sh
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Stands in for docker and dockerd as far as the role asks them. Images are files in /run/docker-stand-in/images, what a registry
# has are files in /run/docker-stand-in/registry, and what was asked is in /run/docker-stand-in/asked.
set -eu
mkdir -p /run/docker-stand-in/images /run/docker-stand-in/registry
echo "$*" >> /run/docker-stand-in/asked
name() { echo "$1" | tr '/' '_'; }
case "$1" in
--version) echo 'Docker version 28.3.3, build 0' ;;
--validate) exec python3 -m json.tool "$3" /dev/null ;;
ps) ;;
info) echo /srv/docker ;;
build)
    while [ $# -gt 1 ]; do
        [ "$1" != --tag ] || tag=$2
        shift
    done
    # Everything that the Dockerfile copies has to be in the folder.
    (cd "$1" && test -s Dockerfile && awk '$1 == "COPY" || $1 == "ADD" { print $2 }' Dockerfile | xargs cat) |
        sha256sum | cut -d ' ' -f 1 > "/run/docker-stand-in/images/$(name "$tag")"
    ;;
image)
    file=/run/docker-stand-in/images/$(name "$5")
    [ -e "$file" ] || { echo "Error response from daemon: No such image: $5" >&2; exit 1; }
    case "$4" in *Id*) echo "sha256:$(cat "$file")" ;; *) echo 4096 ;; esac
    ;;
manifest) test -e "/run/docker-stand-in/registry/$(name "$3")" ;;
tag) cp "/run/docker-stand-in/images/$(name "$2")" "/run/docker-stand-in/images/$(name "$3")" ;;
push)
    # As Docker does it: the helper that the configuration names is asked for the password of the registry.
    helper=$(python3 -c 'import json, os, sys; print(json.load(open(os.environ["DOCKER_CONFIG"] + "/config.json"))["credHelpers"][sys.argv[1]])' "${2%%/*}")
    echo "${2%%/*}" | "docker-credential-$helper" get > /run/docker-password
    mv "/run/docker-stand-in/images/$(name "$2")" /run/docker-stand-in/registry/
    ;;
*) exit 2 ;;
esac
