#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Finds or installs what building and testing need, on Debian 12.
#
#   deps.sh go        prints the path of a Go that can build this module
#   deps.sh version   prints the version of Go that is fetched, and that makes releases
#   deps.sh lab       installs OVN, Open vSwitch and the tools of the tests
#   deps.sh java      installs a JVM, which runs in a guest
#   deps.sh packages  installs what judges packages
#   deps.sh publish   installs what publishes a release
#   deps.sh machine   installs what an emulated machine is made of and runs by
#
# No daemon is started by an installation: the lab runs its own.
set -eu

# The Go that is fetched where there is none; go.mod names the oldest that does.
GO_VERSION=1.26.8

# install PACKAGE... does nothing for packages that are there.
install() {
	missing=
	for p in "$@"; do
		[ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || missing="$missing $p"
	done
	[ -n "$missing" ] || return 0
	if [ "$(id -u)" -ne 0 ]; then
		echo "deps.sh: not root, so these packages must be installed by hand:$missing" >&2
		return 1
	fi
	echo "deps.sh: installing$missing" >&2
	# invoke-rc.d asks this program whether a new service may start.
	policy=/usr/sbin/policy-rc.d
	if [ ! -e $policy ]; then
		trap 'rm -f '$policy EXIT
		trap 'exit 1' HUP INT TERM
		printf '#!/bin/sh\nexit 101\n' >$policy
		chmod 755 $policy
	fi
	export DEBIAN_FRONTEND=noninteractive
	apt-get -qq update >&2
	# shellcheck disable=SC2086 # a list of words
	apt-get -qq install -y --no-install-recommends $missing >&2
}

# new_enough GO succeeds for a Go of go.mod's version or later.
new_enough() {
	want=$(sed -n 's/^go //p' "$(dirname "$0")/../go.mod")
	have=$(GOTOOLCHAIN=local "$1" env GOVERSION 2>/dev/null) || return 1
	[ "$(printf '%s\n%s\n' "$want" "${have#go}" | sort -V | head -n 1)" = "$want" ]
}

find_go() {
	for g in go /usr/local/go/bin/go; do
		if command -v "$g" >/dev/null && new_enough "$g"; then
			command -v "$g"
			return
		fi
	done
	# Debian's Go is too old to build with, but it can fetch a newer one, which
	# comes as a module. Modules carry no permissions.
	install golang-go ca-certificates
	arch=$(dpkg --print-architecture)
	dir=$(cd / && /usr/lib/go-1.19/bin/go mod download -json "golang.org/toolchain@v0.0.1-go$GO_VERSION.linux-$arch" |
		sed -n 's/^\t"Dir": "\(.*\)",\{0,1\}$/\1/p')
	[ -n "$dir" ] || {
		echo "deps.sh: no Go of version $(sed -n 's/^go //p' "$(dirname "$0")/../go.mod") or later to be found or fetched" >&2
		return 1
	}
	if [ ! -x "$dir/bin/go" ]; then
		chmod -R u+w "$dir"
		find "$dir/bin" "$dir/pkg/tool" -type f -exec chmod 755 {} +
	fi
	echo "$dir/bin/go"
}

lab_packages() {
	# gcc is for the race detector; systemd judges the unit, it does not run;
	# os-ken is another controller; dnsperf makes the load of the benchmarks; dhclient runs in
	# guests, as do BIND, unbound, dnsmasq and the C library musl; debootstrap makes a Debian
	# with systemd for a container; fstrm-bin collects dnstap, jq searches an audit log, curl asks the
	# control socket. rpz is compared with BIND, and ovnhosts with NSD. Prometheus scrapes, and has the
	# alerts.
	# rpm and shellcheck read the packages, and man-db the manual pages in them.
	install ovn-central ovn-host openvswitch-switch bind9-dnsutils iproute2 ethtool \
		procps util-linux gcc libc6-dev systemd ca-certificates python3-os-ken dnsperf debootstrap \
		isc-dhcp-client fstrm-bin jq curl bind9 nsd unbound dnsmasq-base musl-tools prometheus \
		rpm shellcheck man-db
}

case "${1-}" in
go) find_go ;;
version) echo "$GO_VERSION" ;;
lab) lab_packages ;;
java) install openjdk-17-jdk-headless ;;
packages) install lintian ;;
publish) install gh ;;
machine) install debootstrap e2fsprogs qemu-system-x86 ;;
*)
	echo "usage: deps.sh go|version|lab|java|packages|publish|machine" >&2
	exit 2
	;;
esac
