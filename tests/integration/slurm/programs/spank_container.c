/*
 * Copyright: (c) 2026, mlcluster.aws contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * A real SPANK plugin with the two options of Pyxis that the job scripts use. Its containers are the node itself; each
 * task is told of what it was given, so that a step without the options is seen.
 */
#include <stdio.h>

#include <slurm/spank.h>

SPANK_PLUGIN(container, 1)

static char image[4096], mounts[4096];

static int set_image(int value, const char *argument, int remote)
{
	(void)value;
	(void)remote;
	/* Slurm frees its own text. */
	return snprintf(image, sizeof(image), "%s", argument) < (int)sizeof(image) ? 0 : -1;
}

static int set_mounts(int value, const char *argument, int remote)
{
	(void)value;
	(void)remote;
	/* Slurm frees its own text. */
	return snprintf(mounts, sizeof(mounts), "%s", argument) < (int)sizeof(mounts) ? 0 : -1;
}

struct spank_option spank_options[] = {
	{ "container-image", "IMAGE", "the image", 1, 0, set_image },
	{ "container-mounts", "MOUNTS", "what to mount", 1, 0, set_mounts },
	SPANK_OPTIONS_TABLE_END
};

int slurm_spank_task_init(spank_t spank, int count, char **arguments)
{
	(void)count;
	(void)arguments;
	if (image[0])
		spank_setenv(spank, "STAND_IN_IMAGE", image, 1);
	if (mounts[0])
		spank_setenv(spank, "STAND_IN_MOUNTS", mounts, 1);
	return 0;
}
