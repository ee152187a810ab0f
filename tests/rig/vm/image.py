# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds the guest's root disk, with GRUB on it, so that the guest boots the kernel and initramfs that it installs."""

from __future__ import annotations

import io
import os
import shlex
import struct
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import cache
from .command import RigError, progress, run

GUEST_FILES = Path(__file__).parent / "guest_files"
SUITE = "trixie"
HOSTNAME = "ec2sim"
PACKAGES = (
    "busybox", "dbus", "e2fsprogs", "fdisk", "gdisk", "grub-pc-bin", "initramfs-tools", "iproute2", "kmod",
    "linux-image-cloud-amd64", "lvm2", "mdadm", "nvme-cli", "openssh-server", "parted", "procps", "python3",
    "python3-apt", "sudo", "systemd", "systemd-sysv", "udev", "util-linux-extra", "xfsprogs", "zstd",
)  # fmt: skip
# The demo needs Slurm, and tests of instances need cloud-init. Most guests need neither, so both are only unpacked, in
# a folder of their own.
UNPACKED = {"slurm": ("munge", "slurm-client", "slurmctld", "slurmd"), "cloud-init": ("cloud-init",)}
TREES = "/usr/local/lib/ec2-rig"
# An emulated CPU boots this, so work that only protects or measures a real machine is switched off.
KERNEL_ARGUMENTS = (
    "root=LABEL=ROOT ro console=ttyS0 quiet loglevel=4 net.ifnames=0 mitigations=off nokaslr random.trust_cpu=on "
    "tsc=reliable no_timer_check rcupdate.rcu_expedited=1 audit=0 apparmor=0 nvme_core.multipath=N"
)
SECTOR = 512
FIRST_SECTOR = 2048
DISK_MB = 4096
# Constant, so that the guest sees the same disk after a rebuild with the same contents.
DISK_SIGNATURE = 0x3EC20001
# Loaded in the initramfs at each boot; initramfs-hook.sh adds more modules, which are loaded when needed.
INITRAMFS_MODULES = ("raid0", "virtio_pci", "virtio_blk")

GRUB_EARLY = "set root=(hd0,msdos1)\nset prefix=($root)/boot/grub\n"
GRUB_CFG = f"linux /vmlinuz {KERNEL_ARGUMENTS}\ninitrd /initrd.img\nboot\n"


def overlay(public_key: str) -> dict[str, tuple[int, str]]:
    """Return {path: (mode, text)} of every file that the image has beyond its packages."""
    scripts = {path.stem: path.read_text(encoding="utf-8") for path in GUEST_FILES.glob("*.sh")}
    return {
        "etc/hostname": (0o644, f"{HOSTNAME}\n"),
        "etc/hosts": (0o644, f"127.0.0.1 localhost\n127.0.1.1 {HOSTNAME}\n"),
        "etc/fstab": (0o644, "LABEL=ROOT / ext4 defaults 0 1\n"),
        "etc/systemd/network/10-eth.network": (0o644, "[Match]\nType=ether\n[Network]\nDHCP=ipv4\n"),
        "etc/ssh/sshd_config.d/rig.conf": (
            0o644,
            "UseDNS no\nPermitRootLogin prohibit-password\nPasswordAuthentication no\nMaxSessions 100\n",
        ),
        "etc/initramfs-tools/conf.d/rig": (0o644, "COMPRESS=zstd\nMODULES=list\n"),
        "etc/initramfs-tools/modules": (0o644, "".join(f"{name}\n" for name in INITRAMFS_MODULES)),
        "etc/initramfs-tools/hooks/ec2-disks": (0o755, scripts["initramfs-hook"]),
        "etc/initramfs-tools/scripts/init-premount/ec2-disks": (0o755, scripts["ec2-disks"]),
        "usr/local/lib/ec2-rig/ec2-disks": (0o755, scripts["ec2-disks"]),
        "usr/local/lib/ec2-rig/finish": (0o755, scripts["finish"]),
        "boot/grub/early.cfg": (0o644, GRUB_EARLY),
        "boot/grub/grub.cfg": (0o644, GRUB_CFG),
        "root/.ssh/authorized_keys": (0o600, public_key),
    }


