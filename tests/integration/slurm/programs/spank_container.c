/*
 * Copyright: (c) 2026, mlcluster.aws contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Stands in for Pyxis 0.24.0 with Enroot 4.1.2 (their sources, and their behaviour in a cluster of this rig): a real
 * SPANK plugin with the options of Pyxis that the job scripts use. A container has its own root file system, which is
 * deleted with it. It sees the system's directories read-only, and its mounts, and nothing else. An image is a file with
 * lines WORKDIR=PATH and NAME=VALUE; an image name of a registry has neither. Each task has its own container, where
 * Pyxis has one a node.
 *
 * Argument of the plugin, if any: the directory of a node's containers. Each step has one there, with the name that
 * Pyxis gives it, until the step ends. If one of that name exists, it is rejected, as by Enroot.
 *
 * Rejected with the words of Pyxis: a missing image, a file that is not one, two images; by srun, a mount without a
 * source or with a source or target that is not a path; by the step, a missing mount source or working directory.
 * Accepted: a mount without a target, and any flag, since Enroot ignores unknown ones. Rejected here, while Pyxis only
 * warns: mounts and a working directory without an image. Not implemented: relative sources, tmpfs and umount.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <slurm/spank.h>

SPANK_PLUGIN(container, 1)

#define ROOT "/mnt"

static char image[4096], mounts[8192], workdir[4096], place[4096];
static int taken;
/* Locales of the host, which the image may lack. */
static const char *const cleared[] = { "LANG", "LANGUAGE", "LC_ALL" };
static const char *const shared[] = { "usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc" };
static const char *const kernel[] = { "proc", "sys", "dev" };

static int keep(char *where, size_t size, const char *argument)
{
	/* Slurm frees its own text. */
	return snprintf(where, size, "%s", argument) < (int)size ? 0 : -1;
}

static int set_image(int value, const char *argument, int remote)
{
	(void)value;
	(void)remote;
	if (image[0] && strcmp(image, argument) != 0) {
		slurm_error("pyxis: --container-image specified multiple times");
		return -1;
	}
	return keep(image, sizeof(image), argument);
}

static int is_known(const char *source)
{
	return strchr("./", source[0]) || strcmp(source, "tmpfs") == 0 || strcmp(source, "umount") == 0;
}

static int check_mount(const char *entry)
{
	char copy[sizeof(mounts)], *rest = copy, *source, *target;

	snprintf(copy, sizeof(copy), "%s", entry);
	source = strsep(&rest, ":");
	target = rest ? strsep(&rest, ":") : source;
	if (!source[0] || !target[0])
		slurm_error("pyxis: --container-mounts: invalid format: %s", entry);
	else if (!is_known(source))
		slurm_error("pyxis: mount source must be a relative path, an absolute path, \"tmpfs\" or \"umount\"");
	else if (!strchr("./", target[0]))
		slurm_error("pyxis: mount target must be a relative path or an absolute path");
	else
		return 0;
	return -1;
}

static int set_mounts(int value, const char *argument, int remote)
{
	char copy[sizeof(mounts)], *entry, *rest = copy;

	(void)value;
	(void)remote;
	if (keep(copy, sizeof(copy), argument) < 0)
		return -1;
	while ((entry = strsep(&rest, ",")))
		if (check_mount(entry) < 0)
			return -1;
	return keep(mounts, sizeof(mounts), argument);
}

static int set_workdir(int value, const char *argument, int remote)
{
	(void)value;
	(void)remote;
	return keep(workdir, sizeof(workdir), argument);
}

struct spank_option spank_options[] = {
	{ "container-image", "IMAGE", "the image", 1, 0, set_image },
	{ "container-mounts", "MOUNTS", "what to mount", 1, 0, set_mounts },
	{ "container-workdir", "PATH", "where the task starts", 1, 0, set_workdir },
	SPANK_OPTIONS_TABLE_END
};

static int refuse(const char *what, const char *which)
{
	slurm_error("pyxis: %s: %s", what, which);
	return -1;
}

/* Return whether the image is a path, by Pyxis' rule: it begins with a dot or a slash. */
static int is_path(void)
{
	return image[0] == '/' || image[0] == '.';
}

static int make_place(const char *target, int directory)
{
	char path[8192], *at;
	int file;

	if (snprintf(path, sizeof(path), ROOT "%s", target) >= (int)sizeof(path))
		return -1;
	for (at = path + strlen(ROOT) + 1; (at = strchr(at, '/')); ++at) {
		*at = '\0';
		if (mkdir(path, 0755) < 0 && errno != EEXIST)
			return -1;
		*at = '/';
	}
	if (directory)
		return mkdir(path, 0755) < 0 && errno != EEXIST ? -1 : 0;
	file = open(path, O_CREAT | O_WRONLY, 0644);
	return file < 0 ? -1 : close(file);
}

static int show(const char *source, const char *target, int read_only)
{
	char path[8192];
	struct stat state;

	if (stat(source, &state) < 0)
		return refuse("--container-mounts: source path does not exist", source);
	if (make_place(target, S_ISDIR(state.st_mode)) < 0)
		return refuse("could not be made in the container", target);
	snprintf(path, sizeof(path), ROOT "%s", target);
	if (mount(source, path, NULL, MS_BIND | MS_REC, NULL) < 0)
		return refuse("could not be mounted", target);
	if (read_only && mount(NULL, path, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) < 0)
		return refuse("could not be made read-only", target);
	return 0;
}

