#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# reproducible.sh makes the release of the last commit twice, each time in a clone in another place and
# with an empty build cache, and compares the files byte by byte. It takes some minutes. GO is the Go to
# build with; test/deps.sh says which one builds.
set -eu

[ $# -eq 0 ] || {
	echo "usage: reproducible.sh" >&2
	exit 2
}
top=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
version=$(git -C "$top" show HEAD:VERSION)

# make_in PLACE UMASK ZONE
make_in() {
	git clone --quiet "$top" "$work/$1"
	(
		umask "$2"
		make --no-print-directory -C "$work/$1" release VERSION="$version" GO="${GO:-go}" TZ="$3" GOCACHE="$work/cache"
	) >&2
	rm -rf "$work/cache"
	(cd "$work/$1/dist/$version" && sha256sum -- *)
}
make_in here 022 UTC >"$work/one"
make_in there/and/deeper 077 Pacific/Auckland >"$work/two"
diff "$work/one" "$work/two"
cat "$work/one"
