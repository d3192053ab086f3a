#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# reproducible.sh ARCHES makes the packages of the last commit twice, each time in a checkout in
# another place and with an empty build cache, and compares them byte by byte. It takes some
# minutes. GO is the Go to build with.
set -eu

[ $# -eq 1 ] || {
	echo "usage: reproducible.sh 'ARCH...'" >&2
	exit 2
}
arches=$1
top=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# make_in PLACE UMASK ZONE
make_in() {
	git clone --quiet "$top" "$work/$1"
	(
		umask "$2"
		make --no-print-directory -C "$work/$1" deb rpm ARCHES="$arches" GO="${GO:-go}" TZ="$3" GOCACHE="$work/cache"
	) >&2
	rm -rf "$work/cache"
	(cd "$work/$1/bin/release" && sha256sum -- *.deb *.rpm *.cdx.json)
}
make_in here 022 UTC >"$work/one"
make_in there/and/deeper 077 Pacific/Auckland >"$work/two"
diff "$work/one" "$work/two"
cat "$work/one"
