#!/usr/bin/env bash
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Writes the lock files again from requirements/*.in, newest versions first: `make lock`.
set -euo pipefail

cd "$(dirname "$0")"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

"${PYTHON:-python3}" -m venv "$scratch/venv"
"$scratch/venv/bin/pip" install --quiet --disable-pip-version-check uv

compile() {
    # --universal: one lock serves this and every later Python, and every machine type that has wheels.
    local python=$1 name=$2
    shift 2
    "$scratch/venv/bin/uv" pip compile --quiet --universal --python-version "$python" --generate-hashes \
        --no-header --no-emit-index-url --no-emit-find-links --upgrade "$@" --output-file "$name.txt"
    echo "wrote requirements/$name.txt"
}

for name in nox build lint docs dashboard pcluster mitogen; do
    compile 3.11 "$name" "$name.in"
done
# The CPU build of torch that is pinned is one for Python 3.11, so the data programs are tested on that.
compile 3.11 data data.in
compile 3.11 collections --no-deps collections.in
# The same versions as in the whole lock, of which it is a part.
compile 3.11 pcluster-check --no-deps --constraint pcluster.txt pcluster-check.in

# `make test-matrix`: each ansible-core, and the wheel with the collections that were released for it.
matrix() {
    printf 'ansible-core==%s.*\nansible==%s.*\n' "$1" "$2" >"$scratch/matrix.in"
    compile "$3" "matrix-$1" --no-deps --no-annotate "$scratch/matrix.in"
}
matrix 2.17 11 3.11
matrix 2.18 11 3.11
matrix 2.19 12 3.11
matrix 2.20 13 3.12
matrix 2.21 14 3.12

# A node decrypts no vault and installs no collection: without these no compiled code is needed.
absent=()
for package in cffi cryptography pycparser resolvelib typing-extensions; do
    absent+=(--no-emit-package "$package")
done
compile 3.10 node-py310 "${absent[@]}" --no-annotate node-py310.in
compile 3.11 node "${absent[@]}" --no-annotate node.in

# Wheels only, for the image: whatever has to be compiled would be another program in each image.
"$scratch/venv/bin/uv" pip compile --quiet --python-version 3.12 --python-platform x86_64-manylinux_2_28 --upgrade \
    --only-binary :all: --no-annotate --generate-hashes --no-header --no-emit-index-url --no-emit-find-links \
    training-image.in --output-file ../roles/training_image/files/training-requirements.txt
echo "wrote roles/training_image/files/training-requirements.txt"
