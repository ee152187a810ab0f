# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A whole bundle, built from small packages and collections."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import tarfile
import time

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._bundle import build
from ansible_collections.mlcluster.aws.plugins.module_utils._bundle.archive import BundleError, Target

from tests.unit.fakes import fake_collections as made

TARGET = Target("debian", "3.11")


def unpacked(data):
    """The files of an archive below its top folder."""
    with tarfile.open(fileobj=io.BytesIO(data)) as packed:
        return {
            entry.name.removeprefix("mlcluster-bundle/"): packed.extractfile(entry).read()
            for entry in packed.getmembers()
            if entry.isfile()
        }


def test_bundle_contents(tmp_path):
    built = build.build(made.request(tmp_path), TARGET)
    files = unpacked(built.data)
    others = "collections/ansible_collections/ansible/posix"
    assert {
        "MANIFEST.json",
        "bin/run-node",
        "hooks/mlcluster_boot/main.py",
        "hooks/on_node_configured.sh",
        "site/ansible_core/__init__.py",
        "site/ansible_runner-2.4.0.dist-info/METADATA",
        "collections/ansible_collections/mlcluster/aws/galaxy.yml",
        "collections/ansible_collections/mlcluster/aws/playbooks/configure_node.yml",
        f"{others}/plugins/modules/mount.py",
        f"{others}/COPYING",
    } <= set(files)
    assert not [name for name in files if "general" in name or "bundle_entry" in name or name.startswith("artifacts")]
    assert files["bin/run-node"] == b"print('entry')\n"
    assert built.file == "mlcluster-bundle-1.2.3-debian-py3.11.tar.gz"
    assert built.unpacked == sum(map(len, files.values()))


def test_manifest_lists_every_component_with_checksum(tmp_path):
    built = build.build(made.request(tmp_path), TARGET)
    document = json.loads(unpacked(built.data)["MANIFEST.json"])
    assert document == built.manifest
    assert {key: document[key] for key in ("schema", "version", "commit", "os_family", "python", "created")} == {
        "schema": "mlcluster.bundle/1",
        "version": "1.2.3",
        "commit": "c0ffee",
        "os_family": "debian",
        "python": "3.11",
        "created": "2023-11-14T22:13:20Z",
    }
    assert [(entry["kind"], entry["name"], entry["version"]) for entry in document["components"]] == [
        ("collection", "ansible.posix", "3.2.1"),
        ("collection", "mlcluster.aws", "1.2.3"),
        ("python", "ansible-core", "2.19.1"),
        ("python", "ansible-runner", "2.4.0"),
    ]
    assert all(len(entry["sha256"]) == 64 and entry["license"] for entry in document["components"])
    # The hook reads this with sed, before it has chosen a Python.
    assert b'"python": "3.11"' in unpacked(built.data)["MANIFEST.json"]


def test_bill_of_materials_matches_manifest(tmp_path):
    built = build.build(made.request(tmp_path), TARGET)
    document = json.loads(built.sbom)
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.5")
    assert document["metadata"]["component"]["hashes"] == [{"alg": "SHA-256", "content": built.sha256}]
    assert [entry["purl"] for entry in document["components"]] == [
        "pkg:generic/ansible-collection/ansible.posix@3.2.1",
        "pkg:generic/ansible-collection/mlcluster.aws@1.2.3",
        "pkg:pypi/ansible-core@2.19.1",
        "pkg:pypi/ansible-runner@2.4.0",
    ]
    references = [entry["bom-ref"] for entry in document["components"]]
    assert len(set(references)) == len(references)


