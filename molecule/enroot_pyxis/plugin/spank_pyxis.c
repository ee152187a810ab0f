/*
 * Copyright: (c) 2026, mlcluster.aws contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * A small but real SPANK plugin that stands in for Pyxis: it has the option --container-image, refuses options that it
 * does not know, and runs the job in the directory IMAGE.root in place of an unpacked image.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <slurm/spank.h>

#ifndef PYXIS_VERSION
#error the version has to be given
#endif

#ifdef OTHER_SLURM
/* What SPANK_PLUGIN defines, but for another release of Slurm. */
const char plugin_name[] = "pyxis";
const char plugin_type[] = "spank";
const unsigned int plugin_version = OTHER_SLURM;
const unsigned int spank_plugin_version = 1;
#else
SPANK_PLUGIN(pyxis, 1)
#endif

static char image[4096];

static int set_image(int value, const char *argument, int remote)
{
	(void)value;
	(void)remote;
	return snprintf(image, sizeof(image), "%s", argument) < (int)sizeof(image) ? 0 : -1;
}

struct spank_option spank_options[] = {
	{ "container-image", "IMAGE", "run the job in this image", 1, 0, set_image },
	SPANK_OPTIONS_TABLE_END
};

static const char *const known[] = {
	"runtime_path=", "execute_entrypoint=", "container_scope=", "sbatch_support=",
};

static int knows(const char *argument)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(*known); ++i)
		if (strncmp(argument, known[i], strlen(known[i])) == 0)
			return 1;
	return 0;
}

int slurm_spank_init(spank_t spank, int count, char **arguments)
{
	(void)spank;
	for (int i = 0; i < count; ++i) {
		if (!knows(arguments[i])) {
			slurm_error("pyxis: unknown configuration option: %s", arguments[i]);
			return -1;
		}
	}
	return 0;
}

int slurm_spank_slurmd_init(spank_t spank, int count, char **arguments)
{
	(void)spank;
	(void)count;
	(void)arguments;
	slurm_info("pyxis: version v" PYXIS_VERSION);
	return 0;
}

int slurm_spank_task_init_privileged(spank_t spank, int count, char **arguments)
{
	char root[sizeof(image) + 8];

	(void)spank;
	(void)count;
	(void)arguments;
	if (!image[0])
		return 0;
	snprintf(root, sizeof(root), "%s.root", image);
	if (chroot(root) < 0 || chdir("/") < 0) {
		slurm_error("pyxis: no such image: %s", image);
		return -1;
	}
	return 0;
}

int slurm_spank_job_epilog(spank_t spank, int count, char **arguments)
{
	(void)spank;
	(void)count;
	(void)arguments;
	if (access("/etc/pyxis-epilog-fails", F_OK) == 0) {
		slurm_error("pyxis: epilog: failed to list containers");
		return -1;
	}
	return 0;
}
