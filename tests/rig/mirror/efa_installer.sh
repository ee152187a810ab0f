#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Stands in for efa_installer.sh of the EFA installer 1.43: its options, its order of work and its marker file, with the
# packages beside it. Grammar: usage and getopt line of that script; --mpi knows openmpi4, openmpi5, and both with a comma.
# Apart from INTERRUPT_FILE it does what the real one does on Debian: dpkg installs what lies beside it.

set -u
cd "$(dirname "$0")" || exit 1
# shellcheck source=/dev/null
source ./env.sh

MARKER=/opt/amazon/efa_installed_packages
ASKED=/opt/amazon/efa_installer_arguments
# While this file exists the installer dies in the middle, as a node does that loses its power.
INTERRUPT_FILE=/run/interrupt-efa-installer

usage() {
    echo "usage: efa_installer.sh [-d] [-u] [-y] [-n] [-l] [-k] [-g] [-m] [--mpi=...] [--check-signatures]" >&2
    exit 1
}

ASKED_FOR="$*"
TEMP=$(getopt -o dnuylkmg --long debug-packages,no-verify,uninstall,yes,skip-limit-conf,skip-kmod,minimal,enable-gdr,mpi:,check-signatures -- "$@") || usage
eval set -- "$TEMP"
YES=0 SKIP_KMOD=0 SKIP_LIMITS=0 MINIMAL=0 UNINSTALL=0 SIGNATURES=0
while [ "$1" != -- ]; do
    case "$1" in
    -y | --yes) YES=1 ;;
    -u | --uninstall) UNINSTALL=1 ;;
    -k | --skip-kmod) SKIP_KMOD=1 ;;
    -l | --skip-limit-conf) SKIP_LIMITS=1 ;;
    -m | --minimal) MINIMAL=1 ;;
    --check-signatures) SIGNATURES=1 ;;
    --mpi)
        shift
        case "$1" in
        openmpi4 | openmpi5 | openmpi4,openmpi5 | openmpi5,openmpi4) ;;
        *) echo "Error: Invalid MPI option: $1" >&2; usage ;;
        esac
        ;;
    esac
    shift
done

shift
if [ $# -gt 0 ]; then
    echo "Error: unknown argument: $1" >&2
    usage
fi

echo "= EFA Installer Version: ${EFA_INSTALLER_VERSION} ="
if [ "$YES" -ne 1 ]; then
    echo "Error: no user can be asked." >&2
    exit 1
fi
if [ "$SIGNATURES" -eq 1 ] && [ ! -r "${EFA_INSTALLER_KEY:-}" ]; then
    echo "Error: EFA_INSTALLER_KEY names no key." >&2
    exit 1
fi
if [ "$UNINSTALL" -eq 1 ]; then
    # shellcheck disable=SC2046
    dpkg --purge $(grep -v '^#' "$MARKER" | tr ' ' '\n' | cut -d_ -f1) && rm -f "$MARKER"
    exit
fi

installed=()
for path in DEBS/*.deb; do
    name=$(basename "$path" .deb)
    case "$name" in
    efa-config_*) [ "$SKIP_LIMITS" -eq 1 ] && continue ;;
    efa_*) [ "$SKIP_KMOD" -eq 1 ] && continue ;;
    libfabric* | openmpi* | efa-profile_* | libnccl-ofi_*) [ "$MINIMAL" -eq 1 ] && continue ;;
    esac
    if [ -e "$INTERRUPT_FILE" ] && [ "${#installed[@]}" -gt 0 ]; then
        dpkg --unpack "$path"
        kill -9 $$
    fi
    if ! dpkg --install "$path"; then
        echo "Error: Failed to install packages." >&2
        exit 1
    fi
    installed+=("$name")
done

mkdir -p /opt/amazon
cat >"$MARKER" <<MARK
# EFA installer version: ${EFA_INSTALLER_VERSION}
# Debug packages installed: no
# Packages installed:
${installed[*]}
MARK
echo "$ASKED_FOR" >"$ASKED"
echo "EFA installation complete."