def test_same_input_gives_same_bytes_anywhere(tmp_path, monkeypatch):
    first = build.build(made.request(tmp_path / "one"), TARGET)
    later = time.time() + 86_400
    monkeypatch.setattr(time, "time", lambda: later)
    other = made.request(tmp_path / "two")
    for path in (tmp_path / "two").rglob("*"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    second = build.build(other, TARGET)
    assert first.sha256 == second.sha256
    assert first.sbom == second.sbom
    made.write(other.collection / "roles" / "one" / "tasks" / "main.yml", "- ansible.posix.mount: {}\n")
    assert build.build(other, TARGET).sha256 != first.sha256


def test_date_comes_from_request(tmp_path):
    built = build.build(made.request(tmp_path, epoch=0), TARGET)
    assert built.manifest["created"] == "1970-01-01T00:00:00Z"


def test_missing_runner_is_rejected(tmp_path):
    wanted = made.request(tmp_path)
    (wanted.collection / "hooks" / "mlcluster_boot" / "main.py").unlink()
    with pytest.raises(BundleError, match=r"has no hooks/mlcluster_boot/main\.py"):
        build.build(wanted, TARGET)


def test_collection_for_newer_core_stops_build(tmp_path):
    wanted = made.request(tmp_path)
    made.write(tmp_path / "others/ansible_collections/ansible/posix/meta/runtime.yml", "requires_ansible: '>=2.20'\n")
    with pytest.raises(BundleError, match=r"needs ansible-core 2\.20 and this bundle has 2\.19\.1"):
        build.build(wanted, TARGET)


def test_write_returns_whether_it_changed(tmp_path):
    built = build.build(made.request(tmp_path), TARGET)
    dest = tmp_path / "dist"
    assert build.write(built, dest, check=True)
    assert not dest.exists()
    assert build.write(built, dest, check=False)
    assert not build.write(built, dest, check=False)
    assert sorted(path.name for path in dest.iterdir()) == [
        "mlcluster-bundle-1.2.3-debian-py3.11.cdx.json",
        "mlcluster-bundle-1.2.3-debian-py3.11.tar.gz",
        "mlcluster-bundle-1.2.3-debian-py3.11.tar.gz.sha256",
    ]
    subprocess.run(["sha256sum", "--check", "--quiet", f"{built.file}.sha256"], cwd=dest, check=True)
    (dest / built.file).write_bytes(b"cut")
    assert build.write(built, dest, check=True)


def artifact(folder, name="aws-efa-installer", file="aws-efa-installer-1.51.0.tar.gz", **entry):
    """An artifact with its right sum."""
    path = made.write(folder / file, f"{name}\n")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return build.Artifact(path, {"name": name, "version": "1.51.0", "sha256": digest, **entry}, [])


def test_artifacts_come_with_role_variables(tmp_path):
    proof = made.write(tmp_path / "aws-efa-installer-1.51.0.tar.gz.sig", "sig")
    taken = [
        artifact(tmp_path)._replace(signature=[proof]),
        artifact(tmp_path, "enroot", "enroot_4.1.2-1_amd64.deb", version="4.1.2"),
        artifact(tmp_path, "pyxis", "v0.24.0.tar.gz", version="0.24.0"),
    ]
    built = build.build(made.request(tmp_path, artifacts=taken), TARGET)
    files = unpacked(built.data)
    place = "{{ lookup('ansible.builtin.env', 'MLCLUSTER_BUNDLE') }}/artifacts"
    assert json.loads(files["artifacts/vars.json"]) == {
        "efa_nccl_installer_source": "local",
        "efa_nccl_installer_file": f"{place}/aws-efa-installer-1.51.0.tar.gz",
        "enroot_pyxis_source": "local",
        "enroot_pyxis_local_files": place,
    }
    assert files["artifacts/aws-efa-installer-1.51.0.tar.gz.sig"] == b"sig"
    kinds = [entry["name"] for entry in built.manifest["components"] if entry["kind"] == "artifact"]
    assert kinds == ["aws-efa-installer", "enroot", "pyxis"]


def test_artifact_without_checksum_is_rejected(tmp_path):
    with pytest.raises(BundleError, match=r"checksum of aws-efa-installer 1\.51\.0 is unknown.*make lock-artifacts"):
        build.build(made.request(tmp_path, artifacts=[artifact(tmp_path, sha256="")]), TARGET)


def test_artifact_with_other_checksum_is_rejected(tmp_path):
    with pytest.raises(BundleError, match=rf"and {'0' * 64} was expected: it was changed or damaged"):
        build.build(made.request(tmp_path, artifacts=[artifact(tmp_path, sha256="0" * 64)]), TARGET)


def test_missing_artifact_is_reported(tmp_path):
    wanted = artifact(tmp_path)
    wanted.file.unlink()
    with pytest.raises(BundleError, match=r"aws-efa-installer-1\.51\.0\.tar\.gz cannot be read .*: fetch it first"):
        build.build(made.request(tmp_path, artifacts=[wanted]), TARGET)


@pytest.fixture
def repository(tmp_path):
    """A checkout that is committed; without the user's own git settings."""
    root = made.checkout(tmp_path / "checkout")
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    environment.update(GIT_AUTHOR_DATE="@1700000000 +0000", GIT_COMMITTER_DATE="@1700000000 +0000")
    person = ["-c", "user.name=x", "-c", "user.email=x@example.com"]
    for words in (["init", "-q"], ["add", "."], [*person, "commit", "-q", "-m", "first"]):
        subprocess.run(["git", *words], cwd=root, env=environment, check=True)
    return root


def test_checkout_has_commit_and_date(repository):
    commit, date = build.checkout(repository)
    assert len(commit) == 40
    assert date == 1_700_000_000


def test_modified_checkout_is_marked_changed(repository):
    made.write(repository / "roles" / "one" / "tasks" / "main.yml", "[]\n")
    assert build.checkout(repository)[0].endswith("-changed")


def test_collection_inside_other_checkout_has_no_commit(repository):
    inner = made.checkout(repository / "collections" / "aws")
    assert build.checkout(inner) == ("", 0)


def test_other_collections_come_from_pinned_wheel(tmp_path):
    wheel = made.wheel(
        tmp_path / "w",
        "ansible",
        **{
            "ansible_collections__ansible__posix__MANIFEST.json": '{"collection_info": {"version": "1.0.0"}}',
            "ansible_collections__ansible__posix__plugins__modules__mount.py": "",
            "ansible_collections__community__general__MANIFEST.json": '{"collection_info": {"version": "2.0.0"}}',
            "ansible_collections__far__away__MANIFEST.json": "{}",
        },
    )
    wanted = made.request(tmp_path, others=[])
    lock = made.lock(wanted.requirements / "bundle.txt", wheel)
    kept = wanted.cache / f"collections-wheel-{hashlib.sha256(lock.read_bytes()).hexdigest()[:16]}"
    kept.mkdir()
    (kept / wheel.name).write_bytes(wheel.read_bytes())
    for _again in range(2):
        roots = build.other_roots(wanted, "2.19.1")
        assert (roots["ansible.posix"] / "plugins/modules/mount.py").is_file()
    assert not (roots["ansible.posix"].parents[1] / "far").exists()