/* Make a directory of the system visible, or the link if it is one. */
static int show_system(const char *name, int read_only)
{
	char path[64], place[64], link[256];
	ssize_t length;

	snprintf(path, sizeof(path), "/%s", name);
	length = readlink(path, link, sizeof(link) - 1);
	if (length < 0)
		return access(path, F_OK) < 0 ? 0 : show(path, path, read_only);
	link[length] = '\0';
	snprintf(place, sizeof(place), ROOT "/%s", name);
	return symlink(link, place) < 0 ? refuse("could not be linked", path) : 0;
}

static int show_mounts(void)
{
	char copy[sizeof(mounts)], *entry, *rest = copy;

	strcpy(copy, mounts);
	while (mounts[0] && (entry = strsep(&rest, ","))) {
		char *source = strsep(&entry, ":"), *target = entry ? strsep(&entry, ":") : source, *flag;
		int read_only = 0;

		if (source[0] != '/' || target[0] != '/')
			return refuse("not there in this stand-in", source);
		while (entry && (flag = strsep(&entry, "+")))
			if (strcmp(flag, "ro") == 0)
				read_only = 1;
		if (show(source, target, read_only) < 0)
			return -1;
	}
	return 0;
}

/* Apply the image's settings; a requested working directory overrides the image's. */
static int read_image(spank_t spank)
{
	char line[4096];
	FILE *file;

	if (!is_path())
		return 0;
	if (!(file = fopen(image, "r"))) {
		refuse("failed to create container filesystem for image", image);
		return refuse("    [ERROR] No such file or directory", image);
	}
	while (fgets(line, sizeof(line), file)) {
		char *value = strchr(line, '=');

		line[strcspn(line, "\n")] = '\0';
		if (!value) {
			fclose(file);
			return refuse("    [ERROR] Invalid image format", image);
		}
		*value++ = '\0';
		if (strcmp(line, "WORKDIR") != 0)
			spank_setenv(spank, line, value, 1);
		else if (!workdir[0] && (keep(workdir, sizeof(workdir), value) < 0 || make_place(value, 1) < 0))
			return refuse("WORKDIR of the image could not be made", value);
	}
	return fclose(file);
}

/* Once for each step of a node: the place of its container. */
int slurm_spank_init_post_opt(spank_t spank, int count, char **arguments)
{
	char value[16];
	uint32_t job, step;

	if (spank_remote(spank) != 1 || !image[0] || count < 1)
		return 0;
	if (spank_get_item(spank, S_JOB_ID, &job) != ESPANK_SUCCESS ||
	    spank_get_item(spank, S_JOB_STEPID, &step) != ESPANK_SUCCESS)
		return -1;
	snprintf(place, sizeof(place), "%s/pyxis_%u.%u", arguments[0], job, step);
	if (mkdir(place, 0700) == 0)
		return 0;
	taken = errno == EEXIST && spank_getenv(spank, "ENROOT_FORCE_OVERRIDE", value, sizeof(value)) != ESPANK_SUCCESS;
	return errno == EEXIST ? 0 : refuse("no directory", place);
}

int slurm_spank_exit(spank_t spank, int count, char **arguments)
{
	(void)count;
	(void)arguments;
	return spank_remote(spank) == 1 && place[0] && !taken ? rmdir(place) : 0;
}

int slurm_spank_task_init_privileged(spank_t spank, int count, char **arguments)
{
	size_t at;

	(void)count;
	(void)arguments;
	if (!image[0])
		return mounts[0] || workdir[0] ? refuse("no --container-image", mounts[0] ? mounts : workdir) : 0;
	if (taken)
		return refuse("    [ERROR] File already exists", place);
	for (at = 0; at < sizeof(cleared) / sizeof(*cleared); ++at)
		spank_unsetenv(spank, cleared[at]);
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("container", ROOT, "tmpfs", 0, "mode=0755") < 0)
		return refuse("no namespace", strerror(errno));
	for (at = 0; at < sizeof(shared) / sizeof(*shared); ++at)
		if (show_system(shared[at], 1) < 0)
			return -1;
	for (at = 0; at < sizeof(kernel) / sizeof(*kernel); ++at)
		if (show_system(kernel[at], 0) < 0)
			return -1;
	if (make_place("/tmp", 1) < 0 || chmod(ROOT "/tmp", 01777) < 0 || make_place("/run", 1) < 0)
		return refuse("no directories", strerror(errno));
	if (read_image(spank) < 0 || show_mounts() < 0)
		return -1;
	return chroot(ROOT) < 0 ? refuse("no root", strerror(errno)) : 0;
}

/* Slurm changes to its working directory in between. */
int slurm_spank_task_init(spank_t spank, int count, char **arguments)
{
	(void)spank;
	(void)count;
	(void)arguments;
	if (!image[0] || chdir(workdir[0] ? workdir : "/") == 0)
		return 0;
	slurm_error("pyxis: couldn't chdir to %s: %s", workdir, strerror(errno));
	return -1;
}
