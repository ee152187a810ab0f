#!/bin/sh
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Stands in for docker and dockerd 28.3 as far as the role asks them; any other verb, option or number of arguments is
# refused. Grammar: docker's command-line reference. Images are files in images, what a registry has are files in registry,
# and what was asked is in asked, all below /run/docker-stand-in.
set -eu
TOP=${DOCKER_STAND_IN:-/run/docker-stand-in}
mkdir -p "$TOP/images" "$TOP/registry"
echo "$*" >> "$TOP/asked"
refuse() { echo "docker: $1" >&2; exit 125; }
# exactly NUMBER WORDS...: so many words.
exactly() { [ $# -eq $(($1 + 1)) ] || refuse "stand-in: $1 words were expected and $(($# - 1)) were given"; }
literal() { [ "$1" = "$2" ] || refuse "unknown flag or command: $1"; }
missing() { echo "Error response from daemon: No such image: $1" >&2; exit 1; }
name() { echo "$1" | tr '/' '_'; }
case "$1" in
--version) exactly 1 "$@"; echo 'Docker version 28.3.3, build 0' ;;
--validate) exactly 3 "$@"; literal "$2" --config-file; exec python3 -m json.tool "$3" /dev/null ;;
ps) exactly 2 "$@"; literal "$2" --quiet ;;
info) exactly 3 "$@"; literal "$2" --format; literal "$3" "{{.DockerRootDir}}"; echo /srv/docker ;;
build)
    shift
    tag=
    while [ $# -gt 1 ]; do
        case "$1" in
        --tag) tag=$2 ;;
        --build-arg) case "$2" in ?*=*) ;; *) refuse "stand-in: --build-arg $2 has no value" ;; esac ;;
        --platform) case "$2" in linux/amd64 | linux/arm64) ;; *) refuse "\"$2\": unknown operating system or architecture" ;; esac ;;
        --secret) case "$2" in id=?*) ;; *) refuse "invalid field in --secret $2" ;; esac ;;
        --network) case "$2" in host | none | default) ;; *) refuse "network $2 not found" ;; esac ;;
        *) refuse "unknown flag: $1" ;;
        esac
        shift 2
    done
    if [ -z "$tag" ] || [ $# -ne 1 ]; then
        refuse "'docker build' requires 1 argument, and the role a --tag"
    fi
    # Everything that the Dockerfile copies has to be in the folder.
    (cd "$1" && test -s Dockerfile && awk '$1 == "COPY" || $1 == "ADD" { print $2 }' Dockerfile | xargs cat) |
        sha256sum | cut -d ' ' -f 1 > "$TOP/images/$(name "$tag")"
    ;;
image)
    exactly 5 "$@"; literal "$2" inspect; literal "$3" --format
    file=$TOP/images/$(name "$5")
    [ -e "$file" ] || missing "$5"
    case "$4" in
    '{{.Id}}') echo "sha256:$(cat "$file")" ;;
    '{{.Size}}') echo 4096 ;;
    *) refuse "stand-in: the format $4 is not known" ;;
    esac
    ;;
manifest) exactly 3 "$@"; literal "$2" inspect; test -e "$TOP/registry/$(name "$3")" ;;
tag) exactly 3 "$@"; [ -e "$TOP/images/$(name "$2")" ] || missing "$2"; cp "$TOP/images/$(name "$2")" "$TOP/images/$(name "$3")" ;;
push)
    exactly 2 "$@"; [ -e "$TOP/images/$(name "$2")" ] || missing "$2"
    # As Docker does it: the helper that the configuration names is asked for the password of the registry.
    helper=$(python3 -c 'import json, os, sys; print(json.load(open(os.environ["DOCKER_CONFIG"] + "/config.json"))["credHelpers"][sys.argv[1]])' "${2%%/*}")
    echo "${2%%/*}" | "docker-credential-$helper" get > "${DOCKER_PASSWORD_FILE:-/run/docker-password}"
    mv "$TOP/images/$(name "$2")" "$TOP/registry/"
    ;;
*) refuse "'$1' is not a docker command." ;;
esac
