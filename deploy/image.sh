#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# image.sh FOLDER IMAGE VERSION ARCH makes a container image for that architecture, and prints the
# image's id. The folder has the static program, ARCH/puntdns, and what deploy/licences has made of
# it, licences/ARCH. The program is not run. DOCKER is the program that builds, docker by default;
# podman does too.
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
install -m 755 "$folder/$arch/puntdns" "$root/"
ln -s puntdns "$root/puntctl"
install -m 644 "$here/../Corefile.example" "$root/etc/puntdns/Corefile"
# For `tls` of forward: what this machine trusts.
install -m 644 /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
mkdir "$root/licenses"
install -m 644 "$here/../LICENSE" "$folder/licences/$arch/THIRD-PARTY-LICENSES" "$root/licenses/"
install -m 644 /usr/share/doc/ca-certificates/copyright "$root/licenses/ca-certificates"
cp "$here/Dockerfile" "$context/"
# The cache of docker's older builder does not tell architectures apart.
"$docker" build --quiet --no-cache --platform "linux/$arch" --build-arg VERSION="$version" \
	--build-arg LICENSES="$(cat "$folder/licences/$arch/SPDX")" --tag "$image" "$context"
