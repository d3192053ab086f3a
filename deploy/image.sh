#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# image.sh FOLDER IMAGE VERSION ARCH puts the static programs of a folder, puntdns and perhaps
# puntctl, into a container image for that architecture, and prints the image's id. No
# program of it is run. DOCKER is the program that builds, docker by default; podman does too.
set -eu

[ $# -eq 4 ] || {
	echo "usage: image.sh FOLDER IMAGE VERSION ARCH" >&2
	exit 2
}
folder=$1 image=$2 version=$3 arch=$4
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
install -m 755 "$folder"/* "$root/"
install -m 644 "$here/../Corefile.example" "$root/etc/puntdns/Corefile"
# For `tls` of forward: what this machine trusts.
install -m 644 /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
install -m 644 "$here/../LICENSE" "$root/LICENSE"
cp "$here/Dockerfile" "$context/"
# It asks the process by the socket of `control`, so the Corefile needs that line.
if [ -e "$folder/puntctl" ]; then
	echo 'HEALTHCHECK CMD ["/puntctl", "status"]' >>"$context/Dockerfile"
fi
# The cache of docker's older builder does not tell architectures apart.
"$docker" build --quiet --no-cache --platform "linux/$arch" --build-arg VERSION="$version" --tag "$image" "$context"
