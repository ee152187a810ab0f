# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A release from checkout to node over a local S3: built, uploaded, signed, used by the hook, and rolled back."""

from __future__ import annotations

import functools
import hashlib
import http.server
import json
import os
import re
import subprocess
import sys
import tarfile
import threading
from pathlib import Path

import pytest

from plugins.module_utils._bundle import pointer
from tests.integration.bundle.conftest import CACHE, OWN, ROOT
from tests.integration.cluster import policies

HOOK = ROOT / "hooks" / "on_node_configured.sh"
BUCKET, PREFIX = "release-bucket", "mlcluster"
# A copy of the bucket right after a release was published.
KEPT = "kept-bucket"
POINTER = f"s3://{BUCKET}/{PREFIX}/pointer"
TARGET = f"debian-py{OWN}"
OLDER = "0.0.9"
KMS_KEY = "arn:aws:kms:us-east-1:111122223333:key/1b0f9a4e-0000-4000-8000-000000000000"
PROGRAMS = f"{Path(sys.executable).parent}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@pytest.fixture(scope="module")
def key(tmp_path_factory):
    """Return the path of the private key that signs releases."""
    path = tmp_path_factory.mktemp("key") / "release.pem"
    subprocess.run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(path)], check=True)
    return path


@pytest.fixture(scope="module")
def play(s3, client, collection, key, tmp_path_factory):
    """Return ``play(**variables)``: it runs playbooks/build_bundle.yml with the local S3; returns status and output."""
    client.create_bucket(Bucket=BUCKET)
    folder = tmp_path_factory.mktemp("controller")

    def run(**variables):
        given = {
            "build_bundle_bucket": BUCKET,
            "build_bundle_cache": str(CACHE),
            "build_bundle_collections_paths": [str(ROOT / ".collections")],
            "build_bundle_dest": str(folder / "dist"),
            "build_bundle_targets": [TARGET],
            **variables,
        }
        program = str(Path(sys.executable).parent / "ansible-playbook")
        done = subprocess.run(
            [program, str(collection / "playbooks" / "build_bundle.yml"), "-e", json.dumps(given)],
            env={
                "PATH": PROGRAMS,
                "HOME": str(folder),
                "LC_ALL": "C.UTF-8",
                "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".collections"),
                "ANSIBLE_LOCALHOST_WARNING": "false",
                "ANSIBLE_NOCOLOR": "true",
                **{name: os.environ[name] for name in os.environ if name.startswith("PIP_")},
                "AWS_DEFAULT_REGION": "us-east-1",
                # A shell sets PWD to the user's current directory.
                "PWD": str(folder),
                **s3.environment(),
            },
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    run.folder = folder
    return run


@pytest.fixture(scope="module")
def release(play, client, key):
    """Return the output of the playbook that built and published a release."""
    # A relative path is relative to the user's current directory, not to the playbook.
    status, output = play(build_bundle_signing_key=os.path.relpath(key, play.folder))
    assert status == 0, output
    client.create_bucket(Bucket=KEPT)
    copy(client, BUCKET, KEPT)
    return output


def test_bucket_without_answer_is_rejected_before_build(play):
    dest = play.folder / "unbuilt"
    status, output = play(build_bundle_bucket="no-such-bucket", build_bundle_dest=str(dest))
    assert status == 2 and "nothing was built: bucket no-such-bucket could not be listed (" in " ".join(output.split())
    assert not dest.exists()


def keys(client, bucket):
    """Return the keys of all objects of a bucket."""
    return {item["Key"] for item in client.list_objects_v2(Bucket=bucket).get("Contents", [])}


def copy(client, source, target):
    """Make the target bucket equal to the source bucket."""
    for name in keys(client, target):
        client.delete_object(Bucket=target, Key=name)
    for name in keys(client, source):
        # Not copy_object: for a multipart object, moto's copy has a checksum of parts and no parts.
        found = client.get_object(Bucket=source, Key=name)
        client.put_object(Bucket=target, Key=name, Body=found["Body"].read(), Metadata=found["Metadata"])


@pytest.fixture
def published(release, client):
    """Return the output of the playbook, and reset the bucket to its state right after that run."""
    copy(client, KEPT, BUCKET)
    return release


@pytest.fixture(scope="module")
def public_key(release):
    """Return the value of the hook's option --public-key, as the playbook printed it."""
    return re.search(r"--pointer (\S+)\s+--public-key\s+(\S{124})", release).group(2)


@pytest.fixture
def node(s3, public_key, tmp_path):
    """Return ``node(*options)``: it runs the hook with a directory as the root; returns status file and output."""

    def run(*options):
        done = subprocess.run(
            ["bash", str(HOOK), "--root", str(tmp_path), "--pointer", POINTER, "--public-key", public_key, *options],
            env={"PATH": PROGRAMS, "LC_ALL": "C.UTF-8", "HOME": str(tmp_path), **s3.environment()},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        status = json.loads((tmp_path / "var/log/mlcluster/status.json").read_text())
        return status, done.stdout + done.stderr

    return run


def read(client, name):
    """Return the contents of an object below the prefix."""
    return client.get_object(Bucket=BUCKET, Key=f"{PREFIX}/{name}")["Body"].read()


def pointed(client, name):
    """Return the data of a pointer below the prefix, without its first line, the signature."""
    return pointer.from_text(read(client, name).decode().partition("\n")[2])


def older_release(client, key, tmp_path, version=OLDER):
    """Publish an older version that has the current bundle."""
    path = tmp_path / version
    pointer.write({**pointed(client, "pointer"), "version": version}, path, key, check=False)
    client.put_object(Bucket=BUCKET, Key=f"{PREFIX}/releases/{version}", Body=path.read_bytes())


def test_bundle_is_reported_and_uploaded_with_checksum(published, client):
    released = pointed(client, "pointer")
    entry = released["bundles"][TARGET]
    # Without an own KMS key, the bucket's default applies.
    assert "SSEKMSKeyId" not in client.head_object(Bucket=BUCKET, Key=f"{PREFIX}/pointer")
    assert re.search(
        r"mlcluster-bundle-\S+: \d\.\d MiB, \d+\.\d MiB\s+unpacked,\s+compiled\s+by\s+Python\s+\S+,\s+sha256\s+"
        + entry["sha256"],
        published,
    )
    place = entry["url"].removeprefix(f"s3://{BUCKET}/{PREFIX}/")
    assert hashlib.sha256(read(client, place)).hexdigest() == entry["sha256"]
    assert read(client, f"{place}.sha256").decode().split() == [entry["sha256"], place.rpartition("/")[2]]
    assert client.head_object(Bucket=BUCKET, Key=f"{PREFIX}/{place}")["Metadata"] == {"sha256": entry["sha256"]}
    listed = client.list_objects_v2(Bucket=BUCKET, Prefix=f"{PREFIX}/")["Contents"]
    assert sorted(item["Key"].removeprefix(f"{PREFIX}/") for item in listed) == sorted(
        [
            place,
            f"{place}.sha256",
            place.replace(".tar.gz", ".cdx.json"),
            "pointer",
            f"releases/{released['version']}",
        ]
    )


def test_node_configures_itself_from_published_release(published, client, node):
    version = pointed(client, "pointer")["version"]
    status, output = node()
    assert (status["state"], status["bundle"]["version"]) == ("configured", version), output


def test_pointer_moves_to_older_release_without_signing_key(published, play, client, key, node, s3, tmp_path):
    older_release(client, key, tmp_path)
    code, output = play(build_bundle_release=OLDER, build_bundle_kms_key_id=KMS_KEY)
    assert code == 0, output
    assert f"pointer names version {OLDER}" in output
    kept = client.head_object(Bucket=BUCKET, Key=f"{PREFIX}/pointer")
    assert (kept["ServerSideEncryption"], kept["SSEKMSKeyId"]) == ("aws:kms", KMS_KEY)
    assert pointed(client, "pointer")["version"] == OLDER
    # Publishing and moving used all operations of the policy and no other. KMS operations need a KMS key option.
    # Of a failure the playbook reads whose credentials it has; a missing right changes nothing.
    used = s3.operations() - {"iam:ListAccountAliases"}
    policies.check_policy("build_bundle", used, unasked=("kms:Decrypt", "kms:GenerateDataKey"))
    status, output = node()
    assert status["state"] == "configured", output


@pytest.mark.slow
def test_missing_release_leaves_pointer_unchanged(published, play, client):
    before = read(client, "pointer")
    code, output = play(build_bundle_release="9.9.9")
    assert code == 2
    assert "the pointer was not moved to 9.9.9" in output
    assert read(client, "pointer") == before


@pytest.fixture
def mirror(tmp_path):
    """Yield the options to use a web server with an installer, its signature and key, and a lock with its checksum."""
    files = tmp_path / "files"
    files.mkdir()
    name = "aws-efa-installer-1.51.0.tar.gz"
    for file in (name, f"{name}.sig", "aws-efa-installer.key"):
        (files / file).write_text(f"{file}\n")
    entry = {"name": "aws-efa-installer", "platform": "any", "version": "1.51.0"}
    entry["sha256"] = hashlib.sha256((files / name).read_bytes()).hexdigest()
    (tmp_path / "lock.yml").write_text(json.dumps({"artifacts": [entry]}))
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(files))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield {
            "build_bundle_artifacts_url": f"http://127.0.0.1:{server.server_port}",
            "build_bundle_lock_file": str(tmp_path / "lock.yml"),
            "build_bundle_cache": str(tmp_path / "cache"),
            "build_bundle_dest": str(tmp_path / "dist"),
            "build_bundle_bucket": "",
        }
        server.shutdown()
        thread.join()


@pytest.mark.slow
def test_bundle_includes_chosen_artifacts(play, mirror, tmp_path):
    (tmp_path / "cache").mkdir()
    for folder in CACHE.glob("py*"):
        (tmp_path / "cache" / folder.name).symlink_to(folder)
    status, output = play(build_bundle_artifacts=["aws-efa-installer"], **mirror)
    assert status == 0, output
    (archive,) = (tmp_path / "dist").glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        names = {Path(name).name for name in packed.getnames() if "/artifacts/" in name}
        variables = json.load(packed.extractfile("mlcluster-bundle/artifacts/vars.json"))
    assert names == {
        "aws-efa-installer-1.51.0.tar.gz",
        "aws-efa-installer-1.51.0.tar.gz.sig",
        "aws-efa-installer.key",
        "vars.json",
    }
    assert variables["efa_nccl_installer_source"] == "local"


@pytest.mark.slow
def test_artifact_without_checksum_is_rejected(play, mirror, tmp_path):
    status, output = play(build_bundle_artifacts=["pyxis"], **mirror)
    assert status == 2
    assert "no checksum of pyxis" in " ".join(output.split())
    assert not (tmp_path / "dist").exists()
