#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# version.sh DESCRIBE prints the version of a package for what git describe prints, as
# v1.2.0-rc1, v1.2.0-3-gabc1234 or abc1234-dirty. It begins with a digit, has no hyphen, and a
# later commit has a later one. Without a tag it has the time of the commit, SOURCE_DATE_EPOCH.
set -eu

[ $# -eq 1 ] || {
	echo "usage: version.sh DESCRIBE" >&2
	exit 2
}
case $1 in
v[0-9]*.* | [0-9]*.*) echo "${1#v}" ;;
*) date -u -d "@${SOURCE_DATE_EPOCH:?seconds}" "+0.0.0+git%Y%m%d%H%M%S.$1" ;;
esac | sed -E 's/-dirty$/+dirty/; s/-([0-9]+)-g([0-9a-f]+)/+\1.g\2/; s/-/~/g'