def overlay_tar(files: Mapping[str, tuple[int, str]]) -> bytes:
    """Return a tar archive of the files and their parent folders, owned by root."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        folders: set[str] = set()
        for name in sorted(files):
            parents = [str(parent) for parent in reversed(Path(name).parents) if str(parent) != "."]
            for parent in parents:
                if parent not in folders:
                    folders.add(parent)
                    entry = tarfile.TarInfo(parent)
                    entry.type = tarfile.DIRTYPE
                    entry.mode = 0o700 if parent in ("root", "root/.ssh") else 0o755
                    archive.addfile(entry)
            mode, text = files[name]
            data = text.encode()
            entry = tarfile.TarInfo(name)
            entry.mode, entry.size = mode, len(data)
            archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def boot_area(boot_code: bytes, core: bytes, sectors: int) -> bytes:
    """Return the first sectors of the disk: GRUB's boot code, a table with one Linux partition, GRUB's core.

    ``sectors`` is the size of the partition, which starts at FIRST_SECTOR. Raises RigError when the core does not fit
    in front of the partition.
    """
    if len(core) > (FIRST_SECTOR - 1) * SECTOR:
        raise RigError(f"GRUB's core image has {len(core)} bytes, more than fit in front of the first partition.")
    # 0xfe/0xff/0xff as cylinder, head and sector means "use the block numbers".
    partition = struct.pack("<B3sB3sII", 0x80, b"\xfe\xff\xff", 0x83, b"\xfe\xff\xff", FIRST_SECTOR, sectors)
    record = boot_code[:440].ljust(440, b"\0") + struct.pack("<IH", DISK_SIGNATURE, 0) + partition
    return record.ljust(510, b"\0") + b"\x55\xaa" + core


def key() -> str:
    """Return the cache key of the image that the current inputs make."""
    public = cache.ssh_key().with_suffix(".pub").read_text(encoding="utf-8")
    return cache.key_of(
        {
            "suite": SUITE,
            "packages": PACKAGES,
            "files": overlay(public),
            "builder": cache.source_digest(Path(__file__)),
        }
    )


def ensure() -> Path:
    """Return the folder of the image (root.img, vmlinuz, packages.txt, host_key.pub); build it if it is missing."""
    return cache.ensure("images", key(), build)


def _as_root() -> list[str]:
    if os.geteuid() == 0:
        return []
    if run(["sudo", "-n", "true"], "asking sudo", check=False).rc == 0:
        return ["sudo", "-n"]
    raise RigError("building the guest image needs root for mmdebstrap: run `make setup` as root or allow sudo.")


def hooks(folder: Path, debs: Path) -> list[str]:
    """Return mmdebstrap's hook options: ``debs`` is the cache of packages, ``folder`` gets the results."""
    out, stock = shlex.quote(str(folder)), shlex.quote(str(debs))
    blocks = (DISK_MB * 1024 * 1024 - FIRST_SECTOR * SECTOR) // 4096
    # mmdebstrap has /proc, /sys and /dev mounted inside the root; a bind mount that is not recursive excludes them.
    make_disk = (
        f"mkdir {out}/mnt && mount --bind \"$1\" {out}/mnt && trap 'umount {out}/mnt && rmdir {out}/mnt' EXIT && "
        f"mkfs.ext4 -q -F -L ROOT -b 4096 -E offset={FIRST_SECTOR * SECTOR},lazy_itable_init=1 -d {out}/mnt "
        f"{out}/root.img {blocks}"
    )
    archives = '"$1"/var/cache/apt/archives'
    unpack = [
        f'--customize-hook=export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG"; apt-get --quiet --quiet --yes --download-only '
        f"install {' '.join(packages)} && "
        f'for deb in {archives}/*.deb; do dpkg-deb --extract "$deb" "$1"{TREES}/{name} && rm "$deb"; done'
        for name, packages in UNPACKED.items()
    ]
    return [
        f"--setup-hook=mkdir -p {archives} && find {stock} -name '*.deb' -exec cp -t {archives} {{}} +",
        f"--essential-hook=tar-in {out}/overlay.tar /",
        f"--customize-hook=tar-in {out}/overlay.tar /",
        f"--customize-hook=find {archives} -name '*.deb' -exec mv -t {stock} {{}} +",
        *unpack,
        '--customize-hook=chroot "$1" /usr/local/lib/ec2-rig/finish',
        f'--customize-hook=chroot "$1" dpkg-query -W > {out}/packages.txt',
        f'--customize-hook=cp "$1"/etc/ssh/ssh_host_ed25519_key.pub {out}/host_key.pub',
        f'--customize-hook=cp "$1"/usr/lib/grub/i386-pc/boot.img "$1"/boot/grub/core.img {out}',
        f'--customize-hook=cp "$1"/boot/vmlinuz-* {out}/vmlinuz',
        f"--customize-hook={make_disk}",
    ]


def build(folder: Path) -> None:
    """Build the image into the empty ``folder``."""
    progress(f"building the guest image: Debian {SUITE}, {len(PACKAGES)} packages (about a minute, once)")
    as_root = _as_root()
    debs = cache.root() / "debs"
    debs.mkdir(exist_ok=True)
    public = cache.ssh_key().with_suffix(".pub").read_text(encoding="utf-8")
    (folder / "overlay.tar").write_bytes(overlay_tar(overlay(public)))
    # mkfs.ext4 writes behind the offset that its options give.
    with open(folder / "root.img", "wb") as disk:
        disk.truncate(DISK_MB * 1024 * 1024)
    argv = [
        "mmdebstrap", "--mode=root", "--variant=minbase", "--format=null", f"--include={','.join(PACKAGES)}",
        "--dpkgopt=force-unsafe-io", '--aptopt=Acquire::Languages "none"', '--aptopt=APT::Install-Recommends "false"',
        "--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/doc/*",
        "--dpkgopt=path-exclude=/usr/share/locale/*", "--skip=download/empty", "--skip=essential/unlink",
        *hooks(folder, debs), SUITE, "/dev/null",
    ]  # fmt: skip
    run(as_root + argv, "building the guest image", timeout=1500)
    if as_root:
        owner = f"{os.getuid()}:{os.getgid()}"
        run([*as_root, "chown", "-R", owner, str(folder), str(debs)], "taking over the image")
    sectors = DISK_MB * 1024 * 1024 // SECTOR - FIRST_SECTOR
    area = boot_area((folder / "boot.img").read_bytes(), (folder / "core.img").read_bytes(), sectors)
    with open(folder / "root.img", "r+b") as disk:
        disk.write(area)
    for name in ("overlay.tar", "boot.img", "core.img"):
        (folder / name).unlink()
    listed = (folder / "packages.txt").read_text(encoding="utf-8")
    for name in stale_debs([path.name for path in debs.iterdir()], listed):
        (debs / name).unlink()


def stale_debs(names: Sequence[str], listed: str) -> list[str]:
    """Return the package files whose package and version are not in ``listed``, the output of dpkg-query."""
    installed = set()
    for line in listed.splitlines():
        package, version = line.split("\t")
        installed.add(f"{package.split(':')[0]}_{version.replace(':', '%3a')}_")
    return [name for name in names if name[: name.rindex("_") + 1] not in installed]
