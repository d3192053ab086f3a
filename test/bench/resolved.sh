# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
#
# Becomes systemd-resolved with a configuration file, in a mount namespace of its own. The arguments
# are its path, as $0, and that of the file.
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/resolve /run/systemd/resolved.conf.d
chown systemd-resolve:systemd-resolve /run/systemd/resolve
cp "$1" /run/systemd/resolved.conf.d/bench.conf
echo starting
SYSTEMD_LOG_TARGET=console exec "$0"
