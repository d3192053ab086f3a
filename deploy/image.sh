#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# image.sh BINARY IMAGE VERSION puts a static puntdns into a container image and
# prints the image's id. DOCKER is the program that builds, docker by default;
# podman does too.
set -eu

[ $# -eq 3 ] || {
	echo "usage: image.sh BINARY IMAGE VERSION" >&2
	exit 2
}
binary=$1 image=$2 version=$3
here=$(dirname "$0")
docker=${DOCKER:-docker}
command -v "$docker" >/dev/null || {
	echo "image.sh: no $docker here; install docker.io, or podman and say DOCKER=podman" >&2
	exit 1
}

# The context is a folder of its own: the engine gets a copy of all of it.
context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
trap 'exit 1' HUP INT TERM
umask 022
root=$context/rootfs
mkdir -p "$root/etc/puntdns" "$root/etc/ssl/certs"
install -m 755 "$binary" "$root/puntdns"
install -m 644 "$here/../Corefile.example" "$root/etc/puntdns/Corefile"
# For `tls` of forward: what this machine trusts.
install -m 644 /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
install -m 644 "$here/../LICENSE" "$root/LICENSE"
"$docker" build --quiet --build-arg VERSION="$version" --tag "$image" --file "$here/Dockerfile" "$context"
