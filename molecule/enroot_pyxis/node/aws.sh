#!/bin/sh
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Stands in for the AWS CLI 2, as the role calls it and in no other way. Grammar: its references of s3 cp and ecr.
refuse() { echo "aws: stand-in: $1" >&2; exit 252; }
case "$#:$1 $2 $3" in
'5:s3 cp --only-show-errors')
    case "$4" in s3://mirror/?*) ;; *) refuse "$4 is not in the bucket mirror" ;; esac
    case "$5" in s3://*) refuse "nothing is sent to $5" ;; esac
    exec cp "${MIRROR:-/srv/mirror}/${4#s3://mirror/}" "$5"
    ;;
'4:ecr get-login-password --region')
    case "$4" in [a-z][a-z]-*-[0-9]) echo "token for $4" ;; *) refuse "$4 is not a region" ;; esac
    ;;
*) refuse "unknown call: $*" ;;
esac
